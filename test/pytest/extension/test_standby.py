"""Streamed scans on a hot standby, and their conflicts with recovery."""

from collections.abc import Iterator

import pytest
from replication import standby_of, wait_for_conflict, wait_for_replay
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from extension.probes import (
    INDEX_SCANS_ONLY,
    QUIET,
    STREAM_ALWAYS,
    Connection,
    explain,
    make_shuffled,
    need_extension,
    scalar,
    streamed_scans,
)
from lookahead.extension import Stage

_SCAN = "SELECT count(*), sum(k), min(pad) FROM m WHERE k >= 0"


@pytest.fixture(scope="module")
def primary(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=test_stage, settings=QUIET) as started:
        with started.connect() as session:
            make_shuffled(session, "m", 10_000)
            need_extension(session, "pg_buffercache")
        yield started


@pytest.fixture(scope="module")
def standby(
    primary: WatchedServer, server_factory: ServerFactory, test_stage: Stage
) -> Iterator[WatchedServer]:
    """Cancels what stands in the way of replay at once."""
    settings = {**QUIET, "max_standby_streaming_delay": "0", "hot_standby_feedback": "off"}
    with standby_of(primary, server_factory, settings, test_stage) as copy:
        yield copy


def _session(server: WatchedServer) -> Connection:
    session = server.connect()
    session.execute(INDEX_SCANS_ONLY)
    session.execute(STREAM_ALWAYS)
    return session


def test_standby_returns_what_the_primary_does(
    primary: WatchedServer, standby: WatchedServer
) -> None:
    with _session(primary) as source, _session(standby) as copy:
        source.execute("UPDATE m SET pad = pad WHERE k % 3 = 0")
        source.execute("DELETE FROM m WHERE k % 11 = 0")
        wait_for_replay(source, copy)
        assert scalar(copy, "SELECT pg_is_in_recovery()")
        assert streamed_scans(explain(copy, _SCAN)) == 1
        assert copy.execute(_SCAN).fetchone() == source.execute(_SCAN).fetchone()


@pytest.mark.parametrize("advance", ["SELECT 1", "FETCH 100 FROM c"], ids=["idle", "reading"])
def test_conflict_with_recovery_ends_cleanly(
    primary: WatchedServer, standby: WatchedServer, advance: str
) -> None:
    """VACUUM on the primary removes rows that an old snapshot of the standby needs."""
    with _session(primary) as source, _session(standby) as copy, standby.connect() as watcher:
        wait_for_replay(source, copy)
        copy.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        copy.execute("DECLARE c NO SCROLL CURSOR FOR SELECT k, pad FROM m WHERE k >= 0 ORDER BY k")
        copy.execute("FETCH 100 FROM c")
        source.execute("UPDATE m SET pad = pad || 'x'")
        source.execute("VACUUM (FREEZE) m")
        wait_for_conflict(copy, advance)
        wait_for_replay(source, watcher)
        pins = "SELECT count(*) FROM pg_buffercache WHERE pinning_backends > 0"
        wait_until(lambda: scalar(watcher, pins) == 0, "no page is pinned")
        if not copy.closed:
            copy.execute("ROLLBACK")
            assert copy.execute(_SCAN).fetchone() == source.execute(_SCAN).fetchone()


def test_standby_without_the_library(primary: WatchedServer, standby: WatchedServer) -> None:
    """Nothing on disk needs it: only the setting that names it must go."""
    standby.configure({"session_preload_libraries": ""})
    standby.restart()
    with primary.connect() as source, standby.connect() as copy:
        wait_for_replay(source, copy)
        assert copy.execute(_SCAN).fetchone() == source.execute(_SCAN).fetchone()
        assert not scalar(copy, "SELECT count(*) FROM pg_settings WHERE name LIKE 'pg_lookahead.%'")
    standby.configure({"session_preload_libraries": "pg_lookahead"})
    standby.restart()


def test_evicting_on_a_standby(primary: WatchedServer, standby: WatchedServer) -> None:
    """It writes nothing but pages that replay has made dirty, so it works here too."""
    # Who connects while something is replayed may be in its way.
    with primary.connect() as session, standby.connect() as reader:
        session.execute("CREATE EXTENSION IF NOT EXISTS pg_lookahead")
        session.execute("UPDATE m SET pad = pad WHERE k < 500")
        expected = session.execute(_SCAN).fetchone()
        wait_for_replay(session, reader)
        assert scalar(reader, "SELECT buffers_evicted FROM pg_lookahead_evict('m')") > 0
        assert reader.execute(_SCAN).fetchone() == expected


def test_promotion(primary: WatchedServer, standby: WatchedServer) -> None:
    """A cursor that is open during promotion, and writes after it."""
    with _session(primary) as source, _session(standby) as copy, standby.connect() as other:
        wait_for_replay(source, copy)
        copy.execute("BEGIN")
        copy.execute("DECLARE c NO SCROLL CURSOR FOR SELECT k, pad FROM m WHERE k >= 0 ORDER BY k")
        first = copy.execute("FETCH 100 FROM c").fetchall()
        assert scalar(other, "SELECT pg_promote(true, 60)")
        rest = copy.execute("FETCH ALL FROM c").fetchall()
        copy.execute("COMMIT")
        assert len(first + rest) == scalar(source, "SELECT count(*) FROM m")
        copy.execute("DELETE FROM m WHERE k < 50")
        assert scalar(copy, "SELECT count(pad) FROM m WHERE k < 50") == 0
