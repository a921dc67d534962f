"""Inserts whose rows are counted, while they come, by functions that the inserts call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from extension.probes import Connection, explain, scalar

from bulk_insert.arms import ONE_PAGE, STOCK, Arm, choose

VOLATILE = {"Status": "stock", "Reason": "volatile function"}
ELIGIBLE = {"Status": "eligible"}
ROWS = 50
SERIES = f"generate_series(1::bigint, {ROWS}) g"

# f() gives the number of rows of w that it sees, seen_by() too; passes() notes it, and is true.
SETUP = """
    CREATE TABLE w (k bigint, seen bigint);
    CREATE TABLE notes (at int GENERATED ALWAYS AS IDENTITY, seen bigint);
    CREATE FUNCTION f() RETURNS bigint VOLATILE LANGUAGE plpgsql AS
        'BEGIN RETURN (SELECT count(*) FROM w); END';
    CREATE FUNCTION seen_by(anyelement) RETURNS bigint VOLATILE LANGUAGE plpgsql AS
        'BEGIN RETURN f(); END';
    CREATE FUNCTION passes(anyelement) RETURNS boolean VOLATILE LANGUAGE plpgsql AS
        'BEGIN INSERT INTO notes (seen) VALUES (f()); RETURN true; END';
    CREATE DOMAIN d AS bigint CHECK (passes(VALUE));
    CREATE TYPE pair AS (a d, b text);
"""


@dataclass(frozen=True)
class Outcome:
    """What an insert left: its table in physical order, and what was seen meanwhile."""

    rows: list[tuple[Any, ...]]
    seen: list[int]


def judgement(connection: Connection, sql: str, options: str = "LOOKAHEAD") -> dict[str, Any]:
    """What EXPLAIN says about the rows of an insert; nothing where it has not been judged."""
    found = explain(connection, sql, options).get("Lookahead", {})
    return {key: found[key] for key in ("Status", "Reason") if key in found}


@contextmanager
def fresh(connection: Connection, setup: str, arm: Arm = ONE_PAGE) -> Iterator[None]:
    """A transaction with the tables and functions, rolled back."""
    with connection.transaction(force_rollback=True):
        choose(connection, arm)
        connection.execute(f"{SETUP}; {setup}")
        yield
    connection.execute("DEALLOCATE ALL")


def outcome(connection: Connection, setup: str, sql: str, arm: Arm) -> Outcome:
    """What an insert does to a fresh table."""
    with fresh(connection, setup, arm):
        connection.execute(sql)
        connection.execute("RESET ROLE")
        rows = connection.execute("SELECT ctid::text, w::text FROM w ORDER BY ctid").fetchall()
        noted = scalar(connection, "SELECT count(*) FROM notes")
        seen = "SELECT seen FROM notes ORDER BY at" if noted else "SELECT seen FROM w ORDER BY k"
        return Outcome(rows, [row[0] for row in connection.execute(seen)])


def assert_left_and_counted(connection: Connection, setup: str, sql: str) -> None:
    """The insert is left to PostgreSQL, and has to be."""
    with fresh(connection, setup):
        assert judgement(connection, sql) == VOLATILE
    assert_counted(connection, setup, sql)


def assert_counted(connection: Connection, setup: str, sql: str) -> None:
    """Each row sees another number of rows, whether batches are switched on or off."""
    stock = outcome(connection, setup, sql, STOCK)
    assert len(stock.rows) == ROWS
    assert len(set(stock.seen)) >= ROWS - 1, "the function is not called row by row"
    assert outcome(connection, setup, sql, ONE_PAGE) == stock
