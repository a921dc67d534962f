"""Cancels, time limits and ends of sessions in mid-scan leave nothing behind."""

import time
from collections.abc import Iterator
from random import Random

import psycopg
import pytest
from interrupting import (
    HANG_SECONDS,
    Moments,
    interrupt_repeatedly,
    interrupted,
    limited,
    nothing_left,
    p99,
    terminated,
)
from server_log import WatchedServer

from extension.probes import (
    INDEX_SCANS_ONLY,
    STREAM_ALWAYS,
    Connection,
    make_shuffled,
    need_extension,
    scalar,
)

# Every row costs a little in the projection, so that most of the interruptions hit the scan.
_SCAN = "SELECT count(md5(pad)) FROM i WHERE k >= 0"
_HITS = 40
_STRICT = 0.1  # seconds


@pytest.fixture(scope="module", autouse=True)
def _table(server: WatchedServer) -> None:
    with server.connect() as session:
        make_shuffled(session, "i", 20_000)
        need_extension(session, "pg_buffercache")


@pytest.fixture
def watcher(server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as session:
        yield session


def _scanner(server: WatchedServer) -> Connection:
    session = server.connect()
    session.execute(INDEX_SCANS_ONLY)
    session.execute(STREAM_ALWAYS)
    return session


def _evict(watcher: Connection, rng: Random) -> None:
    """Every other run finds no page of the table in shared buffers."""
    if rng.random() < 0.5:
        watcher.execute("SELECT pg_buffercache_evict_relation('i')")


def _cancel_many(server: WatchedServer, watcher: Connection, seed: int, hits: int) -> list[float]:
    """Cancels a scan of one session ``hits`` times; the latencies in seconds, sorted."""
    rng, moments = Random(seed), Moments(seed)
    with _scanner(server) as session:

        def attempt() -> float:
            _evict(watcher, rng)
            return interrupted(session, _SCAN, moments, session.cancel_safe)

        latencies = interrupt_repeatedly(hits, attempt)
        assert scalar(session, "SELECT count(pad) FROM i WHERE k >= 0") == 20_000
    nothing_left(watcher, "i")
    return latencies


def test_cancelled_scans_leave_nothing(
    server: WatchedServer, watcher: Connection, seed: int
) -> None:
    assert max(_cancel_many(server, watcher, seed, _HITS)) < HANG_SECONDS


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_cancel_is_quick(server: WatchedServer, watcher: Connection, seed: int) -> None:
    """On a machine that does nothing else."""
    latencies = _cancel_many(server, watcher, seed, 20 * _HITS)
    assert p99(latencies) < _STRICT


def test_time_limits_leave_nothing(server: WatchedServer, watcher: Connection, seed: int) -> None:
    rng, moments = Random(seed), Moments(seed)
    with _scanner(server) as session:

        def attempt() -> float:
            _evict(watcher, rng)
            return _expires(session, moments)

        interrupt_repeatedly(_HITS, attempt)
        assert scalar(session, "SELECT count(pad) FROM i WHERE k >= 0") == 20_000
    nothing_left(watcher, "i")


def _expires(session: Connection, moments: Moments) -> float:
    """The seconds after which the scan reached a random limit; 0 when it ended before."""
    limit_ms = max(1, round(1000 * moments.draw(_SCAN)))
    started = time.monotonic()
    try:
        limited(session, _SCAN, limit_ms)
    except psycopg.errors.QueryCanceled:
        moments.interrupted(_SCAN)
        return time.monotonic() - started
    moments.ended(_SCAN, time.monotonic() - started)
    return 0.0


def test_terminated_sessions_leave_nothing(
    server: WatchedServer, watcher: Connection, seed: int
) -> None:
    rng, moments = Random(seed), Moments(seed)

    def attempt() -> float:
        _evict(watcher, rng)
        return terminated(_scanner(server), _SCAN, moments, watcher)

    interrupt_repeatedly(15, attempt)
    nothing_left(watcher, "i")


def test_errors_in_mid_scan_leave_nothing(
    server: WatchedServer, watcher: Connection, seed: int
) -> None:
    """An error at a random row, as a statement of its own and within subtransactions."""
    rng = Random(seed)
    with _scanner(server) as session:
        for number in range(60):
            _evict(watcher, rng)
            divisor = f"k - {rng.randrange(20_000)}"
            query = f"SELECT sum(1 / ({divisor})) FROM i WHERE k >= 0 AND pad > ''"
            with pytest.raises(psycopg.errors.DivisionByZero):
                session.execute(query)
            if number % 3:
                continue
            session.execute("BEGIN")
            session.execute(
                "DECLARE c NO SCROLL CURSOR FOR SELECT k, pad FROM i WHERE k >= 0 ORDER BY k"
            )
            session.execute("FETCH 50 FROM c")
            session.execute("SAVEPOINT s")
            with pytest.raises(psycopg.errors.DivisionByZero):
                session.execute(query)
            session.execute("ROLLBACK TO s")
            assert session.execute("FETCH 1 FROM c").fetchall()[0][0] == 50
            session.execute("COMMIT")
        assert scalar(session, "SELECT count(pad) FROM i WHERE k >= 0") == 20_000
        nothing_left(watcher, "i")


def test_failed_exception_blocks_leave_nothing(server: WatchedServer, watcher: Connection) -> None:
    """Many failed subtransactions of one function, each in the middle of a scan."""
    with _scanner(server) as session:
        session.execute(
            "CREATE OR REPLACE FUNCTION fails(at int) RETURNS int LANGUAGE plpgsql AS $$ "
            "DECLARE n int; BEGIN "
            "SELECT sum(1 / (k - at)) INTO n FROM i WHERE k >= 0 AND pad > ''; RETURN n; "
            "EXCEPTION WHEN division_by_zero THEN RETURN -1; END $$"
        )
        total = scalar(session, "SELECT sum(fails(g * 100)) FROM generate_series(0, 99) g")
        assert total == -100
        nothing_left(watcher, "i")
