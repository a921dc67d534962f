"""What a retention makes old, shown before anything goes; lengths of time that are a slip."""

from __future__ import annotations

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from intervals.policies import bounds, hear, maintain, make, names, set_policy, state


@pytest.mark.parametrize("key", ["date", "timestamp", "timestamptz", "uuid"])
@pytest.mark.parametrize("number", ["90", "'90'", "' 90.5 '", "90::numeric"])
@pytest.mark.parametrize("argument", ["step", "retention"])
def test_a_number_is_no_length_of_time(
    session: Connection, key: str, number: str, argument: str
) -> None:
    make(session, key)
    arguments = number if argument == "step" else f"'1 day', retention => {number}"
    with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
        set_policy(session, arguments)
    assert f'argument "{argument}" has no unit of time' in str(caught.value)
    assert "'90 days'" in str(caught.value)


@pytest.mark.parametrize("length", ["'90 days'", "'P90D'", "interval '90' day", "'2160:00'"])
def test_lengths_of_time(session: Connection, length: str) -> None:
    make(session, "timestamptz")
    set_policy(session, f"'1 day', retention => {length}")


def test_times_are_listed(session: Connection) -> None:
    make(session, "date")
    session.execute(
        "SELECT * FROM pg_lookahead_create_range_partitions('s.p', '2020-01-01', '1 day', 3)"
    )
    retention = "'1 day', origin => '2020-01-01', retention => '1 year', premake => 0"
    heard = hear(
        session,
        f"SELECT pg_lookahead_set_interval('s.p', {retention}, retention_action => 'drop')",
    )
    told = 'partitions of "p" older than the retention: 3; the next maintenance will drop them'
    assert heard == [told]
    rows = session.execute(
        "SELECT partition::text, lower_bound, upper_bound, action, lock_because, "
        "reason LIKE 'ends by %, which is 1 year ago' FROM pg_lookahead_retirement('s.p')"
    ).fetchall()
    assert rows == [
        (f"s.p_2020010{i}", f"2020-01-0{i}", f"2020-01-0{i + 1}", "drop", None, True)
        for i in range(1, 4)
    ]
    maintain(session)
    assert scalar(session, "SELECT count(*) FROM pg_lookahead_retirement('s.p')") == 0


def test_another_step_tells_what_is_old(session: Connection) -> None:
    """Of a policy from a dump it is what makes the server obey it."""
    make(session, "date")
    session.execute(
        "SELECT * FROM pg_lookahead_create_range_partitions('s.p', '2020-01-01', '1 day', 3)"
    )
    set_policy(session, "'1 day', retention => '1 year', retention_action => 'drop'")
    session.execute("DELETE FROM pg_lookahead_interval_state")
    heard = hear(session, "SELECT pg_lookahead_change_interval('s.p', '12 days')")
    told = 'partitions of "p" older than the retention: 3; the next maintenance will drop them'
    assert heard == [told]
    assert scalar(session, "SELECT count(*) FROM pg_lookahead_interval_state") == 1
    # Those that were to go go by the new policy, too.
    maintain(session)
    assert hear(session, "SELECT pg_lookahead_change_interval('s.p', '1 day')") == []


def test_numbers_are_listed(session: Connection) -> None:
    """With what stands in the way of doing it beside others."""
    make(session, "int")
    session.execute("SELECT * FROM pg_lookahead_create_range_partitions('s.p', 0, 10, 50)")
    session.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT; INSERT INTO s.p VALUES (495)")
    heard = hear(
        session, "SELECT pg_lookahead_set_interval('s.p', 10, premake => 0, retention => 470)"
    )
    assert heard[0].endswith("older than the retention: 2; the next maintenance will detach them")
    rows = session.execute("SELECT * FROM pg_lookahead_retirement('s.p')").fetchall()
    why = 'ends by 20, which is 470 below the last partition with a row, "p_490"'
    assert [row[1:] for row in rows] == [
        ("0", "10", "detach", "default partition", why),
        ("10", "20", "detach", "default partition", why),
    ]
    assert len(bounds(session)) == 50


def test_nothing_to_list(session: Connection) -> None:
    make(session, "int")
    with pytest.raises(psycopg.errors.UndefinedObject, match="has no interval policy"):
        session.execute("SELECT * FROM pg_lookahead_retirement('s.p')")
    set_policy(session, "10, retention => 10")
    assert scalar(session, "SELECT count(*) FROM pg_lookahead_retirement('s.p')") == 0


@pytest.mark.parametrize(
    ("key", "arguments", "error"),
    [
        ("date", "'300000 years'", "out of range"),
        ("date", "'1 day', retention => '300000 years'", "out of range"),
        ("int", "10, storage => 'fillfactor = 5'", "value 5 out of bounds"),
        ("int", "10, storage => 'toast.autovacuum_enabled = 3'", "invalid value for boolean"),
        ("int", "10, tablespace => 'pg_global'", "only shared relations can be placed"),
    ],
)
def test_what_would_fail_at_each_run_is_refused(
    session: Connection, key: str, arguments: str, error: str
) -> None:
    make(session, key)
    with pytest.raises(psycopg.Error, match=error):
        set_policy(session, arguments)


