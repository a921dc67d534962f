"""Partitions that are older than the policy keeps: detached, dropped, or left and told of."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from typing import Any

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer
from waiting import wait_until

from intervals.policies import bounds, hear, maintain, make, names, set_policy, state

_OLD = """
    SELECT * FROM pg_lookahead_create_range_partitions('s.p', current_date - 10, '1 day', 11)"""


@pytest.fixture
def aged(session: Connection) -> Iterator[Connection]:
    """Table s.p of days, the oldest of which is ten days ago."""
    make(session, "date")
    session.execute(_OLD)
    session.execute("INSERT INTO s.p SELECT current_date - i FROM generate_series(0, 10) i")
    yield session


def _count(session: Connection, pattern: str = "p\\_%") -> int:
    found = scalar(session, f"SELECT count(*) FROM pg_class WHERE relname LIKE '{pattern}'")
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize(("action", "left"), [("detach", 11), ("drop", 4)])
def test_old_ones_go(aged: Connection, action: str, left: int) -> None:
    """The upper bound of a partition tells: days that began three days ago stay."""
    set_policy(
        aged, f"'1 day', retention => '3 days', retention_action => '{action}', premake => 0"
    )
    maintain(aged)
    assert len(bounds(aged)) == 4
    assert state(aged, "oldest") == scalar(aged, "SELECT (current_date - 3)::text")
    assert _count(aged) == left
    assert scalar(aged, "SELECT count(*) FROM s.p") == 4
    assert (state(aged, "blocked"), state(aged, "last_error")) == (None, None)


def test_nobody_waits(aged: Connection, server: WatchedServer) -> None:
    """A reader of the table that goes on keeps its partition, and stops nobody."""
    set_policy(aged, "'1 day', retention => '9 days', retention_action => 'drop', premake => 0")
    with server.connect(autocommit=False) as reader, server.connect() as other:
        assert scalar(reader, "SELECT count(*) FROM s.p") == 11
        maintain(aged)
        blocked = state(aged, "blocked")
        assert blocked.endswith("canceling statement due to lock timeout")
        assert scalar(other, "SELECT count(*) FROM s.p") == 10
        assert scalar(reader, "SELECT count(*) FROM s.p") == 10
        reader.rollback()
    maintain(aged)
    assert (len(bounds(aged)), _count(aged)) == (10, 10)
    assert state(aged, "blocked") is None


def test_a_snapshot_from_before(aged: Connection, server: WatchedServer) -> None:
    """A transaction that has not looked at the table yet sees all of it, or is waited for."""
    set_policy(aged, "'1 day', retention => '9 days', retention_action => 'drop', premake => 0")
    aged.execute("SET lock_timeout = '200ms'")
    with server.connect(autocommit=False) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        maintain(aged)
        assert "lock timeout" in state(aged, "blocked")
        assert scalar(reader, "SELECT count(*) FROM s.p") == 11
        reader.rollback()
    maintain(aged)
    assert _count(aged) == 10


def test_rows_that_others_reference_stay(aged: Connection) -> None:
    """The first partition is referenced, the second is not."""
    aged.execute("ALTER TABLE s.p ADD PRIMARY KEY (k)")
    aged.execute("CREATE TABLE s.f (k date REFERENCES s.p)")
    aged.execute("INSERT INTO s.f SELECT min(k) FROM s.p")
    set_policy(aged, "'1 day', retention => '8 days', retention_action => 'drop', premake => 1")
    assert maintain(aged, "s.p") == []
    assert state(aged, "blocked").count("violates foreign key constraint") == 1
    assert len(bounds(aged)) == 11
    assert state(aged, "ahead") == 1
    assert state(aged, "last_error") is None
    aged.execute("DELETE FROM s.f")
    maintain(aged)
    assert len(bounds(aged)) == 10


def test_rows_that_others_reference_lock_nobody_out(
    aged: Connection, server: WatchedServer
) -> None:
    """They are found before the table is locked, for which this reader would be waited for."""
    aged.execute("ALTER TABLE s.p ADD PRIMARY KEY (k)")
    aged.execute(
        "CREATE TABLE s.f (k date REFERENCES s.p); CREATE TABLE s.g (k date REFERENCES s.p)"
    )
    aged.execute("INSERT INTO s.g SELECT min(k) FROM s.p")
    set_policy(aged, "'1 day', retention => '9 days', premake => 0")
    aged.execute("SET lock_timeout = '100ms'")
    with server.connect(autocommit=False) as reader:
        reader.execute("LOCK TABLE ONLY s.p IN ACCESS SHARE MODE")
        maintain(aged)
        assert "violates foreign key constraint" in state(aged, "blocked")
        aged.execute("TRUNCATE s.g")
        maintain(aged)
        assert "lock timeout" in state(aged, "blocked")
    maintain(aged)
    assert len(bounds(aged)) == 10


def test_what_a_view_needs_is_detached(aged: Connection) -> None:
    """It does not stop those after it, and is not half detached."""
    oldest = names(aged)[0]
    aged.execute(f"CREATE VIEW s.v AS SELECT * FROM s.{oldest}")
    set_policy(aged, "'1 day', retention => '8 days', retention_action => 'drop', premake => 0")
    maintain(aged)
    told = f"{oldest}: detached, but not dropped: cannot drop table s.{oldest}"
    assert state(aged, "blocked").startswith(told)
    assert (len(bounds(aged)), _count(aged)) == (9, 10)
    assert scalar(aged, "SELECT count(*) FROM s.v") == 1


@pytest.mark.parametrize("rest", ["SELECT", "CREATE TABLE s.rest PARTITION OF s.p DEFAULT"])
def test_foreign_tables_are_dropped(aged: Connection, rest: str) -> None:
    aged.execute("CREATE FOREIGN DATA WRAPPER w; CREATE SERVER elsewhere FOREIGN DATA WRAPPER w")
    dynamic: Any = (
        "CREATE FOREIGN TABLE s.p_far PARTITION OF s.p FOR VALUES FROM ('2000-01-01') "
        f"TO ('2000-01-02') SERVER elsewhere; {rest}"
    )
    aged.execute(dynamic)
    set_policy(aged, "'1 day', retention => '20 days', retention_action => 'drop', premake => 0")
    maintain(aged)
    assert state(aged, "blocked") is None
    assert scalar(aged, "SELECT to_regclass('s.p_far')") is None
    aged.execute("DROP FOREIGN DATA WRAPPER w CASCADE")


def test_with_a_default_partition(aged: Connection) -> None:
    """It takes the rows of a range that is gone, in a session that knew it before, too."""
    aged.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT")
    aged.execute("INSERT INTO s.p VALUES ('2000-01-01')")
    set_policy(aged, "'1 day', retention => '3 days', retention_action => 'drop', premake => 0")
    maintain(aged)
    assert len(bounds(aged)) == 4
    assert state(aged, "default_partition::text") == "s.rest"
    assert state(aged, "default_used")
    aged.execute("INSERT INTO s.p VALUES (current_date - 9)")
    assert scalar(aged, "SELECT count(*) FROM s.rest") == 2


def test_numbers_are_old_by_distance(session: Connection) -> None:
    make(session, "int")
    set_policy(session, "10, premake => 5, retention => 20, retention_action => 'drop'")
    maintain(session)
    session.execute("INSERT INTO s.p VALUES (45)")
    maintain(session)
    assert bounds(session)[0] == ("20", "30")
    session.execute("TRUNCATE s.p")
    maintain(session)
    assert (bounds(session)[0], len(bounds(session))) == (("20", "30"), 8)


@pytest.mark.parametrize(
    ("event", "ahead"),
    [
        ("LOCK TABLE s.p_490", 50),
        ("INSERT INTO s.p VALUES (495, 'slip')", 99),
        ("INSERT INTO s.p VALUES (495, 'slip'); DELETE FROM s.p WHERE k = 495; COMMIT; BEGIN", 99),
    ],
)
def test_numbers_ahead_of_all_rows_make_nothing_old(
    session: Connection, server: WatchedServer, event: str, ahead: int
) -> None:
    """A partition that was made ahead has no rows because somebody has touched it."""
    make(session, "int")
    set_policy(session, "10, 0, premake => 50, retention => 100, retention_action => 'drop'")
    maintain(session)
    session.execute("INSERT INTO s.p SELECT i, 'x' FROM generate_series(0, 9) i")
    dynamic: Any = event
    with server.connect() as other:
        other.execute("BEGIN")
        other.execute(dynamic)
        if "LOCK" not in event:
            other.execute("ROLLBACK")
        maintain(session, "s.p")
        other.execute("ROLLBACK")
    assert scalar(session, "SELECT count(*) FROM s.p") == 10
    assert len(bounds(session)) == ahead + 1
    session.execute("INSERT INTO s.p VALUES (495, 'x')")
    maintain(session, "s.p")
    assert scalar(session, "SELECT count(*) FROM s.p") == 1


def test_numbers_in_what_is_being_detached_make_nothing_old(
    session: Connection, server: WatchedServer
) -> None:
    make(session, "int")
    session.execute("SELECT * FROM pg_lookahead_create_range_partitions('s.p', 0, 10, 50)")
    session.execute("INSERT INTO s.p SELECT generate_series(0, 99); INSERT INTO s.p VALUES (495)")
    with server.connect(autocommit=False) as reader:
        _mark(session, server, "p_490", reader)
    set_policy(session, "10, 0, premake => 2, retention => 100, retention_action => 'drop'")
    maintain(session)
    assert scalar(session, "SELECT count(*) FROM s.p") == 100


def test_a_partition_without_an_end_stays(session: Connection) -> None:
    make(session, "date")
    session.execute(
        "CREATE TABLE s.all PARTITION OF s.p FOR VALUES FROM ('2020-01-01') TO (MAXVALUE)"
    )
    set_policy(session, "'1 day', retention => '1 day', retention_action => 'drop'")
    maintain(session)
    assert names(session) == ["all"]


def test_partitions_with_partitions(session: Connection) -> None:
    make(session, "date")
    session.execute(
        """CREATE TABLE s.y PARTITION OF s.p FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')
           PARTITION BY LIST (t); CREATE TABLE s.z PARTITION OF s.y DEFAULT"""
    )
    set_policy(session, "'1 year', retention => '2 years', retention_action => 'drop'")
    maintain(session)
    assert _count(session, "_") == 1


def _mark(session: Connection, server: WatchedServer, partition: str, reader: Connection) -> None:
    """Begin to detach a partition of s.p by hand, and be interrupted: `reader` keeps it waiting."""
    detach: Any = f"ALTER TABLE s.p DETACH PARTITION s.{partition} CONCURRENTLY"
    reader.execute("SELECT count(*) FROM s.p")
    with server.connect() as hand:

        def run() -> None:
            with pytest.raises(psycopg.errors.QueryCanceled):
                hand.execute(detach)

        thread = Thread(target=run)
        thread.start()
        pending = "SELECT count(*) FROM pg_inherits WHERE inhdetachpending"
        wait_until(lambda: scalar(session, pending), "the partition is marked")
        hand.cancel()
        thread.join()
    reader.rollback()


def test_what_was_marked_before_is_finished(aged: Connection, server: WatchedServer) -> None:
    """A detach by hand that was interrupted is completed when the partition is old."""
    oldest = names(aged)[0]
    with server.connect(autocommit=False) as reader:
        _mark(aged, server, oldest, reader)
    set_policy(aged, "'1 day', retention => '9 days', premake => 0")
    maintain(aged)
    assert oldest not in names(aged)
    assert _count(aged) == 11


def test_what_maintenance_has_marked_it_finishes(aged: Connection, server: WatchedServer) -> None:
    """Also when the partition is kept by the policy of then: nobody finds its rows any more."""
    oldest = names(aged)[0]
    aged.execute("SET lock_timeout = '200ms'")
    set_policy(aged, "'1 day', retention => '9 days', retention_action => 'drop', premake => 0")
    with server.connect(autocommit=False) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        maintain(aged)
        set_policy(aged, "'1 day', premake => 0")
        maintain(aged)
        assert state(aged, "blocked").startswith(f"{oldest}: canceling statement")
        reader.rollback()
    maintain(aged)
    assert scalar(aged, "SELECT count(*) FROM pg_inherits WHERE inhdetachpending") == 0
    assert state(aged, "blocked") is None
    # Detached, and not dropped: it is not old.
    assert scalar(aged, f"SELECT count(*) FROM s.{oldest}") == 1
    assert _count(aged) == 11


def test_what_somebody_else_detaches_is_left(aged: Connection, server: WatchedServer) -> None:
    """And told of; by who ends the policy, too."""
    newest = names(aged)[-1]
    with server.connect(autocommit=False) as reader:
        _mark(aged, server, newest, reader)
    set_policy(aged, "'1 day', retention => '8 days', premake => 0")
    maintain(aged)
    assert state(aged, "blocked").startswith(f"{newest}: somebody else has begun to detach it")
    assert len(bounds(aged)) == 11
    told = hear(aged, "SELECT pg_lookahead_unset_interval('s.p')")
    assert told == [f'partition "{newest}" is still being detached']


def test_one_that_waits_does_not_stop_everybody(aged: Connection, server: WatchedServer) -> None:
    """Only one partition can be detached beside others, and none is detached otherwise."""
    aged.execute("SET lock_timeout = '200ms'")
    set_policy(aged, "'1 day', retention => '5 days', premake => 0")
    with server.connect(autocommit=False) as reader:
        reader.execute("SELECT count(*) FROM s.p")
        maintain(aged)
        blocked = state(aged, "blocked")
        reader.rollback()
    assert blocked == f"{names(aged)[0]}: canceling statement due to lock timeout"
    maintain(aged)
    assert len(bounds(aged)) == 6


@pytest.mark.parametrize(
    ("query", "lines", "because"),
    [
        ("SELECT count(*) FROM s.p", 5, "it is in use"),
        (
            "SELECT count(*) FROM s.p WHERE k = '{today}'",
            1,
            "canceling statement due to lock timeout",
        ),
    ],
    ids=["partitions", "table"],
)
def test_a_table_is_waited_for_once(
    aged: Connection, server: WatchedServer, query: str, lines: int, because: str
) -> None:
    """Where others have to be locked out: those who come meanwhile wait no longer than that."""
    aged.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT")
    aged.execute("SET lock_timeout = '200ms'")
    set_policy(aged, "'1 day', retention => '5 days', premake => 0")
    dynamic: Any = query.format(today=scalar(aged, "SELECT current_date"))
    with server.connect(autocommit=False) as reader:
        reader.execute(dynamic)
        maintain(aged)
        reader.rollback()
    assert state(aged, "blocked").split("\n") == [
        f"{name}: {because}" for name in names(aged)[:lines]
    ]
    maintain(aged)
    assert len(bounds(aged)) == 6


def test_locked_partitions_are_left(aged: Connection, server: WatchedServer) -> None:
    aged.execute("SET lock_timeout = '200ms'")
    set_policy(aged, "'1 day', retention => '8 days', retention_action => 'drop', premake => 0")
    oldest = names(aged)[0]
    with server.connect(autocommit=False) as other:
        other.execute(f"LOCK s.{oldest}")
        maintain(aged)
        assert state(aged, "blocked") == f"{oldest}: it is in use"
        other.rollback()
    assert len(bounds(aged)) == 10
    maintain(aged)
    assert len(bounds(aged)) == 9
