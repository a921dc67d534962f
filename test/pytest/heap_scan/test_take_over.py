"""Bitmap heap scans whose stream is taken over in mid-scan, and begun anew; what that leaves."""

import pytest
from extension.probes import Connection, explain, nodes, scalar

from heap_scan.probes import (
    BITMAP_SCANS,
    FORCED,
    OFF,
    SEQ_SCANS,
    TAKEN_OVER,
    make_cold,
    make_pages,
    only_scan,
    scans,
    traces,
)

_PAGES = 1_200
_LOOPS = "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off"
# Pages or rows in buffers after which a scan sleeps: LA_SLEEP_AFTER of la_wake.h.
_SLEEP_AFTER = 128
# What freed memory of another order of calls is scattered into.
_BYTES_A_SCAN = 48


@pytest.fixture(autouse=True)
def _table(connection: Connection) -> None:
    if scalar(connection, "SELECT to_regclass('t') IS NULL"):
        make_pages(connection, "t", _PAGES)
    connection.execute(f"{BITMAP_SCANS}; {_LOOPS}")


def _nested(limit: str) -> str:
    """Bitmaps of many sizes, each of which begins the inner scan anew."""
    return (
        "SELECT g, x.k, x.ctid FROM generate_series(0, 25) g, LATERAL (SELECT k, ctid FROM t "
        f"WHERE r BETWEEN g * 80 AND g * 80 + g * 7 % 60 {limit}) x"
    )


@pytest.mark.parametrize("after", [1, 2, 7, 20, 55, 150, 400])
def test_rescans_read_the_same_blocks(connection: Connection, after: int) -> None:
    """The take-over may lie in any bitmap; cold, each is scanned to its end."""
    connection.execute(OFF)
    stock = traces(connection, "t", _nested("OFFSET 0"))
    assert len(stock.rows) > 500
    connection.execute(f"RESET pg_lookahead.enabled; {TAKEN_OVER}")
    connection.execute(f"SET pg_lookahead.test_start_after = {after}")
    assert traces(connection, "t", _nested("OFFSET 0")) == stock
    (scan,) = scans(explain(connection, _nested("OFFSET 0")))
    assert scan["Scans"] >= 1


@pytest.mark.parametrize("after", [1, 2, 3, 5, 30, 60])
@pytest.mark.parametrize("limit", ["LIMIT 1", "LIMIT 1 + g % 4", "LIMIT 7"])
def test_rescans_that_stop_while_core_s_stream_ends(
    connection: Connection, limit: str, after: int
) -> None:
    """What core's stream had taken is dropped; of pages in buffers no stream takes any ahead."""
    connection.execute(OFF)
    query = _nested(limit)
    connection.execute("SELECT count(pad) FROM t WHERE r >= 0")
    stock = traces(connection, "t", query, cold=False)
    connection.execute(f"RESET pg_lookahead.enabled; {TAKEN_OVER}")
    connection.execute(f"SET pg_lookahead.test_start_after = {after}")
    ours = traces(connection, "t", query, cold=False)
    assert (ours.rows, ours.heap_blocks) == (stock.rows, stock.heap_blocks)
    # A stream takes one page ahead, but for the one that is being used up.
    assert stock.pages_used - 1 <= ours.pages_used <= stock.pages_used
    assert ours.pages_read == 0


def test_ours_follows_after_a_rescan(connection: Connection) -> None:
    """The first bitmap is done with while core's stream is being used up."""
    connection.execute(f"{TAKEN_OVER}; SET pg_lookahead.test_start_after = 1")
    make_cold(connection, "t")
    (scan,) = scans(explain(connection, _nested("LIMIT 1 + 10 * g")))
    assert scan["Advised Blocks"] > 100


def test_a_scan_that_reads_some_pages_goes_back_to_sleep(connection: Connection) -> None:
    """Cold at its beginning and in buffers from there on: it stops to look at those."""
    connection.execute("CREATE EXTENSION IF NOT EXISTS pg_prewarm")
    cold = 60
    # Each second page, which is not dense.
    query = "SELECT k, pad FROM t WHERE k = ANY (ARRAY(SELECT generate_series(0, 2399, 4)))"
    make_cold(connection, "t")
    connection.execute(f"SELECT pg_prewarm('t', 'buffer', 'main', {cold}, {_PAGES - 1})")
    scan = only_scan(connection, query)
    assert cold / 4 < scan["Prefetched Blocks"] < cold / 2 + 2 * _SLEEP_AFTER
    # Twice as many pages follow, of which none is looked at.
    assert scan["Prefetched Blocks"] < _PAGES / 2 - _SLEEP_AFTER


