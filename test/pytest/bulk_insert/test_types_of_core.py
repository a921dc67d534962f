"""Types of users that are made of PostgreSQL's own, and have nothing of a user called."""

import pytest
from extension.probes import Connection, need_extension, scalar

from bulk_insert.arms import EXTENTS, ONE_PAGE, STOCK, choose
from bulk_insert.judging import ROWS, SERIES, fresh, outcome

_FROM = f"FROM {SERIES}"
_ENUM = "CREATE TYPE mood AS ENUM ('low', 'high'); "
_CAST = (
    "CREATE FUNCTION json_of(mood) RETURNS json IMMUTABLE LANGUAGE plpgsql AS "
    "'BEGIN RETURN to_json(1); END'; CREATE CAST (mood AS json) WITH FUNCTION json_of(mood); "
)
_CITEXT = "CREATE EXTENSION citext; "
_STABLE = (
    "CREATE TYPE word; CREATE FUNCTION word_in(cstring) RETURNS word STABLE STRICT "
    "LANGUAGE internal AS 'textin'; CREATE FUNCTION word_out(word) RETURNS cstring STABLE "
    "STRICT LANGUAGE internal AS 'textout'; "
    "CREATE TYPE word (INPUT = word_in, OUTPUT = word_out, LIKE = text); "
)
# What makes a type, and a value of it.
_OF_CORE = {
    "enum": (_ENUM, "mood", "'high'"),
    "array": (_ENUM, "mood[]", "'{low,high}'"),
    "row": ("CREATE TYPE two AS (a bigint, b text[]); ", "two", "'(1,{a})'"),
    "row of a table": ("CREATE TABLE two (a bigint, b text); ", "two", "'(1,a)'"),
    "row in an array in a row": (
        f"{_ENUM}CREATE TYPE two AS (a bigint, b mood); CREATE TYPE outermost AS (a two[]); ",
        "outermost",
        """'("{""(1,low)""}")'""",
    ),
    "cast without a function": (
        f"{_ENUM}CREATE CAST (mood AS json) WITH INOUT; ",
        "mood",
        "'low'",
    ),
}
_OF_USERS = {
    "cast to JSON": (_ENUM + _CAST, "mood", "'low'"),
    "cast of a part": (_ENUM + _CAST + "CREATE TYPE two AS (a int, b mood); ", "two", "'(1,low)'"),
    "functions in C": (_CITEXT, "citext", "'low'"),
    "stable functions in C": (_STABLE, "word", "'low'"),
    "array": (_CITEXT, "citext[]", "'{low}'"),
    "column of a row": (_CITEXT + "CREATE TYPE two AS (a int, b citext); ", "two", "'(1,low)'"),
}
_BOTH = [(*case, True) for case in _OF_CORE.values()]
_BOTH += [(*case, False) for case in _OF_USERS.values()]
_IDS = [f"{name}, core" for name in _OF_CORE] + [f"{name}, user" for name in _OF_USERS]
_CASES = pytest.mark.parametrize(("setup", "type_", "value", "of_core"), _BOTH, ids=_IDS)


@pytest.fixture(autouse=True)
def _with_citext(connection: Connection) -> None:
    with connection.transaction(force_rollback=True):
        need_extension(connection, "citext")


def _builds(connection: Connection) -> int:
    """How often an index of w has been built in this transaction."""
    return int(scalar(connection, "SELECT pg_stat_get_xact_numscans('w'::regclass)"))


@_CASES
def test_new_tables(
    connection: Connection, setup: str, type_: str, value: str, *, of_core: bool
) -> None:
    query = f"CREATE TABLE made AS SELECT g, {value}::{type_} AS e {_FROM}"
    with fresh(connection, setup):
        lines = connection.execute(f"EXPLAIN (LOOKAHEAD) {query}").fetchall()
        found = "eligible" if of_core else "stock (function of a user)"
        assert lines[-1][0] == f"Lookahead: {found}"
        made = []
        for arm in (EXTENTS, STOCK):
            choose(connection, arm)
            connection.execute(query)
            made.append(connection.execute("SELECT g, e::text FROM made ORDER BY ctid").fetchall())
            connection.execute("DROP TABLE made")
        assert made[0] == made[1]


@_CASES
def test_emptied_tables(
    connection: Connection, setup: str, type_: str, value: str, *, of_core: bool
) -> None:
    """Where nothing of a user is called, the index is built at the end."""
    setup += f"ALTER TABLE w ADD e {type_}; CREATE INDEX ON w (k); TRUNCATE w"
    sql = f"INSERT INTO w (k, e) SELECT g, {value}::{type_} {_FROM}"
    stock = outcome(connection, setup, sql, STOCK)
    assert outcome(connection, setup, sql, ONE_PAGE) == stock
    with fresh(connection, setup, EXTENTS):
        before = _builds(connection)
        connection.execute(sql)
        assert _builds(connection) - before == int(of_core)
        assert scalar(connection, "SELECT count(*) FROM w") == ROWS


@_CASES
def test_copy(connection: Connection, setup: str, type_: str, value: str, *, of_core: bool) -> None:
    fill = f"COPY (SELECT g, {value}::{type_} {_FROM}) TO PROGRAM 'cat > rows'"
    with fresh(connection, f"{setup}ALTER TABLE w ADD e {type_}; {fill}; TRUNCATE w", EXTENTS):
        connection.execute("CREATE INDEX ON w (k)")
        before = _builds(connection)
        connection.execute("COPY w (k, e) FROM PROGRAM 'cat rows'")
        assert _builds(connection) - before == int(of_core)
        assert scalar(connection, "SELECT count(*) FROM w") == ROWS


def test_a_type_can_get_something_of_a_user(connection: Connection) -> None:
    """After a plan was made that is kept."""
    setup = (
        f"{_CITEXT}CREATE TYPE two AS (a bigint); CREATE INDEX ON w (k); "
        "SET LOCAL plan_cache_mode = force_generic_plan; "
        "PREPARE p AS INSERT INTO w SELECT (jsonb_populate_record(NULL::two, "
        "jsonb_build_object('a', g))).a FROM generate_series(1::bigint, $1) g; EXECUTE p (0)"
    )
    for change, builds in (("", 1), ("ALTER TYPE two ADD ATTRIBUTE b citext", 0)):
        with fresh(connection, setup, EXTENTS):
            before = _builds(connection)
            connection.execute(change)
            connection.execute(f"EXECUTE p ({ROWS})")
            assert _builds(connection) - before == builds
