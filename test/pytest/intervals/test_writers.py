"""Partitions are made ahead of time while others write into the table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer
from waiting import wait_until

from intervals.policies import (
    WAITED,
    bounds,
    maintain,
    maintaining,
    make,
    set_policy,
    state,
)

_TRIGGER = """
    CREATE FUNCTION s.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
    CREATE TRIGGER f AFTER INSERT ON s.p FOR EACH ROW EXECUTE FUNCTION s.f()"""
_KEY = """
    CREATE TABLE s.target (id int PRIMARY KEY); INSERT INTO s.target VALUES (5);
    ALTER TABLE s.p ADD FOREIGN KEY (k) REFERENCES s.target"""
_REFERENCED = """
    ALTER TABLE s.p ADD UNIQUE (k); CREATE TABLE s.referencing (r int REFERENCES s.p (k))"""
_ITSELF = "ALTER TABLE s.p ADD UNIQUE (k), ADD FOREIGN KEY (k) REFERENCES s.p (k)"


@pytest.mark.parametrize(
    ("statements", "error"),
    [("SELECT", None), (_TRIGGER, None), (_KEY, None), (_REFERENCED, None), (_ITSELF, WAITED)],
    ids=["plain", "trigger", "key", "to it", "to itself"],
)
def test_a_writer_is_not_waited_for(
    server: WatchedServer, session: Connection, statements: str, error: str | None
) -> None:
    make(session, "int")
    dynamic: Any = statements
    session.execute(dynamic)
    set_policy(session, "10, premake => 1")
    maintain(session)
    before = len(bounds(session))
    set_policy(session, "10, premake => 4")
    with server.connect() as other, other.transaction():
        other.execute("INSERT INTO s.p VALUES (5)")
        session.execute("SET lock_timeout = '100ms'")
        maintain(session)
        assert state(session, "last_error") == error
        assert (len(bounds(session)) > before) == (error is None)
        assert scalar(other, "SELECT count(*) FROM s.p") == 1
    session.execute("RESET lock_timeout")
    maintain(session)
    assert state(session, "last_error") is None
    assert len(bounds(session)) > before


_AHEAD = "10, 0, premake => 1"
_OLD = "10, 0, premake => 0, retention => 190"
_ROW_AHEAD = "INSERT INTO s.target VALUES (6); INSERT INTO s.p VALUES (6)"
_DIRECT = "UPDATE s.rest SET t = 'a'; INSERT INTO s.p VALUES (6)"
_ROW_OLD = "INSERT INTO s.referencing VALUES (205)"


def _prepare(session: Connection, statements: str, policy: str) -> None:
    """Table s.p with a partition that is old, or misses one, which need the strongest lock."""
    make(session, "int")
    session.execute("SELECT * FROM pg_lookahead_create_range_partitions('s.p', 0, 10, 21)")
    session.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT")
    session.execute("INSERT INTO s.p VALUES (5), (205)")
    dynamic: Any = statements.replace("(5)", "(5), (205)")
    session.execute(dynamic)
    set_policy(session, policy)


@pytest.mark.parametrize(
    ("statements", "policy", "writes"),
    [(_KEY, _AHEAD, _ROW_AHEAD), (_REFERENCED, _OLD, _ROW_OLD), ("SELECT", _AHEAD, _DIRECT)],
    ids=["ahead", "old", "default"],
)
def test_a_writer_behind_us_is_no_victim_of_a_deadlock(
    server: WatchedServer, session: Connection, statements: str, policy: str, writes: str
) -> None:
    """It has locked the table at the other end of a foreign key, or the default one, the next."""
    _prepare(session, statements, policy)
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 's.p'::regclass"
    with server.connect(autocommit=False) as reader, server.connect(autocommit=False) as writer:
        reader.execute("LOCK TABLE ONLY s.p IN ACCESS SHARE MODE")
        with maintaining(session, server), ThreadPoolExecutor(1) as pool:
            written = pool.submit(writer.execute, writes.encode())
            wait_until(lambda: scalar(session, waiting) == 2, "the writer waits")
            reader.rollback()
            written.result(100)
            writer.commit()
    assert WAITED in f"{state(session, 'last_error')} {state(session, 'blocked')}"
    maintain(session)
    assert (state(session, "last_error"), state(session, "blocked")) == (None, None)


def test_writers_wait_behind_us_for_less_than_deadlock_timeout(
    server: WatchedServer, session: Connection
) -> None:
    """However long we may wait for the table: then they look for deadlocks."""
    _prepare(session, _KEY, _AHEAD)
    with server.connect(autocommit=False) as reader, server.connect(autocommit=False) as writer:
        reader.execute("LOCK TABLE ONLY s.p IN ACCESS SHARE MODE")
        with maintaining(session, server):
            writer.execute("SET lock_timeout = '30s'")
            writer.execute(_ROW_AHEAD.encode())
            writer.commit()
    assert WAITED in state(session, "last_error")


@pytest.mark.parametrize(
    ("statements", "policy", "table", "left"),
    [
        (_KEY, _AHEAD, "target", 22),
        (_REFERENCED, _OLD, "referencing", 20),
        (_KEY, _AHEAD, "rest", 22),
    ],
    ids=["ahead", "old", "default"],
)
def test_who_vacuums_another_table_is_waited_for(
    server: WatchedServer, session: Connection, statements: str, policy: str, table: str, left: int
) -> None:
    """While nobody is locked out."""
    _prepare(session, statements, policy)
    with server.connect(autocommit=False) as vacuum, server.connect() as writer:
        dynamic: Any = f"LOCK TABLE s.{table} IN SHARE UPDATE EXCLUSIVE MODE"
        vacuum.execute(dynamic)
        with maintaining(session, server):
            writer.execute("SET lock_timeout = '5s'; UPDATE s.p SET t = 'a'")
            vacuum.rollback()
    assert (state(session, "last_error"), state(session, "blocked")) == (None, None)
    assert len(bounds(session)) == left


def test_who_locks_the_table_for_long_is_met_again_within_minutes(
    server: WatchedServer, session: Connection
) -> None:
    """Other errors have the next run wait twice as long, up to an hour."""
    make(session, "int")
    set_policy(session, "10, premake => 1")
    session.execute("SET lock_timeout = '50ms'")
    with server.connect(autocommit=False) as other:
        other.execute("LOCK TABLE ONLY s.p IN SHARE UPDATE EXCLUSIVE MODE")
        for _ in range(5):
            maintain(session)
    assert state(session, "last_error") == WAITED
    wait = "SELECT next_run - last_run FROM pg_lookahead_interval_state"
    assert scalar(session, wait) == timedelta(minutes=8)


def test_partitions_that_reference_are_not_waited_for(
    server: WatchedServer, session: Connection
) -> None:
    """PostgreSQL locks the table of them."""
    partitioned = f"""{_REFERENCED} PARTITION BY LIST (r);
        CREATE TABLE s.part PARTITION OF s.referencing DEFAULT"""
    _prepare(session, partitioned, _OLD)
    session.execute("SET lock_timeout = '200ms'")
    with server.connect(autocommit=False) as vacuum:
        vacuum.execute("LOCK TABLE s.part IN SHARE UPDATE EXCLUSIVE MODE")
        maintain(session)
    assert (state(session, "last_error"), state(session, "blocked")) == (None, None)
    assert len(bounds(session)) == 20
