"""What the server says of the tables that a plan reads: its catalogs and its planner.

EXPLAIN shows the rows that pass a filter, not those that an index finds before. But each row that
is found costs `cpu_tuple_cost` (cost_index() in costsize.c), so the statement is planned twice
more, with that setting a little apart: the difference of a node's two costs, divided by that of the
settings, is the number of rows. All costs are multiplied by a large number before, since EXPLAIN
rounds them to hundredths; plans are chosen by ratios of costs, so they stay the same. Where they do
not, nothing is said.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import psycopg

from lookahead.check.plan_tree import INDEX_ROWS, Participation, plan_nodes, table_of
from lookahead.check.statement import explain
from lookahead.guarded_connection import GuardedConnection, find_member

Place = Literal["shared buffers", "OS cache", "disk"]
Name = tuple[str, str]
# Bytes in shared buffers by file, None where that is not known.
CachedBytes = Mapping[int, int] | None

# Of a table; the rest is what others have read since.
_CACHED_SHARE = 0.95
# pg_buffercache makes a row of each buffer, of which memory and disk are taken: arbitrary.
_MOST_BUFFERS_BYTES = 16 << 30
# Of so many pages fetched and more, fewer were read: the part that is used is in memory. Arbitrary.
_MANY_FETCHED, _MISSED_SHARE = 100_000, 0.01
_BLOCK_BYTES = 8192
_SETTINGS = """
    SELECT pg_catalog.pg_size_bytes(pg_catalog.current_setting('shared_buffers')),
           pg_catalog.pg_size_bytes(pg_catalog.current_setting('effective_cache_size')),
           pg_catalog.current_setting('parallel_leader_participation') = 'on',
           coalesce(pg_catalog.current_setting('pg_lookahead.enable_join_prefetch', true), 'off')
               = 'on'"""
_RELATIONS = """
    SELECT n.nspname, c.relname,
           coalesce(pg_catalog.pg_relation_size(c.oid), 0)
               / pg_catalog.current_setting('block_size')::pg_catalog.int4,
           c.reltuples, c.relallvisible, coalesce(pg_catalog.pg_table_size(c.oid), 0),
           pg_catalog.pg_relation_filenode(c.oid),
           pg_catalog.pg_stat_get_blocks_fetched(c.oid), pg_catalog.pg_stat_get_blocks_hit(c.oid),
           CASE WHEN NOT pg_catalog.pg_is_in_recovery() AND (c.relallvisible = 0 OR coalesce(
                     pg_catalog.pg_stat_get_last_vacuum_time(c.oid),
                     pg_catalog.pg_stat_get_last_autovacuum_time(c.oid),
                     pg_catalog.pg_stat_get_last_analyze_time(c.oid),
                     pg_catalog.pg_stat_get_last_autoanalyze_time(c.oid)) IS NOT NULL)
                THEN 2.0::pg_catalog.float8 * (pg_catalog.pg_stat_get_dead_tuples(c.oid)
                         + pg_catalog.pg_stat_get_mod_since_analyze(c.oid)) END
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY (%s) AND c.relname = ANY (%s)"""
_INDEXES = """
    SELECT n.nspname, x.relname, m.amname, a.attname,
           CASE WHEN k.attnum = 0 THEN x.relname ELSE t.relname END,
           i.indoption[k.number::pg_catalog.int4 - 1] & 1 = 1,
           y.typtype = 'b' AND y.oid < 16384, k.attnum = 0
    FROM pg_catalog.pg_index i
    JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
    JOIN pg_catalog.pg_am m ON m.oid = x.relam
    JOIN pg_catalog.pg_class t ON t.oid = i.indrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
    CROSS JOIN LATERAL pg_catalog.unnest(i.indkey::pg_catalog.int2[])
               WITH ORDINALITY AS k(attnum, number)
    JOIN pg_catalog.pg_opclass o ON o.oid = i.indclass[k.number::pg_catalog.int4 - 1]
    JOIN pg_catalog.pg_type y ON y.oid = o.opcintype
    JOIN pg_catalog.pg_attribute a
      ON a.attrelid = CASE WHEN k.attnum = 0 THEN i.indexrelid ELSE i.indrelid END
     AND a.attnum = CASE WHEN k.attnum = 0 THEN k.number ELSE k.attnum END
    WHERE n.nspname = ANY (%s) AND t.relname = ANY (%s) AND k.number <= i.indnkeyatts
    ORDER BY i.indexrelid, k.number"""
# pg_stats shows what the role may read. Expressions have theirs under the name of the index.
_COLUMNS = """
    SELECT schemaname, tablename, attname, correlation, n_distinct
    FROM pg_catalog.pg_stats
    WHERE schemaname = ANY (%s) AND tablename = ANY (%s) AND NOT inherited"""
# Casts of columns that change no value: of domains, and as CREATE CAST has WITHOUT FUNCTION.
# Types as EXPLAIN prints them: with -1 it is "bpchar" and not "character".
_RELABELS = """
    SELECT n.nspname, c.relname, a.attname, pg_catalog.format_type(same.oid, -1)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
    JOIN pg_catalog.pg_type t ON t.oid = a.atttypid, LATERAL (
        SELECT t.typbasetype AS oid WHERE t.typtype = 'd'
        UNION SELECT casttarget FROM pg_catalog.pg_cast
              WHERE castmethod = 'b' AND castsource IN (t.oid, t.typbasetype)) AS same
    WHERE n.nspname = ANY (%s) AND c.relname = ANY (%s) AND a.attnum > 0"""
_CACHED = """
    SELECT relfilenode, pg_catalog.count(*) FROM {schema}.pg_buffercache
    WHERE reldatabase = (SELECT oid FROM pg_catalog.pg_database
                         WHERE datname = pg_catalog.current_database())
    GROUP BY relfilenode"""
_SCALE = 1e6
# Small enough for the choice between plans, large enough for the rounding.
_APART = 1e-4
_TUPLE_COST = "cpu_tuple_cost"
_COSTS = (
    _TUPLE_COST,
    "cpu_index_tuple_cost",
    "cpu_operator_cost",
    "parallel_setup_cost",
    "parallel_tuple_cost",
    "random_page_cost",
    "seq_page_cost",
)
_CURRENT_COSTS = "SELECT name, setting FROM pg_catalog.pg_settings WHERE name = ANY (%s)"
_SHAPE = ("Node Type", "Parent Relationship", "Alias", "Index Name", "Plan Rows", "Filter")
_INDEX_SCANS = ("Index Scan", "Index Only Scan")


@dataclass(frozen=True)
class Relation:
    """A table; sizes in bytes. `cached_bytes` is None where pg_buffercache cannot be asked.

    `fetched_pages` and the `found_pages` of them in shared buffers are what statistics count.
    `changed_pages` are those at most that were changed since `all_visible_pages` were counted, by
    VACUUM or ANALYZE: an update changes two. None where the server has not counted so far back: a
    standby, after a crash, a promotion or a reset.
    """

    pages: int
    rows: float
    all_visible_pages: int
    size_bytes: int
    cached_bytes: int | None
    fetched_pages: int = 0
    found_pages: int = 0
    changed_pages: float | None = 0

    @property
    def is_cached(self) -> bool:
        """Whether it is known to be in shared buffers at the moment."""
        enough = self.pages * _BLOCK_BYTES * _CACHED_SHARE
        return self.cached_bytes is not None and 0 < enough <= self.cached_bytes

    @property
    def is_found(self) -> bool:
        """Whether what is read of it is nearly always in shared buffers."""
        missed = self.fetched_pages - self.found_pages
        return self.fetched_pages >= _MANY_FETCHED and missed < self.fetched_pages * _MISSED_SHARE


@dataclass(frozen=True)
class Index:
    """An index: its columns, of the table or its own (expressions), and its access method."""

    access_method: str
    columns: tuple["Column", ...]


@dataclass(frozen=True)
class Column:
    """Statistics of a column; None without them. `distinct` is the number of its values.

    The rest is of a column of an index: whether it has that order, whether a type of the server's
    own compares it that calls no functions of others, and whether it is none of the table.
    """

    name: str
    correlation: float | None
    distinct: float | None
    descending: bool = False
    is_plain: bool = True
    is_expression: bool = False


@dataclass(frozen=True)
class Memory:
    """What the server's settings say of memory, in bytes."""

    shared_buffers: int
    effective_cache_size: int

    @property
    def buffers(self) -> int:
        """Pages that shared buffers hold."""
        return self.shared_buffers // _BLOCK_BYTES

    def place_of(self, size_bytes: int) -> Place:
        """The fastest place that so much fits into as a whole."""
        if size_bytes <= self.shared_buffers:
            return "shared buffers"
        return "OS cache" if size_bytes <= self.effective_cache_size else "disk"


