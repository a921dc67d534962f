"""Asks the catalogs for what advice needs to know about the tables of a plan."""

from collections.abc import Iterable, Mapping
from typing import Any

import psycopg

from lookahead.check.advice import Facts, Memory, Relation, plan_nodes, table_of

_BLOCK_BYTES = 8192
_MEMORY = """
    SELECT pg_size_bytes(current_setting('shared_buffers')),
           pg_size_bytes(current_setting('effective_cache_size'))"""
_RELATIONS = """
    SELECT n.nspname, c.relname, pg_relation_size(c.oid) / current_setting('block_size')::int,
           c.reltuples, c.relallvisible, pg_table_size(c.oid), pg_relation_filenode(c.oid)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY (%s) AND c.relname = ANY (%s)"""
# pg_stats shows what the role may read.
_CORRELATIONS = """
    SELECT n.nspname, x.relname, s.correlation
    FROM pg_index i
    JOIN pg_class x ON x.oid = i.indexrelid
    JOIN pg_class t ON t.oid = i.indrelid
    JOIN pg_namespace n ON n.oid = t.relnamespace
    JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[0]
    JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = t.relname
                   AND s.attname = a.attname AND NOT s.inherited
    WHERE n.nspname = ANY (%s) AND t.relname = ANY (%s) AND s.correlation IS NOT NULL"""
_CACHED = """
    SELECT relfilenode, count(*) FROM pg_buffercache
    WHERE relfilenode = ANY (%s)
      AND reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
    GROUP BY relfilenode"""


def collect_facts(connection: psycopg.Connection[Any], plan: Mapping[str, Any]) -> Facts:
    """The facts for a plan, within the caller's transaction."""
    tables = {table for table in map(table_of, plan_nodes(plan)) if table}
    names = [[schema for schema, _ in tables], [name for _, name in tables]]
    memory = connection.execute(_MEMORY).fetchone()
    assert memory is not None
    rows = connection.execute(_RELATIONS, names).fetchall()
    cached = _cached_bytes(connection, [row[6] for row in rows if row[6] is not None])
    return Facts(
        memory=Memory(*memory),
        relations={
            (row[0], row[1]): Relation(
                pages=row[2],
                rows=max(row[3], 0.0),
                all_visible_pages=row[4],
                size_bytes=row[5],
                cached_bytes=None if cached is None else cached.get(row[6], 0),
            )
            for row in rows
        },
        correlations={
            (row[0], row[1]): row[2] for row in connection.execute(_CORRELATIONS, names).fetchall()
        },
    )


def _cached_bytes(
    connection: psycopg.Connection[Any], filenodes: Iterable[int]
) -> dict[int, int] | None:
    """Bytes in shared buffers by file, None where pg_buffercache is absent or closed to us."""
    found = connection.execute("SELECT to_regclass('pg_buffercache') IS NOT NULL").fetchone()
    if found is None or not found[0]:
        return None
    try:
        with connection.transaction():  # a savepoint
            rows = connection.execute(_CACHED, [list(filenodes)]).fetchall()
    except psycopg.errors.InsufficientPrivilege:
        return None
    return {filenode: count * _BLOCK_BYTES for filenode, count in rows}
