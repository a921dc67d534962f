"""What is to be said of commands that EXPLAIN does not take: CREATE INDEX, REINDEX, COPY.

They are told by their first words, and judged by their table and the settings of the session. What
the library then does with a build or a COPY, its view pg_stat_lookahead tells afterwards.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lookahead.check.advice import BULK_INSERT, Advice, Verdict
from lookahead.check.sql_text import BEGIN, END, NAME, code_of
from lookahead.check.statement import explained_errors
from lookahead.errors import UsageError
from lookahead.formats import one_line
from lookahead.guarded_connection import GuardedConnection
from lookahead.load_order import name_first, watchers_before

INDEX_BUILD = "pg_lookahead.enable_index_build"
BULK_EXTEND_SIZE = "pg_lookahead.bulk_extend_size"
# Builds of fewer rows take a few milliseconds by either code. Arbitrary.
_FEW_ROWS = 10_000
# ASCII: other blanks are letters to PostgreSQL.
_FLAGS = re.IGNORECASE | re.ASCII
_TABLE = rf"(?P<table>{NAME}(?:\s*\.\s*{NAME})*)\s*"
_CONCURRENTLY = rf"(?:concurrently{END}\s*)?"
_CREATE_INDEX = re.compile(
    rf"\s*create\s+(?:unique\s+)?index{END}\s*{_CONCURRENTLY}(?:if\s+not\s+exists{END}\s*)?"
    rf"(?:{NAME}\s*)??on{END}\s*(?P<only>only{END}\s*)?{_TABLE}(?:\*\s*)?"
    rf"(?:using{END}\s*(?P<method>{NAME})\s*)?\(",
    _FLAGS,
)
_REINDEX = re.compile(
    rf"\s*reindex{END}\s*(?:\([^)]*\)\s*)?(?:table|index){END}\s*{_CONCURRENTLY}{_TABLE}"
    r"(?:;\s*)?\Z",
    _FLAGS,
)
_COPY = re.compile(
    rf"\s*copy{END}\s*(?:binary{END}\s*)?{_TABLE}"
    rf'(?:\((?:"[^"]*"|[^)"])*\)\s*)?(?P<direction>from|to){END}',
    _FLAGS,
)
_BEHIND_DOT = re.compile(r"\.\s+", _FLAGS)
# A column of this name has a table's before it.
_WHERE = re.compile(rf"{BEGIN}(?<!\.)where{END}", _FLAGS)
# With these it is PostgreSQL's: unsuitable() in la_copy.c.
_COPY_OPTION = re.compile(rf"{BEGIN}(?:where|freeze|on_error){END}", _FLAGS)
_COLUMN_LIST = re.compile(rf"{BEGIN}force_\w+\s*\([^)]*\)", _FLAGS)
_LEFT_PARTS = {"p": "partitioned again", "f": "foreign tables"}
# Of an index: its table's rows. What a name means is the user's business, so it is asked before.
_FACTS = """
    SELECT named.relkind::pg_catalog.text,
           pg_catalog.sum(greatest(leaf.reltuples, 0)) FILTER (WHERE leaf.relkind IN ('r', 'm')),
           pg_catalog.bool_or(leaf.reltuples < 0 AND leaf.relkind = 'r'),
           pg_catalog.bool_or(own.indpred IS NOT NULL),
           pg_catalog.bool_or(EXISTS (
               SELECT FROM pg_catalog.pg_index i
               JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
               JOIN pg_catalog.pg_am m ON m.oid = x.relam
               WHERE i.indrelid = leaf.oid AND x.oid = coalesce(own.indexrelid, x.oid)
                 AND m.amname = 'btree')),
           coalesce(pg_catalog.string_agg(leaf.relkind::pg_catalog.text, '')
                    FILTER (WHERE leaf.oid <> named.oid), '')
    FROM pg_catalog.pg_class named
    LEFT JOIN pg_catalog.pg_index own ON own.indexrelid = named.oid,
    LATERAL (
        SELECT coalesce(own.indrelid, named.oid) AS relid
        UNION SELECT relid FROM pg_catalog.pg_partition_tree(coalesce(own.indrelid, named.oid))
    ) AS part
    JOIN pg_catalog.pg_class leaf ON leaf.oid = part.relid
    WHERE named.oid = %s::pg_catalog.oid GROUP BY named.relkind"""
_RESOLVE = "SELECT %s::pg_catalog.regclass::pg_catalog.oid"
_SETTINGS = """
    SELECT name, setting NOT IN ('off', '0') FROM pg_catalog.pg_settings
    WHERE name IN ('pg_lookahead.enabled', 'pg_lookahead.disable',
                   'pg_lookahead.enable_index_build', 'pg_lookahead.enable_bulk_insert',
                   'pg_lookahead.bulk_extend_size', 'max_parallel_maintenance_workers')"""


@dataclass(frozen=True)
class _Table:
    """What is named: a table, or an index of one; `kind` is that of pg_class.

    `rows` are those of it and its partitions, None where it was never analyzed. `is_partial` is an
    index's, `has_btree` is of the index or any of the table; `part_kinds` are those of partitions.
    """

    name: str
    kind: str
    rows: float | None
    is_partial: bool
    has_btree: bool
    part_kinds: str


def advise_utility(connection: GuardedConnection, statement: str) -> Advice | None:
    """Advice for one of these commands, None for any other statement.

    Raises LabError when there is no such table.
    """
    text = code_of(statement, keeps_names=True)
    build = _CREATE_INDEX.match(text) or _REINDEX.match(text)
    copy = _COPY.match(text)
    match = build or copy
    if match is None:
        return None
    with explained_errors(statement), connection.users_names():
        named = connection.execute(_RESOLVE, (match["table"],)).fetchone()
    facts = connection.execute(_FACTS, named).fetchone()
    if facts is None:  # dropped meanwhile
        raise UsageError(f"there is no table {one_line(match['table'])}", "Check its name.")
    kind, rows, is_unknown, *more = facts
    rows = None if is_unknown else float(rows or 0)
    table = _Table(one_line(match["table"]), kind, rows, *more)
    switches = dict(connection.execute(_SETTINGS).fetchall())
    if table.kind not in ("rp" if copy else "rpmiI"):
        return Advice((), "no", f"{table.name} is no table that rows are stored in")
    if copy:
        ahead = watchers_before(connection)
        found = _of_copy(table, copy, switches, ahead)
    else:
        found = _of_build(table, match, switches)
    return Advice((), *found)


def _of_build(
    table: _Table, match: re.Match[str], switches: Mapping[str, Any]
) -> tuple[Verdict, str]:
    is_reindex = "method" not in match.groupdict()
    method = "" if is_reindex else (match["method"] or "btree").strip('"').lower()
    if is_reindex and not table.has_btree:
        return "no", f"only btree indexes are built by pg_lookahead, and {table.name} has none"
    if not is_reindex and match["only"] and table.kind == "p":
        return "no", f"ONLY {table.name} builds nothing: its partitions have the rows"
    if not is_reindex and method != "btree":
        return "no", f"only btree indexes are built by pg_lookahead, not {one_line(method)}"
    if off := _off(INDEX_BUILD, switches):
        return "no", f"index builds are left to PostgreSQL: {off}"
    if not switches["max_parallel_maintenance_workers"]:
        reason = "max_parallel_maintenance_workers is 0"
        return "no", f"index builds are left to PostgreSQL: {reason}"
    if table.rows is None:
        return "unknown", f"{table.name} was never analyzed: ANALYZE tells how large it is"
    if table.rows < _FEW_ROWS:
        few = f"too few rows to gain from it: {table.name} has about {table.rows:,.0f}"
        return "little", few
    rows = f"about {table.rows:,.0f} rows of {table.name}"
    if table.is_partial or (not is_reindex and _WHERE.search(_rest(match))):
        return "unknown", f"of {rows} those that WHERE selects would be sorted: how many?"
    return "yes", (
        f"{rows} would be sorted and written by pg_lookahead"
        f"{', as far as its indexes are btrees' if is_reindex else ''}; "
        "afterwards pg_stat_lookahead tells whether they were, or why not"
    )


def _of_copy(
    table: _Table, match: re.Match[str], switches: Mapping[str, Any], ahead: tuple[str, ...]
) -> tuple[Verdict, str]:
    """`ahead` are the libraries that look at commands and were loaded before."""
    if match["direction"].lower() == "to":
        return "no", "COPY of a table reads it in order; COPY (SELECT ...) is checked by its query"
    if reason := _against_copy(table, match, switches, ahead):
        return "no", f"its rows would be inserted in larger batches, but {reason}"
    return "yes", (
        f"its rows would be inserted into {table.name} in larger batches; afterwards "
        "pg_stat_lookahead tells whether they were, or why not"
    )


def _against_copy(
    table: _Table, match: re.Match[str], switches: Mapping[str, Any], ahead: tuple[str, ...]
) -> str:
    """Why it is left to PostgreSQL; "" where nothing is known to be in the way."""
    if off := _off(BULK_INSERT, switches):
        return off
    if option := _COPY_OPTION.search(_COLUMN_LIST.sub("", _rest(match))):
        return f"a COPY with {option[0].upper()} is left to PostgreSQL"
    for kind, what in _LEFT_PARTS.items():
        if kind in table.part_kinds:
            return f"partitions of {table.name} are {what}"
    if not switches.get(BULK_EXTEND_SIZE) and table.kind != "p":
        return f"{BULK_EXTEND_SIZE} is 0"
    if ahead:
        looks = "looks" if len(ahead) == 1 else "look"
        return f"{' and '.join(ahead)} {looks} at commands and came first: {name_first()}"
    return ""


def _rest(match: re.Match[str]) -> str:
    """What follows of the command, without quoted names; a column is right behind its dot."""
    rest = code_of(match.string)[match.end() :]
    return _BEHIND_DOT.sub(".", rest.partition(";")[0])


def _off(switch: str, switches: Mapping[str, Any]) -> str:
    """Which setting is in the way; "" if none is."""
    if switches.get("pg_lookahead.disable"):
        return "pg_lookahead.disable is on"
    off = [name for name in ("pg_lookahead.enabled", switch) if not switches.get(name)]
    return f"{off[0]} is off" if off else ""
