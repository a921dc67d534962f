"""Parallel scans: rescans of a Gather, errors while a bitmap is built, few processes."""

import psycopg
import pytest
from extension.probes import Connection, explain, nodes, scalar
from server_log import WatchedServer

from heap_scan.probes import (
    BITMAP_SCANS,
    CHANGING,
    FORCED,
    OFF,
    PARALLEL,
    SEQ_SCANS,
    both_ways,
    make_cold,
    make_pages,
    scans,
)

_PAGES = 600
_RESCANS = 1_000
_QUERY = "SELECT count(*), sum(k), sum(r), min(pad) FROM p WHERE r < 700"


@pytest.fixture(autouse=True)
def _table(connection: Connection) -> None:
    if scalar(connection, "SELECT to_regclass('p') IS NULL"):
        make_pages(connection, "p", _PAGES)
    connection.execute(f"{PARALLEL}; {FORCED}; {BITMAP_SCANS}")


@pytest.mark.parametrize("settings", [BITMAP_SCANS, SEQ_SCANS], ids=["bitmap", "seq"])
@pytest.mark.parametrize(
    ("workers", "leader"), [(0, "on"), (1, "on"), (2, "on"), (4, "on"), (2, "off"), (4, "off")]
)
def test_each_row_once(connection: Connection, workers: int, leader: str, settings: str) -> None:
    connection.execute(f"SET enable_seqscan = on; SET enable_bitmapscan = on; {settings}")
    connection.execute(f"SET max_parallel_workers_per_gather = {workers}")
    connection.execute(f"SET parallel_leader_participation = {leader}")
    connection.execute(OFF)
    expected = connection.execute(_QUERY).fetchone()
    connection.execute("SET pg_lookahead.enabled = on")
    plan = explain(connection, _QUERY)
    assert any(node["Node Type"] == "Gather" for node in nodes(plan)) == (workers > 0)
    for turn in range(6):
        if turn % 2:
            make_cold(connection, "p")
        assert connection.execute(_QUERY).fetchone() == expected


def test_no_worker_to_be_had(connection: Connection) -> None:
    connection.execute("SET max_parallel_workers = 0")
    assert scalar(connection, _QUERY) == 700


@pytest.mark.parametrize("settings", [BITMAP_SCANS, SEQ_SCANS], ids=["bitmap", "seq"])
def test_gather_is_rescanned_many_times(connection: Connection, settings: str) -> None:
    """Below a nested loop: each time the workers are new, the leader's scan is the same one."""
    connection.execute(
        f"SET enable_seqscan = on; SET enable_bitmapscan = on; {settings}; "
        "SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off; "
        "SET enable_memoize = off; SET max_parallel_workers_per_gather = 1"
    )
    query = (
        f"SELECT g, x.n, x.s FROM generate_series(1, {_RESCANS}) g LEFT JOIN "
        "(SELECT count(pad) AS n, sum(k) AS s FROM p WHERE r < 60) x ON true"
    )
    plan = explain(connection, query.replace(str(_RESCANS), "3"))
    assert any(node["Node Type"] == "Gather" and node["Actual Loops"] == 3 for node in nodes(plan))
    assert len(scans(plan)) == 1
    expected = scalar(connection, "SELECT sum(k) FROM p WHERE r < 60")
    rows = connection.execute(query).fetchall()
    assert rows == [(g, 60, expected) for g in range(1, _RESCANS + 1)]


