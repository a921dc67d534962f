"""Block for block what stock reads: rows in order, counts, and nothing more in shared buffers."""

from dataclasses import dataclass

import pytest
from extension.probes import Connection, explain, scalar

from heap_scan.probes import (
    BITMAP_SCANS,
    FORCED,
    OFF,
    SEQ_SCANS,
    make_pages,
    only_scan,
    scans,
    traces,
)

_PAGES = 1_500
_ROWS = 2 * _PAGES
_LOSSY = "SET work_mem = '64kB'"  # a bitmap of some 900 pages at most


@dataclass(frozen=True)
class Shape:
    """A bitmap: the condition that makes it, settings, and the least that it must consist of."""

    condition: str
    settings: str = ""
    exact: int = 0
    lossy: int = 0


_SHAPES = {
    "every_other_page": Shape("k % 4 = 0 AND k >= 0", exact=_PAGES),
    "every_other_by_list": Shape("k = ANY (multiples(4))", exact=_PAGES // 2),
    "every_ninth_by_list": Shape("k = ANY (multiples(18))", exact=_PAGES // 9),
    "a_run": Shape("k BETWEEN 300 AND 900", exact=300),
    "at_random": Shape("r < 300", exact=200),
    "one_page": Shape("k = 77", exact=1),
    "no_page": Shape("k = -1"),
    "lossy": Shape("k = ANY (multiples(2))", _LOSSY, lossy=100),
    "lossy_at_random": Shape("r < 2000", _LOSSY, lossy=100),
    "both": Shape("k > 1000 AND r < 1500", exact=300),
    "either": Shape("k < 500 OR r < 500", exact=300),
    "either_lossy": Shape("k < 1500 OR r < 1500", _LOSSY, lossy=100),
    "gin": Shape("ARRAY[k % 10] @> '{3}'", exact=_PAGES // 5),
    "brin": Shape("h BETWEEN 100 AND 160", "SET enable_seqscan = off", lossy=90),
    "gist": Shape("point(k, r) <@ box(point(0, 0), point(3000, 400))", exact=200),
}


@pytest.fixture(autouse=True)
def _table(connection: Connection) -> None:
    connection.execute(
        "CREATE OR REPLACE FUNCTION multiples(step int) RETURNS int[] IMMUTABLE "
        f"RETURN ARRAY(SELECT generate_series(0, {_ROWS - 1}, step))"
    )
    if scalar(connection, "SELECT to_regclass('b') IS NULL"):
        make_pages(connection, "b", _PAGES)
        connection.execute("ALTER TABLE b ADD COLUMN h int GENERATED ALWAYS AS (k / 10) STORED")
        connection.execute("CREATE INDEX ON b USING gin ((ARRAY[k % 10]))")
        connection.execute("CREATE INDEX ON b USING brin (h) WITH (pages_per_range = 3)")
        connection.execute("CREATE INDEX ON b USING gist (point(k, r))")
        connection.execute("VACUUM (FREEZE, ANALYZE) b")
    connection.execute(BITMAP_SCANS)


@pytest.mark.parametrize("shape", _SHAPES.values(), ids=_SHAPES.keys())
def test_bitmap_scans_read_the_same_blocks(connection: Connection, shape: Shape) -> None:
    sql = f"SELECT k, r, ctid FROM b WHERE {shape.condition}"
    connection.execute(shape.settings)
    connection.execute(OFF)
    stock = traces(connection, "b", sql)
    ((exact, lossy),) = stock.heap_blocks
    assert exact >= shape.exact
    assert lossy >= shape.lossy
    connection.execute("RESET pg_lookahead.enabled")
    assert traces(connection, "b", sql) == stock
    assert traces(connection, "b", sql, cold=False).rows == stock.rows
    for gap_limit in (0, 1, 7, 256):
        connection.execute(f"{FORCED}; SET pg_lookahead.gap_limit = {gap_limit}")
        assert traces(connection, "b", sql) == stock
    for trial_pages in (1, 2, 30):  # between two changes of the stream
        connection.execute(f"SET pg_lookahead.test_trial_pages = {trial_pages}")
        assert traces(connection, "b", sql) == stock
    for rows in (1, 2, 7, 150):  # after which ours follows core's stream, of the trial's length
        connection.execute(f"SET pg_lookahead.test_start_after = {rows}")
        assert traces(connection, "b", sql) == stock
    connection.execute("SET pg_lookahead.test_trial_pages = 0")
    assert traces(connection, "b", sql) == stock
    connection.execute("SET pg_lookahead.prefetch_distance = 1")
    assert traces(connection, "b", sql) == stock


def test_gaps_are_read_through_and_never_enter_shared_buffers(connection: Connection) -> None:
    """The comparison above is one of scans that did bridge gaps."""
    connection.execute("SELECT pg_lookahead_evict('b')")
    connection.execute("SET pg_lookahead.gap_limit = 256")
    scan = only_scan(connection, "SELECT k, pad FROM b WHERE k = ANY (multiples(4))")
    assert scan["Bridged Blocks"] > 0.3 * _PAGES
    assert scan["Requests"] < _PAGES / 10
    cached = scalar(
        connection,
        "SELECT count(*) FROM pg_buffercache WHERE relforknumber = 0 "
        "AND relfilenode = pg_relation_filenode('b')",
    )
    assert cached == _PAGES // 2


@pytest.mark.parametrize("pages", [0, 1, 2, 15, 16, 17, 127, 128, 129, 130])
def test_tables_of_few_pages(connection: Connection, pages: int) -> None:
    """The last page, and sizes around those of requests, runs and windows."""
    make_pages(connection, "few", pages)
    queries = {
        "Bitmap Heap Scan": (BITMAP_SCANS, "k >= 0"),
        "Seq Scan": (SEQ_SCANS, "k >= 0"),
    }
    for kind, (settings, condition) in queries.items():
        sql = f"SELECT k, r, ctid FROM few WHERE {condition}"
        connection.execute("RESET ALL")
        connection.execute(settings)
        connection.execute(OFF)
        stock = traces(connection, "few", sql)
        assert [row[0] for row in stock.rows] == list(range(2 * pages))
        connection.execute(f"RESET pg_lookahead.enabled; {FORCED}")
        for size in (1, 16, 128):
            connection.execute(f"SET pg_lookahead.bulk_read_size = {size}")
            assert traces(connection, "few", sql) == stock
        scan = only_scan(connection, sql)
        assert scan["Node Type"] == kind
        assert scan["Scans"] == (pages > 0)


@pytest.mark.parametrize("leader", ["on", "off"])
def test_processes_of_a_parallel_scan_read_each_block_once(
    connection: Connection, leader: str
) -> None:
    connection.execute(
        "SET random_page_cost = 0; SET seq_page_cost = 0; SET cpu_tuple_cost = 1; "
        "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; "
        "SET min_parallel_index_scan_size = 0; SET min_parallel_table_scan_size = 0; "
        f"SET parallel_leader_participation = {leader}; SET max_parallel_workers_per_gather = 2"
    )
    for settings, condition in ((BITMAP_SCANS, "r < 2500"), (SEQ_SCANS, "r < 2500")):
        connection.execute(f"SET enable_seqscan = on; SET enable_bitmapscan = on; {settings}")
        sql = f"SELECT k, ctid FROM b WHERE {condition}"
        connection.execute(OFF)
        stock = traces(connection, "b", sql)
        connection.execute(f"RESET pg_lookahead.enabled; {FORCED}")
        plan = explain(connection, sql)
        assert plan["Node Type"] == "Gather"
        assert len(scans(plan)) == 1
        ours = traces(connection, "b", sql)
        assert sorted(ours.rows) == sorted(stock.rows)
        assert ours.cached == stock.cached
        assert ours.pages_used == stock.pages_used
