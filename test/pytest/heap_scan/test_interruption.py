"""Cancels, ends of sessions and errors in mid-scan leave nothing behind."""

from collections.abc import Iterator
from random import Random

import psycopg
import pytest
from extension.probes import Connection, scalar
from interrupting import (
    HANG_SECONDS,
    Moments,
    interrupt_repeatedly,
    interrupted,
    nothing_left,
    p99,
    terminated,
)
from server_log import WatchedServer

from heap_scan.probes import (
    BITMAP_SCANS,
    CHANGING,
    FORCED,
    PARALLEL,
    SEQ_SCANS,
    make_pages,
)

_PAGES = 4_000
# Every row costs a little, so that most of the interruptions hit the scan.
_SCANS = {
    "bitmap": (BITMAP_SCANS, "SELECT count(md5(pad)) FROM i WHERE r < 6000"),
    "taken_over": (
        f"{BITMAP_SCANS}; SET pg_lookahead.test_start_after = 300",
        "SELECT count(md5(pad)) FROM i WHERE r < 6000",
    ),
    "bridging": (
        f"{BITMAP_SCANS}; SET pg_lookahead.gap_limit = 256",
        "SELECT count(md5(pad)) FROM i WHERE k = ANY (ARRAY(SELECT generate_series(0, 7999, 6)))",
    ),
    "changing": (f"{BITMAP_SCANS}; {CHANGING}", "SELECT count(md5(pad)) FROM i WHERE r < 6000"),
    "seq": (SEQ_SCANS, "SELECT count(md5(pad)) FROM i"),
    "parallel_bitmap": (
        f"{BITMAP_SCANS}; {PARALLEL}",
        "SELECT count(md5(pad)) FROM i WHERE r < 6000",
    ),
    "parallel_seq": (f"{SEQ_SCANS}; {PARALLEL}", "SELECT count(md5(pad)) FROM i"),
}
_HITS = 15  # of each
_STRICT = 0.1  # seconds


@pytest.fixture(scope="module", autouse=True)
def _table(server: WatchedServer) -> None:
    with server.connect() as session:
        make_pages(session, "i", _PAGES)


@pytest.fixture
def watcher(server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as session:
        yield session


def _scanner(server: WatchedServer, scan: str) -> Connection:
    session = server.connect()
    session.execute(FORCED)
    session.execute(_SCANS[scan][0])
    return session


def _evict(watcher: Connection, rng: Random) -> None:
    """Every other run finds no page of the table in a cache."""
    if rng.random() < 0.5:
        watcher.execute("SELECT pg_lookahead_evict('i')")


def _cancel_many(server: WatchedServer, scan: str, seed: int, hits: int) -> list[float]:
    """Cancels a scan of one session ``hits`` times; the latencies in seconds, sorted."""
    rng, moments, sql = Random(f"{seed}:{scan}"), Moments(f"{seed}:{scan}"), _SCANS[scan][1]
    with _scanner(server, scan) as session, server.connect() as watcher:
        expected = scalar(session, sql)

        def attempt() -> float:
            _evict(watcher, rng)
            return interrupted(session, sql, moments, session.cancel_safe)

        latencies = interrupt_repeatedly(hits, attempt)
        assert scalar(session, sql) == expected
        nothing_left(watcher, "i")
    return latencies


@pytest.mark.parametrize("scan", _SCANS)
def test_cancelled_scans_leave_nothing(server: WatchedServer, scan: str, seed: int) -> None:
    assert max(_cancel_many(server, scan, seed, _HITS)) < HANG_SECONDS


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("scan", _SCANS)
def test_cancel_is_quick(server: WatchedServer, scan: str, seed: int) -> None:
    """On a machine that does nothing else."""
    assert p99(_cancel_many(server, scan, seed, 20 * _HITS)) < _STRICT


@pytest.mark.parametrize("scan", _SCANS)
def test_terminated_sessions_leave_nothing(
    server: WatchedServer, watcher: Connection, scan: str, seed: int
) -> None:
    rng, moments = Random(f"{seed}:{scan}"), Moments(f"{seed}:{scan}")

    def attempt() -> float:
        _evict(watcher, rng)
        return terminated(_scanner(server, scan), _SCANS[scan][1], moments, watcher)

    interrupt_repeatedly(6, attempt)
    nothing_left(watcher, "i")


@pytest.mark.parametrize("scan", _SCANS)
def test_errors_in_mid_scan_leave_nothing(
    server: WatchedServer, watcher: Connection, scan: str, seed: int
) -> None:
    """An error at a random row, as a statement of its own and beside an open cursor."""
    rng, sql = Random(f"{seed}:{scan}"), _SCANS[scan][1]
    table, _, condition = sql.partition(" FROM ")[2].partition(" WHERE ")
    condition = condition or "true"
    with _scanner(server, scan) as session:
        expected = scalar(session, sql)
        for number in range(15):
            _evict(watcher, rng)
            # Eight rows in a row, of which each scan returns one or more.
            divisor = f"{'r' if 'r <' in condition else 'k'} / 8 - {rng.randrange(10, 700)}"
            failing = f"SELECT sum(1 / ({divisor})) FROM {table}"
            with pytest.raises(psycopg.errors.DivisionByZero):
                session.execute(f"{failing} WHERE {condition}")
            if number % 3:
                continue
            session.execute("BEGIN")
            session.execute(
                f"DECLARE c NO SCROLL CURSOR FOR SELECT k FROM {table} WHERE {condition}"
            )
            session.execute("FETCH 50 FROM c; SAVEPOINT s")
            with pytest.raises(psycopg.errors.DivisionByZero):
                session.execute(f"{failing} WHERE {condition}")
            session.execute("ROLLBACK TO s")
            assert len(session.execute("FETCH ALL FROM c").fetchall()) == expected - 50
            session.execute("COMMIT")
        assert scalar(session, sql) == expected
    nothing_left(watcher, "i")
