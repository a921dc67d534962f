"""Who may set a policy and have a table maintained, and as whom that happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from intervals.policies import bounds, maintain, make, set_policy, state


@pytest.fixture
def owned(session: Connection) -> Iterator[Connection]:
    """A session of a role that owns table s.p, and nothing else."""
    session.execute("SET ROLE owner")
    make(session, "int")
    yield session
    session.execute("RESET ROLE")


def test_the_owner(owned: Connection) -> None:
    set_policy(owned, "10, premake => 1")
    assert maintain(owned, "s.p") == []
    assert len(bounds(owned)) == 2
    assert scalar(owned, "SELECT pg_lookahead_unset_interval('s.p')") is True
    assert scalar(owned, "SELECT pg_lookahead_unset_interval('s.p')") is False


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT pg_lookahead_set_interval('s.p', 20)",
        "SELECT pg_lookahead_change_interval('s.p', 20)",
        "SELECT pg_lookahead_unset_interval('s.p')",
        "CALL pg_lookahead_maintain_partitions('s.p')",
        "INSERT INTO pg_lookahead_interval_policy SELECT * FROM pg_lookahead_interval_policy",
        "UPDATE pg_lookahead_interval_policy SET step = '20'",
        "DELETE FROM pg_lookahead_interval_policy",
        "TABLE pg_lookahead_interval_state",
    ],
)
def test_another_role(owned: Connection, statement: str) -> None:
    set_policy(owned, "10, premake => 1")
    owned.execute("RESET ROLE; SET ROLE other")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        owned.execute(statement)
    assert state(owned, "step") == "10"


def test_settings_of_the_caller(owned: Connection) -> None:
    """They say nothing about the tables of the owner."""
    set_policy(owned, "10, premake => 1")
    owned.execute("RESET ROLE")
    owned.execute("CREATE ACCESS METHOD heaps TYPE TABLE HANDLER heap_tableam_handler")
    owned.execute("SET default_table_access_method = heaps")
    maintain(owned, "s.p")
    found = scalar(
        owned,
        "SELECT string_agg(DISTINCT amname, ' ') FROM pg_inherits "
        "JOIN pg_class c ON c.oid = inhrelid JOIN pg_am a ON a.oid = relam",
    )
    assert found == "heap"
    owned.execute("RESET default_table_access_method; DROP ACCESS METHOD heaps")


def test_of_all_tables_only_ones_own(owned: Connection) -> None:
    set_policy(owned, "10, premake => 1")
    owned.execute("RESET ROLE; SET ROLE other; CREATE TABLE s.q (k int) PARTITION BY RANGE (k)")
    set_policy(owned, "10, premake => 1", "s.q")
    assert maintain(owned) == []
    assert (len(bounds(owned)), len(bounds(owned, "s.q"))) == (0, 2)


def test_whoever_may_maintain(owned: Connection) -> None:
    """As VACUUM: the right is enough, and what is created is the owner's."""
    set_policy(owned, "10, premake => 1")
    owned.execute("GRANT MAINTAIN ON s.p TO other; RESET ROLE; SET ROLE other")
    maintain(owned, "s.p")
    made = "SELECT DISTINCT relowner::regrole::text FROM pg_class WHERE relname LIKE 'p\\_%'"
    assert owned.execute(made).fetchall() == [("owner",)]


def test_partitions_are_the_owners(owned: Connection) -> None:
    set_policy(owned, "10, premake => 1")
    owned.execute("RESET ROLE")
    maintain(owned)
    made = "SELECT DISTINCT relowner::regrole::text FROM pg_class WHERE relname LIKE 'p\\_%'"
    assert owned.execute(made).fetchall() == [("owner",)]


def test_an_owner_who_may_not_create(owned: Connection) -> None:
    """A superuser's maintenance has the rights of the owner, not more."""
    set_policy(owned, "10, premake => 1")
    owned.execute("RESET ROLE; REVOKE ALL ON SCHEMA s FROM PUBLIC")
    maintain(owned)
    assert state(owned, "last_sqlstate") == "42501"
    assert bounds(owned) == []


