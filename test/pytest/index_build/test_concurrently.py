"""CREATE INDEX CONCURRENTLY and REINDEX CONCURRENTLY, beside writers, cancelled and refused."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, NamedTuple

import psycopg
import pytest
from extension.probes import Connection, need_extension, scalar
from server_log import WatchedServer
from waiting import wait_until

from index_build.stories import compare
from index_build.twins import (
    ARMS,
    Arm,
    Counters,
    Twins,
    check_tree,
    choose,
    complaint,
    count_rows,
    with_workers,
)

_ROWS = (
    "CREATE TABLE c (id int PRIMARY KEY, k int, s text)",
    "INSERT INTO c SELECT i, i % 500, 's' || i FROM generate_series(1, 5000) i",
)
# Of the index that a failed statement leaves behind, and of the table's other ones.
_LEFT = """
    SELECT c.relname, indisvalid, indisready, indislive, indcheckxmin, indisunique
    FROM pg_index JOIN pg_class c ON c.oid = indexrelid
    WHERE indrelid = 'c'::regclass ORDER BY 1"""


def _make(connection: Connection) -> None:
    connection.execute("DROP TABLE IF EXISTS c")
    for statement in _ROWS:
        connection.execute(statement)


@contextmanager
def _writers(server: WatchedServer, seed: int) -> Iterator[None]:
    """Two sessions that insert, update and delete until the block ends."""
    stop, failures = threading.Event(), list[Exception]()

    def write(number: int) -> None:
        rng = Random(f"{seed}:{number}")
        try:
            with server.connect() as session:
                while not stop.is_set():
                    session.execute(_random_write(rng, number))
        except psycopg.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures


def _random_write(rng: Random, writer: int) -> str:
    """Of rows of the writer's own, so that writers do not wait for each other's."""
    row = 2 * rng.randrange(2500) + writer
    return rng.choice(
        (
            f"UPDATE c SET k = k + 1 WHERE id = {row}",
            f"UPDATE c SET s = s || 'x' WHERE id = {row}",
            f"DELETE FROM c WHERE id = {row}",
            f"INSERT INTO c VALUES ({row}, {row % 500}, 'new') ON CONFLICT DO NOTHING",
            f"BEGIN; UPDATE c SET k = 0 WHERE id = {row}; ROLLBACK",
        )
    )


@pytest.mark.parametrize("keys", ["k", "k DESC, s", "lower(s)", "(k % 7), id"])
def test_index_built_beside_writers_is_whole(
    server: WatchedServer, connection: Connection, seed: int, keys: str
) -> None:
    need_extension(connection, "amcheck")
    _make(connection)
    with _writers(server, seed):
        choose(connection, "ours")
        before = Counters.of(connection).built
        for _ in range(3):
            connection.execute(f"CREATE INDEX CONCURRENTLY c_k ON c ({keys})")
            connection.execute("REINDEX INDEX CONCURRENTLY c_k")
            check_tree_beside_writers(connection, "c_k")
            connection.execute("DROP INDEX CONCURRENTLY c_k")
        connection.execute(f"CREATE INDEX CONCURRENTLY c_k ON c ({keys})")
    assert Counters.of(connection).built == before + 7
    check_tree(connection, "c_k")
    connection.execute("ALTER TABLE c DROP CONSTRAINT c_pkey")
    assert len(set(count_rows(connection, "c", "", keys))) == 1


def check_tree_beside_writers(connection: Connection, index: str) -> None:
    """The strictest look that does not lock writers out."""
    connection.execute("SELECT bt_index_check(%s, heapallindexed => true)", (index,))


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INDEX CONCURRENTLY c_new ON c (k)",
        "CREATE UNIQUE INDEX CONCURRENTLY c_new ON c (id, k)",
        "REINDEX INDEX CONCURRENTLY c_pkey",
    ],
)
@pytest.mark.parametrize("lock", ["SHARE UPDATE EXCLUSIVE", "ROW EXCLUSIVE"])
def test_cancelled_build_leaves_what_stock_leaves(
    server: WatchedServer, connection: Connection, statement: str, lock: str
) -> None:
    """Cancelled while it waits: before it begins, or for a writer between its phases."""
    left = {arm: _cancelled(server, connection, statement, lock, arm) for arm in ARMS}
    assert left["ours"] == left["stock"]


def _cancelled(
    server: WatchedServer, connection: Connection, statement: str, lock: str, arm: Arm
) -> list[tuple[Any, ...]]:
    _make(connection)
    choose(connection, arm)
    with server.connect() as blocker, server.connect() as watcher:
        blocker.execute(f"BEGIN; LOCK TABLE c IN {lock} MODE; SELECT txid_current()")
        pid = connection.info.backend_pid
        waits = f"SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = {pid}"

        def cancel() -> None:
            wait_until(lambda: scalar(watcher, waits), "the build waits for a lock")
            connection.cancel_safe()

        thread = threading.Thread(target=cancel)
        thread.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(statement)
        thread.join()
        blocker.execute("ROLLBACK")
    left = connection.execute(_LEFT).fetchall()
    connection.execute("REINDEX TABLE c")  # repairs whatever was left
    return left


def test_built_in_serializable_transactions(twins: Twins) -> None:
    statements = (
        *_ROWS,
        "SET default_transaction_isolation = 'serializable'",
        "CREATE INDEX CONCURRENTLY c_k ON c (k)",
        "REINDEX INDEX CONCURRENTLY c_k",
        "RESET default_transaction_isolation",
    )
    compare(twins, statements, built=2)


def test_refused_build_leaves_what_stock_leaves(connection: Connection, twins: Twins) -> None:
    """A duplicate that the first phase finds; the invalid index can be dropped or rebuilt."""
    statements = (
        *_ROWS,
        "CREATE UNIQUE INDEX CONCURRENTLY c_k ON c (k)",
        "DELETE FROM c WHERE id > 500",
        "REINDEX INDEX c_k",
        "UPDATE c SET k = 7 WHERE id = 9",
        "REINDEX INDEX CONCURRENTLY c_k",
        "DROP INDEX CONCURRENTLY c_k",
    )
    # The index is valid when the update comes, which is therefore refused as well.
    told = compare(twins, statements, built=1, fails=["23505", "23505"])
    assert list(told.indexes) == ["c_pkey"]


def test_deferred_duplicate_in_a_transaction_survives_reindex(
    server: WatchedServer, connection: Connection
) -> None:
    """REINDEX CONCURRENTLY of a deferrable constraint takes no momentary duplicate for an error."""
    connection.execute(
        "DROP TABLE IF EXISTS d; CREATE TABLE d (k int, "
        "CONSTRAINT d_k UNIQUE (k) DEFERRABLE INITIALLY DEFERRED); "
        "INSERT INTO d SELECT generate_series(1, 1000)"
    )
    choose(connection, "ours")
    with server.connect() as writer:
        for _ in range(5):
            writer.execute("BEGIN; UPDATE d SET k = k + 1; SELECT 1")
            thread = threading.Thread(
                target=lambda: connection.execute("REINDEX INDEX CONCURRENTLY d_k")
            )
            thread.start()
            writer.execute("UPDATE d SET k = k - 1; COMMIT")
            thread.join()
    need_extension(connection, "amcheck")
    check_tree(connection, "d_k")


class _Buffers(NamedTuple):
    """Pages of the table `v` that were read, and pages that gave way to rings of buffers."""

    read: int
    evicted: int


def _buffers_used(session: Connection) -> _Buffers:
    session.execute("SELECT pg_stat_force_next_flush()")
    return _Buffers(
        scalar(session, "SELECT heap_blks_read FROM pg_statio_user_tables WHERE relname = 'v'"),
        scalar(session, "SELECT sum(evictions)::int FROM pg_stat_io WHERE context = 'bulkread'"),
    )


def _compare_buffers(twins: Twins, create: str) -> tuple[_Buffers, _Buffers]:
    """What stock and we use for the same index `v_i`, which stays."""
    used, indexes = [], []
    for arm in ARMS:
        twins.connection.execute("DROP INDEX IF EXISTS v_i")
        before = _buffers_used(twins.connection)
        indexes.append(twins.build(arm, create, "v_i"))
        after = _buffers_used(twins.connection)
        used.append(_Buffers(after.read - before.read, after.evicted - before.evicted))
    assert complaint(*indexes) == ""
    return used[0], used[1]


@pytest.fixture
def visible_in_parts(twins: Twins) -> Iterator[Connection]:
    """A table `v` that shared buffers do not hold, with many pages that are not all-visible."""
    session = twins.connection
    session.execute(
        "CREATE TABLE v WITH (autovacuum_enabled = off) AS SELECT i AS id, hashint4(i) AS k, "
        "repeat('x', 1000) AS pad FROM generate_series(1, 35000) i"
    )
    session.execute("VACUUM v")
    session.execute(
        "UPDATE v SET pad = pad WHERE id BETWEEN 2003 AND 9000; "
        "DELETE FROM v WHERE id BETWEEN 20000 AND 21000 AND id % 50 = 0; "
        "DELETE FROM v WHERE id BETWEEN 24000 AND 24100 OR id > 34999"
    )
    # Written by now are the hint bits of the rows, for which a ring takes further buffers.
    session.execute("SELECT count(*) FROM v")
    session.execute("CHECKPOINT")
    yield session
    session.execute("DROP TABLE v")


@pytest.mark.parametrize("workers", [0, 1])
def test_table_is_scanned_as_by_stock(
    twins: Twins, visible_in_parts: Connection, workers: int
) -> None:
    """In one scan, which reads each page once, into one ring of buffers for each process."""
    session = visible_in_parts
    session.execute(f"SET maintenance_work_mem = '80MB'; {with_workers(workers)}")
    create = "CREATE INDEX CONCURRENTLY v_i ON v (k)"
    stock, ours = _compare_buffers(twins, create)
    assert twins.tally.built == 1
    assert ours.read <= stock.read * 1.05
    assert ours.evicted <= stock.evicted + 16


@pytest.mark.parametrize("workers", [0, 1])
def test_scan_ends_when_core_is_to_build(
    twins: Twins, visible_in_parts: Connection, workers: int
) -> None:
    """Core's scan, too, ends where words are seen not to divide the entries."""
    session = visible_in_parts
    session.execute(
        f"SET maintenance_work_mem = '{8 * workers + 2}MB'; {with_workers(workers)}; "
        f"ALTER TABLE v SET (parallel_workers = {workers})"
    )
    keys = ", ".join(f"lpad(((k >> {bit}) & 1)::text, 250, '0') COLLATE \"C\"" for bit in range(4))
    create = f"CREATE INDEX CONCURRENTLY v_i ON v ({keys})"
    stock, ours = _compare_buffers(twins, create)
    assert twins.tally.left == {"memory": 1}
    assert ours.read <= stock.read * 1.25


def test_visibility_map_is_not_read(
    server: WatchedServer, twins: Twins, visible_in_parts: Connection
) -> None:
    path = scalar(visible_in_parts, "SELECT pg_relation_filepath('v')")
    visibility_map = server.data_directory / f"{path}_vm"
    visibility_map.chmod(0)
    try:
        with server.connect() as session:
            choose(session, "ours")
            session.execute("CREATE INDEX CONCURRENTLY v_i ON v (k)")
    finally:
        visibility_map.chmod(0o600)
