"""An insert is judged without a call, a lock or an error that PostgreSQL would not bring."""

import pytest
from extension.probes import Connection, scalar
from psycopg import errors
from server_log import WatchedServer

from bulk_insert.arms import DEFAULT, ONE_PAGE, STOCK, Arm, choose
from bulk_insert.judging import ELIGIBLE, ROWS, SERIES, VOLATILE, fresh, judgement, outcome

# A domain whose CHECK can be worked out as soon as it is planned; nobody need evaluate it.
_CALLED = (
    "CREATE SEQUENCE calls; "
    "CREATE FUNCTION lowest() RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS "
    "'BEGIN RETURN -nextval(''calls''); END'; "
    "CREATE DOMAIN dd AS bigint CHECK (VALUE > lowest()); CREATE TABLE source (v dd)"
)


@pytest.mark.parametrize(
    "statement",
    [
        "EXPLAIN INSERT INTO w SELECT count(v) FROM source",
        "INSERT INTO w SELECT count(v) FROM source",
        "CREATE TABLE made AS SELECT count(v) FROM source",
        "CREATE MATERIALIZED VIEW made AS SELECT count(v) FROM source",
    ],
)
def test_checks_of_domains_are_not_worked_out(connection: Connection, statement: str) -> None:
    with fresh(connection, _CALLED):
        connection.execute(statement)
        assert not scalar(connection, "SELECT is_called FROM calls")
        assert connection.execute("INSERT INTO source VALUES (1)").rowcount == 1
        assert scalar(connection, "SELECT is_called FROM calls")


_MAKING = "CREATE DOMAIN public.dd AS bigint CHECK ({}); CREATE TABLE public.source (v dd)"
# What keeps a session from planning the CHECK.
_UNUSABLE = {
    "no privilege": (
        f"{_CALLED}; INSERT INTO source SELECT * FROM {SERIES}; "
        "REVOKE EXECUTE ON FUNCTION lowest() FROM PUBLIC; CREATE ROLE reader; "
        "GRANT ALL ON w, source TO reader; SET LOCAL ROLE reader"
    ),
    "no such table": (
        "CREATE SCHEMA hidden; CREATE TABLE hidden.bounds AS SELECT 0 AS least; "
        "SET LOCAL search_path = hidden, public; "
        "CREATE FUNCTION hidden.fits(bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS "
        "'SELECT $1 > (SELECT min(least) FROM bounds)'; "
        f"{_MAKING.format('fits(VALUE)')}; INSERT INTO source SELECT * FROM {SERIES}; "
        "SET LOCAL search_path = public"
    ),
}


@pytest.mark.parametrize("setup", _UNUSABLE.values(), ids=_UNUSABLE)
def test_checks_that_cannot_be_planned_stop_nothing(server: WatchedServer, setup: str) -> None:
    with server.connect() as session:
        session.execute(f"CREATE TABLE w (k bigint, seen bigint); {setup}".replace("LOCAL ", ""))
        session.execute("RESET ROLE")
    sql = "INSERT INTO w SELECT v FROM source"
    try:
        for arm in (STOCK, ONE_PAGE):
            with server.connect() as session:
                choose(session, arm)
                if "reader" in setup:
                    session.execute("SET ROLE reader")
                assert judgement(session, sql) == ({} if arm is STOCK else VOLATILE)
                assert session.execute(sql).rowcount == ROWS
    finally:
        with server.connect() as session:
            session.execute("DROP TABLE w, source; DROP DOMAIN dd")
            session.execute("DROP SCHEMA IF EXISTS hidden CASCADE; DROP SEQUENCE IF EXISTS calls")
            session.execute("DROP FUNCTION IF EXISTS lowest(); DROP ROLE IF EXISTS reader")


# A row type, and one below another type, whose table somebody else has locked.
_LOCKED = {
    "row": "other",
    "array": "other[]",
}


@pytest.mark.parametrize("type_name", _LOCKED.values(), ids=_LOCKED)
def test_tables_of_row_types_are_not_locked(server: WatchedServer, type_name: str) -> None:
    with server.connect() as session:
        session.execute(
            f"CREATE TABLE other (a int); CREATE TABLE source (v {type_name}); "
            "CREATE TABLE target (LIKE source)"
        )
    try:
        with server.connect() as holder, server.connect() as session:
            choose(session, DEFAULT)
            session.execute("SET lock_timeout = '2s'")
            with holder.transaction():
                holder.execute("LOCK TABLE other")
                assert judgement(session, "INSERT INTO target SELECT * FROM source") == ELIGIBLE
    finally:
        with server.connect() as session:
            session.execute("DROP TABLE source, target, other")


def test_deep_types_do_not_exhaust_the_stack(connection: Connection) -> None:
    depth = 1000
    setup = (
        f"CREATE TYPE t0 AS (a int); DO $$ BEGIN FOR i IN 1..{depth} LOOP "
        "EXECUTE format('CREATE TYPE t%s AS (a t%s)', i, i - 1); END LOOP; END $$; "
        f"CREATE TABLE source (v t{depth}); SET LOCAL max_stack_depth = '100kB'"
    )
    with fresh(connection, setup):
        sql = "INSERT INTO w SELECT count(v) FROM source"
        assert judgement(connection, sql) == ELIGIBLE


def test_defaults_of_arguments_that_are_given_do_not_count(connection: Connection) -> None:
    """The function's first default calls the function itself, without end."""
    making = (
        "CREATE {} FUNCTION given(a bigint DEFAULT {}, b bigint DEFAULT 3) RETURNS bigint "
        "IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN a + b; END'"
    )
    setup = f"{making.format('', '1')}; {making.format('OR REPLACE', 'given()')}"
    sql = f"INSERT INTO w SELECT given(g, 2), given(b => g, a => 1) FROM {SERIES}"
    with fresh(connection, setup):
        assert judgement(connection, sql) == ELIGIBLE
    assert outcome(connection, setup, sql, ONE_PAGE) == outcome(connection, setup, sql, STOCK)


_UNEQUAL = """
    CREATE TYPE one AS (a bigint);
    CREATE FUNCTION less(one, one) RETURNS boolean IMMUTABLE LANGUAGE sql AS
        'SELECT ($1).a < ($2).a';
    CREATE FUNCTION compared(one, one) RETURNS int IMMUTABLE LANGUAGE sql AS
        'SELECT sign(($1).a - ($2).a)::int';
    CREATE OPERATOR <<< (LEFTARG = one, RIGHTARG = one, FUNCTION = less);
    CREATE OPERATOR CLASS ones DEFAULT FOR TYPE one USING btree AS
        OPERATOR 1 <<<, FUNCTION 1 compared(one, one);
    CREATE TYPE two AS (a one);
    CREATE TABLE source AS SELECT ROW(ROW(g))::two AS v FROM generate_series(1, 50) g;
"""


@pytest.mark.parametrize("arm", [STOCK, ONE_PAGE], ids=lambda arm: str(arm.name))
def test_core_does_not_find_an_equality_that_it_lacks(connection: Connection, arm: Arm) -> None:
    """That of records is in its type cache only if a hash class has been looked up there."""
    sql = "INSERT INTO w SELECT length(nullif(v, v)::text) FROM source"
    with (
        fresh(connection, _UNEQUAL, arm),
        pytest.raises(errors.UndefinedFunction, match="could not identify an equality operator"),
    ):
        connection.execute(sql)
