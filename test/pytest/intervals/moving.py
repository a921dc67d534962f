"""What tests of rows that leave the default partition have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from extension.probes import Connection, scalar
from psycopg.errors import FeatureNotSupported, LockNotAvailable
from server_log import WatchedServer
from waiting import wait_until

from intervals.policies import hear, make, set_policy

T = TypeVar("T")

MOVE = "CALL pg_lookahead_move_default_rows('s.p')"
BESIDE_SNAPSHOTS = "while other sessions have older snapshots"
IN_DEFAULT = "SELECT count(*) FROM s.rest"

# A row's way into a new partition leads through a function that waits for advisory lock 1.
_STALL = """
    CREATE FUNCTION s.stall(k int) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN
        WHILE NOT pg_try_advisory_xact_lock_shared(1) LOOP PERFORM pg_sleep(0.01); END LOOP;
        RETURN true;
    END$$;
    ALTER TABLE s.p ADD CHECK (NOT ({}) OR s.stall(k))"""
STALLED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


def fill(session: Connection, key: str, rows: str, policy: str, by: str = "k") -> None:
    """Table s.p with these rows in default partition s.rest, and a policy."""
    make(session, key, by)
    session.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT")
    dynamic: Any = f"INSERT INTO s.p {rows}"
    session.execute(dynamic)
    set_policy(session, policy)


def move(session: Connection, arguments: str = "'s.p'") -> list[str]:
    """Move rows; what the session was told about that is returned."""
    heard = hear(session, f"CALL pg_lookahead_move_default_rows({arguments})")
    return [text for text in heard if text.startswith("rows of")]


def move_patiently(session: Connection) -> list[str]:
    """Move rows; locks of others are waited for."""
    session.execute("SET lock_timeout = '20s'")
    return move(session)


def moved(rows: int, ranges: int) -> str:
    """What is told of rows that were moved."""
    return f'rows of "p" moved out of the default partition: {rows}, into partitions: {ranges}'


def stay(rows: int) -> str:
    """What is told of those that were not."""
    return f'rows of "p" that stay in the default partition: {rows}'


def places(session: Connection) -> list[tuple[str, int]]:
    """By partition, how many rows are in it."""
    rows = session.execute("SELECT tableoid::regclass::text, count(*) FROM s.p GROUP BY 1")
    return sorted(rows.fetchall())


def content(session: Connection) -> Any:
    """All rows, whatever partition they are in."""
    return scalar(session, "SELECT array_agg(r::text ORDER BY r::text) FROM s.p r")


@contextmanager
def stalled(
    session: Connection, server: WatchedServer, deadlock_timeout: str = "1s"
) -> Iterator[Future[str]]:
    """Rows are moved by a session of its own, and are between two partitions when the block begins.

    The result is empty, or the error.
    """

    def run() -> str:
        with server.connect() as own:
            own.execute(f"SET lock_timeout = '200ms'; SET deadlock_timeout = '{deadlock_timeout}'")
            try:
                own.execute(MOVE)
            except (LockNotAvailable, FeatureNotSupported) as error:
                return str(error)
            return ""

    with stalled_by(session, run) as running:
        yield running


@contextmanager
def stalled_by(
    session: Connection, run: Callable[[], T], rows: str = "true"
) -> Iterator[Future[T]]:
    """Such rows, which this moves, are between two partitions when the block begins."""
    dynamic: Any = _STALL.format(rows)
    session.execute(dynamic)
    session.execute("SELECT pg_advisory_lock(1)")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        try:
            wait_until(lambda: running.done() or scalar(session, STALLED), "rows are on their way")
            assert not running.done(), running.result()
            yield running
        finally:
            session.execute("SELECT pg_advisory_unlock(1)")
            running.result(100)