@pytest.mark.parametrize(
    "change",
    [
        "change_starts = '{NULL}', change_steps = '{1}'",
        "change_starts = '{1}', change_steps = '{NULL}'",
        "change_starts = '{1}'",
        "premake = 2000000000",
        "premake = -1",
        "retention_action = 'shred'",
        "max_partitions = -1",
        "max_distance = -1",
    ],
)
def test_rows_of_which_nothing_can_be_made(session: Connection, change: str) -> None:
    make(session, "int")
    set_policy(session, "10")
    with pytest.raises(psycopg.errors.CheckViolation):
        session.execute(f"UPDATE pg_lookahead_interval_policy SET {change}")


@pytest.mark.parametrize("retention", ["-10", "nonsense", "NaN"])
def test_a_retention_that_came_another_way(session: Connection, retention: str) -> None:
    """It makes nothing old, is an error of that table, and does not stop others."""
    make(session, "int")
    session.execute("CREATE TABLE s.q (k int) PARTITION BY RANGE (k)")
    set_policy(session, "10, premake => 3, retention => 1000")
    set_policy(session, "10, premake => 3", "s.q")
    session.execute(
        "UPDATE pg_lookahead_interval_policy SET retention = %s WHERE retention IS NOT NULL",
        (retention,),
    )
    session.execute("CALL pg_lookahead_maintain_partitions()")
    session.execute("INSERT INTO s.p VALUES (1)")
    maintain(session)
    assert (len(bounds(session)), len(bounds(session, "s.q"))) == (4, 4)
    assert state(session, "last_error") is not None


@pytest.mark.parametrize(
    ("key", "last"), [("int2", 32767), ("int", 2**31 - 1), ("int8", 2**63 - 1)]
)
def test_where_the_type_of_the_key_ends(session: Connection, key: str, last: int) -> None:
    """The partitions before are created; that there are no more is no error."""
    make(session, key)
    set_policy(session, f"10, premake => 5, origin => {last - 27}")
    maintain(session)
    assert bounds(session)[-1] == (str(last - 17), str(last - 7))
    assert len(bounds(session)) == 2
    assert maintain(session) == []
    assert state(session, "last_error") is None
    assert state(session, "blocked") == (
        f"no further partitions: the values of the key end after {last - 7}"
    )


def test_a_change_of_the_step_before_the_type_ends(session: Connection) -> None:
    make(session, "int2")
    set_policy(session, "20000, premake => 3, origin => 0")
    session.execute("SELECT pg_lookahead_change_interval('s.p', 1000, 21000)")
    maintain(session)
    assert bounds(session) == [
        ("0", "20000"),
        ("20000", "21000"),
        ("21000", "22000"),
        ("22000", "23000"),
    ]
    assert state(session, "blocked") is None


def test_an_owner_stops_no_others(session: Connection, server: WatchedServer) -> None:
    """Any SQLSTATE can be thrown by a function; a cancel is what the session was sent."""
    session.execute(
        """CREATE TABLE s.switch ();
        CREATE FUNCTION s.boom() RETURNS int IMMUTABLE LANGUAGE plpgsql AS
        $$BEGIN IF EXISTS (SELECT FROM s.switch) THEN
            RAISE 'boom' USING ERRCODE = '57014'; END IF; RETURN 0; END$$"""
    )
    session.execute("CREATE TABLE s.p (k int) PARTITION BY RANGE ((k + s.boom()))")
    session.execute("CREATE TABLE s.q (k int) PARTITION BY RANGE (k)")
    set_policy(session, "10")
    set_policy(session, "10", "s.q")
    session.execute("INSERT INTO s.switch DEFAULT VALUES")
    with server.connect() as fresh:
        assert maintain(fresh) == ['could not maintain the partitions of "p": boom']
        assert scalar(fresh, "SELECT count(*) FROM pg_lookahead_intervals") == 2
    assert len(bounds(session, "s.q")) == 5
    session.execute("DELETE FROM s.switch")


def test_settings_of_the_caller_say_nothing(session: Connection, server: WatchedServer) -> None:
    """Whoever may maintain the table does not choose where its partitions are."""
    session.execute("SET allow_in_place_tablespaces = on")
    session.execute("CREATE TABLESPACE elsewhere LOCATION ''")
    make(session, "int")
    set_policy(session, "10")
    with server.connect(options="-c default_tablespace=elsewhere") as caller:
        maintain(caller)
    assert len(names(session)) == 5
    moved = "SELECT count(*) FROM pg_class WHERE reltablespace <> 0 AND relname LIKE 'p\\_%'"
    assert scalar(session, f"{moved} AND relnamespace = 's'::regnamespace") == 0
    session.execute("DROP TABLESPACE elsewhere")
