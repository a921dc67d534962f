"""Values of types for which core calls volatile functions that the insert does not name."""

import pytest
from extension.probes import Connection, scalar

from bulk_insert.arms import ONE_PAGE, STOCK
from bulk_insert.judging import (
    ELIGIBLE,
    SERIES,
    VOLATILE,
    assert_counted,
    assert_left_and_counted,
    fresh,
    judgement,
    outcome,
)

_INSERT = "INSERT INTO w SELECT"
_FROM = f"FROM {SERIES}"
_JSON = "jsonb_build_object('a', g)"
_COMPARED = """
    CREATE TYPE one AS (a bigint);
    CREATE FUNCTION two(one, one) RETURNS boolean IMMUTABLE LANGUAGE sql AS
        'SELECT ($1).a < ($2).a';
    CREATE FUNCTION compared(one, one) RETURNS int VOLATILE LANGUAGE plpgsql AS
        'BEGIN PERFORM passes($1); RETURN sign(($1).a - ($2).a); END';
    CREATE OPERATOR <<< (LEFTARG = one, RIGHTARG = one, FUNCTION = two);
    CREATE OPERATOR CLASS ones DEFAULT FOR TYPE one USING btree AS
        OPERATOR 1 <<<, FUNCTION 1 compared(one, one);
"""

_NOTING = """
    CREATE TYPE word AS ENUM ('yes');
    CREATE FUNCTION json_of(word) RETURNS json LANGUAGE plpgsql AS
        'BEGIN PERFORM passes($1); RETURN to_json(''yes''::text); END';
    CREATE CAST (word AS json) WITH FUNCTION json_of(word);
"""

