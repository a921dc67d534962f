"""Which pages the kernel is asked for, as counted: each once, none in vain, gaps as allowed.

The table is cold or in the operating system's cache as each test needs it, never in shared buffers.
"""

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from extension.probes import QUIET, Connection
from segments import segments_of
from server_log import ServerFactory, WatchedServer

from heap_scan.probes import (
    BITMAP_SCANS,
    FORCED,
    OFF,
    SEQ_SCANS,
    make_cold,
    make_pages,
    only_scan,
)
from lookahead.extension import Stage

_PAGES = 4_000
# Pages that core's stream reads before ours follows: the one that wakes the scan, and, since it had
# to wait for that, at most two that it reads ahead.
_CORES = 3
# Names that stat(1) gives to file systems whose reads the kernel counts for the reading process.
_COUNTED = {"ext2/ext3", "xfs", "btrfs", "f2fs"}


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=test_stage, settings=QUIET) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead; CREATE EXTENSION pg_buffercache")
            make_pages(session, "a", _PAGES)
        yield started


def _every(step: int, rows: int = 2 * _PAGES) -> str:
    """The first row of every so many pages, by index."""
    return (
        "SELECT k, pad FROM a WHERE k = ANY "
        f"(ARRAY(SELECT generate_series(0, {rows - 1}, {2 * step})))"
    )


def _cold_scan(session: Connection, sql: str) -> dict[str, Any]:
    make_cold(session, "a")
    return only_scan(session, sql)


def _in_system_cache(server: WatchedServer, session: Connection) -> None:
    """The table is in the operating system's cache and in no shared buffer."""
    make_cold(session, "a")
    segments = segments_of(server, session, "a")
    done = subprocess.run(
        ["stat", "-f", "-c", "%T", str(segments[0])], check=True, text=True, capture_output=True
    )
    if done.stdout.strip() not in _COUNTED:
        pytest.skip(f"reads are not counted on {done.stdout.strip()}")
    for segment in segments:
        segment.read_bytes()


def test_each_page_of_a_sparse_bitmap_is_asked_for(connection: Connection) -> None:
    connection.execute(BITMAP_SCANS)
    scan = _cold_scan(connection, _every(8))
    assert scan["Advised Blocks"] == scan["Requests"]
    assert _PAGES // 8 - _CORES <= scan["Requests"] < _PAGES // 8
    assert scan["Prefetched Blocks"] >= scan["Requests"] - 1
    assert (scan["Bridged Blocks"], scan["Pauses"], scan["Max Distance"]) == (0, 0, 64)


def test_each_bitmap_of_a_rescanned_node_is_asked_for(connection: Connection) -> None:
    """What is known of one bitmap, and counts of it, must not pass for those of the next."""
    connection.execute(BITMAP_SCANS)
    loops, step = 8, 8
    keys = 2 * _PAGES // loops
    wanted = loops * len(range(0, keys, 2 * step))
    scan = _cold_scan(
        connection,
        f"SELECT g, l.n FROM generate_series(0, {loops - 1}) g CROSS JOIN LATERAL "
        "(SELECT count(pad) AS n FROM a WHERE k = ANY (ARRAY(SELECT "
        f"generate_series(g * {keys}, g * {keys} + {keys - 1}, {2 * step})))) l",
    )
    assert scan["Scans"] == loops
    # The first page of each bitmap is read on its turn.
    assert wanted - 2 * loops <= scan["Advised Blocks"] <= wanted


def test_gaps_are_bridged_up_to_the_limit(connection: Connection) -> None:
    connection.execute(BITMAP_SCANS)
    for gap_limit, step, bridged in ((-1, 3, True), (-1, 4, False), (3, 4, True), (2, 4, False)):
        connection.execute(f"SET pg_lookahead.gap_limit = {gap_limit}")
        scan = _cold_scan(connection, _every(step))
        wanted = _PAGES // step + (_PAGES % step > 0)
        assert wanted - _CORES <= scan["Advised Blocks"] < wanted
        if bridged:
            assert scan["Bridged Blocks"] > 0.7 * (step - 1) * scan["Advised Blocks"]
            assert scan["Requests"] < scan["Advised Blocks"] / 3
        else:
            assert scan["Bridged Blocks"] == 0


def test_the_distance_is_what_was_set(connection: Connection) -> None:
    connection.execute(BITMAP_SCANS)
    for distance in (1, 5, 200):
        connection.execute(f"SET pg_lookahead.prefetch_distance = {distance}")
        assert _cold_scan(connection, _every(8))["Max Distance"] == distance