_SPY = """
    CREATE TABLE s.seen (who text, path text);
    GRANT ALL ON s.seen TO PUBLIC;
    CREATE FUNCTION s.spy(int) RETURNS int LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO s.seen VALUES (current_user, current_setting('search_path'));
        RETURN $1;
    END $$;
    CREATE DOMAIN s.watched AS int CHECK (s.spy(VALUE) IS NOT NULL)"""


def test_functions_of_the_owner_run_as_the_owner(owned: Connection) -> None:
    """Whoever calls: the CHECK of a domain of the key cannot get at a superuser's rights."""
    owned.execute(_SPY)
    owned.execute("CREATE TABLE s.w (k s.watched) PARTITION BY RANGE (k)")
    set_policy(owned, "10, premake => 1", "s.w")
    owned.execute("DELETE FROM s.seen; RESET ROLE")
    maintain(owned)
    assert len(bounds(owned, "s.w")) == 2
    seen = owned.execute("SELECT DISTINCT * FROM s.seen").fetchall()
    assert seen == [("owner", "pg_catalog, pg_temp")]


def test_functions_of_the_key_run_as_the_owner(owned: Connection) -> None:
    """PostgreSQL calls them when a session looks at the table first."""
    owned.execute(
        """CREATE FUNCTION s.spy(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
           BEGIN
               IF current_user <> 'owner' THEN
                   RAISE EXCEPTION 'called as %', current_user;
               END IF;
               RETURN $1;
           END $$;
           CREATE TABLE s.w (k int) PARTITION BY RANGE ((k + s.spy(1)))"""
    )
    set_policy(owned, "10, premake => 1", "s.w")
    for role in ("RESET ROLE", "SET ROLE other"):
        owned.execute("DISCARD ALL")
        owned.execute(role)
        assert state(owned, "ahead", "s.w") == -1
    owned.execute("DISCARD ALL")
    maintain(owned)
    assert state(owned, "last_error", "s.w") is None
    owned.execute("SET ROLE owner")
    assert len(bounds(owned, "s.w")) == 2


def test_the_owner_cannot_become_the_caller(owned: Connection) -> None:
    owned.execute(
        """CREATE FUNCTION s.escape(int) RETURNS int LANGUAGE plpgsql AS $$
           BEGIN
               IF current_user <> session_user THEN
                   BEGIN
                       RESET ROLE;
                   EXCEPTION WHEN insufficient_privilege THEN
                       NULL;
                   END;
                   IF current_user <> 'owner' THEN
                       RAISE EXCEPTION 'escaped';
                   END IF;
               END IF;
               PERFORM set_config('work_mem', '77MB', false);
               RETURN $1;
           END $$;
           CREATE DOMAIN s.watched AS int CHECK (s.escape(VALUE) IS NOT NULL);
           CREATE TABLE s.w (k s.watched) PARTITION BY RANGE (k)"""
    )
    set_policy(owned, "10, premake => 1", "s.w")
    owned.execute("RESET ROLE; RESET work_mem")
    maintain(owned)
    assert state(owned, "last_error", "s.w") is None
    assert len(bounds(owned, "s.w")) == 2
    assert scalar(owned, "SHOW work_mem") != "77MB"


def test_names_in_the_search_path(owned: Connection) -> None:
    """Nobody's tables, functions or operators come between, whatever the caller's path."""
    set_policy(owned, "10, premake => 1, retention => 10, retention_action => 'drop'")
    owned.execute(
        """CREATE TABLE s.pg_lookahead_interval_policy (parent regclass, row_type regtype);
           CREATE TABLE s.pg_lookahead_interval_state (parent oid);
           CREATE FUNCTION s.never(oid, oid) RETURNS bool LANGUAGE plpgsql
           AS 'BEGIN RAISE EXCEPTION $x$caught$x$; END';
           CREATE OPERATOR s.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = s.never);
           RESET ROLE; SET search_path = s, pg_catalog, public"""
    )
    assert maintain(owned) == []
    owned.execute("INSERT INTO s.p VALUES (15)")
    assert maintain(owned) == []
    owned.execute("RESET search_path")
    assert (state(owned, "partitions"), state(owned, "last_error")) == (3, None)


