"""Rows that stay in the default partition because of a retention, and what many that stay cost."""

from __future__ import annotations

import re
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer
from waiting import wait_until

from intervals.moving import (
    IN_DEFAULT,
    content,
    fill,
    move,
    move_patiently,
    moved,
    places,
    stalled_by,
    stay,
)
from intervals.policies import bounds, maintain, make, set_policy

_KEPT = "premake => 0, retention => '100', retention_action => 'drop'"


def _fill_numbers(session: Connection, rows: str, *partitions: int, policy: str = _KEPT) -> None:
    """Partitions that begin with these numbers, with a row each, and a default one."""
    make(session, "int")
    for low in partitions:
        session.execute(
            f"CREATE TABLE s.p{low} PARTITION OF s.p FOR VALUES FROM ({low}) TO ({low + 10})"
        )
        session.execute(f"INSERT INTO s.p VALUES ({low + 5})")
    session.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT")
    dynamic: Any = f"INSERT INTO s.p VALUES {rows}"
    session.execute(dynamic)
    set_policy(session, f"10, 0, {policy}")


@pytest.mark.parametrize("key", ["timestamptz", "date"])
def test_times_that_are_old(session: Connection, key: str) -> None:
    """Maintenance would drop them, and does not drop the default partition."""
    rows = f"SELECT (now() - i * interval '1 day')::{key} FROM unnest('{{0,1,5,20,100}}'::int[]) i"
    fill(session, key, rows, "'1 day', retention => '10 days', retention_action => 'drop'")
    before = content(session)
    assert move(session) == [moved(3, 3), stay(2)]
    maintain(session)
    assert content(session) == before


def test_numbers_that_are_old_or_make_others_old(session: Connection) -> None:
    """Those move that are before the last partition with a row, and not old."""
    _fill_numbers(session, "(95), (100), (155), (215), (5000)", 0, 200)
    session.execute("DELETE FROM s.p WHERE k = 5")
    before = content(session)
    assert move(session) == [moved(2, 2), stay(3)]
    maintain(session)
    assert content(session) == before
    assert [low for low, _ in bounds(session)] == ["100", "150", "200"]


def test_numbers_without_a_partition_that_has_rows(session: Connection) -> None:
    """Each range that moved would make those before it old."""
    fill(session, "int", "VALUES (5), (5000)", f"10, 0, {_KEPT}")
    assert move(session) == [moved(0, 0), stay(2)]
    set_policy(session, "10, 0")
    assert move(session) == [moved(2, 2)]
    with session.transaction(force_rollback=True):
        set_policy(session, f"10, 0, {_KEPT}")
        assert scalar(session, "SELECT count(*) FROM pg_lookahead_retirement('s.p')") == 1
    maintain(session)
    assert ("s.p_0", 1) in places(session)


def test_numbers_behind_a_gap(session: Connection) -> None:
    """Maintenance would go on from there, and never fill the gap."""
    rows = "(-500), (25), (35), (55), (5000), (5001)"
    _fill_numbers(session, rows, 0, 10, policy="premake => 1")
    assert move(session) == [moved(3, 3), stay(3)]
    maintain(session)
    assert bounds(session)[-1] == ("40", "50")
    assert move(session) == [moved(1, 1), stay(2)]
    assert bounds(session)[-1] == ("50", "60")


def test_a_gap_in_numbers_that_are_all_in_the_default_partition(session: Connection) -> None:
    """The highest range is the first one, so another call goes on."""
    fill(session, "int", "VALUES (5), (55), (5000)", "10, 0")
    assert move(session, "'s.p', 1") == [moved(1, 1)]
    assert ("5000", "5010") in bounds(session)
    assert move(session) == [moved(2, 2)]


def test_a_partition_that_nobody_can_look_into(session: Connection, server: WatchedServer) -> None:
    """Whether the last one has rows is not known: what would be old if it had any stays."""
    _fill_numbers(session, "(-5), (55)", 0, 200)
    with server.connect() as other:
        other.execute("BEGIN; LOCK s.p200")
        assert move(session) == [moved(0, 0), stay(2)]
        other.execute("COMMIT")


def test_a_partition_that_may_be_in_use(session: Connection, server: WatchedServer) -> None:
    """Somebody has locked the last one: a row behind a gap stays, as if that had rows."""
    _fill_numbers(session, "(15), (5000)", 0, 20, policy="premake => 1")
    details: list[str | None] = []
    session.add_notice_handler(lambda notice: details.append(notice.message_detail))
    with server.connect() as other:
        for table in ("s.p0, s.p20", "s.p20"):
            other.execute(f"BEGIN; LOCK {table}")
            moves = 0 if table != "s.p20" else 1
            assert move(session) == [moved(moves, moves), stay(2 - moves)]
            other.execute("COMMIT")
            assert f"Of {2 - moves} that is not known" in str(details)
            details.clear()
    assert move(session) == [moved(0, 0), stay(1)]
    assert "1 are after a gap behind the last partition in use. Of 0" in str(details)