def test_a_full_window_ends_the_look_ahead(connection: Connection) -> None:
    """The distance allows for more blocks than are ever known ahead."""
    connection.execute(f"{BITMAP_SCANS}; SET pg_lookahead.prefetch_distance = 1000")
    sql = "SELECT k, ctid FROM a WHERE r < 5000"
    make_cold(connection, "a")
    rows = connection.execute(sql).fetchall()
    scan = _cold_scan(connection, sql)
    assert 100 < scan["Max Distance"] < 1000
    connection.execute(OFF)
    assert connection.execute(sql).fetchall() == rows


def test_nothing_is_asked_for_what_is_in_memory(
    server: WatchedServer, connection: Connection
) -> None:
    _in_system_cache(server, connection)
    connection.execute(BITMAP_SCANS)
    scan = only_scan(connection, _every(8))
    assert scan["Pauses"] >= 1
    assert scan["Requests"] < 200
    # Nor for what is in shared buffers.
    scan = only_scan(connection, _every(8))
    assert (scan["Requests"], scan["Prefetched Blocks"]) == (0, 0)


def test_a_few_rows_cost_no_reads_of_others(connection: Connection) -> None:
    """A scan that LIMIT ends has asked for a few pages more, not for all."""
    connection.execute(BITMAP_SCANS)
    scan = _cold_scan(connection, f"{_every(8)} LIMIT 3")
    assert scan["Advised Blocks"] <= 32


@pytest.mark.parametrize("size", [1, 2, 16, 64, 8192])
def test_sequential_scans_ask_in_requests_of_the_size_set(
    connection: Connection, size: int
) -> None:
    connection.execute(f"{SEQ_SCANS}; SET pg_lookahead.bulk_read_size = {size}")
    scan = _cold_scan(connection, "SELECT k, pad FROM a")
    # What core's stream takes at first is not asked for; the kernel's own read-ahead may have
    # brought a page that counts as resident for a while.
    assert scan["Advised Blocks"] <= _PAGES
    if scan["Pauses"] == 0:
        # A request must not be longer than the scan has come so far.
        assert scan["Advised Blocks"] > (0.9 if size < 100 else 0.4) * _PAGES
        assert scan["Requests"] <= _PAGES // size + 2


def test_a_trial_decides_by_default(connection: Connection) -> None:
    """It asks for what the trial takes: up to 2,048 pages, 256 that are timed, those ahead."""
    connection.execute(f"{SEQ_SCANS}; SET pg_lookahead.test_trial_gains = 0")
    scan = _cold_scan(connection, "SELECT k, pad FROM a")
    assert scan["Scans"] == 1
    assert 0 < scan["Advised Blocks"] <= 2_048 + 256 + 512
    connection.execute("SET pg_lookahead.test_trial_gains = 1")
    assert _cold_scan(connection, "SELECT k, pad FROM a")["Advised Blocks"] <= _PAGES - 768


def test_small_tables_are_left_alone(connection: Connection) -> None:
    make_pages(connection, "small", 16)
    for settings in (BITMAP_SCANS, SEQ_SCANS):
        connection.execute(f"RESET ALL; {settings}")
        make_cold(connection, "small")
        scan = only_scan(connection, "SELECT k, pad FROM small WHERE k >= 0")
        assert scan["Scans"] == 0
        connection.execute(FORCED)
        make_cold(connection, "small")
        assert only_scan(connection, "SELECT k, pad FROM small WHERE k >= 0")["Scans"] == 1


def test_view_adds_up_what_explain_shows(connection: Connection) -> None:
    columns = "scans, prefetched_blocks, requests, advised_blocks, bridged_blocks"
    names = ("Scans", "Prefetched Blocks", "Requests", "Advised Blocks", "Bridged Blocks")
    for feature, settings, sql in (
        ("bitmap_scan", BITMAP_SCANS, _every(3)),
        ("seq_scan", f"{SEQ_SCANS}; {FORCED}", "SELECT k FROM a"),
    ):
        connection.execute(f"RESET ALL; {settings}")
        view = f"SELECT {columns} FROM pg_stat_lookahead WHERE feature = '{feature}'"
        before = connection.execute(view).fetchone()
        scan = _cold_scan(connection, sql)
        after = connection.execute(view).fetchone()
        assert before is not None
        assert after is not None
        grown = [new - old for old, new in zip(before, after, strict=True)]
        assert grown == [scan.get(name, 0) for name in names]
        assert grown[0] == 1
        assert grown[2] > 0
