"""The one partition that a row needs: which it is, and when there is none."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from extension.probes import QUIET, Connection, scalar
from server_log import ServerFactory, WatchedServer

from intervals.policies import bounds, maintain, maintaining, make, set_policy, state
from lookahead.extension import Stage

_FUNCTION = """
    CREATE FUNCTION needed(regclass, text) RETURNS bool LANGUAGE c
    AS 'pg_lookahead', 'la_test_interval_create_for'"""


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    """A server with test settings, where a function stands for whoever needs a partition."""
    with server_factory(stage=test_stage, settings=QUIET) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead; CREATE ROLE owner; CREATE ROLE other")
            session.execute(_FUNCTION)
        yield started


def _needed(session: Connection, value: str | None) -> bool:
    row = session.execute("SELECT needed('s.p', %s)", (value,)).fetchone()
    assert row is not None
    return bool(row[0])


def test_gaps_stay_gaps(session: Connection) -> None:
    make(session, "int")
    set_policy(session, "10")
    assert _needed(session, "57")
    assert not _needed(session, "50")
    assert _needed(session, "-1")
    assert bounds(session) == [("-10", "0"), ("50", "60")]


def test_only_what_is_missing_of_a_range(session: Connection) -> None:
    make(session, "int")
    session.execute("CREATE TABLE s.a PARTITION OF s.p FOR VALUES FROM (0) TO (23)")
    session.execute("CREATE TABLE s.b PARTITION OF s.p FOR VALUES FROM (27) TO (MAXVALUE)")
    set_policy(session, "10, 0")
    assert not _needed(session, "22")
    assert not _needed(session, "1000")
    assert _needed(session, "25")
    assert bounds(session)[1] == ("23", "27")


@pytest.mark.parametrize(
    ("key", "policy", "value"),
    [
        ("numeric(10)", "2, 0.4", "0"),
        ("timestamp(0)", "'1 day', '2001-01-01 00:00:00.4'", "current_date::timestamp(0)"),
        ("timestamptz(3)", "'1 day', '2001-01-01 00:00:00.0004'", "current_date::timestamptz(3)"),
        ("uuid", "'1 day', '2001-01-01 00:00:00.0004'", "uuidv7(current_date - now())"),
    ],
)
def test_an_origin_that_the_key_rounds(
    session: Connection, key: str, policy: str, value: str
) -> None:
    """The partition takes the row, and maintenance goes on with it."""
    make(session, key)
    set_policy(session, f"{policy}, premake => 0")
    wanted = scalar(session, f"SELECT ({value})::text")
    assert _needed(session, str(wanted))
    session.execute("INSERT INTO s.p VALUES (%s)", (wanted,))
    maintain(session)
    assert len(bounds(session)) == 1


@pytest.mark.parametrize("key", ["date", "timestamp", "timestamptz"])
def test_times(session: Connection, key: str) -> None:
    make(session, key)
    set_policy(session, "'1 month', premake => 0, time_zone => 'Europe/Berlin'")
    assert _needed(session, str(scalar(session, "SELECT date_trunc('month', now())::date - 1")))
    lasts = "SELECT (date_trunc('month', now()) - interval '1 month')::date::text"
    session.execute("SET timezone = 'Europe/Berlin'")
    assert bounds(session)[0][0][:10] == scalar(session, lasts)


@pytest.mark.parametrize(
    ("key", "policy", "value", "state_", "text"),
    [
        ("int", "10", None, "23514", "partition key is null"),
        ("date", "'1 day'", "infinity", "23514", "no steps can be counted"),
        ("numeric", "10", "NaN", "23514", "no steps can be counted"),
        ("int", "10", "many", "22P02", "invalid input syntax"),
        ("int", "10, max_distance => 5", "60", "54000", "too far from the other partitions"),
        ("int", "10, max_distance => 5", "-51", "54000", "too far from the other partitions"),
        ("date", "'1 day'", "1999-12-31", "54000", "too far from the other partitions"),
        ("int", "1000000000", "2147483647", "22003", "out of range for type integer"),
    ],
)
def test_values_without_a_partition(
    session: Connection, key: str, policy: str, value: str | None, state_: str, text: str
) -> None:
    make(session, key)
    set_policy(session, policy)
    with pytest.raises(psycopg.Error) as caught:
        _needed(session, value)
    assert caught.value.sqlstate == state_
    assert text in str(caught.value)
    assert bounds(session) == []


def test_distance_counts_from_the_nearest_partition(session: Connection) -> None:
    make(session, "int")
    session.execute("CREATE TABLE s.far PARTITION OF s.p FOR VALUES FROM (1000) TO (1010)")
    set_policy(session, "10, 0, max_distance => 5")
    for value, good in (("1059", True), ("945", False), ("950", True), ("1120", False)):
        if good:
            assert _needed(session, value)
        else:
            with pytest.raises(psycopg.errors.ProgramLimitExceeded):
                _needed(session, value)


def test_with_a_default_partition(session: Connection) -> None:
    make(session, "int")
    session.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT")
    set_policy(session, "10")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as caught:
        _needed(session, "5")
    assert "it has a default partition" in str(caught.value)
    assert 'detach "rest"' in str(caught.value)


def test_locks_that_writers_would_wait_for(session: Connection) -> None:
    """A table that references itself is locked like others that new partitions reference."""
    make(session, "int PRIMARY KEY REFERENCES s.p (k)")
    set_policy(session, "10, premake => 0")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as caught:
        _needed(session, "5")
    assert "The reason is: foreign keys." in str(caught.value)
    (told,) = maintain(session)
    assert "created by one statement each" in told
    assert len(bounds(session)) == 1


def test_functions_that_writers_would_wait_for(session: Connection) -> None:
    session.execute("CREATE DOMAIN s.positive AS int CHECK (VALUE >= 0)")
    make(session, "s.positive")
    set_policy(session, "10, premake => 0")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as caught:
        _needed(session, "5")
    assert "The reason is: functions of users." in str(caught.value)


def test_functions_that_maintenance_calls(session: Connection, server: WatchedServer) -> None:
    """Writers wait for one partition at a time, and the table gets no weaker lock before."""
    session.execute("CREATE DOMAIN s.positive AS int CHECK (VALUE >= 0)")
    make(session, "s.positive")
    set_policy(session, "10, premake => 3")
    with server.connect(autocommit=False) as reader:
        reader.execute("SELECT count(*) FROM s.p")
        with maintaining(session, server):
            granted = "SELECT string_agg(mode, ', ') FROM pg_locks WHERE granted"
            of_table = "relation = 's.p'::regclass"
            assert scalar(session, f"{granted} AND {of_table}") == "AccessShareLock"
            reader.rollback()
    assert len(bounds(session)) == 4
    transactions = "SELECT count(DISTINCT xmin::text) FROM pg_class WHERE relispartition"
    assert scalar(session, f"{transactions} AND relnamespace = 's'::regnamespace") == 4


def test_foreign_keys_and_triggers(session: Connection, server: WatchedServer) -> None:
    session.execute(
        "CREATE TABLE s.r (k int PRIMARY KEY); INSERT INTO s.r VALUES (1), (11);"
        "CREATE FUNCTION s.f() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.t := TG_TABLE_NAME; RETURN NEW; END $$"
    )
    make(session, "int PRIMARY KEY REFERENCES s.r")
    session.execute(
        "CREATE TRIGGER f BEFORE INSERT ON s.p FOR EACH ROW EXECUTE FUNCTION s.f();"
        "CREATE TABLE s.q (k int REFERENCES s.p)"
    )
    set_policy(session, "10")
    session.execute("SET lock_timeout = '100ms'")
    with server.connect(autocommit=False) as other:
        for value in (1, 11):
            other.execute("LOCK s.p IN ROW EXCLUSIVE MODE")
            assert _needed(session, str(value))
            assert other.execute(
                "INSERT INTO s.p VALUES (%s) RETURNING t", (value,)
            ).fetchall() == [(f"p_{value - 1}",)]
        with pytest.raises(psycopg.errors.ForeignKeyViolation), other.transaction():
            other.execute("INSERT INTO s.p VALUES (2)")
        # A session that has written there would wait for one that waits for it.
        other.execute("INSERT INTO s.r VALUES (21)")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            _needed(session, "21")


def test_as_the_owner(session: Connection) -> None:
    session.execute("SET ROLE owner")
    make(session, "int")
    set_policy(session, "10")
    session.execute("RESET ROLE; SET ROLE other")
    assert _needed(session, "5")
    made = "SELECT relowner::regrole::text FROM pg_class WHERE relname = 'p_0'"
    assert scalar(session, made) == "owner"


def test_no_policy(session: Connection) -> None:
    make(session, "int")
    with pytest.raises(psycopg.errors.UndefinedObject, match="has no interval policy"):
        _needed(session, "5")


def test_the_policy_of_another_table(session: Connection) -> None:
    """One that was dropped, and whose OID has come again."""
    make(session, "int")
    session.execute("CREATE TABLE s.gone (k int) PARTITION BY RANGE (k)")
    set_policy(session, "10", "s.gone")
    session.execute(
        "ALTER TABLE pg_lookahead_interval_policy DISABLE TRIGGER USER;"
        "UPDATE pg_lookahead_interval_policy SET parent = 's.p'::regclass;"
        "ALTER TABLE pg_lookahead_interval_policy ENABLE TRIGGER USER"
    )
    with pytest.raises(psycopg.errors.UndefinedObject, match="has no interval policy"):
        _needed(session, "5")


def test_others_go_on_reading_and_writing(session: Connection, server: WatchedServer) -> None:
    make(session, "int")
    set_policy(session, "10")
    assert _needed(session, "5")
    with server.connect(autocommit=False) as other:
        other.execute("INSERT INTO s.p VALUES (1)")
        assert _needed(session, "15")
        other.execute("INSERT INTO s.p VALUES (11)")
        other.commit()
    assert state(session, "partitions") == 2
