"""Inserts that call a volatile function, wherever the query has it, are left to core."""

import pytest
from extension.probes import Connection

from bulk_insert.arms import ONE_PAGE, STOCK
from bulk_insert.judging import (
    ELIGIBLE,
    ROWS,
    SERIES,
    VOLATILE,
    assert_left_and_counted,
    fresh,
    judgement,
    outcome,
)

_INSERT = "INSERT INTO w SELECT"
_RULED_ROLE = (
    f"CREATE TABLE source AS SELECT * FROM {SERIES}; CREATE ROLE reader; "
    "GRANT ALL ON w, notes, source TO reader; ALTER TABLE source ENABLE ROW LEVEL SECURITY; "
    "CREATE POLICY p ON source USING ({}); SET LOCAL ROLE reader"
)
_AGGREGATE = (
    "CREATE FUNCTION add(bigint, bigint) RETURNS bigint {} LANGUAGE plpgsql AS "
    "'BEGIN RETURN f(); END'; "
    "CREATE FUNCTION keep(bigint) RETURNS bigint {} LANGUAGE plpgsql AS 'BEGIN RETURN f(); END'; "
    "CREATE FUNCTION first(bigint, bigint) RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT $1'; "
)

_ROWS_OF = (
    "CREATE FUNCTION rows_of(bigint) RETURNS SETOF bigint {} LANGUAGE plpgsql AS "
    "'BEGIN RETURN NEXT f(); END'"
)
_GIVING = (
    "CREATE FUNCTION giving(bigint) RETURNS {} IMMUTABLE LANGUAGE plpgsql AS "
    "'BEGIN RETURN QUERY SELECT {}; END'"
)
_GIVEN = (
    "CREATE FUNCTION given(a bigint, s bigint {}) RETURNS bigint IMMUTABLE "
    "LANGUAGE plpgsql AS 'BEGIN RETURN s; END'"
)

# A word with a cast to text, which core's functions in SQL find by the type of what they are given.
_WORD = (
    "CREATE TYPE word AS ENUM ('yes'); CREATE FUNCTION of_word({0}) RETURNS text {1} LANGUAGE "
    "plpgsql AS 'BEGIN RETURN f()::text; END'; CREATE CAST ({0} AS text) WITH FUNCTION of_word({0})"
)
_A_WORD = "(enum_range(NULL::word))[g - g + 1]"

