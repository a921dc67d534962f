"""Processes of one parallel scan, and scans of temporary tables, of which a part has to be read.

Each process wakes by itself, or not at all; rows, and the pages used, are stock's.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from heap_scan.probes import BITMAP_SCANS, PARALLEL, SEQ_SCANS, table_pages
from server_log import ServerFactory, WatchedServer

from extension.parts import make_pages, warm_only
from extension.probes import (
    AWAKE,
    INDEX_SCANS_ONLY,
    QUIET,
    Connection,
    explain,
    lookahead,
    nodes,
    streamed_scans,
)
from lookahead.extension import Stage

_PAGES = 2_000
_QUERY = "SELECT k, ctid FROM p WHERE k >= 0 AND pad > ''"
_PATHS = {"index": INDEX_SCANS_ONLY, "bitmap": BITMAP_SCANS, "seq": SEQ_SCANS}
# In buffers, by k: nothing, each second page, and all but those of the beginning.
_HOT = {"none": range(0), "each_second": range(0, _PAGES, 2), "end": range(300, _PAGES)}


@pytest.fixture(scope="module")
def partly(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    settings = {**QUIET, "max_parallel_workers": "16", "max_worker_processes": "24"}
    with server_factory(stage=test_stage, settings=settings) as server:
        with server.connect() as session:
            make_pages(session, "p", _PAGES)
            session.execute("ALTER TABLE p SET (parallel_workers = 2)")
        yield server


def _handled(session: Connection, feature: str) -> tuple[int, ...]:
    session.execute("SELECT pg_stat_force_next_flush()")
    row = session.execute(
        "SELECT scans, requests, advised_blocks FROM pg_stat_lookahead WHERE feature = %s",
        [f"{feature}_scan"],
    ).fetchone()
    return tuple(row or ())


@pytest.mark.parametrize("hot", _HOT)
@pytest.mark.parametrize("path", _PATHS)
def test_processes_wake_each_by_itself(partly: WatchedServer, path: str, hot: str) -> None:
    with partly.connect() as session:
        session.execute(f"{PARALLEL}; {_PATHS[path]}; SET pg_lookahead.bulk_read_size = 4")
        used, rows = [], []
        for setting in ("off", "on"):
            session.execute(f"SET pg_lookahead.enabled = {setting}")
            warm_only(partly, session, "p", _HOT[hot], _PAGES)
            rows.append(sorted(session.execute(_QUERY).fetchall()))
            warm_only(partly, session, "p", _HOT[hot], _PAGES)
            before, (pages, _) = _handled(session, path), table_pages(session, "p")
            plan = explain(session, _QUERY, "ANALYZE, BUFFERS, LOOKAHEAD")
            after = _handled(session, path)
            assert any(node["Node Type"].startswith("Gather") for node in nodes(plan))
            used.append(table_pages(session, "p")[0] - pages)
        assert rows[1] == rows[0]
        assert [key for key, _ in rows[0]] == list(range(_PAGES))
        # One more is the planner's, which looks up the first k.
        assert used == [_PAGES + 1] * 2
        group = lookahead(plan)[0]
        _check_counts(group, before, after, _PAGES - len(_HOT[hot]))
        if path != "seq" and group["Pauses"] == 0:
            # A process stops where what another one has read ahead passes for resident.
            assert group["Advised Blocks"] >= 2 * 16


def _check_counts(
    group: dict[str, Any], before: tuple[int, ...], after: tuple[int, ...], cold: int
) -> None:
    """Those of all processes, in EXPLAIN and in the view alike."""
    assert "Workers" not in group
    if group["Status"] == "stock":  # sequential scans with direct I/O
        return
    shown = tuple(group[name] for name in ("Scans", "Requests", "Advised Blocks"))
    assert shown == tuple(new - old for old, new in zip(before, after, strict=True))
    assert 1 <= group["Scans"] <= 3
    assert group["Advised Blocks"] <= cold


@pytest.mark.parametrize("settings", ["SET jit = off", AWAKE], ids=["default", "awake"])
@pytest.mark.parametrize("path", ["index", "bitmap"])
def test_temporary_tables(partly: WatchedServer, path: str, settings: str) -> None:
    """Larger than their buffers: pages are read, and read again."""
    with partly.connect() as session:
        session.execute("SET temp_buffers = '800kB'")
        make_pages(session, "own", 600, persistence="TEMPORARY")
        session.execute(f"{_PATHS[path]}; {settings}")
        query = "SELECT k, ctid FROM own WHERE k >= 0 AND pad > ''"
        rows, read = [], []
        for setting in ("off", "on"):
            session.execute(f"SET pg_lookahead.enabled = {setting}")
            rows.append([session.execute(query).fetchall() for _ in range(2)])
            plan = explain(session, query, "ANALYZE, BUFFERS, LOOKAHEAD")
            read.append(plan["Local Hit Blocks"] + plan["Local Read Blocks"])
        assert rows[1] == rows[0]
        assert sorted(key for key, _ in rows[0][0]) == list(range(600))
        assert read[1] == read[0]
        assert plan["Local Read Blocks"] > 400
        assert streamed_scans(plan) == 1 or (path == "index" and settings != AWAKE)
