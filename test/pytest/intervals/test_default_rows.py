"""Rows of the default partition get the partitions of their ranges."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from intervals.moving import IN_DEFAULT, content, fill, move, moved, places, stay
from intervals.policies import bounds, maintain, make, set_policy

_UUIDS = "SELECT uuidv7(make_interval(hours => -i)) FROM generate_series(0, 64) i"


@pytest.mark.parametrize(
    ("key", "rows", "step", "ranges"),
    [
        ("smallint", "SELECT generate_series(-32, 32)", "10", 8),
        ("int", "SELECT generate_series(-32, 32)", "10", 8),
        ("bigint", "SELECT 5000000000 + i FROM generate_series(0, 64) i", "10, 5000000000", 7),
        ("numeric", "SELECT i / 4.0 FROM generate_series(-32, 32) i", "2.5", 8),
        ("numeric(10,2)", "SELECT i / 4.0 FROM generate_series(-32, 32) i", "2.5", 8),
        ("date", "SELECT current_date + i FROM generate_series(-32, 32) i", "'10 days'", 0),
        (
            "timestamp",
            "SELECT now() + i * interval '1 h' FROM generate_series(-64, 0) i",
            "'1 day'",
            0,
        ),
        (
            "timestamptz",
            "SELECT now() + i * interval '1 h' FROM generate_series(-64, 0) i",
            "'1 day'",
            0,
        ),
        ("uuid", _UUIDS, "'1 day'", 0),
        ("s.few", "SELECT generate_series(-32, 32)", "10", 8),
    ],
)
def test_keys(session: Connection, key: str, rows: str, step: str, ranges: int) -> None:
    session.execute("CREATE DOMAIN s.few AS int CHECK (VALUE < 1000)")
    fill(session, key, rows, step if "," in step or "'" in step else f"{step}, 0")
    before = content(session)
    told = move(session)
    assert told[0].startswith(moved(len(before), 0)[:-1])
    assert len(told) == 1
    assert scalar(session, IN_DEFAULT) == 0
    assert content(session) == before
    assert len(bounds(session)) == (ranges or len(bounds(session))) > 0
    assert move(session) == [moved(0, 0)]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kathmandu", "UTC"])
def test_days_of_the_policys_zone(session: Connection, zone: str) -> None:
    """Also those in which clocks change, whatever the session's zone and style are."""
    hours = (
        "SELECT '2024-03-29 00:30Z'::timestamptz + i * interval '1 h' FROM generate_series(0, 99) i"
    )
    fill(
        session,
        "timestamptz",
        hours,
        f"'1 day', time_zone => '{zone}', max_distance => 100000",
    )
    session.execute("SET TimeZone = 'America/New_York'; SET datestyle = 'German'")
    assert move(session)[0].startswith(moved(100, 0)[:-1])
    session.execute(f"SET TimeZone = '{zone}'; SET datestyle = 'ISO'")
    days = "SELECT count(DISTINCT k::date), count(DISTINCT tableoid) FROM s.p"
    row = session.execute(days).fetchone()
    assert row is not None
    assert row[0] == row[1]


@pytest.mark.parametrize(
    ("by", "step", "ranges"),
    [
        ("(k + 1)", "10, 0", 8),
        ("(-k)", "10, 0", 8),
        ("abs(k)", "10, 0", 4),
        ("(k::numeric / 2)", "10, 0", 4),
    ],
)
def test_expressions(session: Connection, by: str, step: str, ranges: int) -> None:
    fill(session, "int", "SELECT generate_series(-32, 32)", step, by)
    assert move(session) == [moved(65, ranges)]
    assert scalar(session, IN_DEFAULT) == 0


def test_keys_that_have_no_range(session: Connection) -> None:
    rows = "VALUES (NULL), ('NaN'), ('Infinity'), ('-Infinity'), (5), (15), (5)"
    fill(session, "numeric", rows, "10, 0")
    assert move(session) == [moved(3, 2), stay(4)]
    assert scalar(session, IN_DEFAULT) == 4


def test_infinite_times(session: Connection) -> None:
    fill(session, "timestamptz", "VALUES ('infinity'), ('-infinity'), (now())", "'1 day'")
    assert move(session) == [moved(1, 1), stay(2)]


