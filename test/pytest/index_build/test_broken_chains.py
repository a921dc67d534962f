"""An index on rows whose HOT chains it breaks must not be used by older snapshots.

Whoever meets such a chain has to say so, also when that is a parallel worker alone.
"""

import threading
from collections.abc import Iterator

import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer
from waiting import wait_until

from index_build.twins import ARMS, Arm, Counters, choose

_PAGES = 40
_BROKEN = 20  # page whose rows were updated


@pytest.fixture(autouse=True)
def _table(connection: Connection) -> Iterator[None]:
    # A function of the index that waits for a lock: one in the leader, another one in workers.
    connection.execute(
        "CREATE TABLE h (id int, v int, pad text) "
        "WITH (autovacuum_enabled = off, fillfactor = 60); "
        "CREATE TABLE leader_gate (); CREATE TABLE worker_gate (); "
        "CREATE FUNCTION gated(id int) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql AS "
        "$$ BEGIN IF (SELECT leader_pid IS NULL FROM pg_stat_activity WHERE pid = pg_backend_pid())"
        " THEN PERFORM FROM public.leader_gate; ELSE PERFORM FROM public.worker_gate; END IF; "
        "RETURN id; END $$"
    )
    connection.execute("ALTER TABLE h ALTER pad SET STORAGE PLAIN")
    connection.execute(
        f"INSERT INTO h SELECT i, i, repeat('x', 1800) FROM generate_series(1, {_PAGES * 2}) i"
    )
    yield
    connection.execute("DROP TABLE h, leader_gate, worker_gate; DROP FUNCTION gated")


def _let_the_worker_scan(server: WatchedServer, leader: int, gates: dict[str, Connection]) -> None:
    """The worker goes on once both wait, and the leader once the worker has ended."""
    workers = f"SELECT count(*) FROM pg_stat_activity WHERE leader_pid = {leader}"
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        f"AND {leader} IN (pid, leader_pid)"
    )
    with server.connect() as watcher:
        try:
            wait_until(lambda: scalar(watcher, waiting) == 2, "leader and worker wait")
            gates["worker_gate"].execute("ROLLBACK")
            wait_until(lambda: scalar(watcher, workers) == 0, "the worker has ended")
        finally:
            for keeper in gates.values():
                keeper.execute("ROLLBACK")


@pytest.mark.parametrize("arm", ARMS)
def test_chain_that_a_worker_meets(server: WatchedServer, connection: Connection, arm: Arm) -> None:
    choose(connection, arm)
    connection.execute(
        "SET max_parallel_maintenance_workers = 1; SET min_parallel_table_scan_size = 0; "
        "SET maintenance_work_mem = '160MB'"
    )
    built = Counters.of(connection).built
    with server.connect() as old, server.connect() as one, server.connect() as two:
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        # The new versions are on the same page: the row has an index on no column yet.
        connection.execute(f"UPDATE h SET v = -v WHERE ctid = '({_BROKEN},1)'")
        gates = {"leader_gate": one, "worker_gate": two}
        for name, keeper in gates.items():
            keeper.execute(f"BEGIN; LOCK TABLE {name}")
        pid = connection.info.backend_pid
        thread = threading.Thread(target=_let_the_worker_scan, args=(server, pid, gates))
        thread.start()
        try:
            connection.execute("CREATE INDEX h_i ON h (gated(id), v)")
        finally:
            thread.join()
    assert scalar(
        connection, "SELECT indcheckxmin FROM pg_index WHERE indexrelid = 'h_i'::regclass"
    )
    assert Counters.of(connection).built == built + (arm == "ours")