_CASES = {
    "target list": ("", f"{_INSERT} g, f() FROM {SERIES}"),
    "default": (
        "ALTER TABLE w ALTER seen SET DEFAULT f()",
        f"INSERT INTO w SELECT g FROM {SERIES}",
    ),
    "values": ("", f"INSERT INTO w VALUES {', '.join(f'({k}, f())' for k in range(ROWS))}"),
    "default in values": (
        "ALTER TABLE w ALTER seen SET DEFAULT f()",
        f"INSERT INTO w VALUES {', '.join(f'({k}, DEFAULT)' for k in range(ROWS))}",
    ),
    "sub-select": ("", f"{_INSERT} g, (SELECT f() WHERE g > 0) FROM {SERIES}"),
    "where": ("", f"{_INSERT} g FROM {SERIES} WHERE passes(g)"),
    "join": ("", f"{_INSERT} g FROM {SERIES} JOIN generate_series(1, 1) x ON passes(g + x)"),
    "having": ("", f"{_INSERT} g FROM {SERIES} GROUP BY g HAVING passes(g)"),
    "exists": ("", f"{_INSERT} g FROM {SERIES} WHERE EXISTS (SELECT 1 WHERE passes(g))"),
    "union": ("", f"{_INSERT} 0, 0 WHERE false UNION ALL SELECT g, f() FROM {SERIES}"),
    "view": (
        f"CREATE VIEW v AS SELECT g, f() AS seen FROM {SERIES}",
        f"{_INSERT} * FROM v",
    ),
    "security barrier": (
        f"CREATE VIEW v WITH (security_barrier) AS SELECT g FROM {SERIES} WHERE passes(g)",
        f"{_INSERT} * FROM v WHERE g > 0",
    ),
    "row security": (_RULED_ROLE.format("passes(g)"), f"{_INSERT} g FROM source"),
    "with": ("", f"WITH c AS (SELECT g, f() FROM {SERIES}) INSERT INTO w SELECT * FROM c"),
    "with below": ("", f"{_INSERT} * FROM (WITH c AS (SELECT g, f() FROM {SERIES}) TABLE c) s"),
    "lateral function": ("", f"{_INSERT} g, s FROM {SERIES}, LATERAL seen_by(g) s"),
    "function in SQL": (
        "CREATE FUNCTION rows_of(n int) RETURNS TABLE (k int, s bigint) LANGUAGE sql IMMUTABLE AS "
        "'SELECT g, f() FROM generate_series(1, $1) g'",
        f"{_INSERT} * FROM rows_of({ROWS})",
    ),
    "function in SQL of one column": (
        "CREATE FUNCTION looks(bigint) RETURNS SETOF bigint LANGUAGE sql IMMUTABLE AS "
        "'SELECT f() WHERE $1 > 0'",
        f"{_INSERT} g, s FROM {SERIES}, looks(g) s",
    ),
    "function in FROM": (
        _ROWS_OF.format("VOLATILE"),
        f"{_INSERT} g, s FROM {SERIES}, LATERAL rows_of(g) s",
    ),
    "stable function in FROM": (
        _ROWS_OF.format("STABLE"),
        f"{_INSERT} g, s FROM {SERIES}, rows_of(g) s",
    ),
    "one of several functions in FROM": (
        _ROWS_OF.format("VOLATILE"),
        f"{_INSERT} g, s FROM {SERIES}, ROWS FROM (generate_series(g, g), rows_of(g)) t (x, s)",
    ),
    "argument of a function in FROM": (
        _GIVING.format("SETOF bigint", "$1"),
        f"{_INSERT} g, s FROM {SERIES}, giving(f() + g - g) s",
    ),
    "type of a function in FROM": (
        _GIVING.format("SETOF d", "$1::d"),
        f"{_INSERT} g, s FROM {SERIES}, giving(g) s",
    ),
    "stable function that calls a volatile one": (
        "CREATE FUNCTION passed_on(bigint) RETURNS bigint STABLE LANGUAGE plpgsql AS "
        "'BEGIN RETURN f(); END'",
        f"{_INSERT} g, passed_on(g) FROM {SERIES}",
    ),
    "negator": (
        "CREATE FUNCTION never(bigint, bigint) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS "
        "'BEGIN RETURN false; END'; "
        "CREATE FUNCTION always(bigint, bigint) RETURNS boolean VOLATILE LANGUAGE plpgsql AS "
        "'BEGIN RETURN passes($1); END'; "
        "CREATE OPERATOR !=== (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = always, "
        "NEGATOR = ===); "
        "CREATE OPERATOR === (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = never, "
        "NEGATOR = !===)",
        f"{_INSERT} g FROM {SERIES} WHERE NOT (g::bigint === 7::bigint)",
    ),
    "set-returning": ("", f"{_INSERT} generate_series(1, {ROWS}), f()"),
    "operator": (
        "CREATE FUNCTION two(bigint, bigint) RETURNS bigint LANGUAGE plpgsql AS "
        "'BEGIN RETURN f(); END'; "
        "CREATE OPERATOR ### (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = two)",
        f"{_INSERT} g, g ### g FROM {SERIES}",
    ),
    "operator of any": (
        "CREATE FUNCTION two(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS "
        "'BEGIN RETURN passes($1); END'; "
        "CREATE OPERATOR ### (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = two)",
        f"{_INSERT} g FROM {SERIES} WHERE g ### ANY (ARRAY[g])",
    ),
    "transition function": (
        _AGGREGATE.format("VOLATILE", "IMMUTABLE")
        + "CREATE AGGREGATE agg (bigint) (SFUNC = add, STYPE = bigint, INITCOND = '0')",
        f"{_INSERT} g, (SELECT agg(x) FROM (VALUES (g)) v (x)) FROM {SERIES}",
    ),
    "final function": (
        _AGGREGATE.format("IMMUTABLE", "VOLATILE")
        + "CREATE AGGREGATE agg (bigint) (SFUNC = first, STYPE = bigint, INITCOND = '0', "
        "FINALFUNC = keep)",
        f"{_INSERT} g, (SELECT agg(x) FROM (VALUES (g)) v (x)) FROM {SERIES}",
    ),
    "window": ("", f"{_INSERT} g, max(seen_by(g)) OVER (ORDER BY g) FROM {SERIES}"),
    "window aggregate": (
        _AGGREGATE.format("VOLATILE", "IMMUTABLE")
        + "CREATE AGGREGATE agg (bigint) (SFUNC = add, STYPE = bigint, INITCOND = '0')",
        f"{_INSERT} g, agg(g) OVER (ORDER BY g) FROM {SERIES}",
    ),
    "cast": (
        "CREATE TYPE one AS (a bigint); "
        "CREATE FUNCTION of_one(one) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN f(); END'; "
        "CREATE CAST (one AS bigint) WITH FUNCTION of_one(one)",
        f"{_INSERT} g, ROW(g)::one::bigint FROM {SERIES}",
    ),
    "text and word": (
        _WORD.format("word", "VOLATILE"),
        f"{_INSERT} g, ('0' || {_A_WORD})::bigint FROM {SERIES}",
    ),
    "word and text": (
        _WORD.format("word", "STABLE"),
        f"{_INSERT} g, ({_A_WORD} || ' ')::bigint FROM {SERIES}",
    ),
    "quoted word": (
        _WORD.format("word", "VOLATILE"),
        f"{_INSERT} g, btrim(quote_literal({_A_WORD}), $$'$$)::bigint FROM {SERIES}",
    ),
    "quoted words": (
        _WORD.format("word[]", "VOLATILE"),
        f"{_INSERT} g, btrim(quote_nullable(enum_range({_A_WORD})), $$'$$)::bigint FROM {SERIES}",
    ),
    "default of an argument": (
        _GIVEN.format("DEFAULT f()"),
        f"{_INSERT} g, given(a => g) FROM {SERIES}",
    ),
    "second default of an argument": (
        _GIVEN.format("DEFAULT 1, t bigint DEFAULT f()").replace("RETURN s", "RETURN t"),
        f"{_INSERT} g, given(g, 1) FROM {SERIES}",
    ),
    "default of an argument of a default": (
        _GIVEN.format("DEFAULT f()")
        + "; CREATE FUNCTION passed(a bigint, s bigint DEFAULT given(1)) RETURNS bigint IMMUTABLE "
        "LANGUAGE plpgsql AS 'BEGIN RETURN s; END'",
        f"{_INSERT} g, passed(g) FROM {SERIES}",
    ),
    "type of a default of an argument": (
        _GIVEN.format("DEFAULT 1::d"),
        f"{_INSERT} g, given(g) FROM {SERIES}",
    ),
    "cast of a default of an argument": (
        "CREATE TYPE number; CREATE FUNCTION number_in(cstring) RETURNS number IMMUTABLE STRICT "
        "LANGUAGE internal AS 'int8in'; CREATE FUNCTION number_out(number) RETURNS cstring "
        "IMMUTABLE STRICT LANGUAGE internal AS 'int8out'; CREATE TYPE number (INPUT = number_in, "
        "OUTPUT = number_out, LIKE = bigint, CATEGORY = 'N'); "
        "CREATE FUNCTION number_of(int) RETURNS number VOLATILE LANGUAGE plpgsql AS "
        "'BEGIN RETURN f()::text::number; END'; "
        "CREATE CAST (int AS number) WITH FUNCTION number_of(int) AS IMPLICIT; "
        "CREATE FUNCTION given(anycompatible, anycompatible DEFAULT 1) RETURNS bigint IMMUTABLE "
        "LANGUAGE plpgsql AS 'BEGIN RETURN $2::text::bigint; END'",
        f"{_INSERT} g, given(g::text::number) FROM {SERIES}",
    ),
}

