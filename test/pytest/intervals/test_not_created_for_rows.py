"""Rows that have no partition, and for which none is created."""

from __future__ import annotations

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from intervals.needed import ON, rows
from intervals.policies import bounds, make, set_policy

_CORE = 'no partition of relation "p" found for row'
_UNTOLD = "None was created for it: only who may read the key is told why."


def refused(session: Connection, statement: str) -> tuple[str, str]:
    """Detail and hint of PostgreSQL's error for a row without a partition."""
    with pytest.raises(psycopg.errors.CheckViolation) as caught, session.transaction():
        session.execute(statement.encode())
    diagnosis = caught.value.diag
    assert diagnosis.message_primary == _CORE
    assert diagnosis.table_name == "p"
    return diagnosis.message_detail or "", diagnosis.message_hint or ""


@pytest.mark.parametrize(
    ("key", "policy", "value", "hint"),
    [
        ("int", "10", "NULL", "the key is null"),
        ("int", "10, max_distance => 5", "100", "value 100 is too far from the other partitions"),
        ("date", "'1 day'", "'infinity'", "from which no steps can be counted"),
        ("numeric", "10", "'NaN'", "from which no steps can be counted"),
        ("timestamptz", "'1 hour'", "'2001-01-01'", "is too far from the other partitions"),
    ],
)
def test_values(session: Connection, key: str, policy: str, value: str, hint: str) -> None:
    make(session, key)
    set_policy(session, policy)
    session.execute(ON)
    detail, told = refused(session, f"INSERT INTO s.p VALUES ({value})")
    assert detail.startswith("Partition key of the failing row contains (k) = (")
    assert told.startswith("None was created for it: ")
    assert hint in told
    assert bounds(session) == []
    session.execute("RESET pg_lookahead.enable_interval_creation")
    assert refused(session, f"INSERT INTO s.p VALUES ({value})") == (detail, "")


def test_as_many_as_the_policy_allows(session: Connection) -> None:
    make(session, "int")
    set_policy(session, "10, max_partitions => 2")
    session.execute(ON)
    session.execute("INSERT INTO s.p VALUES (1), (11)")
    _, hint = refused(session, "INSERT INTO s.p VALUES (21), (31), (12), (41)")
    assert "2 partitions created for a statement at most" in hint
    assert bounds(session)[-1] == ("30", "40")


def test_rows_for_the_default_partition(table: Connection) -> None:
    table.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT; INSERT INTO s.p VALUES (1)")
    assert rows(table) == [("s.rest", 1)]
    assert bounds(table) == []


def test_without_a_policy(session: Connection, server: WatchedServer) -> None:
    """A policy is noticed as soon as it is there."""
    make(session, "int")
    session.execute(ON)
    for _ in range(2):  # at first it is looked up, then remembered
        assert refused(session, "INSERT INTO s.p VALUES (1)")[1] == ""
    with server.connect() as other:
        set_policy(other, "10")
    session.execute("INSERT INTO s.p VALUES (1)")
    with server.connect() as other:
        other.execute("SELECT pg_lookahead_unset_interval('s.p')")
    refused(session, "INSERT INTO s.p VALUES (11)")


def test_a_policy_that_is_restored(table: Connection, server: WatchedServer) -> None:
    """It is a row like others; nothing else tells that the table has one now."""
    table.execute("CREATE TABLE s.kept AS TABLE pg_lookahead_interval_policy")
    table.execute("SELECT pg_lookahead_unset_interval('s.p')")
    assert refused(table, "INSERT INTO s.p VALUES (1)")[1] == ""
    with server.connect() as other:
        other.execute("INSERT INTO pg_lookahead_interval_policy TABLE s.kept")
    table.execute("INSERT INTO s.p VALUES (1)")


@pytest.mark.parametrize("has_policy", [True, False])
def test_policies_are_looked_up_once(session: Connection, has_policy: bool) -> None:
    make(session, "int")
    session.execute("CREATE TABLE s.p_0 PARTITION OF s.p FOR VALUES FROM (0) TO (10)")
    if has_policy:
        set_policy(session, "10")
    session.execute(ON)
    session.execute("INSERT INTO s.p VALUES (1)")
    look_ups = (
        "SELECT sum(seq_scan + coalesce(idx_scan, 0)) FROM pg_stat_xact_user_tables"
        " WHERE relname = 'pg_lookahead_interval_policy'"
    )
    with session.transaction():
        before = scalar(session, look_ups)
        for _ in range(5):
            session.execute("INSERT INTO s.p VALUES (1)")
        assert scalar(session, look_ups) == before


def test_switched_off(table: Connection) -> None:
    for setting in ("enabled", "enable_interval_creation"):
        table.execute(f"SET pg_lookahead.{setting} = off".encode())
        assert refused(table, "INSERT INTO s.p VALUES (1)")[1] == ""
        table.execute(f"SET pg_lookahead.{setting} = on".encode())


def test_a_table_of_this_transaction(session: Connection) -> None:
    with session.transaction():
        make(session, "int")
        set_policy(session, "10")
        session.execute(ON)
        hint = refused(session, "INSERT INTO s.p VALUES (1)")[1]
    assert "the table was created in this transaction" in hint


