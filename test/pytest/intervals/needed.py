"""What tests of partitions that rows need have in common."""

from __future__ import annotations

from typing import Any

from extension.probes import Connection, scalar
from waiting import wait_until

ON = "SET pg_lookahead.enable_interval_creation = on"


def rows(session: Connection, table: str = "s.p") -> list[tuple[str, int]]:
    """Each row's partition and key."""
    dynamic: Any = f"SELECT tableoid::regclass::text, k FROM {table} ORDER BY 2, 1"
    return session.execute(dynamic).fetchall()


def await_second_look(session: Connection) -> None:
    """Return once a worker waits for table s.p, and so has looked at it before."""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 's.p'::regclass"
    wait_until(lambda: scalar(session, waiting), "a worker waits for the table")


def await_waiting(session: Connection) -> None:
    """Return once somebody waits for a lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    wait_until(lambda: scalar(session, waiting), "somebody waits")