_HARMLESS = {
    "constants": ("", f"INSERT INTO w VALUES {', '.join(f'({k}, 0)' for k in range(ROWS))}"),
    "sequence": (
        "CREATE SEQUENCE s; SELECT nextval('s'); ALTER TABLE w ALTER k SET DEFAULT nextval('s')",
        f"INSERT INTO w (seen) SELECT currval('s') + g FROM {SERIES}",
    ),
    "identity": (
        "ALTER TABLE w ADD i int GENERATED ALWAYS AS IDENTITY",
        f"{_INSERT} g FROM {SERIES}",
    ),
    "random numbers": (
        "SELECT setseed(0.5)",
        f"{_INSERT} g, random(1, 1000) + 1000 * random() + random_normal() FROM {SERIES}",
    ),
    "built-in aggregates": (
        "",
        f"{_INSERT} g, sum(g) OVER (ORDER BY g) + (SELECT count(*) FROM w) FROM {SERIES}",
    ),
    "immutable function": (
        "ALTER FUNCTION f() IMMUTABLE",
        f"{_INSERT} g, f() FROM {SERIES}",
    ),
    "immutable function in FROM": (
        _GIVING.format("SETOF bigint", "$1"),
        f"{_INSERT} g, s FROM {SERIES}, giving(g) s",
    ),
    "rows of an immutable function": (
        "CREATE TYPE two AS (a bigint, b text); " + _GIVING.format("SETOF two", "$1, $1::text"),
        f"{_INSERT} g, s.a FROM {SERIES}, giving(g) WITH ORDINALITY s",
    ),
    "defaults of arguments": (
        _GIVEN.format("DEFAULT 5 + 1, t text DEFAULT NULL, r float8 DEFAULT random()"),
        f"{_INSERT} g, given(a => g, t => '') FROM {SERIES}",
    ),
    "text of types without a cast that calls a function of a user": (
        "CREATE TYPE word AS ENUM ('yes'); CREATE CAST (word AS text) WITH INOUT",
        f"{_INSERT} g, length({_A_WORD} || quote_literal(true) || g) FROM {SERIES}",
    ),
    "given argument": (
        _GIVEN.format("DEFAULT f()"),
        f"{_INSERT} g, given(g, 1) FROM {SERIES}",
    ),
    "own rows": ("INSERT INTO w VALUES (0, 0)", f"{_INSERT} g, w.k FROM {SERIES}, w"),
    "row security": (_RULED_ROLE.format("g > 0"), f"{_INSERT} g FROM source"),
}

