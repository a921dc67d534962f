"""Event triggers, which could change a partition that is new before rows move there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer
from waiting import wait_until

from intervals.moving import (
    IN_DEFAULT,
    STALLED,
    content,
    fill,
    move,
    move_patiently,
    moved,
    stalled,
    stalled_by,
)

# A key that is computed only while nobody has advisory lock 2.
_KEY = """
    CREATE FUNCTION s.key(k int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN
        WHILE NOT pg_try_advisory_xact_lock_shared(2) LOOP PERFORM pg_sleep(0.01); END LOOP;
        RETURN k;
    END$$"""
# What leaves no other way than to create partitions by statements.
_STATEMENTS = """
    CREATE FUNCTION s.same(k int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN k; END';
    ALTER TABLE s.p ADD CHECK (s.same(0) = 0);
    CREATE TRIGGER u BEFORE UPDATE ON s.p FOR EACH ROW EXECUTE FUNCTION s.change()"""
_MADE = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 3"

# What an event trigger does to a new table, and takes advisory lock 3 after it: a trigger of its
# own would change rows.
_CHANGES = {
    "trigger": "CREATE TRIGGER t BEFORE INSERT ON s.p_0 FOR EACH ROW EXECUTE FUNCTION s.change()",
    "unlogged": "ALTER TABLE s.p_0 SET UNLOGGED",
    "foreign": "DROP TABLE s.p_0; CREATE FOREIGN TABLE s.p_0 PARTITION OF s.p "
    "FOR VALUES FROM (0) TO (10) SERVER elsewhere",
}
_CHANGING = """
    CREATE FUNCTION s.change() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN NEW.t := 'changed'; RETURN NEW; END$$;
    CREATE FOREIGN DATA WRAPPER nowhere; CREATE SERVER elsewhere FOREIGN DATA WRAPPER nowhere;
    CREATE FUNCTION s.made() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN {};
        PERFORM pg_advisory_lock_shared(3); END$$"""


@pytest.fixture
def filled(session: Connection) -> Iterator[Connection]:
    """Also a function that an event trigger can call."""
    fill(session, "int", "SELECT generate_series(0, 29)", "10, 0")
    session.execute(
        "CREATE FUNCTION s.made() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'"
    )
    yield session
    session.execute("DROP EVENT TRIGGER IF EXISTS made; RESET event_triggers")


def _create(session: Connection, when: str) -> None:
    dynamic: Any = f"CREATE EVENT TRIGGER made ON {when} EXECUTE FUNCTION s.made()"
    session.execute(dynamic)


@pytest.mark.parametrize(
    "when",
    [
        "ddl_command_start",
        "ddl_command_end",
        "ddl_command_end WHEN TAG IN ('CREATE TABLE')",
    ],
)
@pytest.mark.parametrize("off", ["ALTER EVENT TRIGGER made DISABLE", "SET event_triggers = off"])
def test_refused(filled: Connection, server: WatchedServer, when: str, off: Any) -> None:
    """At once: nobody is waited for."""
    _create(filled, when)
    with server.connect(autocommit=False) as other:
        other.execute("SELECT count(*) FROM s.p")
        with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
            move(filled)
    assert "because of an event trigger for CREATE TABLE" in str(caught.value)
    assert 'As a superuser, set "event_triggers" to off in this session.' in str(caught.value)
    assert scalar(filled, IN_DEFAULT) == 30
    filled.execute(off)
    assert move(filled) == [moved(30, 3)]


@pytest.mark.parametrize(
    "when", ["ddl_command_end WHEN TAG IN ('ALTER TABLE')", "sql_drop", "table_rewrite"]
)
def test_not_refused(filled: Connection, when: str) -> None:
    """No such trigger fires."""
    _create(filled, when)
    assert move(filled) == [moved(30, 3)]


def test_one_that_is_created_meanwhile(filled: Connection, server: WatchedServer) -> None:
    """It was looked for before the rows were on their way."""
    with stalled(filled, server) as moving:
        _create(filled, "ddl_command_end")
        filled.execute("SELECT pg_advisory_unlock(1)")
        assert "because of an event trigger for CREATE TABLE" in moving.result(100)
    assert scalar(filled, IN_DEFAULT) == 30


def _refusal(own: Connection) -> str:
    with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
        move_patiently(own)
    return str(caught.value)


@pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES)
def test_one_that_is_there_for_a_moment(
    session: Connection, server: WatchedServer, change: str
) -> None:
    """It is created when rows were deleted, and dropped before the last look at them."""
    session.execute(_KEY)
    fill(session, "int", "SELECT generate_series(0, 9)", "10, 0", "s.key(k)")
    changing: Any = _CHANGING.format(change)
    session.execute(changing)
    session.execute(_STATEMENTS)
    before = content(session)
    with server.connect() as own, server.connect() as other:
        other.execute("SELECT pg_advisory_lock(2)")
        with stalled_by(session, lambda: _refusal(own)) as moving:
            session.execute("BEGIN; LOCK TABLE ONLY s.p IN ACCESS SHARE MODE")
            other.execute("SELECT pg_advisory_unlock(2)")
            awaited = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode LIKE 'Access%'"
            wait_until(lambda: scalar(other, awaited), "the table is waited for")
            other.execute("SELECT pg_advisory_lock(2)")
            session.execute("COMMIT")
            wait_until(lambda: scalar(session, STALLED), "rows are deleted")
            _create(session, "ddl_command_end WHEN TAG IN ('CREATE TABLE')")
            other.execute("SELECT pg_advisory_unlock(2)")
            wait_until(lambda: moving.done() or scalar(session, _MADE), "the partition is created")
            session.execute("DROP EVENT TRIGGER made; SELECT pg_advisory_unlock(1)")
            assert "while new partitions are changed" in moving.result(100)
    session.execute("DROP FOREIGN DATA WRAPPER nowhere CASCADE")
    assert content(session) == before
