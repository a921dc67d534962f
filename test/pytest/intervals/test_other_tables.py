"""Tables that are locked beside the one that is maintained, and who has them meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from extension.probes import QUIET, Connection, scalar
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from intervals.policies import (
    REFERENCED,
    WAITED,
    bounds,
    execute,
    leave_marked,
    maintain,
    maintaining,
    make,
    names,
    seq_scans,
    set_policy,
    state,
)
from lookahead.extension import Stage

_AHEAD = "'1 day', premake => 1"
_OLD = "'1 day', retention => '9 days', premake => 0"
_DROP = f"{_OLD}, retention_action => 'drop'"
_DEFAULT = "CREATE TABLE s.rest PARTITION OF s.p DEFAULT"
_CHECK = """
    CREATE FUNCTION s.one() RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1';
    ALTER TABLE s.p ADD CHECK (s.one() > 0)"""
_COMMITTING = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
_AHEAD_OR_OLD = pytest.mark.parametrize(
    ("what", "left"), [("ahead", 12), ("old", 10)], ids=["ahead", "old"]
)


def _reference(session: Connection, *tables: str) -> None:
    """Foreign keys of s.p to new tables, which are locked in this order."""
    for table in tables:
        execute(session, f"CREATE TABLE s.{table} (k date PRIMARY KEY)")
        execute(session, f"INSERT INTO s.{table} SELECT k FROM s.p")
        execute(session, f"ALTER TABLE s.p ADD FOREIGN KEY (k) REFERENCES s.{table}")


def _has_waited(session: Connection, time: str, table: str = "a") -> bool:
    """Whether somebody has waited for a table for so long."""
    query = f"""
        SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 's.{table}'::regclass
            AND waitstart < clock_timestamp() - interval '{time}'"""
    return bool(scalar(session, query))


def _said(session: Connection) -> str:
    return f"{state(session, 'last_error')} {state(session, 'blocked')}"


@_AHEAD_OR_OLD
def test_who_waits_behind_the_first_of_two_tables_is_no_victim(
    aged: Connection, server: WatchedServer, what: str, left: int
) -> None:
    """It has the second one, and would look for a deadlock before we do."""
    _reference(aged, "a", "b")
    if what == "old":
        leave_marked(aged, server, _DROP)
    else:
        set_policy(aged, _AHEAD)
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 's.a'::regclass"
    with server.connect(autocommit=False) as holder, server.connect(autocommit=False) as writer:
        holder.execute("LOCK s.a IN ROW EXCLUSIVE MODE")
        writer.execute("SET deadlock_timeout = '5s'; LOCK s.b IN ROW EXCLUSIVE MODE")
        with maintaining(aged, server, deadlock="5s"), ThreadPoolExecutor(1) as pool:
            wanted = pool.submit(writer.execute, "LOCK s.a IN ROW EXCLUSIVE MODE")
            wait_until(lambda: scalar(aged, waiting) == 2, "the writer waits")
            holder.rollback()
            wanted.result(100)
            writer.rollback()
    assert WAITED in _said(aged)
    maintain(aged)
    assert (state(aged, "last_error"), state(aged, "blocked")) == (None, None)
    assert len(bounds(aged)) == left


def test_two_tables_are_waited_for_until_shortly_before(
    aged: Connection, server: WatchedServer
) -> None:
    """Nobody of those who wait has waited for the table, which took no time."""
    _reference(aged, "a", "b")
    set_policy(aged, _AHEAD)
    with server.connect(autocommit=False) as writer:
        writer.execute("LOCK s.a IN ROW EXCLUSIVE MODE")
        with maintaining(aged, server, deadlock="4s") as running:
            wait_until(lambda: running.done() or _has_waited(aged, "1.5 s"), "it has waited")
            writer.rollback()
    assert (state(aged, "last_error"), len(bounds(aged))) == (None, 12)


def test_a_table_at_both_ends_is_one(aged: Connection, server: WatchedServer) -> None:
    """For which lock_timeout counts."""
    aged.execute("ALTER TABLE s.p ADD PRIMARY KEY (k)")
    _reference(aged, "a")
    aged.execute("ALTER TABLE s.a ADD FOREIGN KEY (k) REFERENCES s.p")
    set_policy(aged, _AHEAD)
    with server.connect(autocommit=False) as writer:
        writer.execute("LOCK s.a IN ROW EXCLUSIVE MODE")
        with maintaining(aged, server, deadlock="300ms") as running:
            wait_until(lambda: running.done() or _has_waited(aged, "0.4 s"), "it has waited")
            writer.rollback()
    assert (state(aged, "last_error"), len(bounds(aged))) == (None, 12)


def test_references_are_not_read_in_vain(aged: Connection, server: WatchedServer) -> None:
    """While the table is locked: what references it is locked against readers in the end."""
    execute(aged, REFERENCED)
    aged.execute("SET enable_nestloop = off; SET enable_mergejoin = off")
    set_policy(aged, _OLD)
    before = seq_scans(aged, "f")
    with server.connect(autocommit=False) as reader:
        reader.execute("LOCK s.f IN ACCESS SHARE MODE")
        maintain(aged)
        reader.rollback()
    assert WAITED in state(aged, "blocked")
    # When nobody was locked out yet.
    assert seq_scans(aged, "f") == before + 1
    maintain(aged)
    assert (state(aged, "blocked"), len(bounds(aged))) == (None, 10)


@pytest.mark.parametrize("mode", ["ROW EXCLUSIVE", "ACCESS EXCLUSIVE"])
def test_referencing_tables_are_waited_for_once(
    aged: Connection, server: WatchedServer, mode: str
) -> None:
    """For several old ones; with the table locked, or to look whether it has to be."""
    aged.execute("ALTER TABLE s.p ADD PRIMARY KEY (k); CREATE TABLE s.f (k date REFERENCES s.p)")
    aged.execute("SET lock_timeout = '100ms'")
    set_policy(aged, "'1 day', retention => '3 days', premake => 0")
    with server.connect(autocommit=False) as writer:
        execute(writer, f"LOCK TABLE s.f IN {mode} MODE")
        maintain(aged)
        writer.rollback()
    assert len(state(aged, "blocked").split("\n")) == 1
    maintain(aged)
    assert len(bounds(aged)) == 4


def test_partitions_of_old_ones_are_looked_at_before(
    session: Connection, server: WatchedServer
) -> None:
    """Else the table is locked in vain for each while they are vacuumed."""
    make(session, "int")
    for low in range(0, 50, 10):
        execute(
            session,
            f"""
            CREATE TABLE s.p{low} PARTITION OF s.p FOR VALUES FROM ({low}) TO ({low + 10})
                PARTITION BY RANGE (t);
            CREATE TABLE s.p{low}x PARTITION OF s.p{low} DEFAULT""",
        )
    session.execute(f"{_DEFAULT}; INSERT INTO s.p VALUES (45)")
    session.execute("SET lock_timeout = '100ms'")
    set_policy(session, "10, 0, premake => 0, retention => 20")
    with (
        server.connect(autocommit=False) as vacuum,
        server.connect(autocommit=False) as reader,
    ):
        vacuum.execute("LOCK s.p0x, s.p10x IN SHARE UPDATE EXCLUSIVE MODE")
        reader.execute("LOCK TABLE ONLY s.p IN ACCESS SHARE MODE")
        maintain(session)
        assert state(session, "blocked") == "p0: it is in use\np10: it is in use"
        vacuum.rollback()
    maintain(session)
    assert (state(session, "blocked"), len(bounds(session))) == (None, 3)


def test_the_default_partition_is_not_read_in_vain(aged: Connection, server: WatchedServer) -> None:
    """By a statement of PostgreSQL, which locks the referenced table behind that."""
    _reference(aged, "a")
    execute(aged, f"{_CHECK}; {_DEFAULT}")
    set_policy(aged, _AHEAD)
    before = seq_scans(aged, "rest")
    with server.connect(autocommit=False) as writer:
        writer.execute("LOCK s.a IN ROW EXCLUSIVE MODE")
        maintain(aged)
        writer.rollback()
    assert state(aged, "last_error") == WAITED
    assert seq_scans(aged, "rest") == before
    maintain(aged)
    assert (state(aged, "last_error"), len(bounds(aged))) == (None, 12)


def test_what_is_left_of_a_wait_limits_no_work(aged: Connection) -> None:
    """That of catalogs and names has its own time, and nothing else has it."""
    _reference(aged, "a")
    aged.execute("""
        CREATE TABLE s.seen (setting text);
        CREATE FUNCTION s.f() RETURNS event_trigger LANGUAGE plpgsql AS
        $$BEGIN INSERT INTO s.seen VALUES (current_setting('lock_timeout')); END$$""")
    set_policy(aged, _AHEAD)
    aged.execute("SET deadlock_timeout = '60ms'")
    aged.execute("CREATE EVENT TRIGGER f ON ddl_command_end EXECUTE FUNCTION s.f()")
    maintain(aged)
    aged.execute("DROP EVENT TRIGGER f")
    assert aged.execute("SELECT DISTINCT setting FROM s.seen").fetchall() == [("50ms",)]


@_AHEAD_OR_OLD
def test_who_vacuums_one_is_waited_for_until_it_would_give_way(
    aged: Connection, server: WatchedServer, what: str, left: int
) -> None:
    """An autovacuum does after deadlock_timeout, which can be longer than lock_timeout."""
    _reference(aged, "a")
    vacuumed = "a"
    if what == "old":
        vacuumed = leave_marked(aged, server, _DROP)
    else:
        set_policy(aged, _AHEAD)
    with (
        server.connect(autocommit=False) as vacuum,
        server.connect() as own,
        ThreadPoolExecutor(1) as pool,
    ):
        own.execute("SET lock_timeout = '50ms'; SET deadlock_timeout = '20s'")
        execute(vacuum, f"LOCK s.{vacuumed} IN SHARE UPDATE EXCLUSIVE MODE")
        running = pool.submit(maintain, own)
        wait_until(lambda: running.done() or _has_waited(aged, "0.5 s", vacuumed), "it waits")
        vacuum.rollback()
        running.result(100)
    assert (state(aged, "last_error"), state(aged, "blocked")) == (None, None)
    assert len(bounds(aged)) == left


def test_who_vacuums_one_is_not_waited_for_after_the_policy(
    aged: Connection, server: WatchedServer
) -> None:
    """It was removed while references were read, or waited for."""
    execute(aged, REFERENCED)
    _reference(aged, "a")
    set_policy(aged, _OLD)
    with (
        server.connect(autocommit=False) as vacuum,
        server.connect(autocommit=False) as holder,
    ):
        vacuum.execute("LOCK s.a IN SHARE UPDATE EXCLUSIVE MODE")
        holder.execute("LOCK s.f IN ACCESS EXCLUSIVE MODE")
        with maintaining(aged, server, deadlock="10s") as running:
            aged.execute("DELETE FROM pg_lookahead_interval_policy")
            holder.rollback()
            running.result(10)
        vacuum.rollback()
    assert len(bounds(aged)) == 11


def test_what_needs_no_other_table_is_done(aged: Connection, server: WatchedServer) -> None:
    """While one of them is vacuumed, for which the next run comes again within minutes."""
    _reference(aged, "a")
    set_policy(aged, f"{_AHEAD}, analyze_every => '1 day'")
    aged.execute("SET deadlock_timeout = '20ms'")
    with server.connect(autocommit=False) as vacuum:
        vacuum.execute("LOCK s.a IN SHARE UPDATE EXCLUSIVE MODE")
        for _ in range(5):
            maintain(aged)
        vacuum.rollback()
    assert state(aged, "last_error") == WAITED
    assert state(aged, "last_analyze") is not None
    wait = "SELECT next_run - last_run FROM pg_lookahead_interval_state"
    assert scalar(aged, wait) == timedelta(minutes=8)


def test_a_stronger_lock_is_waited_for_alone(aged: Connection, server: WatchedServer) -> None:
    """A default partition comes while the table is waited for in the mode for a table without."""
    aged.execute("CREATE TABLE s.rest (LIKE s.p)")
    set_policy(aged, _AHEAD)
    waiting = """
        SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 's.p'::regclass
            AND mode = 'AccessExclusiveLock'"""
    with (
        server.connect(autocommit=False) as owner,
        server.connect(autocommit=False) as reader,
        server.connect() as writer,
    ):
        reader.execute("LOCK TABLE ONLY s.p IN ACCESS SHARE MODE")
        owner.execute("LOCK TABLE ONLY s.p IN SHARE UPDATE EXCLUSIVE MODE")
        with maintaining(aged, server):
            owner.execute("ALTER TABLE s.p ATTACH PARTITION s.rest DEFAULT")
            owner.commit()
            wait_until(lambda: scalar(aged, waiting), "the table is waited for anew")
            writer.execute("SET lock_timeout = '20s'; INSERT INTO s.p VALUES (current_date)")
        reader.rollback()
    assert state(aged, "last_error") == WAITED
    maintain(aged)
    assert (state(aged, "last_error"), len(bounds(aged))) == (None, 12)


@contextmanager
def _standby_that_does_not_answer(
    server_factory: ServerFactory, stage: Stage
) -> Iterator[WatchedServer]:
    """A server with table s.p, and a role whose commits wait for ever."""
    settings = {**QUIET, "synchronous_standby_names": "nobody", "synchronous_commit": "local"}
    with server_factory(stage=stage, settings=settings) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
            make(session, "int")
            session.execute(_DEFAULT)
        yield started


@contextmanager
def _committing(session: Connection, own: Connection, call: str) -> Iterator[Future[Any]]:
    """A procedure whose commits wait for the standby, which are canceled in the end."""
    cancel = f"SELECT pg_cancel_backend(pid) {_COMMITTING}"
    own.execute("SET synchronous_commit = on; SET deadlock_timeout = '20s'")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(execute, own, call)
        try:
            yield running
        finally:
            wait_until(lambda: running.done() or session.execute(cancel) is None, "it ends")
        running.result(100)


def _commits(session: Connection) -> bool:
    return bool(scalar(session, f"SELECT count(*) {_COMMITTING}"))


def test_a_standby_that_does_not_answer(server_factory: ServerFactory, stage: Stage) -> None:
    """Commits wait for it, but not with the table locked."""
    with (
        _standby_that_does_not_answer(server_factory, stage) as started,
        started.connect() as session,
        started.connect() as own,
    ):
        set_policy(session, "10, premake => 2")
        with _committing(session, own, "CALL pg_lookahead_maintain_partitions()") as running:
            wait_until(lambda: running.done() or _commits(session), "a commit waits")
            session.execute("SET lock_timeout = '5s'")
            assert scalar(session, "SELECT count(*) FROM s.p") == 0
            assert len(names(session)) == 4


def test_a_standby_while_rows_move(server_factory: ServerFactory, stage: Stage) -> None:
    """Nor with the default partition locked, for which it has waited alone."""
    with (
        _standby_that_does_not_answer(server_factory, stage) as started,
        started.connect() as session,
        started.connect() as own,
        started.connect(autocommit=False) as reader,
    ):
        session.execute("INSERT INTO s.p VALUES (1), (11)")
        set_policy(session, "10, premake => 0")
        reader.execute("LOCK TABLE s.rest IN ACCESS SHARE MODE")
        call = "CALL pg_lookahead_move_default_rows('s.p')"
        with _committing(session, own, call) as running:
            wait_until(lambda: running.done() or _has_waited(session, "0.3 s", "rest"), "alone")
            reader.rollback()
            wait_until(lambda: running.done() or _commits(session), "it goes on")
            session.execute("SET lock_timeout = '5s'")
            assert scalar(session, "SELECT count(*) FROM s.p") == 2