_NEVER_THE_SAME = (
    "clock_timestamp()",
    "timeofday()",
    "gen_random_uuid()",
    "uuidv4()",
    "uuidv7()",
    "uuidv7('1 hour')",
    "pg_sleep(0)",
    "pg_sleep_for('0')",
    "pg_notify('channel', 'row')",
    "array_shuffle(ARRAY[1, 2])",
    "current_query()",
)


@pytest.mark.parametrize(("setup", "sql"), _CASES.values(), ids=_CASES)
def test_each_row_sees_those_before(connection: Connection, setup: str, sql: str) -> None:
    assert_left_and_counted(connection, setup, sql)


@pytest.mark.parametrize(("setup", "sql"), _HARMLESS.values(), ids=_HARMLESS)
def test_others_are_collected(connection: Connection, setup: str, sql: str) -> None:
    with fresh(connection, setup):
        assert judgement(connection, sql) == ELIGIBLE
    assert outcome(connection, setup, sql, ONE_PAGE) == outcome(connection, setup, sql, STOCK)


def test_defaults_of_defaults_are_not_followed(connection: Connection) -> None:
    """They can be the function's own; PostgreSQL does not come to a call that it leaves out."""
    given = _GIVEN.replace("FUNCTION", "OR REPLACE FUNCTION")
    setup = f"{given.format('DEFAULT 1')}; {given.format('DEFAULT given(1)')}"
    sql = f"{_INSERT} g, CASE WHEN false THEN given(g) END FROM {SERIES}"
    with fresh(connection, setup):
        assert judgement(connection, sql) == VOLATILE
    assert outcome(connection, setup, sql, ONE_PAGE) == outcome(connection, setup, sql, STOCK)


def test_stable_functions_of_users_are_in_doubt(connection: Connection) -> None:
    """Whatever their language: one in C may run a text as a query."""
    setup = (
        "CREATE FUNCTION plus(bigint, bigint) RETURNS bigint STABLE LANGUAGE internal AS 'int8pl'"
    )
    with fresh(connection, setup):
        assert (
            judgement(connection, f"INSERT INTO w SELECT g, plus(g, 1) FROM {SERIES}") == VOLATILE
        )


@pytest.mark.parametrize("call", _NEVER_THE_SAME)
def test_functions_that_look_at_no_table_stop_nothing(connection: Connection, call: str) -> None:
    sql = f"INSERT INTO w SELECT g, length(({call})::text) FROM {SERIES}"
    with fresh(connection, ""):
        assert judgement(connection, sql) == ELIGIBLE
    assert len(outcome(connection, "", sql, ONE_PAGE).rows) == ROWS


@pytest.mark.parametrize(
    "call", ["pg_relation_size('w')", "txid_status(g)", "set_config('a.b', '', true)"]
)
def test_other_volatile_functions_of_core_do(connection: Connection, call: str) -> None:
    sql = f"INSERT INTO w SELECT g, length(({call})::text) FROM {SERIES}"
    with fresh(connection, ""):
        assert judgement(connection, sql) == VOLATILE
