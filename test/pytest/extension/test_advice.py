"""Which pages the kernel is asked for: near ones together, none in vain.

The table is cold or in the operating system's cache as each test needs it, never in shared buffers.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from segments import segments_of
from server_log import ServerFactory, WatchedServer

from extension.parts import need_counted_reads
from extension.probes import (
    INDEX_SCANS_ONLY,
    QUIET,
    Connection,
    Plan,
    explain,
    lookahead,
    scalar,
)
from lookahead.extension import Stage

_PAGES = 3_000
_BLOCK = 8192
# Pages before the first that is asked for: the one that wakes the scan, the one that tells that it
# came from a device, and the first one of the ring, which is read on its turn.
_NOT_ASKED = 3
# Where the planner looks at the first row, its page is in shared buffers before the scan begins.
_PLANNED = 1
# Where pages are read in their order, some that the kernel reads ahead at first come out of its
# cache, and while they do so only each 16th is looked at: EVENTS_PER_LOOK of la_residency.c.
_READ_AHEAD = 2 * 16


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=test_stage, settings=QUIET) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            _make(session)
        yield started


def _make(session: Connection) -> None:
    """One row a page: k visits the pages at random, h in their order; nothing is all-visible.

    `a_halves` visits the first half of them at random, then the second.
    """
    session.execute("CREATE TABLE a (h int, k int, pad text)")
    session.execute("ALTER TABLE a ALTER pad SET STORAGE PLAIN")
    session.execute(
        "INSERT INTO a SELECT i, k, repeat('x', 5000) FROM (SELECT i, row_number() OVER "
        f"(ORDER BY hashint4(i)) - 1 AS k FROM generate_series(0, {_PAGES - 1}) i) ORDER BY i"
    )
    session.execute("CREATE INDEX ON a (k)")
    session.execute("CREATE INDEX ON a (h)")
    for step in (2, 4):
        session.execute(f"CREATE INDEX a_every_{step} ON a (h) WHERE h % {step} = 0")
    session.execute(f"CREATE INDEX a_halves ON a ((h / {_PAGES // 2}), k)")
    session.execute("ANALYZE a")
    assert scalar(session, "SELECT relpages FROM pg_class WHERE relname = 'a'") == _PAGES


def _files(server: WatchedServer, relation: str = "a") -> list[Path]:
    with server.connect() as session:
        return segments_of(server, session, relation)


def _forget(files: list[Path], first_page: int = 0) -> None:
    """Drop the table from the operating system's cache, from a page on."""
    kept = first_page * _BLOCK
    for path in files:
        size = path.stat().st_size
        if kept < size:
            _forget_from(path, kept)
        kept = max(kept - size, 0)


def _forget_from(path: Path, position: int) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, position, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _remember(files: list[Path]) -> None:
    """Bring the table into the operating system's cache."""
    for path in files:
        path.read_bytes()


def _restart(server: WatchedServer, files: list[Path], cold_from: int = 0) -> None:
    """Empty shared buffers; the table is in memory up to a page, and not from there on."""
    server.stop()
    _remember(files)
    _forget(files, cold_from)
    server.start()


def _scan(server: WatchedServer, query: str, settings: str = "") -> Plan:
    with server.connect() as session:
        session.execute(INDEX_SCANS_ONLY)
        session.execute(settings)
        (group,) = lookahead(explain(session, query))
        assert group["Status"] == "prefetch"
        return group


def _asked_in_order(pages: int, asked: int) -> bool:
    """Were all asked for, of so many in the table's order, that are not read before that?"""
    least = pages - _NOT_ASKED - _PLANNED - _READ_AHEAD
    return least <= asked <= pages - _NOT_ASKED


def test_cold_pages_in_random_order_are_all_asked_for(server: WatchedServer) -> None:
    _restart(server, _files(server))
    group = _scan(server, "SELECT * FROM a WHERE k >= 0 ORDER BY k")
    assert group["Prefetched Blocks"] == _PAGES - _NOT_ASKED - _PLANNED
    assert group["Advised Blocks"] == _PAGES - _NOT_ASKED - _PLANNED
    assert group["Requests"] > 0.98 * _PAGES
    assert group["Pauses"] == 0
    assert group["Max Distance"] == 64


def test_the_distance_is_what_was_set(server: WatchedServer) -> None:
    for distance in (1, 5):
        _restart(server, _files(server))
        group = _scan(
            server,
            "SELECT * FROM a WHERE k >= 0 ORDER BY k",
            f"SET pg_lookahead.prefetch_distance = {distance}",
        )
        assert group["Max Distance"] == distance
        assert group["Advised Blocks"] == _PAGES - _NOT_ASKED - _PLANNED


