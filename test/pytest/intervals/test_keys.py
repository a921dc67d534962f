"""Which partitions are created ahead, for each type of key."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import psycopg
import pytest
from extension.probes import Connection, scalar

from intervals.policies import bounds, maintain, make, names, set_policy, state

# Each with what makes a value of a time: text of a bound in the middle of the day.
_TIMES = ["date", "timestamp", "timestamptz"]


def _today(session: Connection) -> date:
    today = scalar(session, "SELECT current_date")
    assert isinstance(today, date)
    return today


@pytest.mark.parametrize("key", _TIMES)
def test_days(session: Connection, key: str) -> None:
    make(session, key)
    set_policy(session, "'1 day', premake => 3")
    assert (state(session, "ahead"), state(session, "behind")) == (-1, True)
    assert maintain(session, "s.p") == []
    today = _today(session)
    days = [today + timedelta(days=i) for i in range(5)]
    assert [low[:10] for low, _ in bounds(session)] == [str(day) for day in days[:4]]
    assert [high[:10] for _, high in bounds(session)] == [str(day) for day in days[1:]]
    assert names(session) == [f"p_{day:%Y%m%d}" for day in days[:4]]
    assert (state(session, "ahead"), state(session, "behind")) == (3, False)
    assert state(session, "newest")[:10] == str(days[4])
    maintain(session, "s.p")
    assert len(bounds(session)) == 4


def test_uuids(session: Connection) -> None:
    make(session, "uuid")
    set_policy(session, "'1 day', premake => 1, time_zone => 'UTC'")
    maintain(session)
    session.execute("INSERT INTO s.p VALUES (uuidv7()), (uuidv7(interval '1 day'))")
    spread = session.execute("SELECT tableoid::regclass::text FROM s.p ORDER BY k").fetchall()
    assert [row[0] for row in spread] == [f"s.{name}" for name in names(session)]


def test_the_start_of_uuids_is_a_time(session: Connection) -> None:
    make(session, "uuid")
    set_policy(session, "'1 day', '2026-01-01 06:00+00', 0, time_zone => 'UTC'")
    maintain(session)
    low = bounds(session)[0][0]
    at = "extract(hour FROM to_timestamp(('x' || left(replace('{}', '-', ''), 12))::bit(48)::bigint"
    assert scalar(session, f"SELECT {at.format(low)} / 1000.0) AT TIME ZONE 'UTC')") == 6


@pytest.mark.parametrize("key", ["smallint", "int", "bigint", "numeric"])
def test_numbers(session: Connection, key: str) -> None:
    """Partitions are created after the last one that somebody put rows into."""
    make(session, key)
    set_policy(session, "100, premake => 2")
    maintain(session)
    assert bounds(session) == [("0", "100"), ("100", "200"), ("200", "300")]
    session.execute("INSERT INTO s.p VALUES (120)")
    assert state(session, "ahead") == 1
    maintain(session)
    assert bounds(session)[-1] == ("300", "400")
    session.execute("INSERT INTO s.p VALUES (399)")
    maintain(session)
    assert bounds(session)[-1] == ("500", "600")


def test_fractions(session: Connection) -> None:
    make(session, "numeric(10,2)")
    set_policy(session, "0.25, 0.1, premake => 2")
    maintain(session)
    assert bounds(session) == [("0.10", "0.35"), ("0.35", "0.60"), ("0.60", "0.85")]


@pytest.mark.parametrize("key", ["numeric(10)", "s.whole"])
def test_an_origin_that_the_key_rounds(session: Connection, key: str) -> None:
    session.execute("CREATE DOMAIN s.whole AS numeric(10)")
    make(session, key)
    set_policy(session, "2, 0.4, premake => 1")
    assert scalar(session, "SELECT origin FROM pg_lookahead_interval_policy") == "0"
    assert scalar(session, "SELECT pg_lookahead_change_interval('s.p', 3, 3.6)") == "4"
    maintain(session)
    session.execute("INSERT INTO s.p VALUES (0), (2)")
    maintain(session)
    assert bounds(session) == [("0", "2"), ("2", "4"), ("4", "7")]


def test_expressions_and_domains(session: Connection) -> None:
    session.execute("CREATE DOMAIN s.big AS bigint CHECK (VALUE >= -1000)")
    make(session, "s.big")
    set_policy(session, "10, premake => 0")
    session.execute("CREATE TABLE s.q (a int) PARTITION BY RANGE ((a / 2))")
    set_policy(session, "10, premake => 0", "s.q")
    maintain(session)
    assert bounds(session) == bounds(session, "s.q") == [("0", "10")]


def test_a_series_goes_on(session: Connection) -> None:
    """Without an origin the policy follows the partitions that are there."""
    make(session, "int")
    session.execute("CREATE TABLE s.old PARTITION OF s.p FOR VALUES FROM (7) TO (17)")
    session.execute("INSERT INTO s.p VALUES (8)")
    set_policy(session, "10, premake => 2")
    maintain(session)
    assert bounds(session) == [("7", "17"), ("17", "27"), ("27", "37")]


def test_ranges_are_cut_by_others(session: Connection) -> None:
    """A partition made by hand has a part of a range; the rest of those ahead is created."""
    make(session, "int")
    session.execute("CREATE TABLE s.first PARTITION OF s.p FOR VALUES FROM (0) TO (100)")
    session.execute("CREATE TABLE s.mine PARTITION OF s.p FOR VALUES FROM (130) TO (140)")
    session.execute("CREATE TABLE s.high PARTITION OF s.p FOR VALUES FROM (250) TO (MAXVALUE)")
    set_policy(session, "100, 0, premake => 3")
    maintain(session)
    assert bounds(session)[:5] == [
        ("0", "100"), ("100", "130"), ("130", "140"), ("140", "200"), ("200", "250"),
    ]  # fmt: skip
    assert state(session, "ahead") == 3


def test_before_the_beginning(session: Connection) -> None:
    make(session, "int")
    session.execute("CREATE TABLE s.low PARTITION OF s.p FOR VALUES FROM (MINVALUE) TO (-25)")
    session.execute("INSERT INTO s.p VALUES (-30)")
    set_policy(session, "10, 0, premake => 2")
    maintain(session)
    assert [pair for pair in bounds(session) if "MIN" not in pair[0]] == [
        ("-25", "-20"), ("-20", "-10"),
    ]  # fmt: skip


def _local(session: Connection, zone: str) -> list[str]:
    """Lower bounds of the partitions, in a time zone."""
    session.execute("SELECT set_config('timezone', %s, false)", (zone,))
    rows = bounds(session)
    return sorted(low for low, _ in rows)


def test_days_of_the_policys_zone(session: Connection) -> None:
    """Every day begins at midnight, also when clocks change twice in 400 days."""
    make(session, "timestamptz")
    set_policy(session, "'1 day', premake => 400, time_zone => 'Europe/Berlin'")
    session.execute("SET timezone = 'Asia/Kolkata'")
    maintain(session)
    lows = _local(session, "Europe/Berlin")
    assert len(lows) == 401
    assert {low[11:19] for low in lows} == {"00:00:00"}
    assert {low[19:] for low in lows} == {"+01", "+02"}
    hours = """
        SELECT array_agg(DISTINCT extract(epoch FROM next - low) / 3600) FROM (
            SELECT low, lead(low) OVER (ORDER BY low) AS next
            FROM unnest(%s::timestamptz[]) low) AS days WHERE next IS NOT NULL"""
    found: Any = session.execute(hours, (lows,)).fetchone()
    assert sorted(found[0]) == [23, 24, 25]


def test_hours_are_counted_in_absolute_time(session: Connection) -> None:
    make(session, "timestamptz")
    arguments = "'6 hours', '2026-01-01 00:00+00', 1600, time_zone => 'Europe/Berlin'"
    set_policy(session, arguments)
    maintain(session)
    lows = _local(session, "UTC")
    assert len(lows) == 1601
    assert {low[11:13] for low in lows} == {"00", "06", "12", "18"}
    assert all(name.endswith("z") for name in names(session))


def test_months_from_the_31st(session: Connection) -> None:
    make(session, "date")
    set_policy(session, "'1 month', '2024-01-31', premake => 24")
    maintain(session)
    lasts = "SELECT array_agg((date_trunc('month', d) + '1 month - 1 day')::date = d) FROM "
    lows = [low for low, _ in bounds(session)]
    found: Any = session.execute(f"{lasts} unnest(%s::date[]) d", (lows,)).fetchone()
    assert len(lows) == 25
    assert all(
        ok or (low[5:7] != "02" and low[8:] == "30") or low[8:] == "31"
        for ok, low in zip(found[0], lows, strict=True)
    )
    assert sum(low[8:] in ("28", "29") for low in lows) == 2


def test_a_day_that_a_zone_left_out(session: Connection) -> None:
    """No 30th of December 2011 in Samoa: ranges around it are found, and none is empty."""
    make(session, "timestamptz")
    arguments = "'1 day', '2011-12-30 00:00+14', 1, time_zone => 'Pacific/Apia'"
    set_policy(session, arguments)
    maintain(session)
    assert len(bounds(session)) == 2


@pytest.mark.parametrize(
    ("key", "arguments", "message"),
    [
        ("int", "0", "step of partitions must be greater than zero"),
        ("int", "'1 day'", "invalid input syntax"),
        ("numeric(10,2)", "0.001", "too fine for the type of the key"),
        ("numeric(10)", "1.4", "Bound 1.4 would be 1."),
        ("numeric(10)", "1.5, 10", "too fine for the type of the key"),
        ("s.whole", "1.6", "too fine for the type of the key"),
        ("timestamp(0)", "'0.4 seconds'", "too fine for the type of the key"),
        ("uuid", "'1.5 milliseconds'", "whole milliseconds"),
        ("date", "'1 hour'", "must be of whole days"),
        ("date", "'-1 day'", "must be greater than zero"),
        ("date", "'1 day', 'infinity'", "must be finite"),
        ("numeric", "1, 'NaN'", "must be finite"),
        ("int", "10, premake => -1", 'argument "premake" must be between 0 and 10000'),
        ("int", "10, retention => 0", 'argument "retention" must be finite and greater than zero'),
        ("date", "'1 day', retention => '-1 day'", 'argument "retention" must be finite'),
        ("int", "10, retention_action => 'burn'", 'must be "detach" or "drop"'),
        ("int", "10, time_zone => 'UTC'", "has no time zone"),
        ("date", "'1 day', time_zone => 'Nowhere'", 'invalid value for parameter "TimeZone"'),
        ("int", "10, names => 'x{number}'", "invalid pattern of names"),
        ("int", "10, storage => 'fillfactor = 70) TABLESPACE (x'", "syntax error"),
        ("int", "10, tablespace => 'nowhere'", 'tablespace "nowhere" does not exist'),
        ("int", "10, analyze_every => '0'", 'argument "analyze_every" must be greater than zero'),
        ("text", "10", "cannot make steps in type text"),
        ("smallint", "40000", "out of range for type smallint"),
    ],
)
def test_what_is_refused(session: Connection, key: str, arguments: str, message: str) -> None:
    session.execute("CREATE DOMAIN s.whole AS numeric(10)")
    make(session, key)
    with pytest.raises(psycopg.Error) as caught:
        set_policy(session, arguments)
    assert message in str(caught.value)
    assert scalar(session, "SELECT count(*) FROM pg_lookahead_interval_policy") == 0


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("s.t (k int)", "is not partitioned"),
        ("s.t (k int) PARTITION BY LIST (k)", "is not partitioned by range"),
        ("s.t (k int) PARTITION BY RANGE (k, (k + 1))", "more than one column"),
        ("pg_temp.t (k int) PARTITION BY RANGE (k)", "temporary table"),
    ],
)
def test_tables_that_cannot_have_one(session: Connection, table: str, message: str) -> None:
    session.execute(f"CREATE TABLE {table}")
    with pytest.raises(psycopg.Error, match=message):
        set_policy(session, "10", table.split(" ")[0])
    session.execute(f"DROP TABLE {table.split(' ')[0]}")


def test_descending_keys_are_refused(session: Connection) -> None:
    session.execute(
        """CREATE FUNCTION s.down(int, int) RETURNS int IMMUTABLE LANGUAGE sql
           AS 'SELECT btint4cmp($2, $1)';
           CREATE OPERATOR CLASS s.down FOR TYPE int USING btree AS
           OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <,
           FUNCTION 1 s.down(int, int)"""
    )
    make(session, "int", "k s.down")
    with pytest.raises(psycopg.Error, match="operator class that is not the type's"):
        set_policy(session, "10")