@pytest.mark.parametrize(
    ("rows", "changes", "moves"),
    [
        ("(-15), (-5)", ("SELECT", "LOCK s.p0", "SELECT"), 1),
        ("(105), (205)", ("SELECT", "TRUNCATE s.p0", "SELECT"), 0),
        ("(105), (205)", ("TRUNCATE s.p0", "SELECT", "LOCK s.p0"), 0),
    ],
    ids=["locked", "emptied", "unused"],
)
def test_a_partition_that_may_be_in_use_for_a_moment(
    session: Connection, server: WatchedServer, rows: str, changes: tuple[Any, Any, Any], moves: int
) -> None:
    """While the first range is looked at.  The second one moves if it leads nothing away.

    Changes are made before the call, before it lists the ranges, and after that.
    """
    _fill_numbers(session, rows, 0, policy="premake => 1")
    session.execute(changes[0])
    with (
        server.connect() as holder,
        server.connect() as user,
        server.connect() as next_one,
        server.connect() as own,
        ThreadPoolExecutor(2) as pool,
    ):
        own.execute("SET lock_timeout = '60s'")
        next_one.execute("BEGIN")
        holder.execute("BEGIN; LOCK TABLE ONLY s.p IN ACCESS SHARE MODE")
        user.execute("BEGIN")
        user.execute(changes[1])
        moving = pool.submit(move, own)
        _await_table(session, moving, 1)
        user.execute(changes[2])
        locking = pool.submit(next_one.execute, "LOCK TABLE ONLY s.p")
        _await_table(session, moving, 2)
        holder.execute("COMMIT")
        locking.result(100)
        _await_table(session, moving, 1)
        user.execute("COMMIT")
        next_one.execute("COMMIT")
        assert moving.result(100) == [moved(moves, moves), stay(2 - moves)]
        assert move(own) == [moved(2 - moves, 2 - moves)]


def _await_table(session: Connection, moving: Future[list[str]], sessions: int) -> None:
    """Until so many wait for the table, or the rows have moved."""
    awaited = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 's.p'::regclass"
    wait_until(
        lambda: moving.done() or scalar(session, awaited) == sessions, f"{sessions} wait for it"
    )


def test_a_partition_that_is_locked_while_ranges_are_listed(
    session: Connection, server: WatchedServer
) -> None:
    """They are listed as those of a table in use, so the highest one would not be the first."""
    _fill_numbers(session, "(105), (205), (305)", 0, policy="premake => 1")
    session.execute("TRUNCATE s.p0")
    with server.connect() as other, server.connect() as own, ThreadPoolExecutor(1) as pool:
        own.execute("SET lock_timeout = '60s'")
        other.execute("BEGIN; LOCK TABLE ONLY s.p IN ACCESS SHARE MODE; LOCK s.p0")
        moving = pool.submit(move, own)
        _await_table(session, moving, 1)
        other.execute("COMMIT")
        assert moving.result(100) == [moved(0, 0), stay(3)]
        assert move(own) == [moved(3, 3)]


def test_a_partition_that_is_locked_for_long(session: Connection, server: WatchedServer) -> None:
    """Not each of many ranges is tried: that would lock the table, and take a transaction."""
    _fill_numbers(session, "(15)", 0, policy="premake => 1")
    session.execute("INSERT INTO s.p SELECT 25 + 10 * i FROM generate_series(1, 40) i")
    with server.connect() as other:
        other.execute("BEGIN; LOCK s.p0")
        before = scalar(session, "SELECT pg_current_xact_id()::text::bigint")
        assert move(session) == [moved(0, 0), stay(41)]
        assert scalar(session, "SELECT pg_current_xact_id()::text::bigint") - before < 20
        other.execute("COMMIT")


@pytest.mark.parametrize(
    "change", ["INSERT INTO s.p20 VALUES (25)", "DROP TABLE s.p4990"], ids=["gap", "far"]
)
def test_the_highest_range_does_not_move(
    session: Connection, server: WatchedServer, change: Any
) -> None:
    """As partitions change after the list is made.  The others wait for another call."""
    fill(session, "int", "VALUES (5), (5000)", "10, 0, max_distance => 10")
    for low in (20, 4990):
        session.execute(
            f"CREATE TABLE s.p{low} PARTITION OF s.p FOR VALUES FROM ({low}) TO ({low + 10})"
        )
    with server.connect() as other, server.connect() as own, ThreadPoolExecutor(1) as pool:
        own.execute("SET lock_timeout = '60s'")
        other.execute("BEGIN; LOCK TABLE ONLY s.p IN ACCESS SHARE MODE")
        moving = pool.submit(move, own)
        _await_table(session, moving, 1)
        other.execute(change)
        other.execute("COMMIT")
        assert moving.result(100) == [moved(0, 0), stay(2)]
        assert move(own) == [moved(1, 1), stay(1)]


