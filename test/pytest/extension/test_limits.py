"""Scans that end early: a LIMIT reads hardly more than stock, a point lookup nothing more."""

import pytest
from server_log import WatchedServer

from extension.probes import (
    AWAKE,
    STREAM_ALWAYS,
    Connection,
    buffers,
    explain,
    make_shuffled,
    nodes,
    scalar,
    streamed_scans,
)

# Pages that a LIMIT k may read beyond stock.
EXTRA = {1: 0, 10: 2, 100: 8}


@pytest.fixture(autouse=True)
def _table(connection: Connection) -> None:
    if scalar(connection, "SELECT to_regclass('l') IS NULL"):
        make_shuffled(connection, "l", 20_000)
        connection.execute("ALTER TABLE l ADD UNIQUE (k)")
        connection.execute("VACUUM ANALYZE l")


def _limit_buffers(connection: Connection, query: str) -> list[int]:
    """Buffers of a cold query in stock's arm and in ours, twice to be past catalogue reads."""
    counts = []
    for setting in ("off", "on"):
        connection.execute(f"SET pg_lookahead.enabled = {setting}")
        explain(connection, query, "ANALYZE, BUFFERS")
        counts.append(buffers(explain(connection, query, "ANALYZE, BUFFERS")))
    return counts


@pytest.mark.parametrize("count", EXTRA)
@pytest.mark.parametrize("stream", [AWAKE, STREAM_ALWAYS], ids=["mid_scan", "forced"])
def test_limit_reads_hardly_more_than_stock(
    connection: Connection, count: int, stream: str
) -> None:
    connection.execute(stream)
    stock, ours = _limit_buffers(
        connection, f"SELECT * FROM l WHERE k >= 500 ORDER BY k LIMIT {count}"
    )
    assert stock >= count
    assert ours <= stock + EXTRA[count]


@pytest.mark.parametrize("count", EXTRA)
def test_offset_counts_too(connection: Connection, count: int) -> None:
    stock, ours = _limit_buffers(
        connection, f"SELECT * FROM l WHERE k >= 500 ORDER BY k LIMIT {count} OFFSET 50"
    )
    assert ours <= stock + EXTRA[count]


@pytest.mark.parametrize("count", [1, 10, 100])
def test_rows_fetched_by_a_cursor_read_hardly_more(connection: Connection, count: int) -> None:
    """What a first FETCH reads; a cursor looks at most eight pages ahead."""
    read = []
    for setting in ("off", "on"):
        connection.execute(f"SET pg_lookahead.enabled = {setting}")
        with connection.transaction():
            before = _heap_accesses(connection)
            connection.execute(
                "DECLARE c NO SCROLL CURSOR FOR SELECT * FROM l WHERE k >= 500 ORDER BY k"
            )
            connection.execute(f"FETCH {count} FROM c")
            read.append(_heap_accesses(connection) - before)
    assert read[1] <= read[0] + 9


def _heap_accesses(connection: Connection) -> int:
    return int(scalar(connection, "SELECT pg_stat_get_xact_blocks_fetched('l'::regclass)"))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM l WHERE k = 77",
        "SELECT * FROM l WHERE k >= 77 ORDER BY k LIMIT 1",
        "SELECT * FROM l WHERE k IN (1, 5000, 9)",
        "SELECT * FROM generate_series(1, 300) g JOIN l ON l.k = g",
        "SELECT * FROM l WHERE EXISTS (SELECT 1 FROM l b WHERE b.k = l.k AND b.pad > '') AND k < 3",
    ],
)
def test_short_scans_never_build_a_stream(connection: Connection, query: str) -> None:
    connection.execute("RESET pg_lookahead.test_start_after")
    connection.execute("SET enable_hashjoin = off; SET enable_mergejoin = off")
    plan = explain(connection, query)
    assert any(node["Node Type"] == "Index Scan" for node in nodes(plan))
    assert streamed_scans(plan) == 0


@pytest.mark.parametrize(
    ("query", "streams"),
    [
        ("SELECT * FROM l WHERE k = 77", 0),
        ("SELECT * FROM l WHERE k >= 77 ORDER BY k LIMIT 1", 0),
        ("SELECT * FROM generate_series(1, 300) g JOIN l ON l.k = g", 0),
        ("SELECT * FROM l WHERE k BETWEEN 100 AND 1000", 1),
    ],
)
def test_short_scans_of_a_cold_table(connection: Connection, query: str, streams: int) -> None:
    """Nothing is built for one row, as often as it may be asked for another; a range builds one."""
    connection.execute("CREATE EXTENSION IF NOT EXISTS pg_lookahead")
    connection.execute("RESET pg_lookahead.test_start_after")
    connection.execute("SET enable_hashjoin = off; SET enable_mergejoin = off")
    connection.execute("SET pg_lookahead.enable_join_prefetch = off")
    connection.execute("SELECT pg_lookahead_evict('l')")
    assert streamed_scans(explain(connection, query)) == streams


def test_many_rescans_use_no_more_memory(server: WatchedServer, connection: Connection) -> None:
    """100,000 rescans of one streamed scan; the query's memory must not grow with them."""
    connection.execute(
        "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off"
    )
    connection.execute("SET pg_lookahead.test_start_after = 0")
    query = (
        "SELECT count(x.pad) FROM generate_series(1, {}) g, "
        "LATERAL (SELECT pad FROM l WHERE k BETWEEN g % 19990 AND g % 19990 + 4 OFFSET 0) x"
    )
    peaks = []
    for rescans in (2_000, 100_000):
        with server.connect() as other:
            plan = explain(connection, query.format(rescans))
            assert streamed_scans(plan) == rescans
            peaks.append(_resident_kb(other, connection.info.backend_pid))
    assert peaks[1] - peaks[0] < 4096


def _resident_kb(watcher: Connection, pid: int) -> int:
    """Private memory of a backend, in kB, from the kernel; generate_series needs some itself."""
    status = scalar(watcher, f"SELECT pg_read_file('/proc/{pid}/status', 0, 100000, true)")
    return int(status.split("RssAnon:")[1].split()[0])
