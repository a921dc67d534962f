"""Texts in collations: sort keys are made only where rows are not in order, and no more than help.

How much was written to files tells what was kept of each row. A setting that makes sort keys
wrong tells whether any were made.
"""

from collections.abc import Iterator

import pytest
from extension.probes import QUIET, Connection, need_icu, scalar
from server_log import ServerFactory, WatchedServer

from index_build.twins import (
    SWITCH,
    Counters,
    Twins,
    check_tree,
    choose,
    complaint,
    with_workers,
)
from lookahead.extension import Stage

_ROWS = 30_000  # more than 2 MB with their keys
# Of a hundred: none, the last ones, one in the middle, every other, all.
_ORDERS = {
    "in order": "s, id",
    "the last ones apart": "hashint4(id) % 20 = 0, s, id",
    "one late": "CASE WHEN s = (SELECT s FROM t0 ORDER BY s OFFSET 9 LIMIT 1) THEN 1 ELSE 0 END, s",
    "two runs": "id % 2, s",
    "backwards": "s DESC",
    "nearly": "rank() OVER (ORDER BY s) + hashint4(id) % 50",
    "at random": "hashint4(id)",
}
# Told apart by the first letters, by the twentieth, by none of the first hundred; few different.
_TEXTS = {
    "first letters": "md5(i::text)",
    "twentieth letter": "'common beginning ' || lpad(hashint4(i)::text, 12, '0')",
    "last letters": "repeat('common beginning ', 10) || lpad(hashint4(i)::text, 12, '0')",
    "few": "'Kind ' || chr(65 + abs(hashint4(i) % 20))",
    "many kinds": (
        "CASE i % 6 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN U&'e\\0301' || i % 90 "
        "WHEN 3 THEN U&'\\00e9' || i % 90 WHEN 4 THEN upper(md5(i::text)) "
        "ELSE repeat('long ', i % 400) END"
    ),
}


def _make_table(session: Connection, text: str, order: str, collation: str) -> None:
    session.execute("DROP TABLE IF EXISTS t, t0")
    session.execute(
        f"CREATE TABLE t0 AS SELECT i AS id, i % 7 AS few, ({text}) COLLATE {collation} AS s "
        f"FROM generate_series(1, {_ROWS}) i; "
        "CREATE TABLE t (id int, few int, s text) WITH (autovacuum_enabled = off, fillfactor = 95);"
        f'INSERT INTO t SELECT id, few, s COLLATE "default" FROM t0 ORDER BY {order}'
    )


def _temporary_bytes(session: Connection) -> int:
    session.execute("SELECT pg_stat_force_next_flush()")
    query = "SELECT temp_bytes FROM pg_stat_database WHERE datname = current_database()"
    return int(scalar(session, query))


@pytest.fixture(scope="module", autouse=True)
def _collations(server: WatchedServer) -> Iterator[None]:
    with server.connect() as session:
        if scalar(session, "SELECT count(*) FROM pg_collation WHERE collname = 'und-x-icu'"):
            session.execute(
                "CREATE COLLATION same_weights "
                "(provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
            )
        session.execute("CREATE COLLATION libc_text (provider = libc, locale = 'C.UTF-8')")
        yield
        session.execute("DROP TABLE IF EXISTS t, t0")


_CASES = [
    *(('"en-x-icu"', text, order) for text in _TEXTS for order in _ORDERS),
    *((name, "many kinds", order) for name in ("same_weights", "libc_text") for order in _ORDERS),
]


_KEYS = (
    "s COLLATE {c}",
    "s COLLATE {c} DESC NULLS FIRST, id",
    "NULLIF(few, 3), s COLLATE {c} DESC, id",
)


@pytest.mark.parametrize(("collation", "text", "order"), _CASES)
def test_same_index(twins: Twins, collation: str, text: str, order: str) -> None:
    session = twins.connection
    if collation != "libc_text":
        need_icu(session)
    session.execute(with_workers(0))
    _make_table(session, _TEXTS[text], _ORDERS[order], collation)
    for keys in _KEYS:
        _compare(twins, keys.format(c=collation))
    # Rows of HOT chains come last on their pages, so that order ends on the first one.
    session.execute("UPDATE t SET few = few + 1 WHERE id % 97 = 0")
    _compare(twins, _KEYS[0].format(c=collation))
    # With 2 MB those are left to PostgreSQL that sort keys hardly divide.
    built, left = twins.tally.built, twins.tally.left.get("memory", 0)
    assert built >= len(_KEYS) + 1
    assert built + left == 2 * (len(_KEYS) + 1)


