"""Servers whose maintenance runs by itself, and what they show of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from extension.probes import QUIET, Connection, scalar
from intervals.policies import CHILDREN
from server_log import WatchedServer
from waiting import wait_until

INTERVAL = "pg_lookahead.maintenance_interval"
PRELOADED: Mapping[str, str] = {
    **QUIET,
    "shared_preload_libraries": "pg_lookahead",
    "session_preload_libraries": "",
}
SETTINGS: Mapping[str, str] = {**PRELOADED, INTERVAL: "1s"}
LAUNCHER = "pg_lookahead maintenance launcher"
WORKER = "pg_lookahead maintenance worker"

# Whoever reads a value of the domain waits as long as the table has a row, for no lock.
_HELD = """
    CREATE TABLE s.gate (closed bool);
    CREATE FUNCTION s.hold(int) RETURNS bool LANGUAGE plpgsql AS $$
    BEGIN
        WHILE EXISTS (SELECT FROM s.gate) LOOP
            PERFORM pg_sleep(0.02);
        END LOOP;
        RETURN true;
    END $$;
    CREATE DOMAIN s.held AS int CHECK (s.hold(VALUE));
    CREATE TABLE s.a (k s.held) PARTITION BY RANGE (k);
    SELECT pg_lookahead_set_interval('s.a', 10)"""


def processes(session: Connection, kind: str) -> list[int]:
    """The process ids of the launcher, or of workers, as the server shows them."""
    query = "SELECT pid FROM pg_stat_activity WHERE backend_type = %s"
    return [row[0] for row in session.execute(query, (kind,)).fetchall()]


def is_on(session: Connection) -> bool:
    """Whether a launcher is at work, as the view has it."""
    query = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 8"
    return bool(scalar(session, f"{query} AND database = 0)"))


def look(session: Connection) -> None:
    """Have the launcher look at all databases."""
    wait_until(lambda: is_on(session), "a launcher is at work")
    session.execute("SELECT pg_reload_conf()")


def pause(session: Connection, server: WatchedServer) -> None:
    """Switch maintenance off; return once nobody is at work."""
    server.configure({INTERVAL: "0"})
    session.execute("SELECT pg_reload_conf()")
    wait_until(lambda: not is_on(session), "maintenance is off")
    wait_until(lambda: not processes(session, WORKER), "no worker is there")


def resume(session: Connection, server: WatchedServer) -> None:
    """Switch it on again, which has all databases looked at."""
    server.configure({INTERVAL: "1s"})
    session.execute("SELECT pg_reload_conf()")


def count(session: Connection, table: str = "s.p") -> int:
    """How many partitions a table has; asking its policy could wait."""
    return len(session.execute(CHILDREN, (table,)).fetchall())


def await_partitions(session: Connection, table: str = "s.p", partitions: int = 5) -> None:
    """Return once a table is maintained."""
    wait_until(lambda: count(session, table) == partitions, f"{table} is maintained")


def hold_worker(session: Connection) -> int:
    """Make table s.a, in whose maintenance a worker hangs; the worker's process id is returned."""
    session.execute(_HELD)
    session.execute("INSERT INTO s.gate VALUES (true)")
    look(session)
    return await_hanging(session)


def await_hanging(session: Connection, but: int = 0) -> int:
    """The process id of the worker that hangs in the maintenance of s.a, another one than `but`."""
    query = (
        "SELECT pid FROM pg_stat_activity WHERE query = 'maintain partitions of s.a' "
        f"AND wait_event = 'PgSleep' AND pid <> {but}"
    )
    found: list[Any] = []

    def hangs() -> bool:
        found[:] = session.execute(query.encode()).fetchall()
        return bool(found)

    wait_until(hangs, "a worker hangs")
    return int(found[0][0])


def release(session: Connection) -> None:
    """Let those go on who wait in the maintenance of s.a."""
    session.execute("DELETE FROM s.gate")


@contextmanager
def policy_elsewhere(session: Connection, database: Connection) -> Iterator[None]:
    """A table s.p with a policy in another database, which is dropped afterwards."""
    database.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
    database.execute("CREATE TABLE s.p (k int) PARTITION BY RANGE (k)")
    database.execute("SELECT pg_lookahead_set_interval('s.p', 10)")
    yield
    database.close()
    session.execute("DROP DATABASE IF EXISTS elsewhere")
