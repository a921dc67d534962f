"""Which pages the kernel is asked for: near ones together, none in vain.

The table is cold or in the operating system's cache as each test needs it, never in shared buffers.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from segments import segments_of
from server_log import ServerFactory, WatchedServer

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
# Names that stat(1) gives to file systems whose reads the kernel counts for the reading process.
_COUNTED = {"ext2/ext3", "xfs", "btrfs", "f2fs"}
_BLOCK = 8192


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
        f"INSERT INTO a SELECT i, i * 7919 % {_PAGES}, repeat('x', 5000) "
        f"FROM generate_series(0, {_PAGES - 1}) i"
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


def _need_counted_reads(path: Path) -> None:
    done = subprocess.run(
        ["stat", "-f", "-c", "%T", str(path)], check=True, text=True, capture_output=True
    )
    if done.stdout.strip() not in _COUNTED:
        pytest.skip(f"reads are not counted on {done.stdout.strip()}")


def test_cold_pages_in_random_order_are_all_asked_for(server: WatchedServer) -> None:
    _restart(server, _files(server))
    group = _scan(server, "SELECT * FROM a WHERE k >= 0 ORDER BY k")
    # The first four pages are read by stock's code and one on its turn.
    assert group["Prefetched Blocks"] == _PAGES - 5
    assert group["Advised Blocks"] == _PAGES - 5
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
        assert group["Advised Blocks"] == _PAGES - 5


def test_nothing_is_asked_for_what_is_in_memory(server: WatchedServer) -> None:
    files = _files(server)
    _need_counted_reads(files[0])
    _restart(server, files, cold_from=_PAGES)
    group = _scan(server, "SELECT * FROM a WHERE k >= 0 ORDER BY k")
    assert group["Pauses"] >= 1
    # A look at the count costs 16 requests; reading the index itself may move it now and then.
    assert group["Requests"] < 200


def test_asking_goes_on_where_memory_ends(server: WatchedServer) -> None:
    files = _files(server)
    _need_counted_reads(files[0])
    _restart(server, files, cold_from=_PAGES // 2)
    half = f"(h / {_PAGES // 2})"
    group = _scan(server, f"SELECT * FROM a WHERE {half} >= 0 ORDER BY {half}, k")
    assert group["Pauses"] >= 1
    assert 0.9 * _PAGES / 2 < group["Requests"] < _PAGES / 2 + 200


def test_short_gaps_are_bridged(server: WatchedServer) -> None:
    query = "SELECT * FROM a WHERE h % 2 = 0 AND h >= 0 ORDER BY h"
    _restart(server, _files(server))
    group = _scan(server, query)
    assert group["Advised Blocks"] == _PAGES // 2 - 5
    assert group["Bridged Blocks"] > 0.4 * _PAGES
    assert group["Requests"] < _PAGES / 10

    _restart(server, _files(server))
    group = _scan(server, query, "SET pg_lookahead.gap_limit = 0")
    assert group["Bridged Blocks"] == 0
    assert group["Requests"] == group["Advised Blocks"] == _PAGES // 2 - 5


def test_long_gaps_are_not(server: WatchedServer) -> None:
    query = "SELECT * FROM a WHERE h % 4 = 0 AND h >= 0 ORDER BY h"
    _restart(server, _files(server))
    group = _scan(server, query)
    assert group["Bridged Blocks"] == 0
    assert group["Requests"] == _PAGES // 4 - 5

    _restart(server, _files(server))
    group = _scan(server, query, "SET pg_lookahead.gap_limit = 3")
    assert group["Bridged Blocks"] > 0.5 * _PAGES


def test_a_sequence_is_left_to_the_kernel(server: WatchedServer) -> None:
    _restart(server, _files(server))
    group = _scan(server, "SELECT * FROM a WHERE h >= 0 ORDER BY h")
    assert 0 < group["Requests"] < 10
    assert group["Prefetched Blocks"] == _PAGES - 5
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