def test_an_error_of_the_highest_range(session: Connection) -> None:
    """The others would leave it behind a gap."""
    fill(session, "int", "VALUES (5), (55), (5000)", "10, 0")
    session.execute("CREATE VIEW s.p_5000 AS SELECT 1")
    with pytest.raises(psycopg.errors.DuplicateTable):
        move(session)
    assert scalar(session, IN_DEFAULT) == 3
    session.execute("DROP VIEW s.p_5000")
    assert move(session) == [moved(3, 3)]


def test_the_highest_range_is_locked_when_it_has_moved(
    session: Connection, server: WatchedServer
) -> None:
    """For a moment: the next range stays, the one after that is tried.

    The moment is between two attempts of the next one, for which an older snapshot is waited for.
    """
    fill(session, "int", "VALUES (5), (205), (305)", "10, 0")
    locking = "BEGIN; LOCK TABLE ONLY s.p IN ACCESS SHARE MODE"
    with (
        server.connect() as own,
        server.connect() as holder,
        server.connect() as older,
        server.connect() as first,
        server.connect() as second,
        stalled_by(session, lambda: move_patiently(own), "k = 205") as moving,
        ThreadPoolExecutor(1) as pool,
    ):
        older.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        holder.execute("BEGIN; LOCK s.p_300")
        session.execute("SELECT pg_advisory_unlock(1)")
        awaited = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'virtualxid'"
        wait_until(lambda: scalar(session, awaited) == 1, "the snapshot is waited for")
        first.execute(locking)
        older.execute("COMMIT")
        _await_table(session, moving, 1)
        locked = pool.submit(second.execute, locking)
        _await_table(session, moving, 2)
        first.execute("COMMIT")
        locked.result(100)
        _await_table(session, moving, 1)
        holder.execute("COMMIT")
        second.execute("COMMIT")
        assert moving.result(100) == [moved(2, 2), stay(1)]


def test_a_gap_that_comes_when_the_highest_range_has_moved(
    session: Connection, server: WatchedServer
) -> None:
    """Others empty its partition, and use one before: what is before the gap still moves.

    They do so between two attempts of the next range, for which an older snapshot is waited for.
    """
    fill(session, "int", "VALUES (15), (35), (205), (405)", "10, 0")
    session.execute("CREATE TABLE s.p_20 PARTITION OF s.p FOR VALUES FROM (20) TO (30)")
    with (
        server.connect() as own,
        server.connect() as older,
        stalled_by(session, lambda: move_patiently(own), "k = 205") as moving,
    ):
        older.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        session.execute("SELECT pg_advisory_unlock(1)")
        awaited = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'virtualxid'"
        wait_until(lambda: scalar(session, awaited) == 1, "the snapshot is waited for")
        session.execute("TRUNCATE s.p_400; INSERT INTO s.p_20 VALUES (25)")
        older.execute("COMMIT")
        assert moving.result(100) == [moved(3, 3), stay(1)]
    assert places(session) == [(f"s.{name}", 1) for name in ("p_10", "p_20", "p_30", "rest")]


def test_a_row_that_comes_into_the_last_partition(session: Connection) -> None:
    """What is old is found out anew by each call."""
    _fill_numbers(session, "(55)", 0, 100)
    assert move(session) == [moved(1, 1)]
    session.execute("CREATE TABLE s.p300 PARTITION OF s.p FOR VALUES FROM (300) TO (310)")
    session.execute("INSERT INTO s.p VALUES (65), (305)")
    assert move(session) == [moved(0, 0), stay(1)]
    assert ("s.rest", 1) in places(session)


@pytest.mark.parametrize(
    "rows",
    [
        "SELECT '1e300'::numeric + i FROM generate_series(1, 30000) i",
        "SELECT 1e9::numeric + i FROM generate_series(1, 30000) i",
        "SELECT '1e300'::numeric FROM generate_series(1, 30000) i",
    ],
    ids=["without range", "far", "the same"],
)
def test_rows_that_stay_take_no_memory(
    session: Connection, server: WatchedServer, rows: str
) -> None:
    fill(session, "numeric", rows, "10, 0")
    with server.connect() as own:
        own.execute("SELECT count(*) FROM s.p")  # of shared memory, too
        before = _most_memory(own)
        assert move(own) == [moved(0, 0), stay(30000)]
        assert _most_memory(own) - before < 16384


def _most_memory(session: Connection) -> int:
    """Of the session's process so far, in kB."""
    status = Path(f"/proc/{session.info.backend_pid}/status").read_text(encoding="utf-8")
    found = re.search(r"VmHWM:\s+(\d+)", status)
    assert found is not None
    return int(found.group(1))