# What makes a value of d, whose CHECK notes how many rows it sees.
_CASES = {
    "domain": ("", f"{_INSERT} g::d {_FROM}"),
    "column": ("ALTER TABLE w ALTER k TYPE d", f"{_INSERT} g {_FROM}"),
    "domain over domain": ("CREATE DOMAIN dd AS d CHECK (VALUE > 0)", f"{_INSERT} g::dd {_FROM}"),
    "default of a function in a CHECK": (
        "CREATE FUNCTION fine(bigint, s boolean DEFAULT passes(1)) RETURNS boolean IMMUTABLE "
        "LANGUAGE plpgsql AS 'BEGIN RETURN s; END'; CREATE DOMAIN dd AS bigint CHECK (fine(VALUE))",
        f"{_INSERT} g::dd {_FROM}",
    ),
    "text": ("", f"{_INSERT} g::text::d {_FROM}"),
    "array from text": ("", f"{_INSERT} g, cardinality(('{{' || g || '}}')::d[]) {_FROM}"),
    "array": ("", f"{_INSERT} g, cardinality(ARRAY[g]::d[]) {_FROM}"),
    "domain over array": (
        "CREATE DOMAIN da AS bigint[] CHECK (passes(VALUE))",
        f"{_INSERT} g, cardinality(('{{' || g || '}}')::da) {_FROM}",
    ),
    "row": ("", f"{_INSERT} (ROW(g, '')::pair).a {_FROM}"),
    "row from text": ("", f"{_INSERT} (('(' || g || ',)')::pair).a {_FROM}"),
    "row in array in row": (
        "CREATE TYPE outermost AS (a pair[])",
        f'{_INSERT} g, length(format(\'("{{""(%s,)""}}")\', g)::outermost::text) {_FROM}',
    ),
    "range": (
        "CREATE TYPE dr AS RANGE (SUBTYPE = d)",
        f"{_INSERT} g {_FROM} WHERE NOT isempty(('[' || g || ',]')::dr)",
    ),
    "multirange": (
        "CREATE TYPE dr AS RANGE (SUBTYPE = d, MULTIRANGE_TYPE_NAME = dm)",
        f"{_INSERT} g {_FROM} WHERE NOT isempty(('{{[' || g || ',]}}')::dm)",
    ),
    "populated record": ("", f"{_INSERT} (jsonb_populate_record(NULL::pair, {_JSON})).a {_FROM}"),
    "populated table": (
        "",
        f"{_INSERT} p.a {_FROM}, "
        f"jsonb_populate_recordset(NULL::pair, jsonb_build_array({_JSON})) p",
    ),
    "list of columns": ("", f"{_INSERT} r.a {_FROM}, jsonb_to_record({_JSON}) AS r (a d)"),
    "JSON_VALUE": ("", f"{_INSERT} JSON_VALUE({_JSON}, '$.a' RETURNING d) {_FROM}"),
    "JSON_TABLE": (
        "",
        f"{_INSERT} t.a {_FROM}, JSON_TABLE({_JSON}, '$' COLUMNS (a d PATH '$.a')) t",
    ),
    "input that is only tried": (
        "",
        f"{_INSERT} g {_FROM} WHERE pg_input_is_valid(g::text, 'd')",
    ),
    "input function": (
        "",
        f"{_INSERT} g {_FROM} "
        "WHERE record_in(('(' || g || ',)')::cstring, 'pair'::regtype, -1)::text IS NOT NULL",
    ),
    "input by an operator": (
        "CREATE OPERATOR ??? (LEFTARG = text, RIGHTARG = text, FUNCTION = pg_input_is_valid)",
        f"{_INSERT} g {_FROM} WHERE g::text ??? 'd'",
    ),
    "input by an operator of any": (
        "CREATE OPERATOR ??? (LEFTARG = text, RIGHTARG = text, FUNCTION = pg_input_is_valid)",
        f"{_INSERT} g {_FROM} WHERE g::text ??? ANY (ARRAY['d'])",
    ),
    "cast to JSON": (
        _NOTING,
        f"{_INSERT} g, length(to_jsonb((enum_range(NULL::word))[g - g + 1])::text) {_FROM}",
    ),
    "comparison of arrays": (
        _COMPARED,
        f"{_INSERT} g {_FROM} WHERE ARRAY[ROW(g)::one] < ARRAY[ROW(g + 1)::one]",
    ),
    "greatest": (_COMPARED, f"{_INSERT} (greatest(ROW(g)::one, ROW(g)::one)).a {_FROM}"),
    "record of a function": (
        _NOTING + "CREATE FUNCTION made(bigint) RETURNS record IMMUTABLE LANGUAGE plpgsql AS "
        "'DECLARE r record; BEGIN SELECT (enum_range(NULL::word))[1] AS a INTO r; RETURN r; END'",
        f"{_INSERT} g, length(to_json(made(g))::text) {_FROM}",
    ),
    "record of a function that takes several": (
        _NOTING
        + "CREATE FUNCTION made(VARIADIC bigint[]) RETURNS record IMMUTABLE LANGUAGE plpgsql AS "
        "'DECLARE r record; BEGIN SELECT (enum_range(NULL::word))[1] AS a INTO r; RETURN r; END'",
        f"{_INSERT} g, length(to_json(made(g, g))::text) {_FROM}",
    ),
    "array of a column of statistics": (
        _NOTING + "CREATE TABLE words AS SELECT 'yes'::word AS a FROM generate_series(1, 9); "
        "ANALYZE words",
        f"{_INSERT} g, length(array_to_json(most_common_vals)::text) {_FROM}, pg_stats "
        "WHERE tablename = 'words'",
    ),
    "row of statistics": (
        _NOTING + "CREATE TABLE words AS SELECT 'yes'::word AS a FROM generate_series(1, 9); "
        "ANALYZE words",
        f"{_INSERT} g, length(to_json(s)::text) {_FROM}, pg_statistic s "
        "WHERE starelid = 'words'::regclass",
    ),
    "column of a function": (
        "CREATE FUNCTION made(bigint, OUT a d, OUT b int) IMMUTABLE LANGUAGE plpgsql AS "
        "'BEGIN a := $1; END'",
        f"{_INSERT} m.a {_FROM}, made(g) m",
    ),
}

_HARMLESS = {
    "record of the query": (
        "",
        f"{_INSERT} g, length(to_json(s)::text || row_to_json(ROW(g, 'x'))::text) "
        "FROM (SELECT g, 'x' AS x FROM generate_series(1::bigint, 50) g) s",
    ),
    "list of columns": (
        "",
        f"{_INSERT} r.a {_FROM}, jsonb_to_record({_JSON}) AS r (a bigint)",
    ),
    "row": (
        "CREATE TYPE word AS ENUM ('yes'); CREATE TYPE two AS (a bigint, b word[])",
        f"{_INSERT} g, length(to_jsonb(ROW(g, NULL)::two)::text) {_FROM}",
    ),
    "column that was dropped": (
        "ALTER TYPE pair DROP ATTRIBUTE a",
        f"{_INSERT} g, length(jsonb_populate_record(NULL::pair, {_JSON})::text) {_FROM}",
    ),
    "enum": (
        "CREATE TYPE word AS ENUM ('yes')",
        f"{_INSERT} g, length(to_json((enum_range(NULL::word))[1])::text) {_FROM}",
    ),
}

