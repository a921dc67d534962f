"""Runs the scan in one arm or the other, and proves that both return the same rows."""

from typing import Any

import psycopg

from lookahead.errors import LabError
from lookahead.experiments.scan_plan import parse_scan
from lookahead.experiments.scan_statement import ScanStatement
from lookahead.experiments.trials import digest_rows
from lookahead.scan_measurements import ARMS, Arm, RowDigest, Scenario
from lookahead.server import PrivateServer

_EXPLAIN = "EXPLAIN (ANALYZE, TIMING OFF, BUFFERS, LOOKAHEAD, FORMAT JSON)"


# A sort in memory: the rival at its best.
_ARM_SETTINGS: dict[Arm, tuple[str, ...]] = {
    "stock": ("pg_lookahead.enabled = off",),
    "lookahead": ("pg_lookahead.enabled = on",),
    "bitmap": (
        "pg_lookahead.enabled = off",
        "enable_indexscan = off",
        "enable_bitmapscan = on",
        "work_mem = '256MB'",
    ),
}


def choose_arm(connection: psycopg.Connection[Any], arm: Arm) -> None:
    """Let the session run stock's code or ours, or stock's other plan; once in a session."""
    for setting in _ARM_SETTINGS[arm]:
        connection.execute(f"SET {setting}")


def explain_scan(connection: psycopg.Connection[Any], statement: ScanStatement) -> object:
    """Execute the scan to its end; returns EXPLAIN's document, see `scan_plan.parse_scan`."""
    row = connection.execute(f"{_EXPLAIN} {statement.query}").fetchone()
    return row[0] if row else None


def compare_rows(server: PrivateServer, statement: ScanStatement, scenario: Scenario) -> RowDigest:
    """Receive the rows in both arms; LabError when they or their order differ.

    The scan runs once before under EXPLAIN, which tells that the arm's own code returns the rows.
    """
    digests = {}
    for arm in ARMS:
        with server.connect() as connection:
            choose_arm(connection, arm)
            check_attached(parse_scan(explain_scan(connection, statement)).lookahead.status, arm)
            digests[arm] = digest_rows(connection, statement.query)
    if digests["stock"] != digests["lookahead"]:
        raise LabError(
            "pg_lookahead returned other rows than stock for keys "
            f"{statement.first}..{statement.last}",
            "This is a bug of pg_lookahead, report it.",
        )
    rows, sha256 = digests["stock"]
    return RowDigest(scenario, statement.first, statement.last, rows, sha256)


def check_attached(status: str, arm: Arm) -> None:
    """LabError unless the rows about to be compared come from the arm's own code."""
    if (status == "prefetch") != (arm == "lookahead"):
        raise LabError(
            f'rows cannot be compared: the scan of arm "{arm}" has status "{status}"',
            "docs/explain.md explains why a scan is left to stock.",
        )