@dataclass(frozen=True)
class Facts:
    """Tables and indexes by (schema, name); columns of tables by name within these.

    `relabels` are (table, column, type): the column is cast to that type without a change.
    """

    memory: Memory
    relations: Mapping[Name, Relation]
    indexes: Mapping[Name, Index] = field(default_factory=dict)
    columns: Mapping[Name, Mapping[str, Column]] = field(default_factory=dict)
    participation: Participation = field(default_factory=Participation)
    relabels: frozenset[tuple[Name, str, str]] = frozenset()


def collect_facts(
    connection: psycopg.Connection[Any], plan: Mapping[str, Any], cached: CachedBytes
) -> Facts:
    """The facts for a plan, within the caller's transaction."""
    tables = {table for table in map(table_of, plan_nodes(plan)) if table}
    names = [[schema for schema, _ in tables], [name for _, name in tables]]
    settings = connection.execute(_SETTINGS).fetchone()
    assert settings is not None
    relations = _relations(connection, names, cached)
    entries = connection.execute(_INDEXES, names).fetchall()
    owners = [names[0], names[1] + [row[1] for row in entries]]
    columns = _columns(connection, owners, relations)
    return Facts(
        memory=Memory(*settings[:2]),
        relations=relations,
        indexes=_indexes(entries, columns),
        columns=columns,
        participation=Participation(*settings[2:]),
        relabels=frozenset(
            ((schema, table), column, kind)
            for schema, table, column, kind in connection.execute(_RELABELS, names)
        ),
    )


