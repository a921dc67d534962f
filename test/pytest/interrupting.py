"""Interrupting statements at random moments, as often as a test asks for."""

import threading
import time
from collections.abc import Callable
from random import Random

import psycopg
from extension.probes import Connection, scalar
from waiting import wait_until

# Seconds. No bar of speed, which `make soak` has: a statement that goes on for so long hangs.
HANG_SECONDS = 60.0
# Of the moments that `Moments` draws, some half come before the end of the statement. Arbitrary.
_ATTEMPTS_PER_HIT = 25
_GROWTH = 1.25  # arbitrary


class Moments:
    """Random moments before the end of statements, whose duration changes with the machine's load.

    It is measured whenever a statement ends before its interruption, and taken for a little longer
    each time one does not: so moments of all of it are drawn, and a slow run misleads only once.
    """

    def __init__(self, seed: int | str) -> None:
        self._rng = Random(seed)
        self._seconds: dict[str, float] = {}

    def draw(self, statement: str) -> float:
        """Seconds from the beginning of the statement; 0 to 50 ms while nothing is known of it."""
        return self._rng.uniform(0.0, self._seconds.get(statement, 0.05))

    def ended(self, statement: str, seconds: float) -> None:
        """The statement ended undisturbed, after so many seconds."""
        self._seconds[statement] = seconds

    def interrupted(self, statement: str) -> None:
        """The statement was interrupted at the moment drawn."""
        if statement in self._seconds:
            self._seconds[statement] *= _GROWTH


def interrupt_repeatedly(hits: int, attempt: Callable[[], float]) -> list[float]:
    """Repeat `attempt` until `hits` of them were interrupted; the sorted positive values returned.

    An attempt that ends undisturbed returns 0. AssertionError when nearly all of them do: then
    statements cannot be interrupted.
    """
    latencies: list[float] = []
    for _ in range(_ATTEMPTS_PER_HIT * hits):
        if len(latencies) == hits:
            break
        latency = attempt()
        if latency:
            latencies.append(latency)
    assert len(latencies) == hits, f"{len(latencies)} hits of {_ATTEMPTS_PER_HIT * hits} attempts"
    return sorted(latencies)


def limited(session: Connection, statement: str, milliseconds: int) -> None:
    """Run a statement in limited time.

    Raises psycopg.errors.QueryCanceled. The limit holds for this statement alone: one that has to
    be taken back afterwards can end that statement as well.
    """
    session.execute(f"SET LOCAL statement_timeout = {milliseconds}; {statement}", prepare=False)


def interrupted(
    session: Connection, statement: str, moments: Moments, interrupt: Callable[[], None]
) -> float:
    """Run a statement and interrupt it at a random moment.

    Returns the seconds from the interruption to the end of the statement; 0 when it ended before.
    """
    at: list[float] = []

    def fire() -> None:
        at.append(time.monotonic())
        interrupt()

    timer = threading.Timer(moments.draw(statement), fire)
    started = time.monotonic()
    timer.start()
    try:
        session.execute(statement)
        moments.ended(statement, time.monotonic() - started)
        return 0.0
    except psycopg.Error:
        if not at:
            raise
        moments.interrupted(statement)
        return time.monotonic() - at[0]
    finally:
        timer.cancel()
        timer.join()


def terminated(session: Connection, statement: str, moments: Moments, killer: Connection) -> float:
    """The same, interrupted by the end of the session, which is closed in any case."""
    pid = session.info.backend_pid

    def end() -> None:
        killer.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))

    try:
        return interrupted(session, statement, moments, end)
    finally:
        session.close()


def p99(latencies: list[float]) -> float:
    """The 99th percentile of sorted latencies."""
    return latencies[int(len(latencies) * 0.99)]


def nothing_left(watcher: Connection, table: str) -> None:
    """Asserts that nobody has a pin or an I/O, once everybody is idle; `table` was scanned."""
    # A read that was in flight stays there until somebody needs its page (io_uring), as after an
    # interrupted sequential scan of stock's.
    watcher.execute(f"SELECT count(*) FROM {table}")
    left = (
        "SELECT (SELECT count(*) FROM pg_buffercache WHERE pinning_backends > 0) "
        "+ (SELECT count(*) FROM pg_aios WHERE state NOT LIKE 'COMPLETED%')"
    )
    # The background writer pins a page while it writes it.
    wait_until(lambda: scalar(watcher, left) == 0, "nothing is pinned and no I/O is in flight")
