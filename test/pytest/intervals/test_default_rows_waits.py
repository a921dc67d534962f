"""Who waits for whom while rows leave the default partition, and how long."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer
from waiting import wait_until

from intervals.moving import BESIDE_SNAPSHOTS, IN_DEFAULT, MOVE, fill, move, moved, stalled

_AWAITED = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 's.p'::regclass"
_STALLED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"

# Once the default partition is locked, a key cannot be computed until somebody waits for the table
# or for one that it references, and key 1000 not at all.
_SLOW = """
    CREATE SEQUENCE s.begun;
    CREATE FUNCTION s.is_held() RETURNS boolean LANGUAGE sql BEGIN ATOMIC
        SELECT EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND granted
            AND relation = to_regclass('s.rest') AND mode = 'AccessExclusiveLock');
    END;
    CREATE FUNCTION s.slow(k int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
    DECLARE number bigint;
    BEGIN
        IF k = 1000 AND s.is_held() THEN RAISE 'too late'; END IF;
        WHILE s.is_held() AND NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted
                AND relation IN (to_regclass('s.p'), to_regclass('s.target'))) LOOP
            number := coalesce(number, nextval('s.begun'));
            PERFORM pg_sleep(0.01);
        END LOOP;
        RETURN k;
    END$$"""


@pytest.fixture
def filled(session: Connection) -> Connection:
    fill(session, "int", "SELECT generate_series(0, 29)", "10, 0")
    return session


@pytest.fixture
def slow(session: Connection) -> Connection:
    session.execute(_SLOW)
    fill(session, "int", "SELECT generate_series(0, 29)", "10, 0", "s.slow(k)")
    return session


def test_who_waits_for_longer_is_no_victim_of_a_deadlock(
    filled: Connection, server: WatchedServer
) -> None:
    """It waits behind us for the table, and has the default partition: we do not wait for that."""
    with (
        server.connect() as holder,
        server.connect() as other,
        server.connect() as own,
        ThreadPoolExecutor(2) as pool,
    ):
        own.execute("SET deadlock_timeout = '100s'; SET lock_timeout = '100s'")
        other.execute("SET deadlock_timeout = '5s'; BEGIN; LOCK s.rest IN ROW EXCLUSIVE MODE")
        holder.execute("BEGIN; LOCK TABLE ONLY s.p IN ACCESS SHARE MODE")
        moving = pool.submit(move, own)
        wait_until(lambda: moving.done() or scalar(filled, _AWAITED) == 1, "the table is awaited")
        reading = pool.submit(scalar, other, "SELECT count(*) FROM s.p")
        wait_until(lambda: reading.done() or scalar(filled, _AWAITED) == 2, "by two")
        holder.execute("COMMIT")
        assert reading.result(100) == 30
        other.execute("COMMIT")
        assert moving.result(100) == [moved(30, 3)]


def test_the_policy_is_not_waited_for_long(filled: Connection, server: WatchedServer) -> None:
    """The table is locked meanwhile."""
    filled.execute("SET lock_timeout = '600s'; SET statement_timeout = '20s'")
    with server.connect() as other:
        other.execute("BEGIN; SELECT FROM pg_lookahead_interval_policy FOR UPDATE")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            move(filled)
        other.execute("COMMIT")
    assert move(filled) == [moved(30, 3)]
    filled.execute("RESET ALL")


def test_a_table_is_awaited_without_a_snapshot(filled: Connection, server: WatchedServer) -> None:
    """When it alone is waited for, and not shortly: CREATE INDEX CONCURRENTLY, too, has it."""
    waits = """
        SELECT count(*) FROM pg_locks JOIN pg_stat_activity a USING (pid)
        WHERE NOT granted AND relation = 's.rest'::regclass AND backend_xmin IS NULL
            AND waitstart < clock_timestamp() - interval '1 s'"""
    with server.connect() as other, server.connect() as own, ThreadPoolExecutor(1) as pool:
        own.execute("SET deadlock_timeout = '100s'")
        other.execute("BEGIN; LOCK s.rest IN ACCESS SHARE MODE")
        moving = pool.submit(move, own)
        try:
            wait_until(lambda: moving.done() or scalar(filled, waits), "it is awaited", 20)
        finally:
            other.execute("COMMIT")
        assert moving.result(100) == [moved(30, 3)]


def test_others_are_not_kept_waiting_for_the_default_partition(
    filled: Connection, server: WatchedServer
) -> None:
    """While somebody has that, and goes on having it, no lock_timeout is so long."""
    filled.execute("SET deadlock_timeout = '20ms'; SET lock_timeout = '600s'")
    filled.execute("SET statement_timeout = '20s'")
    with server.connect() as other:
        other.execute("BEGIN; LOCK s.rest IN ACCESS SHARE MODE")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            move(filled)
        other.execute("COMMIT")
    assert move(filled) == [moved(30, 3)]
    filled.execute("RESET ALL")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM s.p",
        "WITH i AS (INSERT INTO s.target VALUES (7) RETURNING 101) SELECT * FROM i",
    ],
    ids=["table", "referenced"],
)
def test_no_step_is_ended_while_others_wait(
    slow: Connection, server: WatchedServer, query: str
) -> None:
    """Most rows are still to be deleted when a reader comes, or a writer of a referenced table."""
    slow.execute("TRUNCATE s.p; CREATE TABLE s.target (id int PRIMARY KEY)")
    slow.execute("INSERT INTO s.target VALUES (1000), (1001)")
    slow.execute("ALTER TABLE s.p ADD FOREIGN KEY (k) REFERENCES s.target")
    slow.execute("INSERT INTO s.p SELECT 1001 FROM generate_series(1, 100)")
    slow.execute("INSERT INTO s.p VALUES (1000)")
    rows = scalar(slow, IN_DEFAULT)
    with server.connect() as other, server.connect() as own, ThreadPoolExecutor(1) as pool:
        own.execute("SET lock_timeout = '200ms'")
        moving = pool.submit(own.execute, MOVE)
        wait_until(lambda: moving.done() or scalar(slow, _STALLED), "rows are being deleted")
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert scalar(other, query) == rows
        with pytest.raises(psycopg.errors.LockNotAvailable) as caught:
            moving.result(100)
        assert BESIDE_SNAPSHOTS in str(caught.value)
        other.execute("COMMIT")
    assert scalar(slow, IN_DEFAULT) == rows


def test_who_waits_for_a_referenced_row(filled: Connection, server: WatchedServer) -> None:
    """Rows have moved, and somebody else has a snapshot: that is not awaited any more."""
    looks = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'Extension' AND query = %s"
    filled.execute("CREATE TABLE s.target (id int PRIMARY KEY)")
    filled.execute("INSERT INTO s.target SELECT generate_series(0, 29)")
    filled.execute("ALTER TABLE s.p ADD FOREIGN KEY (k) REFERENCES s.target")
    with server.connect() as reader, server.connect() as other:
        other.execute("SET lock_timeout = '10s'")
        with stalled(filled, server, deadlock_timeout="100s") as moving:
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_am")
            filled.execute("SELECT pg_advisory_unlock(1)")
            wait_until(lambda: filled.execute(looks, (MOVE,)).fetchone() == (1,), "the last look")
            other.execute("SELECT FROM s.target WHERE id = 25 FOR UPDATE")
        assert BESIDE_SNAPSHOTS in moving.result()
        reader.execute("COMMIT")


def test_who_waits_without_a_snapshot(slow: Connection, server: WatchedServer) -> None:
    """Nothing is undone because of it.  It has looked the table up before, which takes one."""
    lock = "BEGIN; LOCK TABLE ONLY s.p; COMMIT"
    slow.execute("INSERT INTO s.p SELECT 25 FROM generate_series(1, 100)")
    with server.connect() as other, server.connect() as own, ThreadPoolExecutor(2) as pool:
        own.execute("SET statement_timeout = '60s'")
        other.execute(lock)
        moving = pool.submit(move, own, "'s.p', 1")
        wait_until(lambda: moving.done() or scalar(slow, _STALLED), "rows are being deleted")
        locking = pool.submit(other.execute, lock)
        assert moving.result(100) == [moved(110, 1)]
        locking.result(100)
    assert scalar(slow, "SELECT last_value FROM s.begun") == 1


def test_a_range_is_not_undone_often(slow: Connection, server: WatchedServer) -> None:
    """Readers come as soon as its rows are being deleted."""
    with server.connect() as other, server.connect() as own, ThreadPoolExecutor(1) as pool:
        moving = pool.submit(own.execute, MOVE)
        while not moving.done():
            wait_until(lambda: moving.done() or scalar(slow, _STALLED), "rows are being deleted")
            if not moving.done():
                assert scalar(other, "SELECT count(*) FROM s.p") == 30
        with pytest.raises(psycopg.errors.LockNotAvailable):
            moving.result(100)
    assert scalar(slow, "SELECT last_value FROM s.begun") == 3
    assert scalar(slow, IN_DEFAULT) == 30


def test_a_table_that_is_dropped_meanwhile(filled: Connection, server: WatchedServer) -> None:
    """Nothing is told of it but that."""
    told: list[str | None] = []
    with server.connect() as other, server.connect() as own, ThreadPoolExecutor(1) as pool:
        own.execute("SET lock_timeout = '60s'")
        own.add_notice_handler(lambda notice: told.append(notice.message_primary))
        other.execute("BEGIN; LOCK TABLE ONLY s.p IN ACCESS SHARE MODE")
        moving = pool.submit(own.execute, MOVE)
        wait_until(lambda: moving.done() or scalar(filled, _AWAITED) == 1, "the table is awaited")
        other.execute("DROP TABLE s.p")
        other.execute("COMMIT")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
            moving.result(100)
    assert told == []
