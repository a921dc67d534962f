"""Dead rows that an older snapshot sees: in the index, not in the check of uniqueness."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from extension.probes import Connection, need_extension, need_own_memory
from server_log import WatchedServer

from index_build.twins import Counters, Twins, check_tree, choose, complaint
from lookahead_bench.build_watch import BuildWatch

_MB = 1 << 20
# Mostly of one value, more than fit into 2 MB, with a second column that only PostgreSQL can
# compare. The first are of many values: they do not foretell who will sort the others.
_ROWS = 60_000
_FIRST = 10_000
_DEAD_ROWS = 600_000


@pytest.fixture(autouse=True)
def _no_table(server: WatchedServer) -> Iterator[None]:
    yield
    with server.connect() as session:
        session.execute("DROP TABLE IF EXISTS d")


@contextmanager
def _old_snapshot(server: WatchedServer) -> Iterator[None]:
    with server.connect() as onlooker:
        onlooker.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        yield
        onlooker.execute("ROLLBACK")


def _compare(twins: Twins, create: str) -> None:
    stock = twins.build("stock", create, "d_i")
    twins.connection.execute("DROP INDEX IF EXISTS d_i")
    ours = twins.build("ours", create, "d_i")
    assert complaint(stock, ours) == ""


def test_dead_rows_that_postgresql_sorts(server: WatchedServer, twins: Twins) -> None:
    session = twins.connection
    need_extension(session, "amcheck")
    session.execute(
        "CREATE TABLE d WITH (autovacuum_enabled = off) AS "
        f"SELECT CASE WHEN i > {_FIRST} THEN 1 ELSE hashint4(i) END AS k, ARRAY[i, -i] AS a, "
        f"i AS id FROM generate_series(1, {_ROWS}) i; SET maintenance_work_mem = '2MB'"
    )
    create = "CREATE UNIQUE INDEX d_i ON d (k, a)"
    with _old_snapshot(server):
        session.execute("UPDATE d SET id = id + 1; UPDATE d SET id = id + 1 WHERE id % 3 = 0")
        _compare(twins, create)
        assert twins.tally.built == 1
        check_tree(session, "d_i")
        session.execute("DROP INDEX d_i; INSERT INTO d SELECT * FROM d WHERE a[1] = 50900")
        _compare(twins, create)
        assert twins.tally.failed == 1


def test_dead_rows_take_no_other_memory(server: WatchedServer, connection: Connection) -> None:
    need_own_memory(connection)
    limit = 4 * _MB
    choose(connection, "ours")
    connection.execute(
        "CREATE TABLE d WITH (autovacuum_enabled = off) AS "
        f"SELECT hashint4(i) AS k, i AS id FROM generate_series(1, {_DEAD_ROWS}) i; "
        f"SET maintenance_work_mem = '{limit // 1024}kB'"
    )
    with _old_snapshot(server):
        connection.execute("DELETE FROM d")
        # What a session needs besides: the caches of catalogs, the executor.
        connection.execute("CREATE INDEX d_i ON d (k) WHERE id < 100; DROP INDEX d_i")
        with server.connect() as watcher, BuildWatch(watcher, connection.info.backend_pid) as watch:
            connection.execute("CREATE INDEX d_i ON d (k)")
    assert Counters.of(connection).built == 2
    assert watch.peak_memory_bytes is not None
    assert watch.peak_memory_bytes <= limit * 1.02


def test_dead_rows_of_wide_keys_take_no_other_memory(
    server: WatchedServer, connection: Connection
) -> None:
    """The entries of the dead rows on 64 pages alone have 26 MB."""
    need_own_memory(connection)
    limit = 4 * _MB
    choose(connection, "ours")
    connection.execute(
        'CREATE TABLE d (s text STORAGE EXTERNAL COLLATE "C", id int) '
        "WITH (autovacuum_enabled = off);"
        "INSERT INTO d SELECT left((SELECT string_agg(md5(i || ':' || j), '') "
        "FROM generate_series(1, 84) j), 2600), i FROM generate_series(1, 12000) i;"
        f"SET maintenance_work_mem = '{limit // 1024}kB'"
    )
    with _old_snapshot(server):
        connection.execute("UPDATE d SET id = -id")
        connection.execute("CREATE INDEX d_i ON d (s) WHERE id > -100; DROP INDEX d_i")
        with server.connect() as watcher, BuildWatch(watcher, connection.info.backend_pid) as watch:
            connection.execute("CREATE INDEX d_i ON d (s)")
    assert Counters.of(connection).built == 2
    assert watch.peak_memory_bytes is not None
    assert watch.peak_memory_bytes <= limit * 1.05


def test_dead_rows_of_one_word_in_any_order(server: WatchedServer, twins: Twins) -> None:
    """Equal keys in the order of their rows, although chains of updates bring them in another."""
    session = twins.connection
    session.execute(
        "CREATE TABLE d (k int, id int) WITH (autovacuum_enabled = off, fillfactor = 40); "
        "INSERT INTO d SELECT 7, i FROM generate_series(1, 160000) i; "
        "SET maintenance_work_mem = '2MB'"
    )
    with _old_snapshot(server):
        session.execute("UPDATE d SET id = -id WHERE id % 3 = 0; DELETE FROM d WHERE id % 5 = 0")
        _compare(twins, "CREATE INDEX d_i ON d (k)")
    assert twins.tally.built == 1
