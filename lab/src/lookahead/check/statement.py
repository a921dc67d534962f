"""Runs the user's statement so that it cannot change anything, and explains what goes wrong.

Always one statement in a read-only transaction that is rolled back. It goes through the extended
protocol, which takes one statement at a time: a second one after a semicolon is refused by the
server and cannot end the transaction.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from lookahead.errors import ExitStatus, LabError

# SQLSTATE classes: transaction rollback, insufficient resources, operator intervention, system
# error, internal error.
_SERVER_CLASSES = ("40", "53", "57", "58", "XX")
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"


@contextmanager
def read_only(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """A read-only transaction with one snapshot; rolled back at the end."""
    connection.execute(_BEGIN)
    try:
        yield
    finally:
        if not connection.closed:
            connection.execute("ROLLBACK")


def explain(connection: psycopg.Connection[Any], statement: str, options: str) -> dict[str, Any]:
    """EXPLAIN's document for the statement; errors of the statement become LabErrors."""
    prefix = f"EXPLAIN ({options}, FORMAT JSON) "
    with explained_errors(statement, len(prefix)):
        # Binary results are to be had through the extended protocol only.
        cursor = connection.execute(f"{prefix}{statement}".encode(), binary=True)
        row = cursor.fetchone()
    assert row is not None
    document: dict[str, Any] = row[0][0]
    return document


@contextmanager
def explained_errors(statement: str, prefix_length: int = 0) -> Iterator[None]:
    """Turn what the server says against the statement into a LabError with its place."""
    try:
        yield
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise LabError(
            f"the statement writes: {error.diag.message_primary}",
            "Only statements that read are executed; without --measure it is not executed at all.",
            status=ExitStatus.USAGE,
        ) from None
    except psycopg.Error as error:
        if _ended_by_server(error):
            raise LabError(
                f"the statement was not finished: {_message(error)}",
                "Its time limit (statement_timeout), a cancel, a lack of resources, or an end of "
                "the server: see the server's log.",
            ) from None
        place = _place(statement, error.diag.statement_position, prefix_length)
        raise LabError(
            f"the server refuses the statement: {_message(error)}{place}",
            error.diag.message_hint
            or "One statement that EXPLAIN takes is checked, with values instead of parameters.",
            status=ExitStatus.USAGE,
        ) from None


def _ended_by_server(error: psycopg.Error) -> bool:
    """Whether the statement itself is not to blame; without a state the connection was lost."""
    return error.sqlstate is None or error.sqlstate[:2] in _SERVER_CLASSES


def _message(error: psycopg.Error) -> str:
    return error.diag.message_primary or str(error).strip()


def _place(statement: str, position: str | None, prefix_length: int) -> str:
    """The line with the error and a caret below, as psql shows it; "" for an unknown place."""
    if position is None:
        return ""
    offset = min(max(int(position) - 1 - prefix_length, 0), len(statement))
    start = statement.rfind("\n", 0, offset) + 1
    end = statement.find("\n", offset)
    line = statement[start : end if end >= 0 else len(statement)]
    label = f"LINE {statement.count(chr(10), 0, offset) + 1}: "
    return f"\n  {label}{line}\n  {' ' * (len(label) + offset - start)}^"
