"""Foreign keys to a partitioned table, whose partitions PostgreSQL locks, too."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer
from waiting import wait_until

from intervals.policies import (
    PENDING,
    REFERENCED,
    WAITED,
    bounds,
    execute,
    leave_marked,
    maintain,
    maintaining,
    seq_scans,
    set_policy,
    state,
)

_AHEAD = "'1 day', premake => 1"
_DROP = "'1 day', retention => '9 days', premake => 0, retention_action => 'drop'"
_REFERENCING = """
    CREATE TABLE s.a (k date PRIMARY KEY) PARTITION BY RANGE (k);
    CREATE TABLE s.a1 PARTITION OF s.a FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
    INSERT INTO s.a SELECT k FROM s.p;
    ALTER TABLE s.p ADD FOREIGN KEY (k) REFERENCES s.a"""
# More subtransactions than other snapshots name.
_SUBTRANSACTIONS = """
    DO $$BEGIN FOR i IN 1..70 LOOP
        BEGIN INSERT INTO s.busy VALUES (i); EXCEPTION WHEN OTHERS THEN NULL; END;
    END LOOP; END$$"""
_OVERFLOW = "a transaction has more subtransactions than a snapshot names"
_WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 's.{}'::regclass"


@pytest.fixture
def referencing(aged: Connection) -> Iterator[Connection]:
    """Rows of s.p have to be in s.a, whose only partition is s.a1."""
    aged.execute(_REFERENCING)
    yield aged


def _waits(session: Connection, table: str) -> int:
    return int(scalar(session, _WAITING.format(table)))


def _overflow(session: Connection, other: Connection) -> None:
    session.execute("CREATE TABLE s.busy (i int)")
    other.execute(_SUBTRANSACTIONS)
    # Behind it, so that snapshots have to say that it runs.
    session.execute("INSERT INTO s.busy VALUES (0)")


def _assert_done(session: Connection, left: int) -> None:
    assert (state(session, "last_error"), state(session, "blocked")) == (None, None)
    assert len(bounds(session)) == left


def _assert_a1_is_looked_at(session: Connection, server: WatchedServer) -> None:
    """Nothing is marked while a vacuum has s.a1, and all is done behind it."""
    set_policy(session, _DROP)
    with server.connect(autocommit=False) as vacuum:
        vacuum.execute("LOCK s.a1 IN SHARE UPDATE EXCLUSIVE MODE")
        maintain(session)
        vacuum.rollback()
    assert 'table "a1", which it references, is in use' in state(session, "blocked")
    assert scalar(session, PENDING) == 0
    maintain(session)
    _assert_done(session, 10)


def test_nothing_is_marked_while_one_is_in_use(
    referencing: Connection, server: WatchedServer
) -> None:
    """By a vacuum, say: its rows would be hidden until that ends."""
    _assert_a1_is_looked_at(referencing, server)


def test_a_vacuum_of_one_gives_way(referencing: Connection, server: WatchedServer) -> None:
    """Before the table that is referenced is locked."""
    leave_marked(referencing, server, _DROP)
    with (
        server.connect(autocommit=False) as vacuum,
        server.connect() as own,
        server.connect() as reader,
        ThreadPoolExecutor(1) as pool,
    ):
        own.execute("SET lock_timeout = '50ms'; SET deadlock_timeout = '20s'")
        reader.execute("SET lock_timeout = '5s'")
        vacuum.execute("LOCK s.a1 IN SHARE UPDATE EXCLUSIVE MODE")
        running = pool.submit(maintain, own)
        wait_until(lambda: running.done() or _waits(referencing, "a1"), "maintenance waits")
        reader.execute("SELECT count(*) FROM s.a")
        vacuum.rollback()
        running.result(100)
    _assert_done(referencing, 10)


def test_who_has_one_and_waits_behind_us_is_no_victim(
    referencing: Connection, server: WatchedServer
) -> None:
    """He would look for a deadlock before we do."""
    leave_marked(referencing, server, _DROP)
    with server.connect(autocommit=False) as holder, server.connect(autocommit=False) as writer:
        holder.execute("LOCK s.a IN ACCESS SHARE MODE")
        writer.execute("SET deadlock_timeout = '4s'; LOCK s.a1 IN ROW EXCLUSIVE MODE")
        with maintaining(referencing, server, deadlock="4s"), ThreadPoolExecutor(1) as pool:
            wanted = pool.submit(writer.execute, "SELECT count(*) FROM s.a")
            wait_until(lambda: _waits(referencing, "a") == 2, "the writer waits")
            holder.rollback()
            wanted.result(100)
            writer.rollback()
    assert WAITED in state(referencing, "blocked")
    maintain(referencing)
    _assert_done(referencing, 10)


@pytest.mark.parametrize("is_marked", [False, True], ids=["before-the-mark", "marked"])
def test_nobody_is_waited_for_while_references_are_locked(
    referencing: Connection, server: WatchedServer, is_marked: bool
) -> None:
    """FINALIZE would wait for whoever has a snapshot, also who waits for the referenced tables."""
    if is_marked:
        leave_marked(referencing, server, _DROP)
    else:
        set_policy(referencing, _DROP)
    with server.connect(autocommit=False) as other:
        _overflow(referencing, other)
        if is_marked:
            # Nor are they locked, or waited for.
            other.execute("LOCK s.a IN ACCESS SHARE MODE")
        maintain(referencing)
        assert _OVERFLOW in state(referencing, "blocked")
        assert scalar(referencing, PENDING) == is_marked
        soon = "extract(epoch FROM next_run - last_run) <= 480"
        assert state(referencing, soon) is True or not is_marked
    maintain(referencing)
    _assert_done(referencing, 10)


def test_subtransactions_that_come_while_references_are_waited_for(
    referencing: Connection, server: WatchedServer
) -> None:
    """By the time at which they are locked it is too late to wait."""
    leave_marked(referencing, server, _DROP)
    with server.connect(autocommit=False) as reader, server.connect(autocommit=False) as other:
        reader.execute("LOCK s.a IN ACCESS SHARE MODE")
        with maintaining(referencing, server):
            _overflow(referencing, other)
            reader.rollback()
        other.rollback()
    assert _OVERFLOW in state(referencing, "blocked")
    maintain(referencing)
    _assert_done(referencing, 10)


def test_references_are_not_locked_in_vain_for_one_that_is_read(
    referencing: Connection, server: WatchedServer
) -> None:
    """By its own name, when it is marked."""
    oldest = leave_marked(referencing, server, _DROP)
    referencing.execute("SET lock_timeout = '100ms'")
    with server.connect(autocommit=False) as reader:
        execute(reader, f"LOCK s.{oldest}, s.a IN ACCESS SHARE MODE")
        maintain(referencing)
        reader.rollback()
    assert state(referencing, "blocked") == f"{oldest}: it is in use"
    maintain(referencing)
    _assert_done(referencing, 10)


def test_nothing_is_marked_while_somebody_waits_for_one(
    referencing: Connection, server: WatchedServer
) -> None:
    """For a reader, who would not be in the way of a lock that detaches; its waiter would."""
    set_policy(referencing, _DROP.replace("drop", "detach"))
    with (
        server.connect(autocommit=False) as reader,
        server.connect() as other,
        ThreadPoolExecutor(1) as pool,
    ):
        reader.execute("LOCK s.a IN ACCESS SHARE MODE")
        waiting = pool.submit(other.execute, "ALTER TABLE s.a ADD b int")
        wait_until(lambda: waiting.done() or _waits(referencing, "a"), "somebody waits")
        maintain(referencing)
        assert not waiting.done()
        reader.rollback()
        waiting.result(100)
    assert scalar(referencing, PENDING) == 0
    assert 'table "a", which it references, is in use' in state(referencing, "blocked")
    maintain(referencing)
    _assert_done(referencing, 10)


def _use_in_turn(server: WatchedServer, stop: Event) -> None:
    """Somebody always has s.a, and nobody for long, until one waits behind maintenance."""
    use = "SET LOCAL lock_timeout = '300ms'; LOCK s.a IN ACCESS SHARE MODE"
    with (
        server.connect(autocommit=False) as one,
        server.connect(autocommit=False) as other,
        suppress(psycopg.errors.LockNotAvailable),
    ):
        one.execute(use)
        while not stop.is_set():
            other.execute(use)
            one.rollback()
            one.execute(use)
            other.rollback()


def test_who_uses_one_for_a_moment_keeps_nothing(
    referencing: Connection, server: WatchedServer
) -> None:
    """One after the other, so that there is no moment without anybody."""
    set_policy(referencing, _DROP)
    referencing.execute("SET deadlock_timeout = '10s'")
    used = "SELECT count(*) FROM pg_locks WHERE granted AND relation = 's.a'::regclass"
    stop = Event()
    with ThreadPoolExecutor(1) as pool:
        using = pool.submit(_use_in_turn, server, stop)
        wait_until(lambda: using.done() or scalar(referencing, used), "it is in use")
        for _ in range(5):  # on a busy machine a moment may be longer
            maintain(referencing)
            if using.done():
                break
        stop.set()
        using.result(100)
    referencing.execute("RESET deadlock_timeout")
    _assert_done(referencing, 10)


def test_references_are_not_read_in_vain_for_one(
    referencing: Connection, server: WatchedServer
) -> None:
    """A table is referenced as well, and would be read while it is locked."""
    referencing.execute(REFERENCED)
    referencing.execute("SET enable_nestloop = off; SET enable_mergejoin = off")
    set_policy(referencing, _DROP)
    before = seq_scans(referencing, "f")
    with server.connect(autocommit=False) as writer:
        writer.execute("LOCK s.a1 IN ROW EXCLUSIVE MODE")
        maintain(referencing)
        writer.rollback()
    assert WAITED in state(referencing, "blocked")
    # When nobody was locked out yet.
    assert seq_scans(referencing, "f") == before + 1
    maintain(referencing)
    _assert_done(referencing, 10)


def test_it_is_locked_before_its_partitions(referencing: Connection, server: WatchedServer) -> None:
    """As writers do, whatever the names of keys: else two who follow each other stop us."""
    referencing.execute("ALTER TABLE s.p RENAME CONSTRAINT p_k_fkey TO z")
    set_policy(referencing, _AHEAD)

    def write() -> None:
        with server.connect() as writer:
            writer.execute("INSERT INTO s.a VALUES ('1800-01-01')")

    with server.connect(autocommit=False) as holder, ThreadPoolExecutor(1) as pool:
        holder.execute("INSERT INTO s.a VALUES ('1700-01-01')")
        with maintaining(referencing, server, deadlock="2s"):
            writing = pool.submit(write)
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            wait_until(lambda: scalar(referencing, waiting) == 2, "the writer waits")
            holder.rollback()
        writing.result(100)
    _assert_done(referencing, 12)


def test_tables_that_inherit_are_none(aged: Connection, server: WatchedServer) -> None:
    """They are not referenced, and not locked."""
    aged.execute("""
        CREATE TABLE s.a (k date PRIMARY KEY); CREATE TABLE s.a1 () INHERITS (s.a);
        INSERT INTO s.a SELECT k FROM s.p; ALTER TABLE s.p ADD FOREIGN KEY (k) REFERENCES s.a""")
    aged.execute("SET lock_timeout = '100ms'; SET deadlock_timeout = '20ms'")
    set_policy(aged, _AHEAD)
    with server.connect(autocommit=False) as vacuum:
        vacuum.execute("LOCK TABLE s.a1 IN SHARE UPDATE EXCLUSIVE MODE")
        maintain(aged)
        vacuum.rollback()
    _assert_done(aged, 12)


def test_one_that_inherits_is_locked_for_its_own_key(
    aged: Connection, server: WatchedServer
) -> None:
    """Although the one that it inherits from is referenced, too."""
    aged.execute("""
        CREATE TABLE s.a (k date PRIMARY KEY); CREATE TABLE s.a1 (PRIMARY KEY (k)) INHERITS (s.a);
        INSERT INTO s.a SELECT k FROM s.p; INSERT INTO s.a1 SELECT k FROM s.p;
        ALTER TABLE s.p ADD FOREIGN KEY (k) REFERENCES s.a, ADD FOREIGN KEY (k) REFERENCES s.a1""")
    _assert_a1_is_looked_at(aged, server)
