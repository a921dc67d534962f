"""Whether rows of INSERT, CREATE TABLE AS and materialized views are inserted in batches.

EXPLAIN (LOOKAHEAD) says that of the query and of the table's triggers, not of its checks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lookahead.check.facts import Name
from lookahead.check.plan_tree import Node, input_of, plan_nodes, table_of
from lookahead.check.switches import (
    BULK_EXTEND_SIZE,
    BULK_INSERT,
    require_writing,
    switches_of,
    what_is_off,
)
from lookahead.check.verdicts import RANKS, Conclusion
from lookahead.formats import one_line
from lookahead.guarded_connection import GuardedConnection

# Where the command puts what EXPLAIN says of the rows of CREATE TABLE AS, which no node inserts.
NEW_TABLE = "New Table"
# Rows from which on inserting them in batches is worth a verdict: the first 32 are not batched.
_FEW_ROWS = 1000
# What PostgreSQL inserts into a new table itself (la_insert_threshold() in la_insert_feature.c),
# and what a row has besides its values: a header and its place in the page.
_FEW_BYTES, _ROW_BYTES = 4 << 20, 28
# Tables of which a row may call a volatile function, in a CHECK or WHEN of a trigger of it or of a
# partition; or pg_column_size(), pg_column_compression() and pg_column_toast_chunk_id(), which see
# how a row is stored. Of partitions any trigger for rows of INSERT (5) may be one that hinders.
_DOUBTFUL = """
    SELECT DISTINCT n.nspname::pg_catalog.text, named.relname::pg_catalog.text
    FROM pg_catalog.pg_class named JOIN pg_catalog.pg_namespace n ON n.oid = named.relnamespace,
    LATERAL (
        SELECT named.oid AS relid
        UNION SELECT relid FROM pg_catalog.pg_partition_tree(named.oid)) AS part,
    LATERAL (
        SELECT conbin::pg_catalog.text AS tree, false AS is_of_part
        FROM pg_catalog.pg_constraint WHERE conrelid = part.relid
        UNION ALL
        SELECT tgqual::pg_catalog.text, part.relid <> named.oid
        FROM pg_catalog.pg_trigger
        WHERE tgrelid = part.relid AND NOT tgisinternal AND tgtype & 5 = 5) AS used
    WHERE n.nspname = ANY (%s) AND named.relname = ANY (%s) AND (used.is_of_part OR EXISTS (
        SELECT FROM pg_catalog.regexp_matches(used.tree, ':(?:op)?funcid ([0-9]+)', 'g') AS called
        JOIN pg_catalog.pg_proc p ON p.oid = called[1]::pg_catalog.oid
        WHERE p.oid IN (1269, 2121, 6316) OR p.provolatile = 'v'
           OR p.provolatile = 's' AND p.oid >= 16384))"""


@dataclass(frozen=True)
class Inserting:
    """What a session says of inserts: which setting is `off`, whether tables are `extended`.

    Of a row of the `doubtful` tables it is not known whether it may be in a batch.
    """

    off: str = ""
    extended: bool = True
    doubtful: frozenset[Name] = frozenset()


def inserting(connection: GuardedConnection, plan: Mapping[str, Any]) -> Inserting | None:
    """The facts for a plan, None where it changes nothing; LabError where nothing may be."""
    nodes = [
        node
        for node in plan_nodes(plan)
        if NEW_TABLE in node or node.get("Node Type") == "ModifyTable"
    ]
    if not nodes:
        return None
    switches = switches_of(connection)
    require_writing(switches)
    tables = {table for table in map(table_of, nodes) if table}
    names = [[schema for schema, _ in tables], [name for _, name in tables]]
    found = connection.execute(_DOUBTFUL, names).fetchall()
    return Inserting(
        what_is_off(BULK_INSERT, switches),
        bool(switches.get(BULK_EXTEND_SIZE)),
        frozenset((schema, name) for schema, name in found),
    )


def with_inserts(reading: Conclusion, plan: Node, facts: Inserting) -> Conclusion:
    """What is to be said, too, of rows that the plan inserts."""
    verdict, text = reading
    for node in plan_nodes(plan):
        if NEW_TABLE in node:  # that no node inserts into
            found = _of_new_table(node, facts)
        elif node.get("Operation") == "Insert":
            found = _of_insert(node, facts)
        else:
            continue
        verdict = max(verdict, found[0], key=RANKS.index)
        text = f"inserting: {found[1]}; reading: {text}"
    return verdict, text


def _of_new_table(plan: Node, facts: Inserting) -> Conclusion:
    rows = int(plan.get("Plan Rows", 0))
    found = _of_rows(rows, plan[NEW_TABLE], facts.off)
    if found[0] == "yes" and not facts.extended:
        return "no", f"PostgreSQL inserts its rows one by one: {BULK_EXTEND_SIZE} is 0"
    size = rows * (int(plan.get("Plan Width", 0)) + _ROW_BYTES)
    if found[0] == "yes" and size < _FEW_BYTES:
        return "little", f"PostgreSQL inserts the first 4 MB, and there are about {rows:,} rows"
    return found


def _of_insert(node: Node, facts: Inserting) -> Conclusion:
    rows, group = int(input_of(node).get("Plan Rows", 0)), node.get("Lookahead")
    table = table_of(node)
    if group is None and not facts.off and rows >= _FEW_ROWS:
        return "no", "PostgreSQL inserts its rows, as in a WITH, a view or a foreign table"
    found = _of_rows(rows, group, facts.off)
    if found[0] == "yes" and table in facts.doubtful:
        name = one_line(table[1])
        return "unknown", f"{found[1]}, unless functions in checks or triggers of {name} forbid it"
    return found


def _of_rows(rows: int, group: Mapping[str, Any] | None, off: str) -> Conclusion:
    batches = f"its rows (about {rows:,}) would be inserted in batches"
    if rows < _FEW_ROWS:
        return "little", f"too few rows to gain from batches (about {rows:,})"
    if group is None or group.get("Reason") == "disabled":
        why = off or f"{BULK_INSERT}, or the library"
        return "no", f"{batches}, but that is switched off ({why})"
    if group.get("Status") == "stock":
        return "no", f"PostgreSQL inserts its rows one by one: {group.get('Reason')}"
    return "yes", batches
