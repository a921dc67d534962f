"""Partitions are made ahead of time while others write into the table."""

from __future__ import annotations

from typing import Any

import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from intervals.policies import bounds, maintain, make, set_policy, state

_TRIGGER = """
    CREATE FUNCTION s.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
    CREATE TRIGGER f AFTER INSERT ON s.p FOR EACH ROW EXECUTE FUNCTION s.f()"""
_KEY = """
    CREATE TABLE s.target (id int PRIMARY KEY); INSERT INTO s.target VALUES (5);
    ALTER TABLE s.p ADD FOREIGN KEY (k) REFERENCES s.target"""
_REFERENCED = """
    ALTER TABLE s.p ADD UNIQUE (k); CREATE TABLE s.referencing (r int REFERENCES s.p (k))"""
_ITSELF = "ALTER TABLE s.p ADD UNIQUE (k), ADD FOREIGN KEY (k) REFERENCES s.p (k)"
_WAITED = "canceling statement due to lock timeout"


@pytest.mark.parametrize(
    ("statements", "error"),
    [("SELECT", None), (_TRIGGER, None), (_KEY, None), (_REFERENCED, None), (_ITSELF, _WAITED)],
    ids=["plain", "trigger", "key", "to it", "to itself"],
)
def test_a_writer_is_not_waited_for(
    server: WatchedServer, session: Connection, statements: str, error: str | None
) -> None:
    make(session, "int")
    dynamic: Any = statements
    session.execute(dynamic)
    set_policy(session, "10, premake => 1")
    maintain(session)
    before = len(bounds(session))
    set_policy(session, "10, premake => 4")
    with server.connect() as other, other.transaction():
        other.execute("INSERT INTO s.p VALUES (5)")
        session.execute("SET lock_timeout = '100ms'")
        maintain(session)
        assert state(session, "last_error") == error
        assert (len(bounds(session)) > before) == (error is None)
        assert scalar(other, "SELECT count(*) FROM s.p") == 1
    session.execute("RESET lock_timeout")
    maintain(session)
    assert state(session, "last_error") is None
    assert len(bounds(session)) > before
