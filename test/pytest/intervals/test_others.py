"""What an owner, or a client, does that must not stop the maintenance of other tables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer
from waiting import wait_until

from intervals.policies import bounds, maintain, make, set_policy, state


def _other(session: Connection) -> None:
    """Table s.z, which is maintained after the others."""
    session.execute("CREATE TABLE s.z (k int) PARTITION BY RANGE (k)")
    set_policy(session, "10", "s.z")


def test_an_owner_in_the_middle_of_a_change_stops_no_others(
    session: Connection, server: WatchedServer
) -> None:
    """Nothing is to be done, and only the state has to be written, which is locked."""
    make(session, "int")
    set_policy(session, "10")
    maintain(session)
    _other(session)
    session.execute("SET lock_timeout = '100ms'")
    with server.connect(autocommit=False) as owner:
        owner.execute("SELECT pg_lookahead_set_interval('s.p', 10)")
        told = maintain(session)
        owner.rollback()
    because = "canceling statement due to lock timeout"
    assert told == [f'could not maintain the partitions of "p": {because}']
    assert len(bounds(session, "s.z")) == 5


def test_a_state_that_is_locked_is_waited_for_once(
    session: Connection, server: WatchedServer
) -> None:
    """The table is locked meanwhile."""
    make(session, "date")
    session.execute(
        "SELECT * FROM pg_lookahead_create_range_partitions('s.p', current_date - 10, '1 day', 11)"
    )
    set_policy(session, "'1 day', retention => '3 days', premake => 0")
    session.execute("SET lock_timeout = '100ms'")
    with server.connect(autocommit=False) as other:
        other.execute("SELECT FROM pg_lookahead_interval_state FOR UPDATE")
        told = maintain(session)
        other.rollback()
    because = "canceling statement due to lock timeout"
    assert told == [f'could not maintain the partitions of "p": {because}']
    assert len(bounds(session)) == 11
    maintain(session)
    assert len(bounds(session)) == 4


def test_what_a_client_cannot_be_told_stops_no_others(
    session: Connection, server: WatchedServer
) -> None:
    session.execute('CREATE TABLE s."漢" (k int) PARTITION BY RANGE (k)')
    session.execute("CREATE VIEW s.fixed_0 AS SELECT 1")
    set_policy(session, "10, names => 'fixed_{bound}'", 's."漢"')
    _other(session)
    with server.connect(client_encoding="latin1") as client:
        client.execute("CALL pg_lookahead_maintain_partitions()")
    assert len(bounds(session, "s.z")) == 5
    assert "fixed_0" in state(session, "last_error", 's."漢"')


@pytest.mark.parametrize("last", ["SELECT", "DROP TABLE s.z"])
def test_the_callers_isolation_level_stays(
    session: Connection, server: WatchedServer, last: str
) -> None:
    """Also where the last policy is that of a table which is no more."""
    make(session, "int")
    set_policy(session, "10")
    _other(session)
    dynamic: Any = last
    session.execute(dynamic)
    with server.connect(options="-c default_transaction_isolation=serializable") as caller:
        caller.execute(
            """DO $$BEGIN CALL pg_lookahead_maintain_partitions();
            ASSERT current_setting('transaction_isolation') = 'serializable'; END$$"""
        )
    assert len(bounds(session)) == 5


def test_a_function_that_gives_up_advisory_locks(
    session: Connection, server: WatchedServer
) -> None:
    """Of who maintains the table: nobody else does so meanwhile."""
    make(session, "int")
    set_policy(session, "10, premake => 1")
    session.execute(
        """CREATE FUNCTION s.one() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN
            PERFORM pg_advisory_unlock_all();
            WHILE NOT pg_try_advisory_xact_lock_shared(1) LOOP PERFORM pg_sleep(0.01); END LOOP;
            RETURN 1;
        END$$"""
    )
    session.execute("CREATE INDEX ON s.p ((k + s.one()))")
    session.execute("SELECT pg_advisory_lock(1)")
    stalled = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    with server.connect() as own, server.connect() as other, ThreadPoolExecutor(1) as pool:
        running = pool.submit(maintain, own)
        wait_until(lambda: running.done() or scalar(other, stalled), "a partition is created")
        is_running = state(other, "running")
        session.execute("SELECT pg_advisory_unlock(1)")
        running.result(100)
    assert is_running is True
    assert (len(bounds(session)), state(session, "last_error")) == (2, None)