def test_nothing_is_asked_for_what_is_in_memory(server: WatchedServer) -> None:
    """The second page tells that none comes from the device.

    To find out again costs 32 requests, whenever other files that this process has to read move
    the count: now and then on an idle machine, more often on one that lacks memory.
    """
    files = _files(server)
    need_counted_reads(files[0])
    requests = []
    for _ in range(5):
        _restart(server, files, cold_from=_PAGES)
        _remember(_files(server, "a_k_idx"))
        group = _scan(server, "SELECT * FROM a WHERE k >= 0 ORDER BY k")
        requests.append(group["Requests"])
        if requests[-1] <= 2 * 32:
            break
    assert min(requests) <= 2 * 32, requests


def test_asking_goes_on_where_memory_ends(server: WatchedServer) -> None:
    files = _files(server)
    need_counted_reads(files[0])
    _restart(server, files, cold_from=_PAGES // 2)
    half = f"(h / {_PAGES // 2})"
    group = _scan(server, f"SELECT * FROM a WHERE {half} >= 0 ORDER BY {half}, k")
    assert 0.9 * _PAGES / 2 < group["Requests"] < _PAGES / 2 + 200


def test_short_gaps_are_bridged(server: WatchedServer) -> None:
    query = "SELECT * FROM a WHERE h % 2 = 0 AND h >= 0 ORDER BY h"
    _restart(server, _files(server))
    group = _scan(server, query)
    assert _asked_in_order(_PAGES // 2, group["Advised Blocks"])
    assert group["Bridged Blocks"] > 0.4 * _PAGES
    assert group["Requests"] < _PAGES / 10

    _restart(server, _files(server))
    group = _scan(server, query, "SET pg_lookahead.gap_limit = 0")
    assert group["Bridged Blocks"] == 0
    assert group["Requests"] == group["Advised Blocks"]
    assert _asked_in_order(_PAGES // 2, group["Advised Blocks"])


def test_long_gaps_are_not(server: WatchedServer) -> None:
    query = "SELECT * FROM a WHERE h % 4 = 0 AND h >= 0 ORDER BY h"
    _restart(server, _files(server))
    group = _scan(server, query)
    assert group["Bridged Blocks"] == 0
    assert _asked_in_order(_PAGES // 4, group["Requests"])

    _restart(server, _files(server))
    group = _scan(server, query, "SET pg_lookahead.gap_limit = 3")
    assert group["Bridged Blocks"] > 0.5 * _PAGES


def test_a_sequence_is_left_to_the_kernel(server: WatchedServer) -> None:
    _restart(server, _files(server))
    group = _scan(server, "SELECT * FROM a WHERE h >= 0 ORDER BY h")
    # At the start, and each time the scan wakes, until it is seen to be a sequence.
    assert group["Requests"] < 50
    # Backward the kernel does not notice it.
    _restart(server, _files(server))
    group = _scan(server, "SELECT * FROM a WHERE h >= 0 ORDER BY h DESC")
    assert group["Advised Blocks"] > 0.99 * _PAGES


@pytest.mark.parametrize(
    ("query", "settings"),
    [
        ("SELECT k FROM a WHERE k >= 0 ORDER BY k", "SET enable_indexonlyscan = on"),
        (
            "SELECT k, pad FROM (VALUES (-1)) v (m) JOIN a ON a.k >= v.m ORDER BY k",
            "SET enable_hashjoin = off",
        ),
    ],
    ids=["index_only", "plain"],
)
def test_cold_pages_of_each_kind_of_scan(server: WatchedServer, query: str, settings: str) -> None:
    _restart(server, _files(server))
    group = _scan(server, query, settings)
    assert group["Requests"] > 0.9 * _PAGES


def test_inner_side_of_a_merge_join(server: WatchedServer) -> None:
    _restart(server, _files(server))
    with server.connect() as session:
        session.execute(INDEX_SCANS_ONLY)
        session.execute("SET enable_hashjoin = off; SET enable_nestloop = off")
        session.execute("SET enable_material = off")
        plan = explain(session, "SELECT x.pad, y.pad FROM a x JOIN a y USING (k)")
        assert plan["Node Type"] == "Merge Join"
        outer, inner = lookahead(plan)
    # Either reads what the other will find; together they ask for every page.
    assert inner["Status"] == outer["Status"] == "prefetch"
    assert inner["Prefetched Blocks"] > 0.9 * _PAGES
    assert outer["Requests"] + inner["Requests"] > 0.9 * _PAGES


def test_scroll_cursor_in_both_directions(server: WatchedServer) -> None:
    _restart(server, _files(server))
    with server.connect() as session, session.transaction():
        session.execute(INDEX_SCANS_ONLY)
        before = scalar(session, "SELECT coalesce(sum(advised_blocks), 0) FROM pg_stat_lookahead")
        session.execute(
            "DECLARE c SCROLL CURSOR FOR SELECT k FROM a WHERE k >= 0 AND pad > '' ORDER BY k"
        )
        forth = [row[0] for row in session.execute("FETCH 500 FROM c").fetchall()]
        back = [row[0] for row in session.execute("FETCH BACKWARD ALL FROM c").fetchall()]
        session.execute("CLOSE c")
        after = scalar(session, "SELECT sum(advised_blocks) FROM pg_stat_lookahead")
    assert forth == list(range(500))
    assert back == list(range(498, -1, -1))
    assert after - before > 400


def test_an_all_visible_table_needs_no_page(server: WatchedServer) -> None:
    with server.connect() as session:
        session.execute("CREATE TABLE v AS SELECT i AS k FROM generate_series(1, 50000) i")
        session.execute("CREATE INDEX ON v (k)")
        session.execute("VACUUM ANALYZE v")
    _restart(server, _files(server, "v"))
    group = _scan(server, "SELECT k FROM v WHERE k > 0 ORDER BY k", "SET enable_indexonlyscan = on")
    assert group["Requests"] == group["Prefetched Blocks"] == 0


def test_ascending_passes_are_left_to_the_kernel(server: WatchedServer) -> None:
    """Steps of 100 pages over the table, time after time, each beginning a page further on.

    The kernel finds the pages before each one in its cache, and reads many at once.
    """
    with server.connect() as session:
        session.execute("CREATE INDEX IF NOT EXISTS a_passes ON a ((h % 100), h)")
    _restart(server, _files(server))
    group = _scan(server, "SELECT * FROM a WHERE h % 100 >= 0 ORDER BY h % 100, h")
    assert group["Restarts"] >= 1
    assert group["Requests"] < 0.5 * _PAGES


def _advised(session: Connection, column: str = "advised_blocks") -> int:
    return int(scalar(session, f"SELECT coalesce(sum({column}), 0) FROM pg_stat_lookahead"))


def test_a_sequence_is_left_to_the_kernel_by_what_core_executes(server: WatchedServer) -> None:
    """A scan that is only advised for is not handed back: it must leave the pages one by one."""
    _restart(server, _files(server))
    with server.connect() as session, session.transaction():
        session.execute(INDEX_SCANS_ONLY)
        before = _advised(session, "requests")
        session.execute("DECLARE c SCROLL CURSOR FOR SELECT h, pad FROM a WHERE h >= 0 ORDER BY h")
        assert len(session.execute("FETCH ALL FROM c").fetchall()) == _PAGES
        session.execute("CLOSE c")
        # At the start, and where the kernel has read ahead already; else one for 16 pages.
        assert _advised(session, "requests") - before < _PAGES / 16 / 4


_HALF = _PAGES // 2
# Half of the table in passes, half at random.
_BOTH = f"(CASE WHEN h < {_HALF} THEN h % 10 ELSE 10 + k END)"


def _make_gone(session: Connection) -> None:
    """The rows of `a`, deleted, with their entries in the index."""
    session.execute("CREATE TABLE gone (LIKE a INCLUDING STORAGE)")
    session.execute(f"CREATE INDEX ON gone ({_BOTH}, h)")
    session.execute("INSERT INTO gone SELECT * FROM a ORDER BY h")
    session.execute("DELETE FROM gone")


@pytest.mark.parametrize("table", ["a", "gone"])
def test_pages_are_asked_for_behind_ascending_passes(server: WatchedServer, table: str) -> None:
    """What was left to the kernel is ours again, also where no row was found meanwhile."""
    with server.connect() as session:
        if table == "gone":
            _make_gone(session)
        else:
            session.execute(f"CREATE INDEX a_both ON a ({_BOTH}, h)")
        session.execute(f"ANALYZE {table}")
    _restart(server, _files(server, table))
    group = _scan(server, f"SELECT * FROM {table} WHERE {_BOTH} >= 0 ORDER BY {_BOTH}, h")
    assert group["Restarts"] >= 1
    # READS_TO_PASS of la_ring_advice.c, 512, are read on their turn before the scan tries again;
    # the kernel ends a pass late beside other readers of the disk.
    assert _HALF // 3 < group["Advised Blocks"] < _PAGES - _HALF // 4