# What calls no volatile function, which nobody looks for.
_IN_DOUBT = {
    "domain": ("CREATE DOMAIN s AS bigint", f"{_INSERT} g::s {_FROM}"),
    "domain in an array": (
        "CREATE DOMAIN s AS bigint",
        f"{_INSERT} g, cardinality(('{{' || g || '}}')::s[]) {_FROM}",
    ),
    "range": (
        "CREATE TYPE word AS ENUM ('yes'); CREATE TYPE wr AS RANGE (SUBTYPE = word)",
        f"{_INSERT} g, length(to_json(wr('yes', 'yes'))::text) {_FROM}",
    ),
    "columns of a function": (
        "CREATE FUNCTION made(bigint, OUT a bigint, OUT b text) IMMUTABLE LANGUAGE plpgsql AS "
        "'BEGIN a := $1; b := $1; END'",
        f"{_INSERT} (made(g)).a, length(to_json(m)::text) {_FROM}, made(g) m",
    ),
    "listed columns of a function": (
        "CREATE FUNCTION made(bigint) RETURNS record IMMUTABLE LANGUAGE plpgsql AS "
        "'BEGIN RETURN ROW($1, 1); END'",
        f"{_INSERT} m.a {_FROM}, made(g) AS m (a bigint, b int)",
    ),
    "aggregate": (
        "CREATE AGGREGATE agg (bigint) (SFUNC = int8pl, STYPE = bigint, INITCOND = '0')",
        f"{_INSERT} g, (SELECT agg(x) FROM (VALUES (g)) v (x)) {_FROM}",
    ),
    "aggregate as a window function": (
        "CREATE AGGREGATE agg (bigint) (SFUNC = int8pl, STYPE = bigint, INITCOND = '0')",
        f"{_INSERT} g, agg(g) OVER (ORDER BY g) {_FROM}",
    ),
    "default that leaves out an argument": (
        "CREATE FUNCTION given(a bigint, s bigint DEFAULT 1) RETURNS bigint IMMUTABLE "
        "LANGUAGE plpgsql AS 'BEGIN RETURN s; END'; "
        "CREATE FUNCTION passed(a bigint, s bigint DEFAULT given(1)) RETURNS bigint IMMUTABLE "
        "LANGUAGE plpgsql AS 'BEGIN RETURN s; END'",
        f"{_INSERT} g, passed(g) {_FROM}",
    ),
}


@pytest.mark.parametrize(("setup", "sql"), _CASES.values(), ids=_CASES)
def test_each_row_sees_those_before(connection: Connection, setup: str, sql: str) -> None:
    assert_left_and_counted(connection, setup, sql)


@pytest.mark.parametrize(("setup", "sql"), _HARMLESS.values(), ids=_HARMLESS)
def test_other_types_stop_nothing(connection: Connection, setup: str, sql: str) -> None:
    with fresh(connection, setup):
        assert judgement(connection, sql) == ELIGIBLE
    assert outcome(connection, setup, sql, ONE_PAGE) == outcome(connection, setup, sql, STOCK)


@pytest.mark.parametrize(("setup", "sql"), _IN_DOUBT.values(), ids=_IN_DOUBT)
def test_others_are_in_doubt(connection: Connection, setup: str, sql: str) -> None:
    with fresh(connection, setup):
        assert judgement(connection, sql) == VOLATILE
    assert outcome(connection, setup, sql, ONE_PAGE) == outcome(connection, setup, sql, STOCK)


def test_xmltable(connection: Connection) -> None:
    if not scalar(connection, "SELECT count(*) FROM pg_config WHERE setting LIKE '%libxml%'"):
        pytest.skip("this server was built without libxml")
    sql = (
        f"{_INSERT} t.a {_FROM}, XMLTABLE('/r' PASSING format('<r><a>%s</a></r>', g)::xml "
        "COLUMNS a d PATH 'a') t"
    )
    assert_left_and_counted(connection, "", sql)