def test_error_while_the_bitmap_is_built_reaches_everybody(
    server: WatchedServer, connection: Connection
) -> None:
    """One process builds and fails; the others wait for it and must not do so for ever."""
    connection.execute(
        "CREATE OR REPLACE FUNCTION fails(at int) RETURNS int STABLE PARALLEL SAFE "
        "LANGUAGE plpgsql AS $$ BEGIN "
        # Not while the statement is planned: then every backend is a leader with no workers.
        "IF current_setting('statement_timeout') = '50s' THEN PERFORM pg_sleep(0.05); "
        "RAISE EXCEPTION 'no bitmap'; END IF; RETURN at; END $$"
    )
    connection.execute("SET plan_cache_mode = force_generic_plan")
    connection.execute("PREPARE q AS SELECT count(pad) FROM p WHERE r < fails(700)")
    assert scalar(connection, "EXECUTE q") == 700
    assert "Gather" in str(connection.execute("EXPLAIN EXECUTE q").fetchall())
    connection.execute("SET statement_timeout = '50s'")
    for leader in ("on", "off"):
        connection.execute(f"SET parallel_leader_participation = {leader}")
        for _ in range(5):
            with pytest.raises(psycopg.errors.RaiseException, match="no bitmap"):
                connection.execute("EXECUTE q")
    connection.execute("RESET statement_timeout")
    assert scalar(connection, "EXECUTE q") == 700


def test_rows_of_an_outer_scan_choose_the_bitmap(connection: Connection) -> None:
    """Serial rescans, each with a bitmap of its own: exact, empty and lossy ones."""
    connection.execute("SET max_parallel_workers_per_gather = 0; SET enable_memoize = off")
    query = (
        "SELECT g, x.n, x.s, x.f FROM generate_series(1, 600) g CROSS JOIN LATERAL "
        "(SELECT count(pad) AS n, sum(k) AS s, array_agg(k) AS f FROM p "
        "WHERE r BETWEEN g * 3 AND g * 3 + g % 50 - 1) x"
    )
    stock, ours = both_ways(connection, [query])
    assert ours == stock
    (scan,) = scans(explain(connection, query))
    assert scan["Scans"] == 600
    connection.execute(CHANGING)
    assert connection.execute(query).fetchall() == stock
    connection.execute("SET work_mem = '64kB'")
    assert connection.execute(query).fetchall() == stock
    limited = query.replace("array_agg(k) AS f FROM p", "array_agg(k) AS f FROM (SELECT * FROM p")
    limited = limited.replace("- 1) x", "- 1 LIMIT 3) q) x")
    stock, ours = both_ways(connection, [limited])
    assert ours == stock


def test_workers_say_what_they_did(connection: Connection) -> None:
    """With the leader left out they do everything; EXPLAIN shows it, and the view does."""
    connection.execute("SET parallel_leader_participation = off")
    view = "SELECT scans, requests FROM pg_stat_lookahead WHERE feature = 'bitmap_scan'"
    before = connection.execute(view).fetchone()
    make_cold(connection, "p")
    (scan,) = scans(explain(connection, "SELECT count(pad) FROM p WHERE r < 900"))
    after = connection.execute(view).fetchone()
    assert before is not None
    assert after is not None
    grown = [new - old for old, new in zip(before, after, strict=True)]
    assert grown == [scan["Scans"], scan["Requests"]]
    assert scan["Scans"] >= 1
    # A process pauses when as many requests find their pages in memory, where the other
    # process's reading ahead may have brought them (la_residency.c); else it asks for all.
    assert scan["Advised Blocks"] >= 2 * 16
    assert scan["Prefetched Blocks"] > 500


def test_each_process_asks_for_pages_of_its_own_chunk(connection: Connection) -> None:
    """Of a table so large that processes get several pages at a time."""
    pages = 8_200
    make_pages(connection, "large", pages)
    connection.execute(f"SET enable_seqscan = on; {SEQ_SCANS}")
    query = "SELECT count(*), sum(k), sum(r), count(DISTINCT ctid) FROM large"
    stock, ours = both_ways(connection, [query])
    assert ours == stock
    # A request may be longer than a chunk, which has four pages.
    connection.execute("SET pg_lookahead.bulk_read_size = 16")
    make_cold(connection, "large")
    (scan,) = scans(explain(connection, "SELECT count(pad) FROM large"))
    # The first page of each chunk is read on its turn, and hardly any is asked for while the
    # kernel reads ahead by itself. No page is asked for by two processes.
    assert 100 < scan["Advised Blocks"] < pages
    assert scan["Advised Blocks"] <= 3 * scan["Requests"]
    connection.execute("DROP TABLE large")
