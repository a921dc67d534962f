"""What a session keeps of the partitions of a table, until any of them changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from extension.probes import Connection, need_extension, scalar
from server_log import WatchedServer

from bulk_insert.arms import DEFAULT, ONE_PAGE, STOCK, Counters, choose

_ROWS = 60
# Partitioned ones, to be looked at between one and those below it.
_BESIDE = 200
_COPIES = 2000
# All rows go to a leaf of the second level; there is a third.
_MAKING = """
    CREATE TABLE trees.t (k int, s text) PARTITION BY LIST (k);
    CREATE TABLE trees.t0 PARTITION OF trees.t FOR VALUES IN (0);
    CREATE TABLE trees.t1 PARTITION OF trees.t FOR VALUES IN (1) PARTITION BY LIST (s);
    CREATE TABLE trees.t10 PARTITION OF trees.t1 FOR VALUES IN ('x');
    CREATE TABLE trees.t11 PARTITION OF trees.t1 DEFAULT PARTITION BY HASH (s);
    CREATE TABLE trees.t110 PARTITION OF trees.t11 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE FUNCTION trees.passes(int) RETURNS boolean VOLATILE LANGUAGE plpgsql AS
        'BEGIN RETURN true; END';
    CREATE DOMAIN trees.late AS int CHECK (trees.passes(VALUE));
    CREATE FUNCTION trees.calm(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
        'BEGIN RETURN $1; END';
    CREATE TABLE trees.keyed (k int, s text) PARTITION BY LIST (((k::trees.late)::int));
    CREATE TABLE trees.key_of_leaf (k int, s text) PARTITION BY LIST ((trees.calm(k)));
    CREATE TABLE trees.leaf PARTITION OF trees.key_of_leaf DEFAULT"""
_KEYED = "CREATE TABLE {} PARTITION OF {} PARTITION BY LIST (((k::trees.late)::int))"
_CHANGES = {
    "made at the first level": _KEYED.format("trees.n", "trees.t FOR VALUES IN (2)"),
    "made at the second level": _KEYED.format("trees.n", "trees.t1 FOR VALUES IN ('y')"),
    "made at the third level": _KEYED.format(
        "trees.n", "trees.t11 FOR VALUES WITH (MODULUS 2, REMAINDER 1)"
    ),
    "attached": "ALTER TABLE trees.t1 ATTACH PARTITION trees.keyed FOR VALUES IN ('y')",
    "attached with those below": (
        "ALTER TABLE trees.keyed ATTACH PARTITION trees.key_of_leaf FOR VALUES IN (2); "
        "ALTER TABLE trees.t ATTACH PARTITION trees.keyed FOR VALUES IN (2)"
    ),
    "function of a key": (
        "ALTER TABLE trees.t1 ATTACH PARTITION trees.key_of_leaf FOR VALUES IN ('y'); "
        "ALTER FUNCTION trees.calm VOLATILE"
    ),
}
_each_change = pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES)
_INSERT = f"INSERT INTO trees.t SELECT 1, 'x' FROM generate_series(1, {_ROWS})"


@pytest.fixture
def other(server: WatchedServer) -> Iterator[Connection]:
    """A session that has made the tables."""
    with server.connect() as session:
        session.execute("CREATE SCHEMA trees")
        session.execute(_MAKING)
        yield session
        session.execute("DROP SCHEMA trees CASCADE")


@pytest.fixture
def session(server: WatchedServer, other: Connection) -> Iterator[Connection]:
    """A session that inserts."""
    with server.connect() as session:
        choose(session, ONE_PAGE)
        yield session


def _copy(session: Connection, table: str = "trees.t", data: str = "1\tx\n" * _ROWS) -> None:
    with session.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN") as stream:
        stream.write(data)


def _left(session: Connection, statement: str) -> str | None:
    """Why rows do not wait; None where they do."""
    before = Counters.of(session)
    if statement == "COPY":
        _copy(session)
    else:
        session.execute(_INSERT)
    after = Counters.of(session)
    reasons = [name for name, count in after.left.items() if count > before.left.get(name, 0)]
    assert (after.rows > before.rows) == (not reasons)
    return reasons[0] if reasons else None


_each_statement = pytest.mark.parametrize("statement", ["INSERT", "COPY"])


@_each_statement
@_each_change
def test_a_change_of_the_tree_is_noticed(session: Connection, statement: str, change: str) -> None:
    """Its end, too, when it is taken back."""
    for _ in range(2):
        assert _left(session, statement) is None
        with session.transaction(force_rollback=True):
            assert _left(session, statement) is None
            session.execute(change)
            assert _left(session, statement) == "volatile function"
            assert _left(session, statement) == "volatile function"
    assert _left(session, statement) is None


@_each_statement
@_each_change
def test_a_change_by_another_session_is_noticed(
    session: Connection, other: Connection, statement: str, change: str
) -> None:
    for _ in range(2):
        assert _left(session, statement) is None
    other.execute(change)
    assert _left(session, statement) == "volatile function"


@_each_statement
def test_a_partition_that_goes_is_noticed(
    session: Connection, other: Connection, statement: str
) -> None:
    other.execute(_CHANGES["attached with those below"])
    for _ in range(2):
        assert _left(session, statement) == "volatile function"
    other.execute("ALTER TABLE trees.t DETACH PARTITION trees.keyed CONCURRENTLY")
    assert _left(session, statement) is None
    other.execute(_CHANGES["made at the third level"])
    assert _left(session, statement) == "volatile function"
    other.execute("DROP TABLE trees.n")
    assert _left(session, statement) is None


@pytest.mark.parametrize("parent", ["t FOR VALUES IN (2)", "t1 FOR VALUES IN ('y')"])
def test_foreign_partitions_come_and_go(
    session: Connection, other: Connection, parent: str
) -> None:
    """Of other tables they do not count."""
    need_extension(other, "file_fdw")
    other.execute(
        "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw; "
        "CREATE TABLE trees.o (k int, s text) PARTITION BY LIST (k); "
        "CREATE FOREIGN TABLE trees.away PARTITION OF trees.o DEFAULT SERVER files "
        "OPTIONS (filename '/dev/null')"
    )
    try:
        for _ in range(2):
            assert _left(session, "COPY") is None
            other.execute(
                f"CREATE FOREIGN TABLE trees.f PARTITION OF trees.{parent} SERVER files "
                "OPTIONS (filename '/dev/null')"
            )
            assert _left(session, "COPY") == "table access method"
            assert _left(session, "COPY") == "table access method"
            assert _left(session, "INSERT") is None
            other.execute("DROP FOREIGN TABLE trees.f")
        assert _left(session, "COPY") is None
    finally:
        other.execute("DROP SERVER files CASCADE")


def test_foreign_tables_elsewhere_do_not_count(session: Connection, other: Connection) -> None:
    """For a table whose partitions are all leaves."""
    need_extension(other, "file_fdw")
    foreign = "CREATE FOREIGN TABLE trees.{} SERVER files OPTIONS (filename '/dev/null')"
    other.execute("CREATE SERVER files FOREIGN DATA WRAPPER file_fdw")
    try:
        for making, batched in (
            (foreign.format("away (k int)"), _ROWS),
            (foreign.format("f PARTITION OF trees.key_of_leaf FOR VALUES IN (7)"), 0),
            ("DROP FOREIGN TABLE trees.f", _ROWS),
        ):
            other.execute(making)
            before = Counters.of(session).rows
            _copy(session, "trees.key_of_leaf")
            assert Counters.of(session).rows - before == batched
    finally:
        other.execute("DROP SERVER files CASCADE")


@_each_statement
def test_nothing_is_kept_while_caches_are_discarded(session: Connection, statement: str) -> None:
    if scalar(session, "SELECT setting FROM pg_settings WHERE name = 'debug_assertions'") != "on":
        pytest.skip("a build without assertions keeps its caches")
    session.execute("SET debug_discard_caches = 1")
    assert _left(session, statement) is None
    with session.transaction(force_rollback=True):
        session.execute(_CHANGES["attached"])
        assert _left(session, statement) == "volatile function"
    assert _left(session, statement) is None


def _scans(session: Connection) -> int:
    """How often catalogs of partitions and of foreign tables were searched so far."""
    session.execute("SELECT pg_stat_force_next_flush()")
    return int(
        scalar(
            session,
            "SELECT sum(seq_scan + idx_scan) FROM pg_stat_sys_tables WHERE relname IN "
            "('pg_inherits', 'pg_partitioned_table', 'pg_foreign_table')",
        )
    )


@_each_statement
def test_the_tree_is_walked_through_once(session: Connection, statement: str) -> None:
    """Until a table is made or goes; what else becomes of one does not count."""
    _left(session, statement)
    searched = []
    for arm in (STOCK, DEFAULT):
        choose(session, arm)
        session.execute("TRUNCATE trees.t110")
        before = _scans(session)
        if statement == "COPY":
            _copy(session)
        else:
            session.execute(_INSERT)
        searched.append(_scans(session) - before)
    assert searched[0] == searched[1]


def test_partitions_below_can_go_meanwhile(session: Connection, other: Connection) -> None:
    """Nothing is locked that is looked at."""
    making = "CREATE TABLE trees.{} PARTITION OF trees.{} FOR VALUES IN ({}) PARTITION BY LIST (s)"
    other.execute("; ".join(making.format(f"n{k}", "t", k) for k in range(2, 2 + _BESIDE)))
    ended = threading.Event()

    def come_and_go() -> None:
        while not ended.is_set():
            other.execute(making.format("gone", "t1", "'y'"))
            other.execute("DROP TABLE trees.gone")

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        for _ in range(_COPIES):
            _copy(session, data="0\tx\n")
    finally:
        ended.set()
        thread.join()
    assert scalar(session, "SELECT count(*) FROM trees.t0") == _COPIES
