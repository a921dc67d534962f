"""Builds with parallel workers: the same index as one process makes, and what may go wrong."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from extension.probes import Connection, need_extension, need_icu, scalar
from server_log import WatchedServer
from waiting import wait_until

from index_build.twins import (
    ARMS,
    Counters,
    Twins,
    check_tree,
    choose,
    complaint,
    with_workers,
)
from lookahead_bench.build_watch import BuildWatch

_ROWS = 200_000
# plan_create_index_workers() wants 32 MB for each participant.
_MEMORY = "160MB"
_KEYS = (
    "id",
    "r",
    "few",
    "n",
    "n NULLS FIRST, id DESC",
    's COLLATE "C"',
    "few, s",
    "f DESC",
    "(id % 1000)) INCLUDE (u",
    "u) WHERE (few < 10",
)
# No process gets far with it as long as somebody has locked the table "gate".
_GATED = "CREATE INDEX p_i ON p (gated(id), s)"


@pytest.fixture(scope="module", autouse=True)
def _table(server: WatchedServer) -> Iterator[None]:
    with server.connect() as session:
        session.execute(
            "CREATE TABLE p WITH (autovacuum_enabled = off, fillfactor = 90) AS "
            "SELECT i AS id, hashint8(i) AS r, i % 20 AS few, NULLIF(i % 50, 7) AS n, "
            "md5(i::text) AS s, (hashint4(i) * 0.01)::float8 AS f, md5(i::text)::uuid AS u "
            f"FROM generate_series(1, {_ROWS}) i"
        )
        # HOT chains, dead rows, and pages that are not all-visible.
        session.execute("UPDATE p SET r = r + 1 WHERE id % 13 = 0; DELETE FROM p WHERE id % 17 = 0")
        session.execute(
            "CREATE TABLE gate (); CREATE FUNCTION gated(id int) RETURNS int IMMUTABLE "
            "PARALLEL SAFE LANGUAGE plpgsql AS $$ BEGIN "
            "IF id % 2000 = 0 THEN PERFORM FROM public.gate; END IF; RETURN id; END $$"
        )
        yield
        session.execute("DROP TABLE p, gate; DROP FUNCTION gated")


def _allow(session: Connection, workers: int) -> None:
    session.execute(
        f"{with_workers(workers)}; "
        f"SET maintenance_work_mem = '{_MEMORY}'; SET max_parallel_workers = 8"
    )


@contextmanager
def _gate(
    server: WatchedServer, session: Connection, workers: int, meet: Callable[[list[int]], None]
) -> Iterator[None]:
    """A gated build of the session goes on once it has so many workers, and `meet` has met them."""
    query = f"SELECT pid FROM pg_stat_activity WHERE leader_pid = {session.info.backend_pid}"
    found: list[int] = []

    def has_all(watcher: Connection) -> bool:
        found[:] = sorted(row[0] for row in watcher.execute(query).fetchall())
        return len(found) >= workers

    def keep() -> None:
        with keeper, server.connect() as watcher:
            wait_until(lambda: has_all(watcher), f"{workers} workers")
            meet(found)
            keeper.execute("ROLLBACK")

    keeper = server.connect()
    keeper.execute("BEGIN; LOCK TABLE gate")
    thread = threading.Thread(target=keep)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.mark.parametrize("keys", _KEYS)
def test_workers_make_no_difference(twins: Twins, keys: str) -> None:
    session = twins.connection
    _allow(session, 0)
    create = f"CREATE INDEX p_i ON p ({keys})"
    stock = twins.build("stock", create, "p_i")
    for workers in (1, 2, 4):
        _allow(session, workers)
        session.execute("DROP INDEX p_i")
        ours = twins.build("ours", create, "p_i")
        assert complaint(stock, ours) == "", f"{workers} workers"
    assert twins.tally.built == 3
    need_extension(session, "amcheck")
    check_tree(session, "p_i")
    session.execute("DROP INDEX p_i")


def test_icu_keys_come_in_order(twins: Twins) -> None:
    session = twins.connection
    need_icu(session)
    test_workers_make_no_difference(twins, 's COLLATE "und-x-icu", id')


def test_workers_are_those_that_core_asks_for(server: WatchedServer, twins: Twins) -> None:
    session = twins.connection
    seen: list[int] = []
    for arm in ARMS:
        choose(session, arm)
        for workers in (0, 1, 3):
            _allow(session, workers)
            with (
                server.connect() as watcher,
                BuildWatch(watcher, session.info.backend_pid) as watch,
                _gate(server, session, workers, lambda found: seen.append(len(found))),
            ):
                session.execute(_GATED)
            session.execute("DROP INDEX p_i")
            assert watch.workers_seen == workers
    assert seen == [0, 1, 3] * len(ARMS)


def test_concurrent_build_with_workers(twins: Twins) -> None:
    session = twins.connection
    _allow(session, 2)
    create = "CREATE INDEX CONCURRENTLY p_i ON p (r, s)"
    stock = twins.build("stock", create, "p_i")
    session.execute("DROP INDEX p_i")
    ours = twins.build("ours", create, "p_i")
    assert complaint(stock, ours) == ""
    assert twins.tally.built == 1
    session.execute("DROP INDEX p_i")


def test_no_workers_to_be_had(twins: Twins) -> None:
    session = twins.connection
    _allow(session, 4)
    stock = twins.build("stock", "CREATE INDEX p_i ON p (r)", "p_i")
    session.execute("DROP INDEX p_i; SET max_parallel_workers = 0")
    ours = twins.build("ours", "CREATE INDEX p_i ON p (r)", "p_i")
    assert complaint(stock, ours) == ""
    session.execute("DROP INDEX p_i")


def test_duplicate_of_another_process_is_found(connection: Connection) -> None:
    """The two equal keys are at both ends of the table."""
    connection.execute(
        "CREATE TABLE pd AS SELECT i AS id, NULLIF(i, 60000) AS k "
        "FROM generate_series(1, 60000) i; UPDATE pd SET k = 5 WHERE id = 60000"
    )
    choose(connection, "ours")
    _allow(connection, 3)
    with pytest.raises(psycopg.errors.UniqueViolation) as caught:
        connection.execute("CREATE UNIQUE INDEX pd_k ON pd (k)")
    assert caught.value.diag.message_detail == "Key (k)=(5) is duplicated."
    connection.execute("UPDATE pd SET k = NULL WHERE id = 60000")
    connection.execute("CREATE UNIQUE INDEX pd_k ON pd (k)")
    assert Counters.of(connection).built == 2
    connection.execute("DROP TABLE pd")


def test_error_in_a_worker_is_the_build_s(connection: Connection) -> None:
    choose(connection, "ours")
    _allow(connection, 2)
    for row in (1, _ROWS // 2 + 1, _ROWS - 1):
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute(f"CREATE INDEX p_i ON p ((1 / (id - {row})))")
    assert scalar(connection, "SELECT count(*) FROM pg_class WHERE relname = 'p_i'") == 0


@pytest.mark.parametrize("number", [0, 1, 2])
def test_ended_worker_fails_the_build(
    server: WatchedServer, connection: Connection, number: int
) -> None:
    """None leaves the leader waiting."""
    choose(connection, "ours")
    _allow(connection, 3)
    ended: list[bool] = []

    def end_one(workers: list[int]) -> None:
        with server.connect() as killer:
            ended.append(scalar(killer, f"SELECT pg_terminate_backend({workers[number]})"))

    with (
        _gate(server, connection, 3, end_one),
        pytest.raises(psycopg.errors.AdminShutdown),
    ):
        connection.execute(_GATED)
    assert ended == [True]
    connection.execute("CREATE INDEX p_i ON p (id); DROP INDEX p_i")


def test_memory_is_shared_out(server: WatchedServer, connection: Connection) -> None:
    """Private memory of all processes stays below the limit, which the entries exceed."""
    choose(connection, "ours")
    _allow(connection, 1)
    connection.execute("SET maintenance_work_mem = '64MB'")
    connection.execute("SELECT count(*) FROM pg_class")
    wide = "CREATE INDEX p_i ON p (gated(id)) INCLUDE (id, s, r, f, u, n, few)"
    with (
        server.connect() as watcher,
        BuildWatch(watcher, connection.info.backend_pid) as watch,
        _gate(server, connection, 1, lambda workers: None),
    ):
        connection.execute(wide)
    connection.execute("DROP INDEX p_i")
    assert watch.workers_seen == 1
    assert watch.peak_memory_bytes is not None
    # A worker's own: catalogs, code, the executor.
    assert watch.peak_memory_bytes <= (64 + 12) * (1 << 20)
