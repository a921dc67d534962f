"""An outer table of few pages, inner ones of a page for each row, and how to make them cold."""

from __future__ import annotations

from typing import Any

from extension.parts import make_pages
from extension.probes import Connection, Plan, explain, nodes, scalar
from segments import segments_of
from server_log import WatchedServer

from lookahead.cold import forget

PAGES = 400
OUTER_ROWS = 300
LOOPS_ONLY = (
    "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; "
    "SET enable_memoize = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; "
    "SET max_parallel_workers_per_gather = 0"
)
# `ref` and `wide` visit inner_rows at random, some rows have none; `zero` is 0 in row 250.
_OUTER = f"""
CREATE TABLE outer_rows (id int, ref int, wide bigint, zero int, big numeric, name text);
INSERT INTO outer_rows SELECT i, nullif((i * 11 % {PAGES + 20})::int, 14), (i * 11 % {PAGES + 20}),
    i - 250, i, 'name ' || i FROM generate_series(0, {OUTER_ROWS - 1}) i;
VACUUM ANALYZE outer_rows;
CREATE TABLE grown AS SELECT id FROM outer_rows;
ALTER TABLE grown ADD added int DEFAULT 77;
ANALYZE grown
"""
# Some eight rows for each key, on as many pages; a name and an expression for each row.
_MANY = f"""
CREATE TABLE many (k int, g int, name text, pad text);
ALTER TABLE many ALTER pad SET STORAGE PLAIN;
INSERT INTO many SELECT i * 7919 % 50, i, 'name ' || i, repeat('x', 5000)
    FROM generate_series(0, {PAGES - 1}) i;
CREATE INDEX many_k ON many (k, g);
CREATE INDEX many_name ON many (name, g);
CREATE INDEX many_expression ON many ((g * 2));
CREATE INDEX many_partial ON many (g) WHERE k < 25;
ANALYZE many
"""


def make_tables(connection: Connection) -> None:
    for statement in (*_OUTER.split(";"), *_MANY.split(";")):
        connection.execute(statement)
    make_pages(connection, "inner_rows", PAGES)
    make_pages(connection, "third", PAGES)


def make_cold(server: WatchedServer, connection: Connection, *tables: str) -> None:
    """Tables and their indexes are in no memory at all."""
    connection.execute("CHECKPOINT")
    for table in tables:
        indexes = connection.execute(
            "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = %s::regclass", [table]
        ).fetchall()
        skipped = scalar(connection, f"SELECT buffers_skipped FROM pg_lookahead_evict('{table}')")
        assert skipped == 0
        for name in (table, *(index for (index,) in indexes)):
            for path in segments_of(server, connection, name):
                forget(path)


def loops(plan: Plan) -> list[dict[str, Any]]:
    """What EXPLAIN says about look-ahead of each nested loop, parents first."""
    return [
        node["Lookahead"]
        for node in nodes(plan)
        if node["Node Type"] == "Nested Loop" and "Lookahead" in node
    ]


def cold_loops(
    server: WatchedServer, connection: Connection, query: str, *tables: str
) -> list[dict[str, Any]]:
    """The same of a query whose inner tables are cold."""
    make_cold(server, connection, *(tables or ("inner_rows",)))
    return loops(explain(connection, query))


def stock_rows(connection: Connection, query: str) -> list[tuple[Any, ...]]:
    """The rows of PostgreSQL's own code."""
    connection.execute("SET pg_lookahead.enabled = off")
    rows = connection.execute(query).fetchall()
    connection.execute("RESET pg_lookahead.enabled")
    return rows


def drawn(connection: Connection) -> int:
    """Outer rows that this session has drawn ahead so far, in queries that are over."""
    return int(
        scalar(
            connection,
            "SELECT drawn_rows FROM pg_stat_lookahead WHERE feature = 'nested_loop'",
        )
    )
