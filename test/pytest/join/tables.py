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
# The rows of inner_rows in two partitions, whose columns lie in another order.
PARTITIONS = ("parts_low", "parts_high")
_PARTS = f"""
CREATE TABLE parts (k int, g int, pad text) PARTITION BY RANGE (k);
CREATE TABLE parts_low PARTITION OF parts FOR VALUES FROM (MINVALUE) TO ({PAGES // 3});
CREATE TABLE parts_high (pad text, g int, k int);
ALTER TABLE parts ATTACH PARTITION parts_high FOR VALUES FROM ({PAGES // 3}) TO (MAXVALUE);
ALTER TABLE parts ALTER pad SET STORAGE PLAIN;
INSERT INTO parts (k, g, pad) SELECT k, g, pad FROM inner_rows;
CREATE INDEX ON parts (k);
CREATE INDEX ON parts (g);
ANALYZE parts
"""
# The same rows with a key of a type whose parts are compared by functions that may be a user's.
ARRAYS = ("by_array", "parts_by_array_low", "parts_by_array_high")
_ARRAYS = """
CREATE TABLE by_array AS SELECT ARRAY[k] AS k, g, pad FROM inner_rows;
CREATE INDEX by_array_k ON by_array (k);
CREATE TABLE parts_by_array (k int[], g int, pad text) PARTITION BY RANGE (k);
CREATE TABLE parts_by_array_low PARTITION OF parts_by_array FOR VALUES FROM (MINVALUE) TO ('{99}');
CREATE TABLE parts_by_array_high PARTITION OF parts_by_array FOR VALUES FROM ('{99}') TO (MAXVALUE);
INSERT INTO parts_by_array SELECT * FROM by_array;
CREATE INDEX ON parts_by_array (g);
ANALYZE by_array, parts_by_array
"""

# The rows of third in two partitions, of which one has no index that is looked up ahead, and the
# other six rows for each key.
MIXED = ("mixed_low", "mixed_high")
_MIXED = """
CREATE TABLE mixed (k int, g int, pad text) PARTITION BY RANGE (k);
CREATE TABLE mixed_low (k int, g int, pad text);
ALTER TABLE mixed ATTACH PARTITION mixed_low FOR VALUES FROM (MINVALUE) TO (100);
CREATE TABLE mixed_high PARTITION OF mixed FOR VALUES FROM (100) TO (MAXVALUE);
ALTER TABLE mixed_high ALTER pad SET STORAGE PLAIN;
INSERT INTO mixed SELECT CASE WHEN k < 100 THEN k ELSE 100 + k % 50 END, g, pad FROM third;
CREATE INDEX ON mixed_low USING hash (k);
CREATE INDEX ON mixed_high (k);
ANALYZE mixed
"""


def make_tables(connection: Connection) -> None:
    for statement in (*_OUTER.split(";"), *_MANY.split(";")):
        connection.execute(statement)
    make_pages(connection, "inner_rows", PAGES)
    make_pages(connection, "third", PAGES)
    make_pages(connection, "unlogged_rows", PAGES, persistence="UNLOGGED")
    for statement in (*_PARTS.split(";"), *_ARRAYS.split(";"), *_MIXED.split(";")):
        connection.execute(statement)


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
