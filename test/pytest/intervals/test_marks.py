"""Marks and names that change hands, and an owner and places that are no more."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import ServerFactory, WatchedServer
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
from lookahead.extension import Stage

_DROP = "'1 day', retention => '9 days', retention_action => 'drop', premake => 0"
_WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"


def test_what_is_not_old_any_more(aged: Connection, server: WatchedServer) -> None:
    """Its mark is finished, and it is not dropped: whoever set the policy is told."""
    oldest = leave_marked(aged, server, _DROP)
    set_policy(aged, _DROP.replace("9", "90"))
    maintain(aged)
    why = f"{oldest}: detached, but not dropped: it is not old any more"
    assert (state(aged, "blocked"), state(aged, "last_error")) == (why, None)
    assert scalar(aged, f"SELECT count(*) FROM s.{oldest}") == 1
    maintain(aged)
    assert state(aged, "blocked") is None


def test_who_gives_back_many_locks(aged: Connection, server: WatchedServer) -> None:
    """The end of a transaction is known before its locks are free (not by the fast path)."""
    aged.execute(
        """CREATE TABLE s.old PARTITION OF s.p FOR VALUES FROM (MINVALUE) TO (current_date - 10)
           PARTITION BY HASH (k)"""
    )
    for i in range(16):
        part = f"FOR VALUES WITH (MODULUS 16, REMAINDER {i})"
        execute(aged, f"CREATE TABLE s.old_{i} PARTITION OF s.old {part}")
    set_policy(aged, "'1 day', retention => '10 days', premake => 0")
    with server.connect(autocommit=False) as reader:
        reader.execute("SELECT lo_unlink(lo_create(0)) FROM generate_series(1, 5000)")
        with aged.transaction():
            aged.execute("LOCK s.old IN SHARE MODE")
            reader.execute("SELECT FROM s.p")
        with maintaining(aged, server):
            wait_until(lambda: scalar(aged, PENDING) == 1, "the partition is marked")
            reader.rollback()
    assert state(aged, "blocked") is None


def test_a_mark_that_somebody_has_made_anew(aged: Connection, server: WatchedServer) -> None:
    """Ours was finished by hand while it was waited for."""
    oldest = names(aged)[0]
    set_policy(aged, _DROP.replace("9", "8"))
    know = "LOCK TABLE ONLY s.p IN ACCESS SHARE MODE"
    detach = f"ALTER TABLE s.p DETACH PARTITION s.{oldest}"
    with server.connect(autocommit=False) as first, server.connect(autocommit=False) as second:
        execute(first, know)
        with maintaining(aged, server):
            execute(aged, f"{detach} FINALIZE")
            execute(
                aged,
                f"ALTER TABLE s.p ATTACH PARTITION s.{oldest}"
                " FOR VALUES FROM (current_date - 10) TO (current_date - 9)",
            )
            execute(second, know)
            aged.execute("SET lock_timeout = '100ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                execute(aged, f"{detach} CONCURRENTLY")
            first.rollback()
        assert scalar(aged, PENDING) == 1
    assert scalar(aged, f"SELECT count(*) FROM s.{oldest}") == 1
    # Nor is the table locked for the next one.
    assert state(aged, "blocked") is None


def test_what_somebody_finishes_and_drops(aged: Connection, server: WatchedServer) -> None:
    """While users of the table are waited for, with nothing locked."""
    oldest = names(aged)[0]
    set_policy(aged, _DROP)
    with server.connect(autocommit=False) as user:
        user.execute("LOCK TABLE ONLY s.p IN ACCESS SHARE MODE")
        with maintaining(aged, server):
            execute(aged, f"ALTER TABLE s.p DETACH PARTITION s.{oldest} FINALIZE")
            execute(aged, f"DROP TABLE s.{oldest}")
            user.rollback()
    assert (state(aged, "last_error"), state(aged, "blocked")) == (None, None)
    assert len(bounds(aged)) == 10


def test_a_drop_that_has_to_wait_is_tried_again(aged: Connection, server: WatchedServer) -> None:
    """By the next run, which knows still that it was maintenance that began."""
    oldest = names(aged)[0]
    execute(aged, f"CREATE VIEW s.v AS SELECT * FROM s.{oldest}")
    set_policy(aged, _DROP)
    with server.connect(autocommit=False) as other:
        other.execute("COMMENT ON VIEW s.v IS 'in use'")
        aged.execute("SET lock_timeout = '100ms'")
        maintain(aged)
        assert scalar(aged, PENDING) == 1
        other.execute("DROP VIEW s.v")
        other.commit()
    maintain(aged)
    assert scalar(aged, f"SELECT to_regclass('s.{oldest}')") is None
    assert state(aged, "blocked") is None


def test_what_was_begun_is_finished_before_the_extension_goes(
    aged: Connection, server: WatchedServer
) -> None:
    """By the query of docs/install.md; afterwards nobody would."""
    page = (Path(__file__).resolve().parents[3] / "docs/install.md").read_text()
    (query,) = re.findall(r"^```sql\n(SELECT [^;`]*inhdetachpending;)\n```$", page, re.MULTILINE)
    oldest = leave_marked(aged, server, _DROP)
    dynamic: Any = query
    (found,) = aged.execute(dynamic).fetchall()
    aged.execute("DROP EXTENSION pg_lookahead")
    try:
        execute(aged, found[0])
        assert scalar(aged, PENDING) == 0
        assert scalar(aged, f"SELECT count(*) FROM s.{oldest}") == 1
    finally:
        aged.execute("CREATE EXTENSION pg_lookahead")


_HOLD = """
    CREATE FUNCTION public.hold() RETURNS event_trigger LANGUAGE plpgsql AS
        $$BEGIN PERFORM pg_advisory_xact_lock_shared(1); END$$;
    CREATE EVENT TRIGGER hold ON ddl_command_start WHEN TAG IN ('{tag}')
        EXECUTE FUNCTION public.hold()"""
_SWAP = "ALTER SCHEMA s RENAME TO t; ALTER SCHEMA other RENAME TO s"
_SWAP_BACK = "ALTER SCHEMA s RENAME TO other; ALTER SCHEMA t RENAME TO s"


@pytest.mark.parametrize("tag", ["DROP TABLE", "ALTER TABLE"])
def test_another_table_that_has_got_the_name(
    aged: Connection, server: WatchedServer, tag: str
) -> None:
    """Schemas are swapped between the moment when a command is made and its look for the table."""
    set_policy(aged, _DROP)
    aged.execute("CREATE SCHEMA other; CREATE TABLE other.p (LIKE s.p) PARTITION BY RANGE (k)")
    aged.execute(
        "SELECT * FROM pg_lookahead_create_range_partitions("
        "'other.p', current_date - 10, '1 day', 11)"
    )
    aged.execute("INSERT INTO other.p SELECT * FROM s.p")
    execute(aged, _HOLD.format(tag=tag))
    try:
        with server.connect(autocommit=False) as holder, ThreadPoolExecutor(1) as pool:
            holder.execute("SELECT pg_advisory_xact_lock(1)")
            running = pool.submit(_maintain_alone, server)
            wait_until(lambda: scalar(aged, _WAITING) == 1, "the command has begun")
            execute(aged, _SWAP)
            holder.rollback()
            running.result(100)
        execute(aged, _SWAP_BACK)
        assert scalar(aged, "SELECT count(*) FROM other.p") == 11
        assert len(bounds(aged, "other.p")) == 11
        maintain(aged)
        assert scalar(aged, PENDING) == 0
        assert len(bounds(aged)) == 10
        assert scalar(aged, "SELECT count(*) FROM pg_tables WHERE schemaname = 's'") == 11
    finally:
        aged.execute("DROP EVENT TRIGGER hold; DROP FUNCTION public.hold()")
        aged.execute("DROP SCHEMA other CASCADE")


def _maintain_alone(server: WatchedServer) -> list[str]:
    with server.connect() as session:
        session.execute("SET lock_timeout = '60s'")
        return maintain(session)


@pytest.mark.parametrize("table", ["s.p", "s.q"])
def test_the_owner_of_now(aged: Connection, server: WatchedServer, table: str) -> None:
    """Who owns the table when the lock is granted, not when it is asked for."""
    aged.execute("CREATE TABLE s.q (k int) PARTITION BY RANGE (k)")
    set_policy(aged, _DROP)
    set_policy(aged, "10, premake => 2", "s.q")
    with server.connect(autocommit=False) as former:
        execute(former, f"LOCK TABLE {table} IN SHARE MODE")
        with maintaining(aged, server, table):
            execute(former, f"ALTER TABLE {table} OWNER TO owner")
            former.commit()
    assert state(aged, "last_error", table) is None
    if table == "s.q":
        owners = "SELECT DISTINCT tableowner FROM pg_tables WHERE tablename LIKE 'q\\__'"
        assert scalar(aged, owners) == "owner"


def test_what_was_marked_for_a_former_owner(aged: Connection, server: WatchedServer) -> None:
    oldest = leave_marked(aged, server, "'1 day', retention => '9 days', premake => 0")
    aged.execute("ALTER TABLE s.p OWNER TO owner")
    assert maintain(aged) == []
    assert oldest not in names(aged)


def test_a_tablespace_that_is_no_more(server_factory: ServerFactory, stage: Stage) -> None:
    """The server's configuration names it still. Core creates tables without it."""
    with (
        server_factory(stage=stage, settings={"default_tablespace": "gone"}) as server,
        server.connect() as session,
    ):
        assert scalar(session, "SHOW default_tablespace") == "gone"
        session.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
        make(session, "int")
        set_policy(session, "10, premake => 2")
        assert maintain(session) == []
        assert (len(bounds(session)), state(session, "ahead")) == (3, 2)