def _compare(twins: Twins, keys: str) -> None:
    create = f"CREATE INDEX t_i ON t ({keys})"
    stock = twins.build("stock", create, "t_i")
    for memory in ("2MB", "64MB"):
        twins.connection.execute(f"DROP INDEX t_i; SET maintenance_work_mem = '{memory}'")
        ours = twins.build("ours", create, "t_i")
        assert complaint(stock, ours) == "", f"{keys}, {memory}"
    twins.connection.execute("DROP INDEX t_i")


# What is written of each row, in table sizes: once its tuple and 24 bytes, or keys as well, twice.
@pytest.mark.parametrize(
    ("text", "order", "most"),
    [
        ("first letters", "in order", 1.3),
        ("twentieth letter", "in order", 1.3),
        ("first letters", "at random", 2.4),
    ],
)
def test_what_is_written(twins: Twins, text: str, order: str, most: float) -> None:
    session = twins.connection
    need_icu(session)
    session.execute("SET maintenance_work_mem = '2MB'")
    _make_table(session, _TEXTS[text], _ORDERS[order], '"en-x-icu"')
    create = 'CREATE INDEX t_i ON t (s COLLATE "en-x-icu")'
    stock = twins.build("stock", create, "t_i")
    session.execute("DROP INDEX t_i")
    before = _temporary_bytes(session)
    ours = twins.build("ours", create, "t_i")
    written = _temporary_bytes(session) - before
    size = int(scalar(session, "SELECT pg_relation_size('t')"))
    session.execute("DROP INDEX t_i")
    assert complaint(stock, ours) == ""
    assert twins.tally.built == 1
    assert size / 2 < written < most * size, written / size


def test_duplicates_are_found(twins: Twins) -> None:
    session = twins.connection
    need_icu(session)
    session.execute(with_workers(0))
    _make_table(session, _TEXTS["first letters"], _ORDERS["two runs"], '"en-x-icu"')
    session.execute("INSERT INTO t SELECT * FROM t WHERE id = 77")
    create = 'CREATE UNIQUE INDEX t_i ON t (s COLLATE "en-x-icu")'
    stock = twins.build("stock", create, "t_i")
    ours = twins.build("ours", create, "t_i")
    assert stock.failure is not None
    assert complaint(stock, ours) == ""


@pytest.fixture(scope="module")
def misled(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    """A server on which the sort keys of some texts are wrong."""
    settings = {**QUIET, SWITCH: "on", "pg_lookahead.test_fail_sort_keys": "on"}
    with server_factory(stage=test_stage, settings=settings) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            session.execute("CREATE COLLATION libc_text (provider = libc, locale = 'C.UTF-8')")
        yield started


@pytest.mark.parametrize("collation", ['"en-x-icu"', "libc_text"])
@pytest.mark.parametrize(
    ("order", "left"), [("in order", 0), ("at random", 1), ("two runs", 1), ("one late", 1)]
)
def test_whose_sort_keys_are_made(
    misled: WatchedServer, collation: str, order: str, left: int
) -> None:
    """None where rows are in order; where one is not, those of all, and wrong ones are noticed."""
    with misled.connect() as session:
        if collation != "libc_text":
            need_icu(session)
        session.execute(with_workers(0))
        text = "md5(i::text) || left('xy', 1 + i / 2 % 2)"
        _make_table(session, text, _ORDERS[order], collation)
        choose(session, "ours")
        session.execute(f"CREATE INDEX t_i ON t (s COLLATE {collation})")
        assert Counters.of(session).left.get("collation", 0) == left
        check = "CREATE EXTENSION IF NOT EXISTS amcheck"
        session.execute(check)
        check_tree(session, "t_i")
