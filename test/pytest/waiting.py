"""Waiting for a condition instead of for a time."""

import time
from collections.abc import Callable

_POLL_SECONDS = 0.02


def wait_until(condition: Callable[[], object], what: str, timeout_seconds: float = 100.0) -> None:
    """Return as soon as the condition holds; AssertionError naming `what` when it never does."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_seconds:g} s: {what}"
        time.sleep(_POLL_SECONDS)