def test_a_table_that_this_transaction_has_locked(table: Connection) -> None:
    with table.transaction():
        table.execute("LOCK TABLE s.p IN SHARE UPDATE EXCLUSIVE MODE")
        hint = refused(table, "INSERT INTO s.p VALUES (1)")[1]
    assert "this transaction has locked the table" in hint


@pytest.mark.parametrize(
    "key",
    [
        "ALTER TABLE s.p ADD FOREIGN KEY (k) REFERENCES s.r",
        "CREATE TABLE s.q (k int REFERENCES s.p)",
    ],
)
def test_foreign_keys(table: Connection, key: str) -> None:
    table.execute("CREATE TABLE s.r (k int PRIMARY KEY); INSERT INTO s.r VALUES (1)")
    table.execute(key.encode())
    hint = refused(table, "INSERT INTO s.p VALUES (1)")[1]
    assert "would have other tables locked. Have partitions created ahead of time." in hint


def test_event_triggers(table: Connection) -> None:
    table.execute(
        "CREATE FUNCTION s.e() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';"
        "CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION s.e()"
    )
    hint = refused(table, "INSERT INTO s.p VALUES (1)")[1]
    table.execute("DROP EVENT TRIGGER e")
    assert "The reason is: event trigger." in hint


def test_partitions_of_partitions(session: Connection) -> None:
    session.execute("CREATE TABLE s.top (a int, k int) PARTITION BY LIST (a)")
    session.execute("CREATE TABLE s.p PARTITION OF s.top FOR VALUES IN (1) PARTITION BY RANGE (k)")
    set_policy(session, "10")
    session.execute(ON)
    for table in ("s.top", "s.p"):
        assert refused(session, f"INSERT INTO {table} VALUES (1, 1)")[1] == ""


def test_foreign_partitions(table: Connection) -> None:
    """An UPDATE of theirs would begin their inserts twice."""
    table.execute("ALTER TABLE s.p DROP CONSTRAINT p_pkey; CREATE FOREIGN DATA WRAPPER w")
    table.execute("CREATE SERVER w FOREIGN DATA WRAPPER w; INSERT INTO s.p VALUES (1)")
    table.execute(
        "CREATE FOREIGN TABLE s.f PARTITION OF s.p FOR VALUES FROM (100) TO (110) SERVER w"
    )
    table.execute("INSERT INTO s.p VALUES (11)")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="has no handler"):
        table.execute("UPDATE s.p SET k = k + 20")
    table.execute("DROP FOREIGN DATA WRAPPER w CASCADE")
    assert rows(table) == [("s.p_0", 1), ("s.p_10", 11)]


def test_a_trigger_that_changes_the_key(table: Connection) -> None:
    """Nobody has seen that the row needs another partition; the error is PostgreSQL's."""
    table.execute(
        "CREATE FUNCTION s.f() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.k := NEW.k + 100; RETURN NEW; END $$;"
        "INSERT INTO s.p VALUES (1);"
        "CREATE TRIGGER f BEFORE UPDATE ON s.p FOR EACH ROW EXECUTE FUNCTION s.f()"
    )
    assert refused(table, "UPDATE s.p SET t = 'x'")[1] == ""


def test_an_error_that_is_caught(table: Connection) -> None:
    table.execute(
        "DO $$ BEGIN FOR i IN 1..3 LOOP BEGIN INSERT INTO s.p VALUES (i * 10), (90000);"
        " EXCEPTION WHEN check_violation THEN END; END LOOP;"
        " INSERT INTO s.p VALUES (10), (41); END $$"
    )
    assert rows(table) == [("s.p_10", 10), ("s.p_40", 41)]
    assert len(bounds(table)) == 4


def test_who_may_insert(table: Connection) -> None:
    """Nothing else is needed; what the key is is told to who may read it."""
    table.execute("ALTER TABLE s.p OWNER TO owner; GRANT INSERT ON s.p TO other; SET ROLE other")
    table.execute("INSERT INTO s.p VALUES (1)")
    assert refused(table, "INSERT INTO s.p VALUES (90000)") == ("", _UNTOLD)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        table.execute("UPDATE s.p SET k = 11")
    table.execute("RESET ROLE")
    assert bounds(table) == [("0", "10")]
    made = "SELECT relowner::regrole::text FROM pg_class WHERE relname = 'p_0'"
    assert scalar(table, made) == "owner"


def test_row_security(table: Connection) -> None:
    """Rows that are refused later leave a partition, as those that are rolled back do."""
    table.execute(
        "ALTER TABLE s.p ENABLE ROW LEVEL SECURITY; GRANT ALL ON s.p TO other;"
        "CREATE POLICY small ON s.p USING (k < 20); SET ROLE other"
    )
    table.execute("INSERT INTO s.p VALUES (1)")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        table.execute("INSERT INTO s.p VALUES (25)")
    assert refused(table, "INSERT INTO s.p VALUES (90000)") == ("", _UNTOLD)
    table.execute("RESET ROLE")
    assert bounds(table) == [("0", "10"), ("20", "30")]