def test_record_of_a_procedural_language(connection: Connection) -> None:
    code = (
        "DECLARE r record; BEGIN SELECT (enum_range(NULL::word))[1] AS a INTO r; "
        f"{_INSERT} g, length(to_json(r)::text) {_FROM}; END"
    )
    assert_counted(connection, _NOTING, f"DO $${code}$$")


_CATALOG_ROWS = {
    "row of a view": ("pg_stats", ""),
    "row": ("pg_statistic", ""),
    "row of the first catalogs": ("pg_attribute", ""),
    "array of a view": ("pg_stats[]", ""),
    "array": ("pg_statistic[]", ""),
    "array of the first catalogs": ("pg_attribute[]", ""),
    "domain": ("dd", "CREATE DOMAIN dd AS pg_statistic"),
    "domain over a domain": ("dd", "CREATE DOMAIN di AS pg_attribute; CREATE DOMAIN dd AS di"),
    "domain over an array": ("dd", "CREATE DOMAIN dd AS pg_statistic[]"),
    "array of a domain": ("dd[]", "CREATE DOMAIN dd AS pg_attribute"),
}


@pytest.mark.parametrize(("type_", "setup"), _CATALOG_ROWS.values(), ids=_CATALOG_ROWS)
def test_rows_of_catalogs_are_in_doubt(connection: Connection, type_: str, setup: str) -> None:
    """They can have arrays of any type, which a parameter does not tell."""
    with fresh(connection, setup):
        connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        connection.execute(
            f"PREPARE one ({type_}) AS "
            f"INSERT INTO w SELECT g, length(to_json($1)::text) FROM {SERIES}"
        )
        assert judgement(connection, "EXECUTE one (NULL)") == VOLATILE
        connection.execute("DEALLOCATE one")


_ANALYZED = (
    _NOTING + "CREATE TABLE words AS SELECT 'yes'::word AS a FROM generate_series(1, 9); "
    "ANALYZE words; "
)
_OF_FUNCTIONS = {
    "array of rows of catalogs that a function gives": (
        _ANALYZED + "CREATE FUNCTION made(bigint) RETURNS pg_statistic[] IMMUTABLE LANGUAGE sql "
        "AS 'SELECT array_agg(s) FROM pg_statistic s WHERE starelid = ''words''::regclass'",
        f"{_INSERT} g, length(to_json(made(g))::text) {_FROM}",
    ),
    "domain over a row of a catalog that a function gives": (
        _ANALYZED + "CREATE DOMAIN dd AS pg_statistic; "
        "CREATE FUNCTION made(bigint) RETURNS dd IMMUTABLE LANGUAGE plpgsql AS "
        "'DECLARE s pg_statistic; BEGIN SELECT * INTO s FROM pg_statistic "
        "WHERE starelid = ''words''::regclass; RETURN s; END'",
        f"{_INSERT} g, length(to_json(made(g))::text) {_FROM}",
    ),
    "row of a catalog in a record of a function": (
        _ANALYZED + "CREATE FUNCTION made(bigint, OUT a pg_statistic, OUT b int) IMMUTABLE "
        "LANGUAGE plpgsql AS 'BEGIN SELECT * INTO a FROM pg_statistic "
        "WHERE starelid = ''words''::regclass; END'",
        f"{_INSERT} g, length(to_json(m)::text) {_FROM}, made(g) m",
    ),
    "column of a catalog with rows of another": (
        _ANALYZED + "CREATE STATISTICS of_words ON (greatest(a, a)) FROM words; ANALYZE words",
        f"{_INSERT} g, length(to_json(stxdexpr)::text) {_FROM}, pg_statistic_ext_data "
        "JOIN pg_statistic_ext x ON x.oid = stxoid WHERE stxname = 'of_words'",
    ),
}


@pytest.mark.parametrize(("setup", "sql"), _OF_FUNCTIONS.values(), ids=_OF_FUNCTIONS)
def test_rows_of_catalogs_out_of_sight(connection: Connection, setup: str, sql: str) -> None:
    assert_left_and_counted(connection, setup, sql)
