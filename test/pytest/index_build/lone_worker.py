"""A build of which one worker scans all of the table but the leader's first blocks.

The index has the function `gated` in its key, which waits for a lock: one in the leader, another
one in workers.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from extension.probes import Connection, scalar
from server_log import WatchedServer
from waiting import wait_until

_GATES = ("leader_gate", "worker_gate")


@contextmanager
def gated(connection: Connection) -> Iterator[None]:
    """The function exists while the block runs, and a build takes one worker."""
    connection.execute(
        "CREATE TABLE leader_gate (); CREATE TABLE worker_gate (); "
        "CREATE FUNCTION gated(id int) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql AS "
        "$$ BEGIN IF (SELECT leader_pid IS NULL FROM pg_stat_activity WHERE pid = pg_backend_pid())"
        " THEN PERFORM FROM public.leader_gate; ELSE PERFORM FROM public.worker_gate; END IF; "
        "RETURN id; END $$; "
        "SET max_parallel_maintenance_workers = 1; SET min_parallel_table_scan_size = 0; "
        "SET maintenance_work_mem = '160MB'"
    )
    yield
    connection.execute("DROP TABLE leader_gate, worker_gate; DROP FUNCTION gated")


@contextmanager
def lone_worker(server: WatchedServer, leader: int) -> Iterator[None]:
    """In the block the session `leader` builds an index whose key has `gated`."""
    with server.connect() as one, server.connect() as two:
        gates = dict(zip(_GATES, (one, two), strict=True))
        for name, keeper in gates.items():
            keeper.execute(f"BEGIN; LOCK TABLE {name}")
        thread = threading.Thread(target=_let_the_worker_scan, args=(server, leader, gates))
        thread.start()
        try:
            yield
        finally:
            thread.join()


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
