"""Event triggers, which could change a partition that is new before rows move there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from intervals.moving import IN_DEFAULT, fill, move, moved, stalled


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
    assert "Disable the event trigger meanwhile" in str(caught.value)
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
