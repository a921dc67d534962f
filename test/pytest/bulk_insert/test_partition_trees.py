"""What a session keeps of the partitions of a table, until any of them changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from extension.probes import Connection, need_extension, scalar
from server_log import WatchedServer

from bulk_insert.arms import DEFAULT, ONE_PAGE, STOCK, Counters, choose

_ROWS = 60
_MAKING = """
    CREATE FUNCTION trees.passes(int) RETURNS boolean VOLATILE LANGUAGE plpgsql AS
        'BEGIN RETURN true; END';
    CREATE DOMAIN trees.late AS int CHECK (trees.passes(VALUE));
    CREATE FUNCTION trees.calm(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
        'BEGIN RETURN $1; END';
    CREATE TABLE trees.t (k int, s text) PARTITION BY LIST ((trees.calm(k)));
    CREATE TABLE trees.t0 PARTITION OF trees.t FOR VALUES IN (0);
    CREATE TABLE trees.t1 PARTITION OF trees.t FOR VALUES IN (1);
    CREATE TABLE trees.keyed (k int, s text) PARTITION BY LIST (((k::trees.late)::int))"""
_CHANGES = {
    "made": (
        "CREATE TABLE trees.n PARTITION OF trees.t FOR VALUES IN (2) PARTITION BY LIST (s)",
        "subpartitions",
    ),
    "attached": (
        "ALTER TABLE trees.t ATTACH PARTITION trees.keyed FOR VALUES IN (2)",
        "subpartitions",
    ),
    "function of a key": ("ALTER FUNCTION trees.calm VOLATILE", "volatile function"),
}
_each_change = pytest.mark.parametrize(("change", "reason"), _CHANGES.values(), ids=_CHANGES)
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


def _copy(session: Connection) -> None:
    with session.cursor() as cursor, cursor.copy("COPY trees.t FROM STDIN") as stream:
        stream.write("1\tx\n" * _ROWS)


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
def test_a_change_of_the_tree_is_noticed(
    session: Connection, statement: str, change: str, reason: str
) -> None:
    """Its end, too, when it is taken back."""
    for _ in range(2):
        assert _left(session, statement) is None
        with session.transaction(force_rollback=True):
            assert _left(session, statement) is None
            session.execute(change)
            assert _left(session, statement) == reason
            assert _left(session, statement) == reason
    assert _left(session, statement) is None


@_each_statement
@_each_change
def test_a_change_by_another_session_is_noticed(
    session: Connection, other: Connection, statement: str, change: str, reason: str
) -> None:
    for _ in range(2):
        assert _left(session, statement) is None
    other.execute(change)
    assert _left(session, statement) == reason


@_each_statement
def test_a_partition_that_goes_is_noticed(
    session: Connection, other: Connection, statement: str
) -> None:
    other.execute(_CHANGES["attached"][0])
    for _ in range(2):
        assert _left(session, statement) == "subpartitions"
    other.execute("ALTER TABLE trees.t DETACH PARTITION trees.keyed CONCURRENTLY")
    assert _left(session, statement) is None
    other.execute(_CHANGES["made"][0])
    assert _left(session, statement) == "subpartitions"
    other.execute("DROP TABLE trees.n")
    assert _left(session, statement) is None


def test_foreign_partitions_come_and_go(session: Connection, other: Connection) -> None:
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
                "CREATE FOREIGN TABLE trees.f PARTITION OF trees.t FOR VALUES IN (2) SERVER files "
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
    """Nor is it kept that they do not."""
    need_extension(other, "file_fdw")
    foreign = "CREATE FOREIGN TABLE trees.{} SERVER files OPTIONS (filename '/dev/null')"
    other.execute("CREATE SERVER files FOREIGN DATA WRAPPER file_fdw")
    try:
        for making, batched in (
            (foreign.format("away (k int)"), _ROWS),
            (foreign.format("f PARTITION OF trees.t FOR VALUES IN (7)"), 0),
            ("DROP FOREIGN TABLE trees.f", _ROWS),
        ):
            other.execute(making)
            before = Counters.of(session).rows
            _copy(session)
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
        session.execute(_CHANGES["function of a key"][0])
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
def test_catalogs_are_searched_once(session: Connection, statement: str) -> None:
    """Until a table is made or goes; what else becomes of one does not count."""
    _left(session, statement)
    searched = []
    for arm in (STOCK, DEFAULT):
        choose(session, arm)
        session.execute("TRUNCATE trees.t0")
        before = _scans(session)
        if statement == "COPY":
            _copy(session)
        else:
            session.execute(_INSERT)
        searched.append(_scans(session) - before)
    assert searched[0] == searched[1]
