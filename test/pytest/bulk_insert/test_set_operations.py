"""Casts that the planner adds to the arms of set operations, after an insert was judged."""

import pytest
from extension.probes import Connection

from bulk_insert.arms import ONE_PAGE, STOCK
from bulk_insert.judging import (
    ELIGIBLE,
    SERIES,
    VOLATILE,
    assert_left_and_counted,
    fresh,
    judgement,
    outcome,
)

_INSERT = "INSERT INTO w SELECT"
_FROM = f"FROM {SERIES}"
_CAST = (
    "CREATE FUNCTION cast_to({1}) RETURNS {2} {0} LANGUAGE plpgsql AS "
    "'BEGIN PERFORM passes(1); RETURN {3}; END'; "
    "CREATE CAST ({1} AS {2}) WITH FUNCTION cast_to({1}) AS IMPLICIT"
)
_ROWS = "CREATE TYPE one AS (x bigint); CREATE TYPE two AS (x bigint); " + _CAST.format(
    "VOLATILE", "one", "two", "ROW(($1).x)::two"
)
_ENUMS = "CREATE TYPE one AS ENUM ('a'); CREATE TYPE two AS ENUM ('a', 'b'); " + _CAST.format(
    "VOLATILE", "one", "two", "''b''"
)
# Of types that no user has made.
_SHAPES = _CAST.format("VOLATILE", "line", "circle", "NULL")
_LINE = "line(point(g, 0), point(g, 1))"
_TWO = "(VALUES (1), (2)) v (x)"


def _count(arms: str) -> str:
    return f"{_INSERT} g, (SELECT count(*) FROM ({arms}) u) {_FROM}"


_CASES = {
    "UNION ALL": (_ROWS, _count("SELECT ROW(g)::one UNION ALL SELECT ROW(0)::two")),
    "second arm": (_ROWS, _count("SELECT ROW(0)::two UNION ALL SELECT ROW(g)::one")),
    "second column": (_ROWS, _count("SELECT 1, ROW(g)::one UNION ALL SELECT 2, ROW(0)::two")),
    "sorted arm": (
        _ROWS,
        _count(f"(SELECT ROW(g)::one FROM {_TWO} ORDER BY x LIMIT 1) UNION ALL SELECT ROW(0)::two"),
    ),
    "UNION": (_ROWS, _count("SELECT ROW(g)::one UNION SELECT ROW(0)::two")),
    "INTERSECT": (_ROWS, _count("SELECT ROW(g)::one INTERSECT SELECT ROW(0)::two")),
    "EXCEPT": (_ROWS, _count("SELECT ROW(0)::two EXCEPT SELECT ROW(g)::one")),
    "set operation as an arm": (
        _ROWS,
        _count("(SELECT ROW(g)::one EXCEPT SELECT ROW(-g)::one) UNION ALL SELECT ROW(0)::two"),
    ),
    "arm of a set operation as an arm": (
        _ROWS,
        _count(
            "SELECT ROW(g)::two UNION ALL "
            "(SELECT ROW(g)::one INTERSECT (SELECT ROW(0)::two UNION ALL SELECT ROW(1)::two))"
        ),
    ),
    "recursive query": (
        _ROWS,
        f"{_INSERT} g, (WITH RECURSIVE r (v) AS (SELECT ROW(-1)::two UNION ALL "
        f"SELECT ROW(g)::one FROM r WHERE (v).x < 0) SELECT count(*) FROM r) {_FROM}",
    ),
    "arrays": (_ROWS, _count("SELECT ARRAY[ROW(g)::one] UNION ALL SELECT ARRAY[ROW(0)::two]")),
    "enums": (_ENUMS, _count("SELECT 'a'::one WHERE g > 0 UNION ALL SELECT 'a'::two")),
    "arrays of enums": (
        _ENUMS,
        _count("SELECT '{a}'::one[] WHERE g > 0 UNION ALL SELECT '{a}'::two[]"),
    ),
    "core's types": (_SHAPES, _count(f"SELECT {_LINE} UNION ALL SELECT circle(point(g, 0), 1)")),
    "arrays of core's types": (
        _SHAPES,
        _count(f"SELECT ARRAY[{_LINE}] UNION ALL SELECT ARRAY[circle(point(g, 0), 1)]"),
    ),
    "arms of the insert": (
        _SHAPES,
        f"{_INSERT} k FROM (SELECT g, {_LINE} {_FROM} WHERE g > 0 "
        f"UNION ALL SELECT g, circle(point(g, 0), 1) {_FROM} WHERE g < 0) u (k, x) "
        "WHERE x IS NULL",
    ),
}

_HARMLESS = {
    "the same types": ("", _count("SELECT g UNION ALL SELECT 1::bigint UNION SELECT 2::bigint")),
    "core's casts": ("", _count("SELECT g UNION ALL SELECT 1 UNION ALL SELECT 1.5")),
    "core's casts of arrays": ("", _count("SELECT ARRAY[g] UNION ALL SELECT ARRAY[1]")),
    "constants": ("", _count("SELECT 'a' UNION ALL SELECT g::text UNION ALL SELECT NULL")),
    "function that is not volatile": (
        "CREATE TYPE one AS (x bigint); CREATE TYPE two AS (x bigint); "
        + _CAST.format("IMMUTABLE", "one", "two", "NULL").replace("PERFORM passes(1);", ""),
        _count("SELECT ARRAY[ROW(g)::one] UNION ALL SELECT ARRAY[ROW(0)::two]"),
    ),
    "types of users": (
        "CREATE TYPE one AS ENUM ('a')",
        _count("SELECT 'a'::one WHERE g > 0 UNION SELECT 'a'::one"),
    ),
}


@pytest.mark.parametrize(("setup", "sql"), _CASES.values(), ids=_CASES)
def test_each_row_sees_those_before(connection: Connection, setup: str, sql: str) -> None:
    assert_left_and_counted(connection, setup, sql)


@pytest.mark.parametrize(("setup", "sql"), _HARMLESS.values(), ids=_HARMLESS)
def test_others_are_collected(connection: Connection, setup: str, sql: str) -> None:
    with fresh(connection, setup):
        assert judgement(connection, sql) == ELIGIBLE
    assert outcome(connection, setup, sql, ONE_PAGE) == outcome(connection, setup, sql, STOCK)


def test_new_tables(connection: Connection) -> None:
    with fresh(connection, _SHAPES):
        sql = f"CREATE TABLE made AS SELECT {_LINE} {_FROM} UNION ALL SELECT '<(0,0),1>'::circle"
        lines = connection.execute(f"EXPLAIN (LOOKAHEAD) {sql}").fetchall()
        assert lines[-1][0] == "Lookahead: stock (volatile function)"


def test_a_plan_that_is_kept_notices_a_change(connection: Connection) -> None:
    setup, sql = _HARMLESS["function that is not volatile"]
    with fresh(connection, f"{setup}; SET LOCAL plan_cache_mode = force_generic_plan"):
        connection.execute(f"PREPARE p AS {sql}")
        assert judgement(connection, "EXECUTE p") == ELIGIBLE
        connection.execute("ALTER FUNCTION cast_to(one) VOLATILE")
        assert judgement(connection, "EXECUTE p") == VOLATILE
