"""Interrupting a statement at a chosen moment."""

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
from extension.probes import Connection, scalar
from waiting import wait_until


def interrupted_after(
    session: psycopg.Connection[Any], statement: str, delay: float, interrupt: Callable[[], None]
) -> float:
    """Run a statement and interrupt it after `delay` seconds.

    Returns the seconds from the interruption to the end of the statement; 0 when it ended before.
    """
    at: list[float] = []

    def fire() -> None:
        at.append(time.monotonic())
        interrupt()

    timer = threading.Timer(delay, fire)
    timer.start()
    try:
        session.execute(statement)
        return 0.0
    except psycopg.Error:
        return time.monotonic() - at[0] if at else 0.0
    finally:
        timer.cancel()
        timer.join()


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