def test_error_messages_are_the_owners(owned: Connection) -> None:
    set_policy(owned, "10, premake => 1")
    owned.execute("CREATE VIEW s.p_0 AS SELECT 1")
    maintain(owned)
    shown = "last_error IS NOT NULL"
    assert state(owned, shown) is True
    owned.execute("RESET ROLE; SET ROLE other")
    assert state(owned, shown) is False
    assert state(owned, "last_sqlstate") == "42P07"
    owned.execute("RESET ROLE; GRANT pg_monitor TO other; SET ROLE other")
    assert state(owned, shown) is True
    owned.execute("RESET ROLE; REVOKE pg_monitor FROM other")


def test_another_owner(owned: Connection) -> None:
    """The policy stays with the table; maintenance goes on as the new owner."""
    set_policy(owned, "10, premake => 1")
    owned.execute("RESET ROLE; ALTER TABLE s.p OWNER TO other; SET ROLE other")
    maintain(owned, "s.p")
    made = "SELECT DISTINCT relowner::regrole::text FROM pg_class WHERE relname LIKE 'p\\_%'"
    assert owned.execute(made).fetchall() == [("other",)]


@pytest.mark.parametrize("columns", ["", "a int", "a text, b text", "a int, b int"])
@pytest.mark.parametrize("kind", ["ROW", "STATEMENT"])
def test_the_trigger_is_for_policies_only(session: Connection, columns: str, kind: str) -> None:
    """Nobody may use it for a table of theirs; it does nothing to one."""
    function = "pg_lookahead_interval_policy_check()"
    dynamic: Any = (
        f"CREATE TABLE s.mine ({columns}); ALTER TABLE s.mine OWNER TO other; SET ROLE other"
    )
    session.execute(dynamic)
    dynamic = (
        f"CREATE TRIGGER t BEFORE INSERT ON s.mine FOR EACH {kind} EXECUTE FUNCTION {function}"
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute(dynamic)
    session.execute("RESET ROLE")
    session.execute(dynamic)
    with pytest.raises(psycopg.errors.TriggerProtocolViolated, match="of the extension only"):
        session.execute("INSERT INTO s.mine DEFAULT VALUES")


def test_an_extension_of_somebody_who_is_no_superuser_any_more(
    session: Connection, server: WatchedServer
) -> None:
    """Owners of tables set policies as ever; the rows are written as the extension's owner."""
    session.execute("CREATE ROLE dba SUPERUSER")
    session.execute("CREATE DATABASE theirs")
    with server.connect("theirs") as theirs:
        theirs.execute("SET ROLE dba; CREATE EXTENSION pg_lookahead; RESET ROLE")
        theirs.execute("CREATE SCHEMA s; GRANT ALL ON SCHEMA s TO PUBLIC")
        session.execute("ALTER ROLE dba NOSUPERUSER")
        theirs.execute("SET ROLE owner")
        make(theirs, "int")
        set_policy(theirs, "10, premake => 1")
        theirs.execute("SELECT pg_lookahead_change_interval('s.p', 20)")
        assert state(theirs, "change_steps") == ["20"]
        # By a command of theirs they give no policy to others' tables, as nobody does.
        theirs.execute("RESET ROLE; SET ROLE dba")
        change = "UPDATE pg_lookahead_interval_policy SET retention = '0'"
        assert theirs.execute(change).rowcount == 0
    session.execute("DROP DATABASE theirs WITH (FORCE)")
    session.execute("DROP ROLE dba")


def test_a_policy_that_is_not_written(session: Connection) -> None:
    """Somebody's trigger on the table of policies leaves it out: the one before stays."""
    make(session, "int")
    set_policy(session, "10")
    session.execute(
        """CREATE FUNCTION s.leave_out() RETURNS trigger LANGUAGE plpgsql
           AS 'BEGIN RETURN NULL; END';
           CREATE TRIGGER leave_out BEFORE INSERT ON pg_lookahead_interval_policy
               FOR EACH ROW EXECUTE FUNCTION s.leave_out()"""
    )
    for change in ("pg_lookahead_set_interval('s.p', 5)", "pg_lookahead_change_interval('s.p', 5)"):
        dynamic: Any = f"SELECT {change}"
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="was not written"):
            session.execute(dynamic)
    assert (state(session, "step"), state(session, "change_steps")) == ("10", [])