@pytest.mark.parametrize(
    ("key", "rows", "policy"),
    [
        ("numeric(10)", "VALUES (0), (0)", "2, 0.4"),
        (
            "timestamp(0)",
            "SELECT current_date FROM generate_series(1, 2)",
            "'1 day', '2001-01-01 00:00:00.4'",
        ),
        (
            "uuid",
            "SELECT uuidv7(current_date - now()) FROM generate_series(1, 2)",
            "'1 day', '2001-01-01 00:00:00.0004'",
        ),
    ],
)
def test_an_origin_that_the_key_rounds(
    session: Connection, key: str, rows: str, policy: str
) -> None:
    fill(session, key, rows, policy)
    assert move(session) == [moved(2, 1)]


def test_bounds_that_the_key_rounds(session: Connection) -> None:
    """Of a policy from a dump: range 0 to 1 of 1 has it not."""
    fill(session, "numeric(10)", "VALUES (1), (1), (5)", "2, 0")
    session.execute("UPDATE pg_lookahead_interval_policy SET step = '1.4'")
    assert move(session) == [moved(1, 1), stay(2)]
    assert bounds(session) == [("4", "6")]


@pytest.mark.parametrize(
    ("key", "far"),
    [
        ("int", "2147483647"),
        ("int", "-2147483648"),
        ("bigint", "9223372036854775807"),
        ("timestamptz", "'294276-12-31'"),
        ("timestamp", "'4713-01-02 BC'"),
        ("date", "'5874897-12-31'"),
        ("date", "'4713-01-02 BC'"),
    ],
)
def test_where_types_end(session: Connection, key: str, far: str) -> None:
    """What has no range, or one that is too far, stays; the others go."""
    near = "now()" if "'" in far else "5"
    fill(session, key, f"VALUES ({far}), ({near})", "'1 day'" if "'" in far else "10, 0")
    assert move(session) == [moved(1, 1), stay(1)]


def test_what_is_too_far(session: Connection) -> None:
    """From the partitions that are there when the rows are listed."""
    fill(session, "int", "VALUES (5), (-995), (-1990), (-5000)", "10, 0, max_distance => 100")
    assert move(session) == [moved(2, 2), stay(2)]
    assert move(session) == [moved(1, 1), stay(1)]
    assert move(session) == [moved(0, 0), stay(1)]


def test_partitions_that_do_not_fit(session: Connection) -> None:
    """What is left of a range becomes a partition."""
    make(session, "int")
    session.execute("CREATE TABLE s.hand PARTITION OF s.p FOR VALUES FROM (13) TO (17)")
    session.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT")
    session.execute("INSERT INTO s.p SELECT generate_series(0, 29)")
    set_policy(session, "10, 0, names => 'p_{bound}'")
    assert move(session) == [moved(26, 4)]
    wanted = [("0", "10"), ("10", "13"), ("13", "17"), ("17", "20"), ("20", "30")]
    assert bounds(session) == wanted


def test_a_step_that_has_changed(session: Connection) -> None:
    fill(session, "int", "SELECT generate_series(0, 49)", "10, 0")
    session.execute("SELECT pg_lookahead_change_interval('s.p', 4, 25)")
    assert move(session) == [moved(50, 10)]
    assert ("20", "25") in bounds(session)


def test_a_few_ranges(session: Connection) -> None:
    fill(session, "int", "SELECT generate_series(0, 49)", "10, 0")
    assert move(session, "'s.p', 2") == [moved(20, 2)]
    assert move(session, "'s.p', ranges => 1") == [moved(10, 1)]
    assert move(session, "'s.p', NULL") == [moved(20, 2)]


def test_as_after_inserts(session: Connection) -> None:
    """Partitions are those that maintenance makes, and it goes on with them."""
    fill(session, "int", "SELECT generate_series(0, 49)", "10, 0, premake => 2")
    move(session)
    maintain(session)
    assert places(session) == [(f"s.p_{i}0" if i else "s.p_0", 10) for i in range(5)]
    assert len(bounds(session)) == 7


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("NULL", psycopg.errors.NullValueNotAllowed),
        ("'s.p', 0", psycopg.errors.InvalidParameterValue),
        ("'s.p', -1", psycopg.errors.InvalidParameterValue),
        ("1", psycopg.errors.UndefinedTable),
        ("'s.without'", psycopg.errors.UndefinedObject),
    ],
)
def test_arguments(session: Connection, arguments: str, error: type[psycopg.Error]) -> None:
    fill(session, "int", "VALUES (5)", "10, 0")
    session.execute("CREATE TABLE s.without (k int) PARTITION BY RANGE (k)")
    with pytest.raises(error):
        move(session, arguments)
    assert scalar(session, IN_DEFAULT) == 1


