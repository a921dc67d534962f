"""Tables to scan, settings that choose how, and what a scan did to the caches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from extension.probes import Connection, Plan, explain, nodes, scalar

BITMAP_SCANS = (
    "SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off"
)
SEQ_SCANS = (
    "SET enable_bitmapscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off"
)
# Look ahead from the first page on, in the smallest table, at pages that are in buffers, too; a
# request for every two pages, whatever a trial would say. Needs a build with LA_TEST=1.
FORCED = "SET pg_lookahead.test_start_after = 0; SET pg_lookahead.bulk_read_size = 2"
# Bitmap heap scans sleep for some rows, and have their stream taken over in mid-scan.
TAKEN_OVER = "SET pg_lookahead.test_start_after = 3; SET pg_lookahead.bulk_read_size = 2"
# Bitmap heap scans change between their two streams after every few pages.
CHANGING = "SET pg_lookahead.test_trial_pages = 3"
OFF = "SET pg_lookahead.enabled = off"
# Pages that cost nothing and rows that cost much make every plan worth a worker.
PARALLEL = (
    "SET random_page_cost = 0; SET seq_page_cost = 0; SET cpu_tuple_cost = 1; "
    "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; "
    "SET min_parallel_index_scan_size = 0; SET min_parallel_table_scan_size = 0"
)
KINDS = ("Bitmap Heap Scan", "Seq Scan")


@dataclass(frozen=True)
class Traces:
    """What a scan gave and left behind: its rows in order and all that PostgreSQL counts."""

    rows: list[tuple[Any, ...]]
    heap_blocks: tuple[tuple[int, int], ...]  # exact, lossy: of each bitmap scan
    pages_used: int  # from shared buffers or read
    pages_read: int
    cached: list[int]  # pages of the table in shared buffers


def make_pages(connection: Connection, name: str, pages: int, *, where: str = "") -> None:
    """A table of two rows a page: k = 0, 1, ... in order, r the same numbers at random."""
    rows = 2 * pages
    connection.execute(f"DROP TABLE IF EXISTS {name}")
    connection.execute(f"CREATE TABLE {name} (k int, r int, pad text) {where}")
    connection.execute(f"ALTER TABLE {name} ALTER pad SET STORAGE PLAIN")
    # 7919 is a prime that divides none of the sizes used, so that r is a permutation.
    connection.execute(
        f"INSERT INTO {name} SELECT i, (i::bigint * 7919 % {max(rows, 1)})::int, repeat('x', 3900) "
        f"FROM generate_series(0, {rows - 1}) i"
    )
    connection.execute(f"CREATE INDEX {name}_k ON {name} (k)")
    connection.execute(f"CREATE INDEX {name}_r ON {name} (r)")
    connection.execute(f"VACUUM (FREEZE, ANALYZE) {name}")
    assert scalar(connection, f"SELECT pg_relation_size('{name}')") == pages * 8192


def make_cold(connection: Connection, name: str) -> None:
    """Take a table out of shared buffers and out of the operating system's cache."""
    skipped = scalar(connection, f"SELECT buffers_skipped FROM pg_lookahead_evict('{name}')")
    assert skipped == 0


def traces(connection: Connection, name: str, sql: str, *, cold: bool = True) -> Traces:
    """Run a statement over one table, twice when rows are to be seen, too: each time cold."""
    if cold:
        make_cold(connection, name)
    before = table_pages(connection, name)
    plan = explain(connection, sql, "ANALYZE, TIMING OFF")
    after = table_pages(connection, name)
    cached = connection.execute(
        "SELECT relblocknumber FROM pg_buffercache WHERE relforknumber = 0 "
        f"AND relfilenode = pg_relation_filenode('{name}') ORDER BY 1"
    ).fetchall()
    if cold:
        make_cold(connection, name)
    rows = connection.execute(sql).fetchall()
    return Traces(
        rows=rows,
        heap_blocks=_heap_blocks(plan),
        pages_used=after[0] - before[0],
        pages_read=after[1] - before[1],
        cached=[int(row[0]) for row in cached],
    )


def _heap_blocks(plan: Plan) -> tuple[tuple[int, int], ...]:
    return tuple(
        (node["Exact Heap Blocks"], node["Lossy Heap Blocks"])
        for node in nodes(plan)
        if node["Node Type"] == "Bitmap Heap Scan"
    )


def table_pages(connection: Connection, name: str) -> tuple[int, int]:
    """Pages of a table that were used, and of these the ones that had to be read, so far.

    Not those of catalogs, which each process of a statement looks at for itself.
    """
    connection.execute("SELECT pg_stat_force_next_flush()")
    row = connection.execute(
        "SELECT heap_blks_read + heap_blks_hit, heap_blks_read FROM pg_statio_user_tables "
        f"WHERE relid = '{name}'::regclass"
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def scans(plan: Plan) -> list[dict[str, Any]]:
    """What EXPLAIN (LOOKAHEAD) says of each scan of a table."""
    return [node["Lookahead"] for node in nodes(plan) if node["Node Type"] in KINDS]


def only_scan(connection: Connection, sql: str) -> dict[str, Any]:
    """What it says of the only one, with the kind of the node."""
    found = [
        {**node["Lookahead"], "Node Type": node["Node Type"]}
        for node in nodes(explain(connection, sql))
        if node["Node Type"] in KINDS
    ]
    assert len(found) == 1
    return found[0]


def both_ways(connection: Connection, statements: Sequence[str], on: str = FORCED) -> list[Any]:
    """The results of the last of some statements: left to core, and with look-ahead."""
    results = []
    for settings in (OFF, f"SET pg_lookahead.enabled = on; {on}"):
        connection.execute(settings)
        for statement in statements[:-1]:
            connection.execute(statement)
        results.append(connection.execute(statements[-1]).fetchall())
    return results
