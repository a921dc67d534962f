"""Rows that no partition has, of tables with a retention: none is created that it would take."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from intervals.needed import ON, await_second_look
from intervals.policies import bounds, maintain, make, set_policy

_OLD = "would be in a partition that the retention makes old"
_AWAY = "is after a gap behind the last partition in use"
_NUMBERS = "10, 0, premake => 2, retention => 100, retention_action => 'drop'"


def refused(session: Connection, value: str) -> str:
    """The hint of PostgreSQL's error for a row with this key."""
    count = "SELECT count(*) FROM pg_inherits WHERE inhparent = 's.p'::regclass"
    before = scalar(session, count)
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        session.execute(f"INSERT INTO s.p VALUES ({value})".encode())
    assert caught.value.diag.message_primary == 'no partition of relation "p" found for row'
    assert scalar(session, count) == before
    return caught.value.diag.message_hint or ""


@pytest.fixture
def numbers(session: Connection) -> Connection:
    """Table s.p with a row in each partition from 0 to 200, and two ahead."""
    make(session, "int")
    session.execute("SELECT * FROM pg_lookahead_create_range_partitions('s.p', 0, 10, 23)")
    session.execute("INSERT INTO s.p SELECT 10 * i FROM generate_series(0, 20) i")
    set_policy(session, _NUMBERS)
    session.execute(ON)
    return session


@pytest.mark.parametrize("key", ["date", "timestamptz"])
def test_times(session: Connection, key: str) -> None:
    """The first day that is kept, and the one before."""
    make(session, key)
    set_policy(
        session, "'1 day', retention => '3 days', retention_action => 'drop', time_zone => 'UTC'"
    )
    session.execute(f"{ON}; SET TimeZone = 'UTC'".encode())
    for days in (4, 30):
        hint = refused(session, f"current_date - {days}")
        assert _OLD in hint
        assert "which is 3 days ago. Call pg_lookahead_set_interval() with another" in hint
    session.execute("INSERT INTO s.p VALUES (current_date - 3), (current_date)")
    maintain(session)
    assert scalar(session, "SELECT count(*) FROM s.p") == 2


def test_an_old_row_goes_nowhere_else(session: Connection) -> None:
    """Those before it in the same statement do not stay, either."""
    make(session, "date")
    set_policy(session, "'1 day', retention => '3 days'")
    session.execute(ON)
    with pytest.raises(psycopg.errors.CheckViolation):
        session.execute("INSERT INTO s.p VALUES (current_date), (current_date - 9)")
    assert len(bounds(session)) == 1
    assert scalar(session, "SELECT count(*) FROM s.p") == 0


def test_numbers_that_are_old(numbers: Connection) -> None:
    """Below the last partition in use, by more than the policy keeps."""
    numbers.execute("DROP TABLE s.p_90, s.p_100, s.p_110")
    hint = refused(numbers, "95")
    assert _OLD in hint
    assert 'by 100, which is 100 below the last partition in use, "p_200".' in hint
    numbers.execute("INSERT INTO s.p VALUES (105)")
    maintain(numbers)
    assert bounds(numbers)[:2] == [("100", "110"), ("120", "130")]


def test_a_slip(numbers: Connection) -> None:
    """It would have all partitions dropped; the range after the last one is no slip."""
    for value in (245, 9000):
        hint = refused(numbers, str(value))
        assert f"value {value} {_AWAY}" in hint
        assert "would make other partitions old" in hint
    numbers.execute("INSERT INTO s.p VALUES (235), (245)")
    maintain(numbers)
    assert scalar(numbers, "SELECT min(k) FROM s.p") == 140


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_row_on_its_way(numbers: Connection, server: WatchedServer, end: str) -> None:
    """It may make others old: so nobody looks whether it is committed."""
    numbers.execute("CREATE TABLE s.later PARTITION OF s.p FOR VALUES FROM (900) TO (910)")
    with server.connect() as other:
        other.execute("BEGIN; INSERT INTO s.p VALUES (905)")
        assert _OLD in refused(numbers, "235")
        other.execute(end.encode())
    assert _OLD in refused(numbers, "235")
    numbers.execute("TRUNCATE s.later")
    numbers.execute("INSERT INTO s.p VALUES (235)")


def test_a_partition_that_may_be_in_use(numbers: Connection, server: WatchedServer) -> None:
    """Somebody has locked it: what is not known counts as a gap."""
    numbers.execute("INSERT INTO s.p VALUES (205)")
    with server.connect() as other:
        other.execute("BEGIN; LOCK s.p_220")
        numbers.execute("INSERT INTO s.p VALUES (235)")
        other.execute("LOCK s.p_200, s.p_210, s.p_230")
        hint = refused(numbers, "255")
        assert "Somebody has locked one that may be it" in hint
        numbers.execute("INSERT INTO s.p VALUES (245)")
        other.execute("COMMIT")


def test_no_partition_in_use(session: Connection) -> None:
    """The last one counts as if it were: somebody may be about to use it."""
    make(session, "int")
    set_policy(session, _NUMBERS)
    maintain(session)
    assert bounds(session)[-1] == ("20", "30")
    session.execute(ON)
    assert _AWAY in refused(session, "45")
    assert _OLD in refused(session, "-85")
    session.execute("INSERT INTO s.p VALUES (35)")


def test_no_partition(session: Connection) -> None:
    make(session, "int")
    set_policy(session, _NUMBERS)
    session.execute(ON)
    session.execute("INSERT INTO s.p VALUES (905)")
    assert bounds(session) == [("900", "910")]
    assert _OLD in refused(session, "5")


def test_without_a_retention(numbers: Connection) -> None:
    """Only the distance counts."""
    set_policy(numbers, "10, 0")
    numbers.execute("DROP TABLE s.p_0")
    numbers.execute("INSERT INTO s.p VALUES (5), (9000)")
    assert bounds(numbers)[-1] == ("9000", "9010")


@contextmanager
def _kept_waiting(session: Connection, server: WatchedServer, value: str) -> Iterator[Connection]:
    """A row, whose worker has looked before and waits for this session, is refused in the end."""
    with server.connect(autocommit=False) as other, ThreadPoolExecutor(1) as pool:
        other.execute("LOCK TABLE ONLY s.p IN SHARE UPDATE EXCLUSIVE MODE")
        waiting = pool.submit(refused, session, value)
        await_second_look(other)
        yield other
        other.commit()
        assert _OLD in waiting.result(100)


def test_a_policy_that_is_set_meanwhile(session: Connection, server: WatchedServer) -> None:
    make(session, "date")
    set_policy(session, "'1 day'")
    session.execute(ON)
    with _kept_waiting(session, server, "current_date - 9") as other:
        set_policy(other, "'1 day', retention => '3 days'")


def test_a_row_that_comes_meanwhile(numbers: Connection, server: WatchedServer) -> None:
    """What is old is found out under the lock, by what is there then."""
    numbers.execute("CREATE TABLE s.later PARTITION OF s.p FOR VALUES FROM (900) TO (910)")
    with _kept_waiting(numbers, server, "235") as other:
        other.execute("INSERT INTO s.later VALUES (905)")
