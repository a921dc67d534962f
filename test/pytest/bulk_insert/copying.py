"""A COPY FROM in a schema of its own, and what a client and the table saw of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from extension.probes import Connection
from psycopg.copy import LibpqWriter

from bulk_insert.arms import DEFAULT, EXTENTS, STOCK, Arm, choose
from bulk_insert.facts import failure_of

# Several pages of rows, and more than stock lets wait at once.
MANY = 2500

_NOTICE_FIELDS = ("severity", "sqlstate", "message_primary", "message_detail", "context")


def lines(count: int = MANY, first: int = 1) -> str:
    """Rows of two columns in the format text."""
    return "".join(f"{k}\tvalue {k}\n" for k in range(first, first + count))


@dataclass(frozen=True)
class Case:
    """`making` makes a table t, and more; `inside` comes in the transaction of the COPY.

    `after` is queried besides the rows. `target` may name columns, `options` ends the statement.
    """

    making: str = "CREATE TABLE t (k int, s text)"
    data: str | bytes = lines()
    options: str = ""
    target: str = "t"
    inside: str = ""
    after: str = "SELECT"

    @property
    def bytes(self) -> bytes:
        return self.data if isinstance(self.data, bytes) else self.data.encode()


@dataclass(frozen=True)
class Result:
    """`outcome` is the command tag, or the error's fields."""

    outcome: tuple[Any, ...]
    notices: list[tuple[Any, ...]]
    rows: list[tuple[Any, ...]]
    after: list[tuple[Any, ...]]

    @property
    def failed(self) -> bool:
        return len(self.outcome) > 1


def run(session: Connection, arm: Arm, case: Case) -> Result:
    """Make the table, and copy into it from the client."""
    make(session, arm, case)
    return copy(session, case)


def assert_same_error(
    session: Connection, case: Case, arms: Sequence[Arm] = (DEFAULT, EXTENTS)
) -> None:
    """It fails, and in our arms as in stock: in every field of the error."""
    stock = run(session, STOCK, case)
    assert stock.failed
    for arm in arms:
        assert run(session, arm, case) == stock


def make(session: Connection, arm: Arm, case: Case) -> None:
    session.execute("DROP SCHEMA IF EXISTS copying CASCADE; CREATE SCHEMA copying")
    session.execute("SET search_path = copying, public")
    session.execute(case.making)
    choose(session, arm)


def copy(session: Connection, case: Case) -> Result:
    """Copy from the client into the table that was made, and look at it."""
    with noted(session) as notices:
        try:
            with session.transaction(), session.cursor() as cursor:
                if case.inside:
                    cursor.execute(case.inside)
                with cursor.copy(f"COPY {case.target} FROM STDIN {case.options}") as stream:
                    stream.write(case.bytes)
                outcome: tuple[Any, ...] = (cursor.statusmessage,)
        except psycopg.Error as error:
            outcome = failure_of(error)
    return look(session, case, outcome, notices)


@contextmanager
def prompt_copy(session: Connection, table: str) -> Iterator[psycopg.Copy]:
    """A COPY that is sent all that is written at once, so that the server can read it."""
    cursor = session.cursor()
    writer = LibpqWriter(cursor, flush_threshold=1)
    with cursor.copy(f"COPY {table} FROM STDIN", writer=writer) as stream:
        yield stream


def execute(session: Connection, case: Case, statement: str) -> Result:
    """Copy by a statement that needs nothing of the client."""
    with noted(session) as notices:
        try:
            outcome: tuple[Any, ...] = (session.execute(statement).statusmessage,)
        except psycopg.Error as error:
            outcome = failure_of(error)
    return look(session, case, outcome, notices)


def look(
    session: Connection, case: Case, outcome: tuple[Any, ...], notices: list[tuple[Any, ...]]
) -> Result:
    """What is there now, whatever was done."""
    session.execute("RESET ROLE")
    rows = "SELECT t.tableoid::regclass::text, t::text FROM t ORDER BY t.tableoid, t.ctid"
    has_rows = session.execute("SELECT relkind FROM pg_class WHERE oid = 't'::regclass").fetchone()
    found = session.execute(rows).fetchall() if has_rows and has_rows[0] in "rp" else []
    return Result(outcome, list(notices), found, session.execute(case.after).fetchall())


@contextmanager
def noted(session: Connection) -> Iterator[list[tuple[Any, ...]]]:
    """Collect what the server tells besides errors."""
    notices: list[tuple[Any, ...]] = []

    def note(notice: psycopg.errors.Diagnostic) -> None:
        notices.append(tuple(getattr(notice, name) for name in _NOTICE_FIELDS))

    session.add_notice_handler(note)
    try:
        yield notices
    finally:
        session.remove_notice_handler(note)
