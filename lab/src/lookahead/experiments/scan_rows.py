"""Runs the scan in one arm or the other, and proves that both return the same rows."""

import hashlib
from collections.abc import Iterator
from typing import Any

import psycopg

from lookahead.errors import LabError
from lookahead.experiments.scan_plan import parse_scan
from lookahead.experiments.scan_table import KeyRange
from lookahead.measurements import ARMS, Arm, RowDigest
from lookahead.server import PrivateServer

_EXPLAIN = "EXPLAIN (ANALYZE, TIMING OFF, BUFFERS, LOOKAHEAD, FORMAT JSON)"


def choose_arm(connection: psycopg.Connection[Any], arm: Arm) -> None:
    """Let the session run stock's code or ours."""
    value = "on" if arm == "lookahead" else "off"
    connection.execute(f"SET pg_lookahead.enabled = {value}")


def explain_scan(connection: psycopg.Connection[Any], keys: KeyRange) -> object:
    """Execute the scan to its end; returns EXPLAIN's document, see `scan_plan.parse_scan`."""
    row = connection.execute(f"{_EXPLAIN} {keys.query}").fetchone()
    return row[0] if row else None


def compare_rows(server: PrivateServer, keys: KeyRange, pages: int, io_method: str) -> RowDigest:
    """Receive the rows in both arms; LabError when they or their order differ.

    The scan runs once before under EXPLAIN, which tells that the arm's own code returns the rows.
    """
    digests = {}
    for arm in ARMS:
        with server.connect() as connection:
            choose_arm(connection, arm)
            check_attached(parse_scan(explain_scan(connection, keys)).lookahead.status, arm)
            digests[arm] = _digest(connection, keys)
    if digests["stock"] != digests["lookahead"]:
        raise LabError(
            f"pg_lookahead returned other rows than stock for keys {keys.first}..{keys.last}",
            "This is a bug of pg_lookahead, report it.",
        )
    rows, sha256 = digests["stock"]
    return RowDigest(pages, io_method, keys.first, keys.last, rows, sha256)


def check_attached(status: str, arm: Arm) -> None:
    """LabError unless the rows about to be compared come from the arm's own code."""
    if (status == "prefetch") != (arm == "lookahead"):
        raise LabError(
            f'rows cannot be compared: the scan of arm "{arm}" has status "{status}"',
            "docs/explain.md explains why a scan is left to stock.",
        )


def _digest(connection: psycopg.Connection[Any], keys: KeyRange) -> tuple[int, str]:
    """Number and SHA-256 of the rows in the order the server sends them."""
    digest, rows = hashlib.sha256(), 0
    for row in _stream(connection, keys):
        digest.update("\x1f".join(map(str, row)).encode())
        digest.update(b"\x1e")
        rows += 1
    return rows, digest.hexdigest()


def _stream(connection: psycopg.Connection[Any], keys: KeyRange) -> Iterator[tuple[Any, ...]]:
    # One execution to the end, not a cursor: a cursor that is fetched from in parts looks less
    # far ahead, and would not compare the path that is measured.
    with connection.cursor() as cursor:
        yield from cursor.stream(keys.query.encode(), binary=True)
