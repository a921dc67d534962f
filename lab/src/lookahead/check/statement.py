"""Runs the user's statement so that it cannot change anything, and explains what goes wrong.

Always one statement in a read-only transaction that is rolled back. It goes through the extended
protocol, which takes one statement at a time: a second one after a semicolon is refused by the
server and cannot end the transaction.

Names in the statement mean what they mean to the user, in everything else what they mean to the
server (guarded_connection.py).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from lookahead.errors import ExitStatus, LabError
from lookahead.foreign_text import one_line
from lookahead.guarded_connection import GuardedConnection

# SQLSTATE classes: transaction rollback, insufficient resources, operator intervention, system
# error, internal error.
_SERVER_CLASSES = ("40", "53", "57", "58", "XX")
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"


class StatementCancelled(LabError):
    """A time limit or somebody's cancel ended the statement."""


@contextmanager
def read_only(connection: GuardedConnection) -> Iterator[None]:
    """A read-only transaction with one snapshot; rolled back at the end."""
    connection.execute(_BEGIN)
    try:
        yield
    finally:
        if not connection.closed:
            connection.execute("ROLLBACK")


def explain(
    connection: GuardedConnection, statement: str, options: str
) -> tuple[dict[str, Any], ...]:
    """EXPLAIN's documents for the statement: one, or what rules make of it.

    Errors of the statement become LabErrors, also that there is no plan.
    """
    prefix = f"EXPLAIN ({options}, FORMAT JSON) "
    with explained_errors(statement, len(prefix)), connection.users_names():
        # Binary results are to be had through the extended protocol only.
        cursor = connection.execute(f"{prefix}{statement}".encode(), binary=True)
        try:
            row = cursor.fetchone()
        except RecursionError:
            raise LabError(
                "the plan is nested too deeply to be read", "Check a part of the statement."
            ) from None
    assert row is not None
    # What has no plan is a mere string.
    documents = tuple(document for document in row[0] if isinstance(document, dict))
    if not documents:
        raise LabError(
            "the statement has no plan: it is a command, or rules leave nothing of it",
            "Check the query inside it.",
            status=ExitStatus.USAGE,
        )
    return documents


@contextmanager
def explained_errors(statement: str, prefix_length: int = 0) -> Iterator[None]:
    """Turn what the server says against the statement into a LabError with its place."""
    try:
        yield
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise LabError(
            f"the statement writes: {_message(error)}",
            "Only statements that read are executed; without --measure it is not executed at all.",
            status=ExitStatus.USAGE,
        ) from None
    except psycopg.Error as error:
        if _ended_by_server(error):
            is_cancelled = isinstance(error, psycopg.errors.QueryCanceled)
            raise (StatementCancelled if is_cancelled else LabError)(
                f"the statement was not finished: {_message(error)}",
                "Its time limit (statement_timeout), a cancel, a lack of resources, or an end of "
                "the server: see the server's log.",
            ) from None
        place = _place(statement, error.diag.statement_position, prefix_length)
        raise LabError(
            f"the server refuses the statement: {_message(error)}{place}",
            one_line(error.diag.message_hint or "")
            or "One statement that EXPLAIN takes is checked, with values instead of parameters.",
            status=ExitStatus.USAGE,
        ) from None


def _ended_by_server(error: psycopg.Error) -> bool:
    """Whether the statement itself is not to blame; without a state the connection was lost."""
    return error.sqlstate is None or error.sqlstate[:2] in _SERVER_CLASSES


def _message(error: psycopg.Error) -> str:
    return one_line(error.diag.message_primary or str(error).strip())


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
