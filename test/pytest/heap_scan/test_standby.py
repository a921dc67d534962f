"""Table scans on a hot standby, their conflicts with recovery, and promotion."""

from collections.abc import Iterator

import pytest
from extension.probes import PINNED, QUIET, Connection, scalar
from replication import standby_of, wait_for_conflict, wait_for_replay
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from heap_scan.probes import (
    BITMAP_SCANS,
    FORCED,
    SEQ_SCANS,
    make_pages,
    only_scan,
)
from lookahead.extension import Stage

_PAGES = 1_000
_SCANS = {
    "bitmap": (BITMAP_SCANS, "SELECT count(*), sum(k), min(pad) FROM m WHERE r < 900"),
    "seq": (SEQ_SCANS, "SELECT count(*), sum(k), min(pad) FROM m"),
}


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=test_stage, settings=QUIET) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead; CREATE EXTENSION pg_buffercache")
            make_pages(session, "m", _PAGES)
        yield started


@pytest.fixture(scope="module")
def standby(
    server: WatchedServer, server_factory: ServerFactory, test_stage: Stage
) -> Iterator[WatchedServer]:
    """Cancels what stands in the way of replay at once."""
    settings = {**QUIET, "max_standby_streaming_delay": "0", "hot_standby_feedback": "off"}
    with standby_of(server, server_factory, settings, test_stage) as copy:
        yield copy


def _session(server: WatchedServer, scan: str) -> Connection:
    session = server.connect()
    session.execute(f"{_SCANS[scan][0]}; {FORCED}")
    return session


@pytest.mark.parametrize("scan", _SCANS)
def test_standby_returns_what_the_primary_does(
    server: WatchedServer, standby: WatchedServer, scan: str
) -> None:
    sql = _SCANS[scan][1]
    with _session(server, scan) as source, _session(standby, scan) as copy:
        source.execute("UPDATE m SET pad = pad WHERE k % 7 = 0")
        source.execute("DELETE FROM m WHERE k % 31 = 3")
        wait_for_replay(source, copy)
        assert scalar(copy, "SELECT pg_is_in_recovery()")
        assert only_scan(copy, sql)["Status"] == "prefetch"
        assert copy.execute(sql).fetchone() == source.execute(sql).fetchone()


@pytest.mark.parametrize("advance", ["SELECT 1", "FETCH 20 FROM c"], ids=["idle", "reading"])
@pytest.mark.parametrize("scan", _SCANS)
def test_conflict_with_recovery_ends_cleanly(
    server: WatchedServer, standby: WatchedServer, scan: str, advance: str
) -> None:
    """VACUUM on the primary removes rows that an old snapshot of the standby needs."""
    condition = _SCANS[scan][1].partition(" FROM ")[2]
    with (
        _session(server, scan) as source,
        _session(standby, scan) as copy,
        standby.connect() as watcher,
    ):
        wait_for_replay(source, copy)
        copy.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        copy.execute(f"DECLARE c NO SCROLL CURSOR FOR SELECT k, pad FROM {condition}")
        copy.execute("FETCH 20 FROM c")
        source.execute("UPDATE m SET pad = pad")
        source.execute("VACUUM (FREEZE) m")
        wait_for_conflict(copy, advance)
        wait_for_replay(source, watcher)
        wait_until(lambda: scalar(watcher, PINNED) == 0, "no page is pinned")
        if not copy.closed:
            copy.execute("ROLLBACK")
            sql = _SCANS[scan][1]
            assert copy.execute(sql).fetchone() == source.execute(sql).fetchone()


def test_table_that_shrinks_during_replay(server: WatchedServer, standby: WatchedServer) -> None:
    """VACUUM cuts the end off; what was asked for or not, the scan ends as stock's does."""
    with _session(server, "seq") as source, _session(standby, "seq") as copy:
        source.execute("DELETE FROM m WHERE ctid >= '(300,1)'")
        source.execute("VACUUM (TRUNCATE) m")
        wait_for_replay(source, copy)
        for settings, sql in _SCANS.values():
            copy.execute(f"SET enable_seqscan = on; SET enable_bitmapscan = on; {settings}")
            source.execute(f"SET enable_seqscan = on; SET enable_bitmapscan = on; {settings}")
            assert copy.execute(sql).fetchone() == source.execute(sql).fetchone()


@pytest.mark.parametrize("scan", ["bitmap"])
def test_promotion(server: WatchedServer, standby: WatchedServer, scan: str) -> None:
    """Cursors that are open during promotion, and writes after it."""
    with _session(server, scan) as source, _session(standby, scan) as copy:
        wait_for_replay(source, copy)
        copy.execute("BEGIN")
        copy.execute("DECLARE b NO SCROLL CURSOR FOR SELECT k FROM m WHERE r < 1500")
        copy.execute(f"{SEQ_SCANS}; SET enable_seqscan = on")
        copy.execute("DECLARE s NO SCROLL CURSOR FOR SELECT k FROM m")
        seen = {name: copy.execute(f"FETCH 9 FROM {name}").fetchall() for name in "bs"}
        with standby.connect() as other:
            assert scalar(other, "SELECT pg_promote(true, 60)")
        for name, rows in seen.items():
            rows += copy.execute(f"FETCH ALL FROM {name}").fetchall()
        copy.execute("COMMIT")
        assert len(seen["s"]) == scalar(source, "SELECT count(*) FROM m")
        assert len(seen["b"]) == scalar(source, "SELECT count(*) FROM m WHERE r < 1500")
        copy.execute("DELETE FROM m WHERE k < 50")
        assert scalar(copy, "SELECT count(pad) FROM m WHERE k < 50") == 0
