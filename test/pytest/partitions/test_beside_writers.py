"""Partitions with row triggers and foreign keys, attached while others use the tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from partitions.asking import RANGES, make, run

_TRIGGER = """
    CREATE FUNCTION s.count() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.t := NEW.t || TG_TABLE_NAME; RETURN NEW; END $$;
    CREATE TRIGGER r BEFORE INSERT ON s.p FOR EACH ROW EXECUTE FUNCTION s.count()"""
_KEY = """
    CREATE TABLE s.target (id int PRIMARY KEY); INSERT INTO s.target VALUES (5), (15), (25);
    ALTER TABLE s.p ADD FOREIGN KEY (k) REFERENCES s.target"""
_REFERENCED = """
    ALTER TABLE s.p ADD UNIQUE (k); CREATE TABLE s.referencing (r int REFERENCES s.p (k))"""
_ATTACHED = f"{RANGES} 0, 10, 3, way => 'attached')"


@contextmanager
def _attached_meanwhile(
    server: WatchedServer, session: Connection, *statements: str
) -> Iterator[Connection]:
    """Another session, which waits for no lock, while partitions are attached and not committed."""
    make(session, "int")
    session.execute("CREATE TABLE s.old PARTITION OF s.p FOR VALUES FROM (-10) TO (0)")
    for statement in statements:
        dynamic: Any = statement
        session.execute(dynamic)
    with server.connect() as other:
        other.execute("SET lock_timeout = '100ms'")
        with other.transaction():
            # Has the table open for writing, before and after.
            other.execute("UPDATE s.p SET k = k")
            with session.transaction():
                session.execute("SET LOCAL lock_timeout = '30s'")
                assert run(session, _ATTACHED)[:3] == (3, 0, "attached")
                yield other
            other.execute("UPDATE s.p SET k = k")


@pytest.mark.parametrize("what", [_TRIGGER, _KEY, _REFERENCED], ids=["trigger", "key", "to it"])
def test_the_parent_is_read_and_written(
    server: WatchedServer, session: Connection, what: str
) -> None:
    with _attached_meanwhile(server, session, what) as other:
        assert scalar(other, "SELECT count(*) FROM s.p") == 0
        with pytest.raises(psycopg.errors.CheckViolation), other.transaction():
            other.execute("INSERT INTO s.p VALUES (5)")


def test_triggers_of_attached_partitions(server: WatchedServer, session: Connection) -> None:
    with _attached_meanwhile(server, session, _TRIGGER):
        session.execute("INSERT INTO s.p VALUES (15, 'in ')")
    session.execute("INSERT INTO s.p VALUES (25, 'in ')")
    rows = session.execute("SELECT t FROM s.p ORDER BY k").fetchall()
    assert rows == [("in p_10",), ("in p_20",)]


def test_foreign_keys_of_attached_partitions(server: WatchedServer, session: Connection) -> None:
    with _attached_meanwhile(server, session, _KEY, "INSERT INTO s.target VALUES (-5)") as other:
        # Rows that reference the locked table are checked, and it is read; no row is put into it.
        other.execute("INSERT INTO s.p VALUES (-5)")
        with pytest.raises(psycopg.errors.LockNotAvailable), other.transaction():
            other.execute("INSERT INTO s.target VALUES (35)")
    session.execute("INSERT INTO s.p VALUES (15)")
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        session.execute("INSERT INTO s.p VALUES (16)")
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        session.execute("DELETE FROM s.target WHERE id = 15")


def test_foreign_keys_to_attached_partitions(server: WatchedServer, session: Connection) -> None:
    with _attached_meanwhile(server, session, _REFERENCED) as other:
        assert scalar(other, "SELECT count(*) FROM s.referencing") == 0
        with pytest.raises(psycopg.errors.LockNotAvailable), other.transaction():
            other.execute("INSERT INTO s.referencing VALUES (NULL)")
    session.execute("INSERT INTO s.p VALUES (15); INSERT INTO s.referencing VALUES (15)")
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        session.execute("DELETE FROM s.p")


@pytest.mark.parametrize(
    ("statements", "arguments", "reason"),
    [
        ("SELECT", ", subpartition_by => 'LIST (k)'", "subpartitions"),
        ("ALTER TABLE s.p ADD UNIQUE (k), ADD FOREIGN KEY (k) REFERENCES s.p (k)", "", "keys"),
        (
            "CREATE TABLE s.top (LIKE s.p) PARTITION BY LIST (t);"
            "ALTER TABLE s.top ADD UNIQUE (k, t), ADD FOREIGN KEY (k, t) REFERENCES s.top (k, t);"
            "ALTER TABLE s.top ATTACH PARTITION s.p FOR VALUES IN ('x')",
            "",
            "keys",
        ),
        ("SET pg_lookahead.enabled = off", "", "pg_lookahead.enabled"),
    ],
)
def test_what_cannot_be_attached(
    session: Connection, statements: str, arguments: str, reason: str
) -> None:
    make(session, "int")
    dynamic: Any = statements
    session.execute(dynamic)
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=r"the way .attached.") as caught:
        run(session, f"{RANGES} 0, 10, 3, way => 'attached' {arguments})")
    assert f"{reason}." in str(caught.value)


def test_policies_for_rows_of_the_other_table(session: Connection) -> None:
    """No row of the referenced table is needed, so none of them may be in the way."""
    make(session, "int")
    session.execute(_KEY)
    session.execute(
        "CREATE ROLE owner; ALTER TABLE s.p OWNER TO owner; ALTER TABLE s.target OWNER TO owner;"
        "ALTER SCHEMA s OWNER TO owner;"
        "ALTER TABLE s.target ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
    )
    session.execute("SET ROLE owner; SET row_security = off")
    assert run(session, _ATTACHED)[:2] == (3, 0)
    assert scalar(session, "SHOW row_security") == "off"
    session.execute("RESET ROLE; DROP SCHEMA s CASCADE; DROP ROLE owner; CREATE SCHEMA s")


def test_event_triggers_of_a_command_around_it(session: Connection) -> None:
    """The command's trigger is told of the command, and of nothing that it has made."""
    make(session, "int")
    session.execute(_TRIGGER)
    session.execute(
        "CREATE TABLE s.told (tag text);"
        "CREATE FUNCTION s.tell() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO s.told SELECT command_tag FROM pg_event_trigger_ddl_commands(); END $$;"
        "CREATE EVENT TRIGGER tell ON ddl_command_end WHEN TAG IN ('CREATE TABLE AS') "
        "EXECUTE FUNCTION s.tell()"
    )
    assert run(session, _ATTACHED)[:2] == (3, 0)
    create: Any = f"CREATE TABLE s.result AS {_ATTACHED.replace('0, 10, 3', '30, 10, 3')}"
    session.execute(create)
    assert session.execute("SELECT tag FROM s.told").fetchall() == [("CREATE TABLE AS",)]
    assert run(session, f"{RANGES} 0, 10, 6)")[:2] == (0, 6)
