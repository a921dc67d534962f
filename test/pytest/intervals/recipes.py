"""The SQL of docs/convert.md, block by block as it stands there, on tables with rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg
from extension.probes import Connection, scalar

from intervals.policies import execute, names

_PAGE = Path(__file__).resolve().parents[3] / "docs/convert.md"
_ALL = re.DOTALL | re.MULTILINE
_TRIES = 500
ROWS = 2000

# The chapters as they follow each other.
EXAMPLE = "From a plain table to partitions, and back"
KEYS = "Unique keys"
BOUND = "The bound"
CHANGE = "The change"
AT_ONCE = "Split or merge at once"
BESIDE = (
    "1. New partitions",
    "2. Note what changes",
    "3. Copy",
    "4. Catch up",
    "5. Exchange",
    "6. Clean up, or undo",
)
BACK = "Back to a plain table"


def page() -> str:
    return _PAGE.read_text()


def _hide(block: re.Match[str]) -> str:
    """A line in place of a block, whose own lines may look like headings."""
    return f"SQL {block[1].encode().hex()}"


def blocks(*headings: str) -> list[str]:
    """The blocks of SQL below headings, each up to the next heading of any level."""
    text = re.sub(r"^```sql\n(.*?)^```$", _hide, page(), flags=_ALL)
    parts = re.split(r"^#+ (.*)$", text, flags=re.MULTILINE)
    below = dict(zip(parts[1::2], parts[2::2], strict=True))
    return [
        bytes.fromhex(found).decode()
        for heading in headings
        for found in re.findall(r"^SQL (\w+)$", below[heading], re.MULTILINE)
    ]


def statements(block: str) -> list[str]:
    """The statements of a block; what is between dollars is part of one."""
    pieces = re.split(r"(\$\$.*?\$\$)", block, flags=re.DOTALL)
    hidden = "".join(piece if i % 2 == 0 else f"\0{i}\0" for i, piece in enumerate(pieces))
    return [
        re.sub(r"\0(\d+)\0", lambda at: pieces[int(at[1])], statement).strip()
        for statement in hidden.split(";\n")
        if statement.strip()
    ]


def run(session: Connection, block: str) -> None:
    """Execute a block as psql does, each statement alone."""
    for statement in statements(block):
        execute(session, statement)


def repeat(session: Connection, block: str) -> None:
    """Execute a block, again where a lock or a slow machine has ended it, as the page says."""
    for _ in range(_TRIES):
        try:
            return run(session, block)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled):
            session.rollback()
    raise AssertionError(f"not within {_TRIES} attempts: {block}")


def insist(session: Connection, *headings: str) -> None:
    """Execute all blocks below headings."""
    for block in blocks(*headings):
        repeat(session, block)


def settle(session: Connection) -> None:
    """What every session of these tests has."""
    session.execute("SET search_path = s, public; SET TimeZone = 'UTC'")


def work_as_owner(session: Connection) -> None:
    """Go on as role `owner`, who owns the table and has what the page asks for, no more."""
    for table in ("events", *names(session, "s.events")):
        execute(session, f"ALTER TABLE {table} OWNER TO owner")
    session.execute("GRANT REFERENCES, MAINTAIN ON customers TO owner")
    session.execute("SET ROLE owner")


def make_events(session: Connection) -> None:
    """The example of the page, with rows from June 2025 on, one in six hours."""
    settle(session)
    session.execute("CREATE TABLE customers (id int PRIMARY KEY)")
    session.execute("INSERT INTO customers SELECT generate_series(1, 10)")
    insist(session, EXAMPLE)
    session.execute(
        "INSERT INTO events (at, customer, body) SELECT timestamptz '2025-06-01' + "
        f"g * interval '6 hours', g % 10 + 1, 'first' FROM generate_series(1, {ROWS}) g"
    )


def shape(session: Connection, patterns: Iterable[str] = ("%",)) -> list[Any]:
    """What is in schema s: tables, indexes, bounds, constraints, triggers; and all rows."""
    return [
        session.execute(
            "SELECT relname, relkind, relispartition, pg_get_expr(relpartbound, oid) FROM pg_class "
            "WHERE relnamespace = 's'::regnamespace AND relkind <> 'S' "
            "AND relname LIKE ANY (%s) ORDER BY 1",
            (list(patterns),),
        ).fetchall(),
        session.execute(
            "SELECT conrelid::regclass::text, conname, convalidated, pg_get_constraintdef(oid) "
            "FROM pg_constraint WHERE connamespace = 's'::regnamespace ORDER BY 1, 2"
        ).fetchall(),
        scalar(session, "SELECT count(*) FROM pg_trigger"),
        scalar(session, "SELECT count(*) FROM pg_lookahead_interval_policy"),
    ]


def content(session: Connection, table: str = "events") -> list[Any]:
    return execute(session, f"SELECT * FROM {table} ORDER BY id")
