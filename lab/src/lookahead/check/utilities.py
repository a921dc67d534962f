"""What is to be said of commands that EXPLAIN does not take: CREATE INDEX, REINDEX, COPY.

They are told by their first words, and judged by their table and the settings of the session. What
the library then does with a build or a COPY, its view pg_stat_lookahead tells afterwards.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from lookahead.check.advice import BULK_INSERT, Advice, Verdict
from lookahead.formats import one_line
from lookahead.guarded_connection import GuardedConnection
from lookahead.load_order import name_first, watchers_before

INDEX_BUILD = "pg_lookahead.enable_index_build"
# Builds of fewer rows take a few milliseconds by either code. Arbitrary.
_FEW_ROWS = 10_000
_COMMENTS = re.compile(r"\A(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)+", re.DOTALL)
_NAME = r'(?:"(?:[^"]|"")+"|[\w$]+)'
_TABLE = rf"(?P<table>{_NAME}(?:\s*\.\s*{_NAME})*)"
_CREATE_INDEX = re.compile(
    rf"create\s+(?:unique\s+)?index\s+(?:concurrently\s+)?(?:if\s+not\s+exists\s+)?"
    rf"(?:{_NAME}\s+)??on\s+(?:only\s+)?{_TABLE}\s*(?:using\s+(?P<method>{_NAME})\s*)?\(",
    re.IGNORECASE,
)
_REINDEX = re.compile(
    rf"reindex\s+(?:\([^)]*\)\s*)?(?:table|index)\s+(?:concurrently\s+)?{_TABLE}\s*;?\s*\Z",
    re.IGNORECASE,
)
_COPY = re.compile(rf"copy\s+{_TABLE}\s*(?:\([^)]*\)\s*)?(?P<direction>from|to)\b", re.IGNORECASE)
_NEW_TABLE = re.compile(
    r"create\s+(?:(?:global\s+|local\s+)?(?:temp|temporary|unlogged)\s+)?"
    r"(?:table|materialized\s+view)\b",
    re.IGNORECASE,
)
# Of an index: its table's rows. What a name means is the user's business, so it is asked before.
_FACTS = """
    SELECT pg_catalog.sum(greatest(leaf.reltuples, 0)),
           pg_catalog.bool_or(leaf.reltuples < 0 AND leaf.relkind = 'r')
    FROM pg_catalog.pg_class named
    LEFT JOIN pg_catalog.pg_index own ON own.indexrelid = named.oid,
    LATERAL (
        SELECT coalesce(own.indrelid, named.oid) AS relid
        UNION SELECT relid FROM pg_catalog.pg_partition_tree(coalesce(own.indrelid, named.oid))
    ) AS part
    JOIN pg_catalog.pg_class leaf ON leaf.oid = part.relid
    WHERE named.oid = %s::pg_catalog.oid"""
_RESOLVE = "SELECT pg_catalog.to_regclass(%s)::pg_catalog.oid"
_SETTINGS = """
    SELECT name, setting = 'on' FROM pg_catalog.pg_settings
    WHERE name IN ('pg_lookahead.enabled', 'pg_lookahead.disable',
                   'pg_lookahead.enable_index_build', 'pg_lookahead.enable_bulk_insert')"""


@dataclass(frozen=True)
class _Table:
    """`rows` of it and its partitions, None where it was never analyzed."""

    name: str
    rows: float | None


def makes_table(statement: str) -> bool:
    """Whether it is a CREATE TABLE or CREATE MATERIALIZED VIEW."""
    return _NEW_TABLE.match(_COMMENTS.sub("", statement)) is not None


def advise_utility(connection: GuardedConnection, statement: str) -> Advice | None:
    """Advice for one of these commands, None for any other statement, or of an unknown table."""
    text = _COMMENTS.sub("", statement)
    build = _CREATE_INDEX.match(text) or _REINDEX.match(text)
    copy = _COPY.match(text)
    match = build or copy
    if match is None:
        return None
    table = _table(connection, match["table"])
    if table is None:
        return None
    switches = dict(connection.execute(_SETTINGS).fetchall())
    if copy:
        ahead = watchers_before(connection)
        found = _of_copy(table, copy["direction"].lower(), switches, ahead)
    else:
        method = match.groupdict().get("method", "any") or "btree"
        found = _of_build(table, method.strip('"').lower(), switches)
    return Advice((), *found)


def _table(connection: GuardedConnection, name: str) -> _Table | None:
    try:
        with connection.users_names():
            row = connection.execute(_RESOLVE, (name,)).fetchone()
    except psycopg.Error:
        return None
    if row is None or row[0] is None:
        return None
    facts = connection.execute(_FACTS, row).fetchone()
    assert facts is not None
    return _Table(one_line(name), None if facts[1] else float(facts[0] or 0))


def _of_build(table: _Table, method: str, switches: Mapping[str, Any]) -> tuple[Verdict, str]:
    if method not in ("btree", "any"):
        return "no", f"only btree indexes are built by pg_lookahead, not {one_line(method)}"
    if off := _off(INDEX_BUILD, switches):
        return "no", f"index builds are left to PostgreSQL: {off}"
    if table.rows is None:
        return "unknown", f"{table.name} was never analyzed: ANALYZE tells how large it is"
    rows = f"about {table.rows:,.0f} rows of {table.name}"
    if table.rows < _FEW_ROWS:
        return "little", f"{rows} are few to build an index of"
    return "yes", (
        f"{rows} would be sorted and written by pg_lookahead"
        f"{', as far as its indexes are btrees' if method == 'any' else ''}; "
        "afterwards pg_stat_lookahead tells whether they were, or why not"
    )


def _of_copy(
    table: _Table, direction: str, switches: Mapping[str, Any], ahead: tuple[str, ...]
) -> tuple[Verdict, str]:
    """`ahead` are the libraries that look at commands and were loaded before."""
    if direction == "to":
        return "no", "COPY of a table reads it in order; COPY (SELECT ...) is checked by its query"
    if off := _off(BULK_INSERT, switches):
        return "no", f"its rows would be inserted in larger batches, but {off}"
    if ahead:
        return "no", (
            f"its rows would be inserted in larger batches, but {' and '.join(ahead)} "
            f"{'looks' if len(ahead) == 1 else 'look'} at commands and came first: {name_first()}"
        )
    return "yes", (
        f"its rows would be inserted into {table.name} in larger batches; afterwards "
        "pg_stat_lookahead tells whether they were, or why not"
    )


def _off(switch: str, switches: Mapping[str, Any]) -> str:
    """Which setting is in the way; "" if none is."""
    if switches.get("pg_lookahead.disable"):
        return "pg_lookahead.disable is on"
    off = [name for name in ("pg_lookahead.enabled", switch) if not switches.get(name)]
    return f"{off[0]} is off" if off else ""
