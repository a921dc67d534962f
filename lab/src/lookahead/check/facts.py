"""Asks the catalogs for what advice needs to know about the tables of a plan."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg

from lookahead.check.extension_member import find_member
from lookahead.check.plan_tree import Participation, plan_nodes, table_of
from lookahead.check.table_facts import Column, Facts, Index, Memory, Name, Relation

_BLOCK_BYTES = 8192
_MEMORY = """
    SELECT pg_catalog.pg_size_bytes(pg_catalog.current_setting('shared_buffers')),
           pg_catalog.pg_size_bytes(pg_catalog.current_setting('effective_cache_size'))"""
_RELATIONS = """
    SELECT n.nspname, c.relname,
           coalesce(pg_catalog.pg_relation_size(c.oid), 0)
               / pg_catalog.current_setting('block_size')::pg_catalog.int4,
           c.reltuples, c.relallvisible, coalesce(pg_catalog.pg_table_size(c.oid), 0),
           pg_catalog.pg_relation_filenode(c.oid)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY (%s) AND c.relname = ANY (%s)"""
_INDEXES = """
    SELECT n.nspname, x.relname, m.amname, a.attname,
           CASE WHEN k.attnum = 0 THEN x.relname ELSE t.relname END
    FROM pg_catalog.pg_index i
    JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
    JOIN pg_catalog.pg_am m ON m.oid = x.relam
    JOIN pg_catalog.pg_class t ON t.oid = i.indrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
    CROSS JOIN LATERAL pg_catalog.unnest(i.indkey::pg_catalog.int2[])
               WITH ORDINALITY AS k(attnum, number)
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
_LEADER = "SELECT pg_catalog.current_setting('parallel_leader_participation') = 'on'"
_CACHED = """
    SELECT relfilenode, pg_catalog.count(*) FROM {schema}.pg_buffercache
    WHERE relfilenode = ANY (%s::pg_catalog.oid[])
      AND reldatabase = (SELECT oid FROM pg_catalog.pg_database
                         WHERE datname = pg_catalog.current_database())
    GROUP BY relfilenode"""


def collect_facts(connection: psycopg.Connection[Any], plan: Mapping[str, Any]) -> Facts:
    """The facts for a plan, within the caller's transaction."""
    tables = {table for table in map(table_of, plan_nodes(plan)) if table}
    names = [[schema for schema, _ in tables], [name for _, name in tables]]
    memory = connection.execute(_MEMORY).fetchone()
    leader = connection.execute(_LEADER).fetchone()
    assert memory is not None and leader is not None
    relations = _relations(connection, names)
    entries = connection.execute(_INDEXES, names).fetchall()
    owners = [names[0], names[1] + [row[1] for row in entries]]
    columns = _columns(connection, owners, relations)
    return Facts(
        memory=Memory(*memory),
        relations=relations,
        indexes=_indexes(entries, columns),
        columns=columns,
        participation=Participation(leader[0]),
    )


def _relations(connection: psycopg.Connection[Any], names: list[list[str]]) -> dict[Name, Relation]:
    rows = connection.execute(_RELATIONS, names).fetchall()
    cached = _cached_bytes(connection, [row[6] for row in rows if row[6] is not None])
    return {
        (row[0], row[1]): Relation(
            pages=row[2],
            rows=max(row[3], 0.0),
            all_visible_pages=row[4],
            size_bytes=row[5],
            cached_bytes=None if cached is None else cached.get(row[6], 0),
        )
        for row in rows
    }


def _columns(
    connection: psycopg.Connection[Any],
    owners: list[list[str]],
    relations: Mapping[Name, Relation],
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
    entries: Iterable[Sequence[str]], columns: Mapping[Name, Mapping[str, Column]]
) -> dict[Name, Index]:
    found: dict[Name, Index] = {}
    for schema, index, access_method, name, owner in entries:
        known = columns.get((schema, owner), {}).get(name, Column(name, None, None))
        before = found.get((schema, index), Index(access_method, ()))
        found[schema, index] = Index(access_method, (*before.columns, known))
    return found


def _cached_bytes(
    connection: psycopg.Connection[Any], filenodes: Iterable[int]
) -> dict[int, int] | None:
    """Bytes in shared buffers by file, None where pg_buffercache is absent or closed to us."""
    view = find_member(connection, "pg_buffercache", "view", "pg_buffercache")
    if view is None:
        return None
    query = _CACHED.format(schema=view.schema)
    try:
        with connection.transaction():  # a savepoint
            rows = connection.execute(query.encode(), [list(filenodes)]).fetchall()
    except psycopg.errors.InsufficientPrivilege:
        return None
    return {filenode: count * _BLOCK_BYTES for filenode, count in rows}