def _begin_to_detach_below(session: Connection, server: WatchedServer) -> None:
    """Partition s.z of s.q, by hand; that is interrupted."""
    with server.connect(autocommit=False) as reader:
        reader.execute("LOCK TABLE ONLY s.q IN ACCESS SHARE MODE")
        session.execute("SET lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            session.execute("ALTER TABLE s.q DETACH PARTITION s.z CONCURRENTLY")


@pytest.fixture
def nested(session: Connection) -> Connection:
    """Table s.p with partition s.y, which is old, that with s.q, and that with s.z."""
    make(session, "date")
    session.execute(
        """CREATE TABLE s.y PARTITION OF s.p FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')
           PARTITION BY LIST (t);
           CREATE TABLE s.q PARTITION OF s.y FOR VALUES IN ('a') PARTITION BY LIST (t);
           CREATE TABLE s.z PARTITION OF s.q FOR VALUES IN ('a')"""
    )
    session.execute("INSERT INTO s.p VALUES ('2020-05-05', 'a')")
    set_policy(session, "'1 year', retention => '2 years', retention_action => 'drop'")
    return session


def _check_below(nested: Connection) -> None:
    told = 'y: somebody else has begun to detach its partition "z"'
    maintain(nested)
    assert state(nested, "blocked").startswith(told)
    nested.execute("ALTER TABLE s.q DETACH PARTITION s.z FINALIZE")
    maintain(nested)
    assert scalar(nested, "SELECT to_regclass('s.y')") is None
    assert scalar(nested, "SELECT count(*) FROM s.z") == 1


@pytest.mark.parametrize("rest", ["SELECT", "CREATE TABLE s.rest PARTITION OF s.p DEFAULT"])
def test_a_partition_below_that_somebody_detaches(
    nested: Connection, server: WatchedServer, rest: str
) -> None:
    """It would be dropped with the one above it."""
    execute(nested, rest)
    _begin_to_detach_below(nested, server)
    _check_below(nested)


def test_a_partition_below_a_mark(nested: Connection, server: WatchedServer) -> None:
    """Somebody begins to detach it when the one above is marked."""
    with server.connect(autocommit=False) as reader:
        reader.execute("SELECT count(*) FROM s.p")
        nested.execute("SET lock_timeout = '100ms'")
        maintain(nested)
    assert scalar(nested, PENDING) == 1
    _begin_to_detach_below(nested, server)
    _check_below(nested)
