"""Cancels, ends of sessions and errors in the middle of a build leave nothing behind."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import psycopg
import pytest
from extension.probes import Connection, scalar
from interrupting import HANG_SECONDS, Moments, interrupt_repeatedly, interrupted, p99, terminated
from server_log import WatchedServer
from waiting import wait_until

from index_build.leftovers import files_of
from index_build.twins import Counters, Twins, choose, complaint

_ROWS = 150_000
_HITS = 20
_STRICT = 0.1  # seconds
_PHASES = (
    "initializing",
    "building index: initializing",
    "building index: scanning table",
    "building index: sorting live tuples",
    "building index: loading tuples in tree",
)
# Each spends its time elsewhere: in the scan, the sort, comparisons, the load.
_STATEMENTS = (
    "CREATE INDEX i_k ON i (k)",
    "CREATE INDEX i_s ON i (s)",
    "CREATE INDEX i_few ON i (few, k)",
    "CREATE UNIQUE INDEX i_id ON i (id)",
    "CREATE INDEX i_f ON i (lower(s), k)",
)

# In mid-table a build stops for as long as somebody has the lock.
_STOP = (
    "CREATE FUNCTION stop(id int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN "
    f"IF id = {_ROWS // 2} THEN PERFORM pg_advisory_xact_lock_shared(1); END IF; RETURN id; END $$"
)


@pytest.fixture(scope="module", autouse=True)
def _table(server: WatchedServer) -> None:
    with server.connect() as session:
        session.execute(
            "CREATE TABLE i AS SELECT i AS id, hashint8(i) AS k, md5(i::text) AS s, "
            f"i % 20 AS few FROM generate_series(1, {_ROWS}) i; CHECKPOINT"
        )


@pytest.fixture
def builder(server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as session:
        choose(session, "ours")
        yield session


def _nothing_left(server: WatchedServer, before: set[Path]) -> None:
    """The files are those of before, once a checkpoint has removed what transactions dropped."""
    with server.connect() as session:
        session.execute("CHECKPOINT")
        wait_until(
            lambda: not files_of(server) - before, f"no new files: {files_of(server) - before}"
        )
        open_slots = "SELECT count(*) FROM pg_stat_progress_create_index"
        wait_until(lambda: scalar(session, open_slots) == 0, "no build is reported")


def _cancel_many(builder: Connection, seed: int, hits: int) -> list[float]:
    """Cancels builds at random moments; the latencies in seconds, sorted."""
    rng, moments = Random(seed), Moments(seed)
    for statement in _STATEMENTS:
        started = time.monotonic()
        builder.execute(f"BEGIN; {statement}; ROLLBACK")
        moments.ended(f"BEGIN; {statement}; ROLLBACK", time.monotonic() - started)

    def attempt() -> float:
        builder.execute(f"SET maintenance_work_mem = '{rng.choice(('2MB', '64MB'))}'")
        statement = f"BEGIN; {rng.choice(_STATEMENTS)}; ROLLBACK"
        latency = interrupted(builder, statement, moments, builder.cancel_safe)
        builder.rollback()
        return latency

    return interrupt_repeatedly(hits, attempt)


def test_cancelled_builds_leave_nothing(
    server: WatchedServer, builder: Connection, seed: int
) -> None:
    before = files_of(server)
    assert max(_cancel_many(builder, seed, _HITS)) < HANG_SECONDS
    _nothing_left(server, before)
    assert Counters.of(builder).built > 0


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_cancel_is_quick(builder: Connection, seed: int) -> None:
    """On a machine that does nothing else."""
    assert p99(_cancel_many(builder, seed, 10 * _HITS)) < _STRICT


def test_terminated_sessions_leave_nothing(server: WatchedServer, seed: int) -> None:
    rng, moments, before = Random(seed), Moments(seed), files_of(server)
    with server.connect() as killer:

        def attempt() -> float:
            session = server.connect()
            choose(session, "ours")
            latency = terminated(session, rng.choice(_STATEMENTS[:2]), moments, killer)
            killer.execute("DROP INDEX IF EXISTS i_k, i_s")
            return latency

        interrupt_repeatedly(6, attempt)
    _nothing_left(server, before)


def test_session_goes_on_after_many_failures(
    server: WatchedServer, twins: Twins, seed: int
) -> None:
    """Failed builds in subtransactions of one transaction, then one that succeeds."""
    rng, before = Random(seed), files_of(server)
    session = twins.connection
    choose(session, "ours")
    session.execute("BEGIN")
    for _ in range(20):
        row = rng.randint(1, _ROWS)
        with pytest.raises(psycopg.errors.DivisionByZero), session.transaction():
            session.execute(f"CREATE INDEX i_bad ON i ((1 / (id - {row})))")
    ours = twins.build("ours", "CREATE INDEX i_k ON i (k)", "i_k")
    session.execute("DROP INDEX i_k")
    stock = twins.build("stock", "CREATE INDEX i_k ON i (k)", "i_k")
    assert complaint(stock, ours) == ""
    session.execute("ROLLBACK")
    assert twins.tally.built == 1
    _nothing_left(server, before)


def test_temp_file_limit_is_obeyed(server: WatchedServer, builder: Connection) -> None:
    """Core's error once a build needs more; files of any build that succeeds are below it."""
    before = files_of(server)
    builder.execute("SET maintenance_work_mem = '2MB'")
    refused = 0
    for limit in ("0", "64kB", "1MB", "4MB", "64MB"):
        builder.execute(f"SET temp_file_limit = '{limit}'")
        try:
            builder.execute("CREATE INDEX i_s ON i (s)")
            builder.execute("DROP INDEX i_s")
        except psycopg.errors.ConfigurationLimitExceeded:
            refused += 1
    assert 1 <= refused <= 4  # md5 of all rows is more than 4 MB, less than 64 MB
    _nothing_left(server, before)


def test_progress_is_reported(server: WatchedServer, builder: Connection) -> None:
    """While a build runs the view shows it, with the phases that it has under stock."""
    builder.execute(_STOP)
    seen: list[tuple[str, int, int]] = []
    with server.connect() as watcher:
        progress = (
            "SELECT phase, blocks_done, blocks_total FROM pg_stat_progress_create_index "
            f"WHERE pid = {builder.info.backend_pid}"
        )

        def look() -> bool:
            row = watcher.execute(progress).fetchone()
            seen.extend([row] if row else [])
            return bool(row)

        def at_lock() -> bool:
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            return look() and scalar(watcher, waiting) == 1

        watcher.execute("SELECT pg_advisory_lock(1)")
        thread = threading.Thread(
            target=lambda: builder.execute("CREATE INDEX i_stop ON i (stop(id), s)")
        )
        thread.start()
        wait_until(at_lock, "the build has come to the row")
        look()
        phase, done, total = seen[-1]
        watcher.execute("SELECT pg_advisory_unlock(1)")
        wait_until(lambda: not look(), "the build has ended")
        thread.join()
    builder.execute("DROP INDEX i_stop; DROP FUNCTION stop")
    assert phase == "building index: scanning table"
    assert 0 < done < total
    known = [_PHASES.index(phase) for phase, _, _ in seen]
    assert known == sorted(known)
    assert all(done <= total for _, done, total in seen)
