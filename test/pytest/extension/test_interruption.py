"""Cancels, time limits and ends of sessions in mid-scan leave nothing behind."""

import time
from collections.abc import Iterator
from random import Random

import psycopg
import pytest
from interrupting import interrupted_after, nothing_left, p99
from server_log import WatchedServer

from extension.probes import (
    INDEX_SCANS_ONLY,
    STREAM_ALWAYS,
    Connection,
    make_shuffled,
    need_extension,
    scalar,
)

# The scan takes some 50 ms; every row costs a little in the projection, so that most of the
# interruptions hit it.
_SCAN = "SELECT count(md5(pad)) FROM i WHERE k >= 0"
_RUNS = 150  # for each transport
# Seconds. Performance gates no ordinary test: this only tells a hang from an answer.
_GENEROUS = 1.0
_STRICT = 0.1


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


def _cancel_many(server: WatchedServer, watcher: Connection, seed: int, runs: int) -> list[float]:
    """Cancels a scan of one session ``runs`` times; the latencies in seconds, sorted."""
    rng, latencies = Random(seed), []
    with _scanner(server) as session:
        started = time.monotonic()
        session.execute(_SCAN)
        duration = time.monotonic() - started
        for _ in range(runs):
            _evict(watcher, rng)
            latency = interrupted_after(
                session, _SCAN, rng.uniform(0, duration), session.cancel_safe
            )
            if latency:
                latencies.append(latency)
        assert scalar(session, "SELECT count(pad) FROM i WHERE k >= 0") == 20_000
    nothing_left(watcher, "i")
    return sorted(latencies)


def test_cancelled_scans_leave_nothing(
    server: WatchedServer, watcher: Connection, seed: int
) -> None:
    latencies = _cancel_many(server, watcher, seed, _RUNS)
    print(f"{len(latencies)} cancels, p99 {1000 * p99(latencies):.1f} ms")
    assert len(latencies) > _RUNS // 10  # the rest came too late
    assert p99(latencies) < _GENEROUS


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_cancel_is_quick(server: WatchedServer, watcher: Connection, seed: int) -> None:
    """On a machine that does nothing else."""
    latencies = _cancel_many(server, watcher, seed, 10 * _RUNS)
    assert p99(latencies) < _STRICT


def test_time_limits_leave_nothing(server: WatchedServer, watcher: Connection, seed: int) -> None:
    rng, expired = Random(seed), 0
    with _scanner(server) as session:
        for _ in range(_RUNS):
            _evict(watcher, rng)
            session.execute(f"SET statement_timeout = {rng.randint(1, 30)}")
            try:
                session.execute(_SCAN)
            except psycopg.errors.QueryCanceled:
                expired += 1
            session.execute("RESET statement_timeout")
        assert scalar(session, "SELECT count(pad) FROM i WHERE k >= 0") == 20_000
    assert expired > _RUNS // 10
    nothing_left(watcher, "i")


def test_terminated_sessions_leave_nothing(
    server: WatchedServer, watcher: Connection, seed: int
) -> None:
    rng, ended = Random(seed), 0
    for _ in range(30):
        _evict(watcher, rng)
        session = _scanner(server)
        pid = session.info.backend_pid

        def end(pid: int = pid) -> None:
            with server.connect() as killer:
                killer.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))

        interrupted_after(session, _SCAN, rng.uniform(0, 0.05), end)
        ended += session.closed
        session.close()
    assert ended > 5
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
