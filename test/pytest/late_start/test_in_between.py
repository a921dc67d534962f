"""What a statement's own functions do between its start and that of a child."""

import pytest
from extension.probes import Connection

from late_start.tables import late_starts, outcome

_OFF = "SET LOCAL pg_lookahead.enable_late_start = off;"
_INDEXES = (
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;"
    " SET LOCAL enable_sort = off; SET LOCAL enable_hashjoin = off;"
    " SET LOCAL enable_mergejoin = off;"
)

# A function that executes a command, and gives the key of the partition that it is about.
_FUNCTION = """
CREATE FUNCTION f(command text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN EXECUTE command; RETURN 50; END $$;
CREATE FUNCTION g(command text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  BEGIN EXECUTE command; EXCEPTION WHEN OTHERS THEN RAISE NOTICE '%', SQLERRM; END;
  RETURN 50;
END $$;
"""
_COMMANDS = (
    "DROP TABLE p_5",
    "DROP TABLE p_7",
    "TRUNCATE p_5",
    "DROP INDEX p_k_idx",
    "REINDEX TABLE p_5",
    "ALTER TABLE p DETACH PARTITION p_5",
    "ALTER TABLE p_5 ADD CHECK (v < 3)",
    "ALTER TABLE p_5 ALTER t TYPE varchar",
    "CREATE TABLE p_new PARTITION OF p FOR VALUES FROM (4000) TO (4010)",
    "CREATE INDEX ON p_5 (t)",
    "CLUSTER p_5 USING p_5_k_idx",
    "LOCK TABLE p_5",
    "DELETE FROM p_5",
    "DELETE FROM p",
    "INSERT INTO p_5 VALUES (51, 1, 'new')",
    "CREATE TEMP TABLE other (k int)",
    "SAVEPOINT s",
    "DISCARD PLANS",
    "DEALLOCATE ALL",
    "REVOKE EXECUTE ON FUNCTION int4eq, int4ge, int4lt FROM PUBLIC, postgres",
    "SELECT set_config('role', 'nobody', true)",
    "SET LOCAL ROLE nobody",
    "SET LOCAL enable_indexscan = off",
    "SELECT 1 / 0",
)
_QUERIES = (
    "SELECT k, t FROM p WHERE k = (SELECT {f})",
    "SELECT k, t FROM p WHERE k >= (SELECT {f}) AND k < (SELECT 75)",
    "SELECT p.k, p.t FROM (SELECT {f} + i * 10 AS k FROM generate_series(0, 3) i OFFSET 0) c"
    " JOIN p USING (k)",
    "SELECT v, k FROM p WHERE k < (SELECT {f}) ORDER BY v, k LIMIT 20",
    "SELECT k, {f} FROM (SELECT k FROM p WHERE k < (SELECT 33) OFFSET 0) s",
)


@pytest.fixture(autouse=True)
def _people(session: Connection) -> None:
    if not session.execute("SELECT 1 FROM pg_roles WHERE rolname = 'nobody'").fetchone():
        session.execute(f"CREATE ROLE nobody; GRANT SELECT ON p, w TO nobody; {_FUNCTION}")


@pytest.mark.parametrize("function", ["f", "g"])
@pytest.mark.parametrize("command", _COMMANDS)
def test_commands_in_between(session: Connection, command: str, function: str) -> None:
    """The command, its error, and the rows after both are as where all children have started."""
    quoted = command.replace("'", "''")
    for query in _QUERIES:
        before = late_starts(session)
        asked = query.format(f=f"{function}('{quoted}')")
        script = f"{_INDEXES} PREPARE q AS {asked}; EXECUTE q"
        assert outcome(session, script) == outcome(session, f"{_OFF} {script}")
        assert late_starts(session) > before, asked


def test_the_same_plan_in_between(session: Connection) -> None:
    """A function whose query is pruned by itself, called where that is pruned, some levels deep."""
    session.execute(
        "CREATE OR REPLACE FUNCTION deep(n int) RETURNS int STABLE LANGUAGE plpgsql AS $$ BEGIN"
        " IF n <= 0 THEN RETURN 0; END IF;"
        " RETURN (SELECT k FROM p WHERE k = (SELECT deep(n - 10) + 10)); END $$"
    )
    before = late_starts(session)
    assert session.execute("SELECT deep(100)").fetchall() == [(100,)]
    assert late_starts(session) >= before + 10


def test_rows_of_functions_wait(session: Connection) -> None:
    """A function's query stands in the middle while the statement around it executes commands."""
    session.execute(
        "CREATE OR REPLACE FUNCTION rows_of(low int) RETURNS SETOF int LANGUAGE sql AS"
        " 'SELECT k FROM p WHERE k >= (SELECT low) AND k < (SELECT low + 35) ORDER BY k'"
    )
    query = "SELECT {0}('TRUNCATE p_7'), rows_of(k) FROM (VALUES (5), (61)) c (k)"
    for function in ("f", "g"):
        script = query.format(function)
        assert outcome(session, script) == outcome(session, f"{_OFF} {script}")


def test_functions_that_must_not_be_called(session: Connection) -> None:
    """Who may not call a function of a child is told so, whatever is left by pruning."""
    session.execute("REVOKE EXECUTE ON FUNCTION int4mod FROM PUBLIC")
    try:
        for number in (3, 61, 100):
            query = f"SELECT k FROM p WHERE k = (SELECT k FROM w WHERE id = {number}) AND v % 2 = 1"
            script = f"SET LOCAL ROLE nobody; PREPARE q AS {query}; EXECUTE q"
            denied = outcome(session, script)
            assert denied == (("42501", "permission denied for function int4mod"), [])
            assert denied == outcome(session, f"{_OFF} {script}")
    finally:
        session.execute("GRANT EXECUTE ON FUNCTION int4mod TO PUBLIC")


def test_another_role_in_between(session: Connection) -> None:
    """A role that the statement's function takes does not count for what has been asked."""
    session.execute("REVOKE EXECUTE ON FUNCTION int4mod FROM PUBLIC")
    call = "f($$SELECT set_config('role', 'nobody', true)$$)"
    query = f"SELECT k FROM p WHERE k = (SELECT {call}) AND v % 2 = 1"
    try:
        rows = outcome(session, query)
        assert rows == ([(50,)], [])
        assert rows == outcome(session, f"{_OFF} {query}")
    finally:
        session.execute("GRANT EXECUTE ON FUNCTION int4mod TO PUBLIC")


def test_errors_leave_nothing(session: Connection) -> None:
    """A statement that fails with some children started is forgotten with its memory."""
    session.execute(
        "CREATE OR REPLACE FUNCTION failing(low int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN"
        " RETURN (SELECT count(*) FROM p WHERE k >= (SELECT low) AND 1 / (k - 305) < 2);"
        " EXCEPTION WHEN division_by_zero THEN EXECUTE 'CREATE TEMP TABLE IF NOT EXISTS made ()';"
        " RETURN -1; END $$"
    )
    asked = (
        "SELECT (SELECT failing(i) WHERE i = p.k), k FROM generate_series(290, 310, 5) i, p"
        " WHERE k = i"
    )
    assert outcome(session, asked) == outcome(session, f"{_OFF} {asked}")
    session.execute("DROP TABLE IF EXISTS made")
