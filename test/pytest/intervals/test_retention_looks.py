"""Of numbers a row makes others old: it is looked for while nobody is locked out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer
from waiting import wait_until

from intervals.moving import move, moved, stay
from intervals.policies import (
    PENDING,
    bounds,
    execute,
    leave_marked,
    maintain,
    maintaining,
    make,
    seq_scans,
    set_policy,
    state,
)

_DEFAULT = "CREATE TABLE s.rest PARTITION OF s.p DEFAULT"
_DROP = "10, 0, premake => 0, retention => 100, retention_action => 'drop'"
_WITHOUT_AND_WITH_DEFAULT = pytest.mark.parametrize("rest", ["SELECT", _DEFAULT])
_NEAR = "DELETE FROM s.p_490 WHERE ctid < '(31,1)'"
_FAR = "DELETE FROM s.p_490 WHERE ctid < '(32,1)'"
_CHANGED = "the row that makes it old was changed meanwhile"
# Partitions that this makes old.
_OLD = 39
_WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 's.p'::regclass"


@pytest.fixture
def numbers(session: Connection) -> Connection:
    """Table s.p with a row in each partition from 0 to 490, which makes those before 390 old."""
    make(session, "int")
    session.execute("SELECT * FROM pg_lookahead_create_range_partitions('s.p', 0, 10, 50)")
    session.execute("INSERT INTO s.p SELECT 10 * i FROM generate_series(0, 49) i")
    return session


def _reference(session: Connection) -> None:
    """Rows of s.p have to be in s.a."""
    session.execute("CREATE TABLE s.a (k int PRIMARY KEY); INSERT INTO s.a SELECT k FROM s.p")
    session.execute("ALTER TABLE s.p ADD FOREIGN KEY (k) REFERENCES s.a")


def _lengthen(session: Connection) -> None:
    """One row more on each of 40 pages of the last partition."""
    session.execute("ALTER TABLE s.p_490 ALTER t SET STORAGE PLAIN")
    session.execute("INSERT INTO s.p_490 SELECT 490, repeat('x', 7000) FROM generate_series(1, 40)")


@_WITHOUT_AND_WITH_DEFAULT
def test_a_row_is_searched_once(numbers: Connection, rest: str) -> None:
    """Not again for each partition that is taken out."""
    execute(numbers, rest)
    set_policy(numbers, _DROP)
    before = seq_scans(numbers, "p_490")
    maintain(numbers)
    assert len(bounds(numbers)) == 11
    assert seq_scans(numbers, "p_490") == before + 1


@_WITHOUT_AND_WITH_DEFAULT
@pytest.mark.parametrize(("change", "left"), [(_NEAR, 11), (_FAR, 12), ("TRUNCATE s.p_490", 13)])
def test_only_rows_near_the_one_that_was_found_count(
    numbers: Connection, server: WatchedServer, rest: str, change: str, left: int
) -> None:
    """A partition stays if they are gone, and is taken out by the next run; the others are not."""
    execute(numbers, rest)
    _lengthen(numbers)
    set_policy(numbers, _DROP)
    with server.connect(autocommit=False) as other:
        other.execute("LOCK TABLE ONLY s.p IN SHARE UPDATE EXCLUSIVE MODE")
        with maintaining(numbers, server):
            execute(other, change)
            other.commit()
    why = None if left == 11 else f"p_0: {_CHANGED}"
    assert (state(numbers, "blocked"), state(numbers, "last_error")) == (why, None)
    assert len(bounds(numbers)) == left
    maintain(numbers)
    assert (len(bounds(numbers)), state(numbers, "blocked")) == (max(left - 1, 11), None)


def test_a_row_that_changes_before_a_drop(numbers: Connection, server: WatchedServer) -> None:
    """What is detached would not be dropped later, so it waits for the next run."""
    _lengthen(numbers)
    set_policy(numbers, _DROP)
    with server.connect(autocommit=False) as user, server.connect(autocommit=False) as other:
        user.execute("LOCK TABLE ONLY s.p IN ACCESS SHARE MODE")
        with maintaining(numbers, server):
            wait_until(lambda: scalar(numbers, PENDING) == 1, "the partition is marked")
            other.execute("LOCK TABLE ONLY s.p IN SHARE UPDATE EXCLUSIVE MODE")
            user.rollback()
            wait_until(lambda: scalar(numbers, _WAITING) == 1, "the table is waited for")
            execute(other, _FAR)
            other.commit()
    assert (state(numbers, "blocked"), state(numbers, "last_error")) == (f"p_0: {_CHANGED}", None)
    assert scalar(numbers, PENDING) == 1
    maintain(numbers)
    assert scalar(numbers, "SELECT to_regclass('s.p_0')") is None
    assert (len(bounds(numbers)), scalar(numbers, PENDING)) == (11, 0)


def test_a_row_that_goes_while_a_referenced_table_is_waited_for(
    numbers: Connection, server: WatchedServer
) -> None:
    """It makes nothing old any more by the time at which the partition would be dropped."""
    _reference(numbers)
    oldest = leave_marked(numbers, server, _DROP)
    with server.connect(autocommit=False) as holder:
        holder.execute("LOCK TABLE s.a IN ACCESS SHARE MODE")
        with maintaining(numbers, server):
            numbers.execute("DELETE FROM s.p WHERE k > 90")
            holder.rollback()
    assert state(numbers, "blocked") == f"{oldest}: {_CHANGED}"
    maintain(numbers)
    assert "detached, but not dropped: it is not old any more" in state(numbers, "blocked")
    assert scalar(numbers, f"SELECT count(*) FROM s.{oldest}") == 1


def test_a_row_that_goes_while_the_state_is_waited_for(
    numbers: Connection, server: WatchedServer
) -> None:
    """The state says by whom a partition is marked."""
    set_policy(numbers, _DROP)
    with server.connect(autocommit=False) as other:
        other.execute("SELECT * FROM pg_lookahead_interval_state FOR UPDATE")
        with maintaining(numbers, server):
            numbers.execute("DELETE FROM s.p WHERE k > 90")
            other.rollback()
    assert (len(bounds(numbers)), scalar(numbers, PENDING)) == (50, 0)


def _seconds(session: Connection) -> float:
    begin = monotonic()
    maintain(session)
    return monotonic() - begin


def test_users_of_references_are_given_a_moment_once(
    numbers: Connection, server: WatchedServer
) -> None:
    """Not for each partition, of which there may be hundreds."""
    _reference(numbers)
    set_policy(numbers, _DROP)
    with server.connect(autocommit=False) as user:
        user.execute("LOCK s.a IN ACCESS SHARE MODE")
        # The least of some, since the machine may be busy.
        assert min(_seconds(numbers) for _ in range(4)) < 0.05 * _OLD
    assert len(state(numbers, "blocked").splitlines()) == _OLD


_SLEEP = """
    CREATE FUNCTION public.nap() RETURNS event_trigger LANGUAGE plpgsql AS
        $$BEGIN PERFORM pg_sleep(1); END$$;
    CREATE EVENT TRIGGER nap ON ddl_command_start WHEN TAG IN ('DROP TABLE')
        EXECUTE FUNCTION public.nap()"""


@_WITHOUT_AND_WITH_DEFAULT
def test_a_row_that_goes_before_the_end(
    numbers: Connection, server: WatchedServer, rest: str
) -> None:
    """The last command takes long."""
    execute(numbers, rest)
    set_policy(numbers, _DROP.replace("100", "480"))
    numbers.execute(_SLEEP)
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    try:
        with server.connect() as own, ThreadPoolExecutor(1) as pool:
            running = pool.submit(maintain, own)
            wait_until(lambda: running.done() or scalar(numbers, sleeping), "it is dropped")
            numbers.execute("DELETE FROM s.p_490")
            running.result(100)
        assert (state(numbers, "blocked"), state(numbers, "last_error")) == (
            f"p_0: {_CHANGED}",
            None,
        )
        assert scalar(numbers, "SELECT count(*) FROM s.p_0") == 1
    finally:
        numbers.execute("DROP EVENT TRIGGER nap; DROP FUNCTION public.nap()")


def _fill_default(session: Connection) -> None:
    """Rows of the default partition that would follow a gap, and are kept."""
    for low in range(410, 450, 10):
        execute(session, f"DROP TABLE s.p_{low}")
    session.execute(_DEFAULT)
    session.execute("INSERT INTO s.p VALUES (415), (425), (435), (445)")
    set_policy(session, _DROP)


def test_rows_that_move_have_it_searched_once(numbers: Connection) -> None:
    _fill_default(numbers)
    before = seq_scans(numbers, "p_490")
    assert move(numbers) == [moved(4, 4)]
    assert seq_scans(numbers, "p_490") == before + 1


def test_only_rows_near_it_count_for_rows_that_move(
    numbers: Connection, server: WatchedServer
) -> None:
    """They are gone under the lock of the first range, and another one is found for the second."""
    _lengthen(numbers)
    _fill_default(numbers)
    details: list[str | None] = []
    with server.connect() as own, server.connect() as other, ThreadPoolExecutor(1) as pool:
        own.execute("SET lock_timeout = '60s'")
        own.add_notice_handler(lambda notice: details.append(notice.message_detail))
        other.execute("BEGIN; LOCK TABLE ONLY s.p IN ACCESS SHARE MODE")
        moving = pool.submit(move, own)
        wait_until(lambda: scalar(numbers, _WAITING) == 1, "the table is waited for")
        execute(other, _FAR)
        other.execute("COMMIT")
        assert moving.result(100) == [moved(3, 3), stay(1)]
        assert "Of 1 that is not known" in str(details)
        assert move(own) == [moved(1, 1)]