def test_without_a_default_partition(session: Connection) -> None:
    make(session, "int")
    set_policy(session, "10, 0")
    assert move(session) == [moved(0, 0)]


def test_a_run_that_cannot_begin(session: Connection, server: WatchedServer) -> None:
    """What is left of another table is locked: an error, and not a warning."""
    fill(session, "int", "VALUES (5)", "10, 0")
    session.execute("UPDATE pg_lookahead_interval_state SET row_type = 'int'::regtype")
    session.execute("SET lock_timeout = '100ms'")
    with server.connect(autocommit=False) as other:
        other.execute("SELECT FROM pg_lookahead_interval_state FOR UPDATE")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            move(session)
        other.rollback()
    assert move(session) == [moved(1, 1)]


def test_within_a_transaction(session: Connection) -> None:
    fill(session, "int", "VALUES (5)", "10, 0")
    with pytest.raises(psycopg.errors.InvalidTransactionTermination), session.transaction():
        move(session)
    session.execute("SET default_transaction_read_only = on")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        move(session)
    session.execute("RESET default_transaction_read_only")


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_isolation_levels(session: Connection, level: str) -> None:
    fill(session, "int", "SELECT generate_series(0, 49)", "10, 0")
    session.execute(f"SET default_transaction_isolation = '{level}'")
    assert move(session) == [moved(50, 5)]
    assert scalar(session, "SHOW transaction_isolation") == level.lower()
    session.execute("RESET default_transaction_isolation")


def test_an_error_of_a_range_keeps_no_other(session: Connection) -> None:
    """A name that is taken, and rows that a CHECK has not looked at; the first error is thrown.

    The highest range is the first one.
    """
    fill(session, "int", "SELECT generate_series(0, 49)", "10, 0")
    session.execute("CREATE VIEW s.p_10 AS SELECT 1")
    session.execute("ALTER TABLE s.p ADD CHECK (k <> 33) NOT VALID")
    with pytest.raises(psycopg.errors.CheckViolation):
        move(session)
    assert scalar(session, IN_DEFAULT) == 20
    assert scalar(session, "SELECT count(*) FROM s.p") == 50
    session.execute("UPDATE s.p SET k = 34 WHERE k = 33")
    with pytest.raises(psycopg.errors.DuplicateTable):
        move(session)
    assert scalar(session, IN_DEFAULT) == 10
    dynamic: Any = "SELECT array_agg(k ORDER BY k) FROM s.p WHERE k <> 34"
    assert scalar(session, dynamic) == [k for k in range(50) if k not in (33, 34)]


def test_an_error_of_the_highest_range_of_times(session: Connection) -> None:
    """Nothing is led away by the others."""
    days = "SELECT current_date + i FROM generate_series(0, 2) i"
    fill(session, "date", days, "'1 day', names => 'p_{bound}'")
    last = scalar(session, "SELECT to_char(current_date + 2, 'YYYYMMDD')")
    session.execute(f"CREATE VIEW s.p_{last} AS SELECT 1")
    with pytest.raises(psycopg.errors.DuplicateTable):
        move(session)
    assert scalar(session, IN_DEFAULT) == 1


@pytest.mark.parametrize(("state", "left"), [("0A000", 20), ("23514", 10)])
def test_an_error_that_ends_the_call(session: Connection, state: str, left: int) -> None:
    """What is refused for one range is refused for each."""
    fill(session, "int", "SELECT generate_series(0, 29)", "10, 0")
    session.execute(
        f"""CREATE FUNCTION s.check(k int) RETURNS boolean LANGUAGE plpgsql AS
            $$BEGIN RAISE EXCEPTION USING ERRCODE = '{state}'; END$$;
        ALTER TABLE s.p ADD CHECK (k <> 15 OR s.check(k)) NOT VALID"""
    )
    with pytest.raises(psycopg.Error):
        move(session)
    assert scalar(session, IN_DEFAULT) == left
