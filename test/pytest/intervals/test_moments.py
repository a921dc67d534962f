"""What others do between a look of maintenance and the lock for which it has to wait."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer
from waiting import wait_until

from intervals.policies import (
    PENDING,
    bounds,
    execute,
    leave_marked,
    maintain,
    maintaining,
    make,
    names,
    set_policy,
    state,
)

_DEFAULT = "CREATE TABLE s.rest PARTITION OF s.p DEFAULT"
_WITHOUT_AND_WITH_DEFAULT = pytest.mark.parametrize("rest", ["SELECT", _DEFAULT])


def test_whoever_has_used_the_table_is_waited_for(aged: Connection, server: WatchedServer) -> None:
    """Idle between its statements, without a snapshot: it takes no second look at partitions."""
    oldest = names(aged)[0]
    set_policy(aged, "'1 day', retention => '9 days', premake => 0")
    with server.connect(autocommit=False) as writer:
        put = "INSERT INTO s.p VALUES (%s)"
        today, old = scalar(writer, "SELECT ARRAY[current_date, current_date - 10]")
        for _ in range(9):
            writer.execute(put, (today,), prepare=True)
        with maintaining(aged, server) as maintenance:
            wait_until(lambda: scalar(aged, PENDING) == 1, "the partition is marked")
            writer.execute(put, (old,), prepare=True)
            # The row is in what still is a partition, and so in nothing else.
            assert not maintenance.done()
            bound = f"SELECT relispartition FROM pg_class WHERE oid = 's.{oldest}'::regclass"
            assert scalar(aged, bound)
            writer.commit()
    if state(aged, "blocked"):  # beside much other work, after two seconds
        maintain(aged)
    assert scalar(aged, f"SELECT count(*) FROM s.{oldest}") == 2
    assert len(bounds(aged)) == 10
    assert state(aged, "blocked") is None


def test_readers_of_the_partition_meet_no_lock(aged: Connection, server: WatchedServer) -> None:
    """One with an older snapshot comes to the partition while it is waited for."""
    oldest = names(aged)[0]
    set_policy(aged, "'1 day', retention => '9 days', premake => 0")
    with server.connect(autocommit=False) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        with maintaining(aged, server):
            wait_until(lambda: scalar(aged, PENDING) == 1, "the partition is marked")
            reader.execute("SET LOCAL lock_timeout = '5s'")
            assert scalar(reader, f"SELECT count(*) FROM s.{oldest}") == 1
            assert scalar(reader, "SELECT count(*) FROM s.p") == 11
            reader.rollback()
    assert state(aged, "blocked") is None
    assert len(bounds(aged)) == 10


def test_who_has_the_partition_locked_is_waited_for(
    aged: Connection, server: WatchedServer
) -> None:
    """By its name: neither a user of the table nor of an older snapshot."""
    oldest = names(aged)[0]
    set_policy(aged, "'1 day', retention => '9 days', premake => 0")
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension'"
    with server.connect(autocommit=False) as reader, ThreadPoolExecutor(1) as pool:
        reader.execute(f"LOCK s.{oldest} IN ACCESS SHARE MODE")
        with server.connect() as own:
            own.execute("SET lock_timeout = '60s'")
            running = pool.submit(maintain, own, "s.p")
            wait_until(lambda: running.done() or scalar(aged, waiting), "maintenance waits")
            reader.rollback()
            running.result(100)
    assert state(aged, "blocked") is None
    assert len(bounds(aged)) == 10


def test_younger_snapshots_are_not_waited_for(aged: Connection, server: WatchedServer) -> None:
    """Who looks after the mark cannot know the partition, however long it goes on."""
    leave_marked(aged, server, "'1 day', retention => '9 days', premake => 0")
    aged.execute("SET lock_timeout = '100ms'")
    with server.connect(autocommit=False) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        maintain(aged)
        reader.rollback()
    assert state(aged, "blocked") is None
    assert len(bounds(aged)) == 10


@_WITHOUT_AND_WITH_DEFAULT
def test_a_policy_that_is_withdrawn(aged: Connection, server: WatchedServer, rest: str) -> None:
    execute(aged, rest)
    set_policy(aged, "'1 day', retention => '3 days', retention_action => 'drop', premake => 0")
    with server.connect(autocommit=False) as owner:
        owner.execute("SELECT pg_lookahead_set_interval('s.p', '1 day', premake => 0)")
        with maintaining(aged, server):
            owner.commit()
    assert len(bounds(aged)) == 11
    assert scalar(aged, "SELECT count(*) FROM s.p") == 11
    # What the new policy wants is due at once.
    assert state(aged, "last_run IS NULL AND next_run IS NULL") is True


def test_a_policy_that_is_set_when_all_is_done(aged: Connection, server: WatchedServer) -> None:
    """The state of the run that ends is not that of the policy that comes."""
    set_policy(aged, "'1 day', premake => 0")
    with server.connect(autocommit=False) as owner:
        owner.execute("SELECT pg_lookahead_set_interval('s.p', '1 day', premake => 0)")
        with maintaining(aged, server):
            owner.commit()
    assert state(aged, "last_run IS NULL AND next_run IS NULL") is True


@pytest.mark.parametrize("change", ["retention = NULL", "retention = '1 year'"])
def test_a_policy_that_is_changed_by_hand(
    aged: Connection, server: WatchedServer, change: str
) -> None:
    """Who changes the row itself holds no lock on the table."""
    set_policy(aged, "'1 day', retention => '3 days', retention_action => 'drop', premake => 0")
    with server.connect(autocommit=False) as owner:
        execute(owner, f"UPDATE pg_lookahead_interval_policy SET {change}")
        with maintaining(aged, server):
            owner.commit()
    assert len(bounds(aged)) == 11


@pytest.mark.parametrize(
    "change", ["unset_interval('s.p')", "set_interval('s.p', 1000, premake => 3)"]
)
def test_nothing_is_created_for_a_policy_that_was(
    session: Connection, server: WatchedServer, change: str
) -> None:
    """What was listed is of steps of ten."""
    make(session, "int")
    set_policy(session, "10, premake => 3")
    with server.connect(autocommit=False) as owner:
        execute(owner, f"SELECT pg_lookahead_{change}")
        with maintaining(session, server):
            owner.commit()
    assert bounds(session) == []


@_WITHOUT_AND_WITH_DEFAULT
def test_a_row_that_is_gone_makes_nothing_old(
    session: Connection, server: WatchedServer, rest: str
) -> None:
    """It was seen when partitions were listed, and deleted before the lock was granted."""
    make(session, "int")
    session.execute("SELECT * FROM pg_lookahead_create_range_partitions('s.p', 0, 10, 50)")
    execute(session, rest)
    session.execute("INSERT INTO s.p SELECT generate_series(0, 99); INSERT INTO s.p VALUES (495)")
    set_policy(session, "10, 0, premake => 0, retention => 100, retention_action => 'drop'")
    with server.connect(autocommit=False) as other:
        other.execute("LOCK TABLE s.p IN SHARE ROW EXCLUSIVE MODE")
        with maintaining(session, server):
            other.execute("DELETE FROM s.p WHERE k = 495")
            other.commit()
    assert scalar(session, "SELECT count(*) FROM s.p") == 100
    assert len(bounds(session)) == 50


def test_an_isolation_level_of_the_session(aged: Connection, server: WatchedServer) -> None:
    """One whose transactions keep their first snapshot sees the change of the policy, too."""
    set_policy(aged, "'1 day', retention => '3 days', retention_action => 'drop', premake => 0")
    aged.execute("ALTER ROLE postgres SET default_transaction_isolation = 'repeatable read'")
    try:
        with server.connect(autocommit=False) as owner:
            owner.execute("SELECT pg_lookahead_set_interval('s.p', '1 day', premake => 0)")
            with maintaining(aged, server):
                owner.commit()
    finally:
        aged.execute("ALTER ROLE postgres RESET default_transaction_isolation")
    assert len(bounds(aged)) == 11


def test_an_isolation_level_and_a_second_wait(session: Connection, server: WatchedServer) -> None:
    """Nor does the snapshot from before the wait for the default partition decide."""
    make(session, "int")
    session.execute("SELECT * FROM pg_lookahead_create_range_partitions('s.p', 0, 10, 50)")
    session.execute(_DEFAULT)
    session.execute("INSERT INTO s.p SELECT generate_series(0, 99); INSERT INTO s.p VALUES (495)")
    set_policy(session, "10, 0, premake => 0, retention => 100, retention_action => 'drop'")
    session.execute("ALTER ROLE postgres SET default_transaction_isolation = 'repeatable read'")
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 's.rest'::regclass"
    try:
        with (
            server.connect(autocommit=False) as first,
            server.connect(autocommit=False) as second,
        ):
            # Later it knows the bounds, and needs no lock on the parent.
            second.execute("DELETE FROM s.p_490 WHERE k = 0")
            second.commit()
            first.execute("LOCK TABLE ONLY s.p IN ACCESS SHARE MODE")
            with maintaining(session, server):
                second.execute("LOCK TABLE s.rest IN ACCESS SHARE MODE")
                first.rollback()
                wait_until(lambda: scalar(session, waiting) == 1, "the second wait has begun")
                second.execute("DELETE FROM s.p_490 WHERE k = 495")
                second.commit()
    finally:
        session.execute("ALTER ROLE postgres RESET default_transaction_isolation")
    assert scalar(session, "SELECT count(*) FROM s.p") == 100
    assert len(bounds(session)) == 50


def test_a_partition_of_a_schema_that_the_owner_cannot_use(
    aged: Connection, server: WatchedServer
) -> None:
    """FINALIZE could not name it: it is not marked."""
    oldest = names(aged)[0]
    aged.execute(f"CREATE SCHEMA closed; ALTER TABLE s.{oldest} SET SCHEMA closed")
    aged.execute("ALTER TABLE s.p OWNER TO owner")
    aged.execute(f"ALTER TABLE closed.{oldest} OWNER TO owner")
    set_policy(aged, "'1 day', retention => '9 days', premake => 0")
    maintain(aged)
    assert state(aged, "blocked") == f"{oldest}: permission denied for schema closed"
    assert scalar(aged, PENDING) == 0
    assert scalar(aged, "SELECT count(*) FROM s.p") == 11
    aged.execute("DROP SCHEMA closed CASCADE")


_REFUSE = """
    CREATE FUNCTION s.refuse() RETURNS event_trigger LANGUAGE plpgsql AS
        $$BEGIN RAISE EXCEPTION 'not today'; END$$;
    CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('ALTER TABLE')
        EXECUTE FUNCTION s.refuse()"""


def test_an_event_trigger_that_refuses(aged: Connection) -> None:
    """Where one could fire, nothing is marked."""
    oldest = names(aged)[0]
    aged.execute(_REFUSE)
    set_policy(aged, "'1 day', retention => '9 days', premake => 0")
    maintain(aged)
    aged.execute("DROP EVENT TRIGGER refuse")
    assert state(aged, "blocked") == f"{oldest}: not today"
    assert scalar(aged, PENDING) == 0
    assert scalar(aged, "SELECT count(*) FROM s.p") == 11


def test_what_cannot_be_finished_is_said_loudly(aged: Connection, server: WatchedServer) -> None:
    oldest = leave_marked(aged, server, "'1 day', retention => '9 days', premake => 0")
    aged.execute(_REFUSE)
    told = maintain(aged)
    aged.execute("DROP EVENT TRIGGER refuse")
    half = f'partition "{oldest}" is detached by half, and no query finds its rows: not today'
    assert told == [f'could not maintain the partitions of "p": {half}']
    assert state(aged, "last_error") == half
    maintain(aged)
    assert (state(aged, "last_error"), scalar(aged, PENDING)) == (None, 0)


@pytest.mark.parametrize("ours", ["detaching = NULL", "mark = '3'"])
def test_what_somebody_else_has_marked_is_not_dropped(
    aged: Connection, server: WatchedServer, ours: str
) -> None:
    """It is old, so maintenance ends what was begun; the rows are those of who began it."""
    policy = "'1 day', retention => '9 days', retention_action => 'drop', premake => 0"
    oldest = leave_marked(aged, server, policy)
    execute(aged, f"UPDATE pg_lookahead_interval_state SET {ours}")
    maintain(aged)
    assert scalar(aged, f"SELECT count(*) FROM s.{oldest}") == 1
    assert len(bounds(aged)) == 10


def test_a_mark_that_cannot_be_noted_is_none(aged: Connection, server: WatchedServer) -> None:
    """It is undone, and nobody is told that a partition is detached by half."""
    set_policy(aged, "'1 day', retention => '9 days', premake => 0")
    aged.execute(
        """CREATE FUNCTION s.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NEW.detaching IS NOT NULL THEN RAISE 'not noted'; END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON pg_lookahead_interval_state
        FOR EACH ROW EXECUTE FUNCTION s.refuse()"""
    )
    assert maintain(aged) == []
    aged.execute("DROP TRIGGER refuse ON pg_lookahead_interval_state")
    assert scalar(aged, PENDING) == 0
    assert (state(aged, "last_error"), len(bounds(aged))) == (None, 11)
    maintain(aged)
    assert len(bounds(aged)) == 10


def test_a_mark_outlives_the_policy(aged: Connection, server: WatchedServer) -> None:
    """A policy that comes later knows that maintenance had begun."""
    oldest = leave_marked(aged, server, "'1 day', retention => '9 days', premake => 0")
    aged.execute("SELECT pg_lookahead_unset_interval('s.p')")
    set_policy(aged, "'1 day', premake => 0")
    maintain(aged)
    assert oldest not in names(aged)
    assert (state(aged, "blocked"), scalar(aged, PENDING)) == (None, 0)


def test_a_table_is_waited_for_once_in_a_run(aged: Connection, server: WatchedServer) -> None:
    """Partitions are missing, and ten are old: the first wait that is in vain is the last."""
    set_policy(aged, "'1 day', retention => '1 day', premake => 5")
    aged.execute("SET lock_timeout = '100ms'")
    with server.connect(autocommit=False) as other:
        other.execute("LOCK TABLE s.p IN SHARE MODE")
        maintain(aged)
        other.rollback()
    assert state(aged, "last_error") == "canceling statement due to lock timeout"
    assert state(aged, "blocked") is None
    set_policy(aged, "'1 day', retention => '1 day', premake => 0")
    with server.connect(autocommit=False) as other:
        other.execute("LOCK TABLE s.p IN SHARE MODE")
        maintain(aged)
        other.rollback()
    assert len(state(aged, "blocked").split("\n")) == 1


@pytest.mark.parametrize("concurrently", ["", " CONCURRENTLY"])
def test_somebody_detaches_it_meanwhile(
    aged: Connection, server: WatchedServer, concurrently: str
) -> None:
    oldest = names(aged)[0]
    set_policy(aged, "'1 day', retention => '9 days', retention_action => 'drop', premake => 0")
    with server.connect(autocommit=False) as other, server.connect() as hand:
        other.execute("LOCK TABLE s.p IN SHARE UPDATE EXCLUSIVE MODE")
        with maintaining(aged, server), ThreadPoolExecutor(1) as pool:
            detach: Any = f"ALTER TABLE s.p DETACH PARTITION s.{oldest}{concurrently}"
            running = pool.submit(hand.execute, detach)
            other.rollback()
            # Whoever was second finds nothing to be detached.
            with suppress(psycopg.Error):
                running.result(100)
    maintain(aged)
    assert len(bounds(aged)) == 10
    assert scalar(aged, "SELECT count(*) FROM s.p") == 10


def test_a_default_partition_in_use_is_not_waited_for(
    aged: Connection, server: WatchedServer
) -> None:
    aged.execute(_DEFAULT)
    aged.execute("SET lock_timeout = '100ms'")
    set_policy(aged, "'1 day', retention => '8 days', premake => 0")
    with server.connect(autocommit=False) as reader:
        reader.execute("SELECT count(*) FROM s.rest")
        maintain(aged)
        reader.rollback()
    assert state(aged, "blocked").split("\n") == [
        f"{name}: it is in use" for name in names(aged)[:2]
    ]


@pytest.mark.parametrize("action", ["detach", "drop"])
def test_tables_that_it_references_are_not_waited_for(
    aged: Connection, server: WatchedServer, action: str
) -> None:
    """Nothing is marked that could not be finished, or detached that could not be dropped."""
    aged.execute("CREATE TABLE s.dim (k date PRIMARY KEY); INSERT INTO s.dim SELECT k FROM s.p")
    aged.execute("ALTER TABLE s.p ADD FOREIGN KEY (k) REFERENCES s.dim")
    aged.execute("SET lock_timeout = '100ms'")
    set_policy(
        aged, f"'1 day', retention => '8 days', retention_action => '{action}', premake => 0"
    )
    with server.connect(autocommit=False) as other:
        other.execute("LOCK TABLE s.dim IN ROW EXCLUSIVE MODE")
        maintain(aged)
        other.rollback()
    why = 'table "dim", which it references, is in use'
    assert state(aged, "blocked").split("\n") == [f"{name}: {why}" for name in names(aged)[:2]]
    assert (len(bounds(aged)), scalar(aged, PENDING)) == (11, 0)
    maintain(aged)
    assert (len(bounds(aged)), state(aged, "blocked")) == (9, None)