def _relations(
    connection: psycopg.Connection[Any], names: list[list[str]], cached: CachedBytes
) -> dict[Name, Relation]:
    rows = connection.execute(_RELATIONS, names).fetchall()
    return {
        (row[0], row[1]): Relation(
            pages=row[2],
            rows=max(row[3], 0.0),
            all_visible_pages=row[4],
            size_bytes=row[5],
            cached_bytes=None if cached is None else cached.get(row[6], 0),
            fetched_pages=row[7],
            found_pages=row[8],
            changed_pages=row[9],
        )
        for row in rows
    }


def _columns(
    connection: psycopg.Connection[Any], owners: list[list[str]], relations: Mapping[Name, Relation]
) -> dict[Name, dict[str, Column]]:
    found: dict[Name, dict[str, Column]] = {}
    for schema, owner, name, correlation, number in connection.execute(_COLUMNS, owners):
        relation = relations.get((schema, owner))
        # Below zero it is a share of the rows, 0 says that it is not known.
        distinct = -number * relation.rows if number < 0 and relation else number
        column = Column(name, correlation, distinct if distinct > 0 else None)
        found.setdefault((schema, owner), {})[name] = column
    return found


def _indexes(
    entries: Iterable[Sequence[Any]], columns: Mapping[Name, Mapping[str, Column]]
) -> dict[Name, Index]:
    found: dict[Name, Index] = {}
    for schema, index, access_method, name, owner, descending, is_plain, is_expression in entries:
        known = columns.get((schema, owner), {}).get(name, Column(name, None, None))
        before = found.get((schema, index), Index(access_method, ()))
        column = replace(
            known, descending=descending, is_plain=is_plain, is_expression=is_expression
        )
        found[schema, index] = Index(access_method, (*before.columns, column))
    return found


def cached_bytes(connection: psycopg.Connection[Any]) -> CachedBytes:
    """Of the database's files; None where pg_buffercache is absent, silent or too large."""
    view = find_member(connection, "pg_buffercache", "view", "pg_buffercache")
    settings = connection.execute(_SETTINGS).fetchone()
    if view is None or settings is None or settings[0] > _MOST_BUFFERS_BYTES:
        return None
    query = _CACHED.format(schema=view.schema)
    try:
        with connection.transaction():  # a savepoint, if there is a transaction
            rows = connection.execute(query.encode(), ()).fetchall()
    except psycopg.Error:  # no right, a time limit, a library of another version
        if connection.closed:
            raise
        return None
    return {filenode: count * _BLOCK_BYTES for filenode, count in rows}


def add_index_rows(
    connection: GuardedConnection, statement: str, plans: list[dict[str, Any]]
) -> None:
    """Write `INDEX_ROWS` into the filtered index scans of the plans, where it can be found out.

    The last thing to do in the caller's transaction: its costs are no longer the user's.
    """
    shown = [node for plan in plans for node in plan_nodes(plan)]
    if not any(_is_filtered(node) for node in shown):
        return
    found = connection.execute(_CURRENT_COSTS, [list(_COSTS)])
    costs = {name: float(value) * _SCALE for name, value in found}
    step = costs[_TUPLE_COST] * _APART
    if step <= 0:
        return
    base = _plan_with(connection, statement, costs)
    dearer = _plan_with(connection, statement, {**costs, _TUPLE_COST: costs[_TUPLE_COST] + step})
    if not _shapes(shown) == _shapes(base) == _shapes(dearer):
        return
    for node, cheap, dear in zip(shown, base, dearer, strict=True):
        if _is_filtered(node):
            node[INDEX_ROWS] = max(
                (dear["Total Cost"] - cheap["Total Cost"]) / step, float(node["Plan Rows"])
            )


def _is_filtered(node: Mapping[str, Any]) -> bool:
    # The cost of a filter with a subplan contains the rows of that, too.
    return node["Node Type"] in _INDEX_SCANS and "Filter" in node and "Plans" not in node


def _plan_with(
    connection: GuardedConnection, statement: str, costs: Mapping[str, float]
) -> list[dict[str, Any]]:
    for name, value in costs.items():
        connection.execute("SELECT pg_catalog.set_config(%s, %s, true)", (name, repr(value)))
    documents = explain(connection, statement, "VERBOSE")
    return [node for document in documents for node in plan_nodes(document["Plan"])]


def _shapes(nodes: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(node.get(key) for key in _SHAPE) for node in nodes]