@pytest.mark.parametrize("cold", [{3}, {0, 2, 6}, set()])
def test_rescans_that_find_all_pages_in_buffers_are_not_counted(
    connection: Connection, cold: set[int]
) -> None:
    """A node that has woken sleeps again when it begins anew."""
    pages = 40  # of each bitmap
    query = (
        "SELECT g, x.n FROM generate_series(0, 7) g CROSS JOIN LATERAL (SELECT count(pad) AS n "
        f"FROM t WHERE k BETWEEN g * {2 * pages} AND g * {2 * pages} + {2 * pages - 1}) x"
    )
    _warm_but(
        connection, {page for part in cold for page in range(part * pages, pages * (part + 1))}
    )
    (scan,) = scans(explain(connection, query))
    assert scan["Scans"] == len(cold)


def test_cached_sequential_scans_are_not_counted(connection: Connection) -> None:
    connection.execute(
        f"{SEQ_SCANS}; SET enable_seqscan = on; SET enable_material = off; "
        "SET pg_lookahead.bulk_read_size = 2"
    )
    query = (
        "SELECT g, x.n FROM generate_series(1, 4) g CROSS JOIN LATERAL "
        "(SELECT count(pad) AS n FROM t WHERE k >= 0 * g) x"
    )
    for cold, expected in ((range(0), 0), (range(600, 700), 1)):
        _warm_but(connection, set(cold))
        (scan,) = scans(explain(connection, query))
        assert scan["Scans"] == expected


def _warm_but(connection: Connection, cold: set[int]) -> None:
    """All pages of the table are in shared buffers, but for some that are in no cache."""
    connection.execute("CREATE EXTENSION IF NOT EXISTS pg_prewarm")
    make_cold(connection, "t")
    connection.execute(
        "SELECT count(pg_prewarm('t', 'buffer', 'main', page, page)) FROM unnest(%s::int[]) page",
        (sorted(set(range(_PAGES)) - cold),),
    )


@pytest.mark.parametrize("condition", ["r < 300", "k >= 0"])
def test_a_cached_scan_keeps_nothing_and_looks_at_nothing(
    connection: Connection, condition: str
) -> None:
    """Neither is it registered: all its memory is that of PostgreSQL's own scan."""
    query = f"SELECT k, pad FROM t WHERE {condition}"
    connection.execute(query)
    used = []
    for setting in ("off", "on"):
        connection.execute(f"SET pg_lookahead.enabled = {setting}")
        with connection.transaction():
            connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {query}")
            connection.execute("FETCH 200 FROM c")
            used.append(_executor_bytes(connection))
    assert used[0] == used[1]
    (scan,) = scans(explain(connection, query))
    assert scan["Scans"] == 0


def _executor_bytes(connection: Connection) -> int:
    """Of the query that has most."""
    return int(
        scalar(
            connection,
            "SELECT max(used_bytes) FROM pg_backend_memory_contexts WHERE name = 'ExecutorState'",
        )
    )


def test_take_over_leaves_no_memory(connection: Connection) -> None:
    """A scan that was taken over keeps what one keeps that was ours from the beginning."""
    parts = 120
    if scalar(connection, "SELECT to_regclass('m') IS NULL"):
        connection.execute("CREATE TABLE m (k int, part int, pad text) PARTITION BY LIST (part)")
        connection.execute(
            f"DO $$ BEGIN FOR i IN 1..{parts} LOOP "
            "EXECUTE format('CREATE TABLE m_%s PARTITION OF m FOR VALUES IN (%s)', i, i); "
            "END LOOP; END $$"
        )
        connection.execute(
            "INSERT INTO m SELECT i, p, 'x' "
            f"FROM generate_series(1, 20) i, generate_series(1, {parts}) p"
        )
        connection.execute("CREATE INDEX ON m (k); ANALYZE m")
    query = "SELECT k, part FROM m WHERE k > 0"
    assert any(node["Node Type"] == "Append" for node in nodes(explain(connection, query)))
    used = []
    for settings in (FORCED, TAKEN_OVER):
        connection.execute(settings)
        with connection.transaction():
            connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {query}")
            connection.execute(f"FETCH {20 * parts - 1} FROM c")
            used.append(_executor_bytes(connection))
    assert used[1] - used[0] < _BYTES_A_SCAN * parts
