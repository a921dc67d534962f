"""Interrupting a statement at a chosen moment."""

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg


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
