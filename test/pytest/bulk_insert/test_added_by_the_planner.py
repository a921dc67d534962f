"""What the plan of an insert calls besides what its query does."""

import pytest
from extension.probes import Connection

from bulk_insert.arms import DEFAULT, ONE_PAGE, STOCK
from bulk_insert.judging import (
    ELIGIBLE,
    ROWS,
    SERIES,
    VOLATILE,
    assert_counted,
    assert_left_and_counted,
    fresh,
    judgement,
    outcome,
)

_INSERT = "INSERT INTO w (k, seen) SELECT g, 0"
_FROM = f"FROM {SERIES}"
_DOMAIN = "ALTER TABLE w ADD c d; "
_VALUES = ", ".join(f"({k}, 0)" for k in range(ROWS))
_PARTITIONED = (
    "DROP TABLE w; CREATE TABLE w (k bigint, seen bigint, c d) PARTITION BY RANGE (k); "
    "CREATE TABLE w1 (c d, seen bigint, x int, k bigint); ALTER TABLE w1 DROP x; "
    "ALTER TABLE w ATTACH PARTITION w1 FOR VALUES FROM (0) TO (1000)"
)

# The domain's CHECK notes how many rows it sees.
_DOMAINS = {
    "SELECT": (_DOMAIN, f"{_INSERT} {_FROM}"),
    "VALUES": (_DOMAIN, f"INSERT INTO w (k, seen) VALUES {_VALUES}"),
    "domain over a domain": (
        "CREATE DOMAIN dd AS d; ALTER TABLE w ADD c dd",
        f"{_INSERT} {_FROM}",
    ),
    "among others": (
        "ALTER TABLE w ADD a int, ADD c d, ADD b int GENERATED ALWAYS AS IDENTITY; "
        "ALTER TABLE w DROP a",
        f"{_INSERT} {_FROM}",
    ),
    "sort": (_DOMAIN, f"{_INSERT} {_FROM} ORDER BY g DESC"),
    "UNION ALL": (_DOMAIN, f"{_INSERT} {_FROM} WHERE g < 9 UNION ALL SELECT g, 1 {_FROM} OFFSET 8"),
    "arms without an operation": (
        _DOMAIN,
        f"{_INSERT} {_FROM} WHERE g < 9 UNION ALL SELECT g, 1 {_FROM} WHERE g >= 9",
    ),
    "set-returning": (
        _DOMAIN,
        f"INSERT INTO w (k, seen) SELECT generate_series(1, {ROWS}), generate_series(1, {ROWS})",
    ),
    "grouped": (_DOMAIN, f"INSERT INTO w (k, seen) SELECT g, sum(g) {_FROM} GROUP BY g"),
    "partitioned table": (_PARTITIONED, f"{_INSERT} {_FROM}"),
    "partition": (_PARTITIONED, f"INSERT INTO w1 (k, seen) SELECT g, 0 {_FROM}"),
    "view": (
        f"{_DOMAIN} CREATE VIEW v AS SELECT seen, k FROM w",
        f"INSERT INTO v (k) SELECT g {_FROM}",
    ),
    "view of a view": (
        f"{_DOMAIN} CREATE VIEW v AS SELECT * FROM w; CREATE VIEW vv AS SELECT k AS x FROM v",
        f"INSERT INTO vv SELECT g {_FROM}",
    ),
    "rule": (
        f"{_DOMAIN} CREATE VIEW v AS SELECT 1::bigint AS x; "
        "CREATE RULE r AS ON INSERT TO v DO INSTEAD INSERT INTO w (k) VALUES (NEW.x)",
        f"INSERT INTO v SELECT g {_FROM}",
    ),
    "prepared statement": (
        f"{_DOMAIN} SET LOCAL plan_cache_mode = force_generic_plan; "
        "PREPARE p AS INSERT INTO w (k, seen) "
        f"SELECT g, $1 FROM generate_series(1::bigint, {ROWS}) g",
        "EXECUTE p (0)",
    ),
}

_OTHER_COLUMNS = {
    "base type": "ALTER TABLE w ADD c text",
    "type of a user": "CREATE TYPE word AS ENUM ('a'); ALTER TABLE w ADD c word",
    "array of a domain": "ALTER TABLE w ADD c d[]",
    "row with a domain": "ALTER TABLE w ADD c pair",
    "domain that was dropped": f"{_DOMAIN} ALTER TABLE w DROP c",
    "generated columns": (
        "ALTER TABLE w ADD a bigint GENERATED ALWAYS AS (k + 1) STORED, "
        "ADD b bigint GENERATED ALWAYS AS (k + 1) VIRTUAL"
    ),
}

_FILES = "CREATE EXTENSION file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw; "
_SOURCE = f"OPTIONS (program 'seq {ROWS} | sed ''s/$/,@/''', format 'csv', default '@')"
_FOREIGN = (
    f"{_FILES} CREATE FOREIGN TABLE source (k bigint, seen bigint DEFAULT {{}}) SERVER files "
    + _SOURCE
)
_SELECT = "INSERT INTO w SELECT k, seen FROM source"
_FILL = f"INSERT INTO source SELECT g, 0 {_FROM}"

_FOREIGN_TABLES = {
    "default": (_FOREIGN.format("f()"), _SELECT),
    "partition": (
        f"{_FILES} CREATE TABLE source (k bigint, seen bigint) PARTITION BY RANGE (k); "
        "CREATE FOREIGN TABLE part PARTITION OF source (seen DEFAULT f()) DEFAULT SERVER files "
        + _SOURCE,
        _SELECT,
    ),
    "within an expression": (
        _FOREIGN.format("f()"),
        f"INSERT INTO w SELECT g, (SELECT max(seen) FROM source WHERE k = g) {_FROM}",
    ),
    "column that is not asked for": (
        f"{_FILES} COPY (SELECT g, 0::bigint {_FROM}) TO PROGRAM 'cat > rows' (FORMAT binary); "
        "CREATE FOREIGN TABLE source (k bigint, other d) SERVER files "
        "OPTIONS (program 'cat rows', format 'binary')",
        "INSERT INTO w SELECT k FROM source",
    ),
}

_CMP = (
    "CREATE FUNCTION cmp(bigint, numeric) RETURNS int {} STRICT LANGUAGE plpgsql AS "
    "'BEGIN {} RETURN sign($1 - $2); END'; "
    "CREATE FUNCTION same(bigint, numeric) RETURNS boolean IMMUTABLE STRICT LANGUAGE plpgsql AS "
    "'BEGIN RETURN $1 = $2; END'; "
    "CREATE OPERATOR ==== (LEFTARG = bigint, RIGHTARG = numeric, FUNCTION = same); "
    "ALTER OPERATOR FAMILY integer_ops USING btree ADD OPERATOR 3 ==== (bigint, numeric), "
    "FUNCTION 1 (bigint, numeric) cmp(bigint, numeric); "
    "CREATE TABLE source (k bigint) PARTITION BY RANGE (k); "
    "CREATE TABLE s1 PARTITION OF source FOR VALUES FROM (0) TO (25); "
    "CREATE TABLE s2 PARTITION OF source FOR VALUES FROM (25) TO (99); "
    "SET LOCAL plan_cache_mode = force_generic_plan; PREPARE p AS INSERT INTO w "
    f"SELECT g, (SELECT count(*) FROM source WHERE k ==== g::numeric) {_FROM}; EXECUTE p; "
)
_NOTING = _CMP.format("VOLATILE", "PERFORM passes($1);")
_DROP = (
    "ALTER OPERATOR FAMILY integer_ops USING btree DROP FUNCTION 1 (bigint, numeric); "
    "DELETE FROM w; DELETE FROM notes"
)

# Core does not look at a cast to the type of a virtual column.
_CONVERTED = (
    "CREATE FUNCTION converted(point) RETURNS bigint {} LANGUAGE plpgsql AS "
    "'BEGIN RETURN f(); END'; CREATE CAST (point AS bigint) WITH FUNCTION converted(point) "
    "AS ASSIGNMENT; CREATE TABLE source (k bigint, p point DEFAULT point(1, 1), "
    "seen bigint GENERATED ALWAYS AS (p) {}){}"
)
_FILL_KEYS = f"; INSERT INTO source (k) SELECT g {_FROM}; DELETE FROM notes"
_VIRTUAL = _CONVERTED.format("VOLATILE", "VIRTUAL", "") + _FILL_KEYS
_VIRTUAL_COLUMNS = {
    "cast": (_VIRTUAL, _SELECT),
    "view": (
        f"{_VIRTUAL}; CREATE VIEW v AS SELECT k, seen + 0 AS seen FROM source",
        "INSERT INTO w SELECT k, seen FROM v",
    ),
    "partitioned table": (
        _CONVERTED.format("VOLATILE", "VIRTUAL", " PARTITION BY RANGE (k)")
        + f"; CREATE TABLE part PARTITION OF source DEFAULT{_FILL_KEYS}",
        _SELECT,
    ),
    "negator that is made later": (
        "CREATE TABLE source (k bigint, "
        "seen boolean GENERATED ALWAYS AS (NOT (ARRAY[k] @> ARRAY[7::bigint])) VIRTUAL); "
        "CREATE FUNCTION lacks(anyarray, anyarray) RETURNS boolean VOLATILE LANGUAGE plpgsql AS "
        "'BEGIN PERFORM passes($1); RETURN true; END'; CREATE OPERATOR !@> (LEFTARG = anyarray, "
        "RIGHTARG = anyarray, FUNCTION = lacks, NEGATOR = @>)" + _FILL_KEYS,
        "INSERT INTO w SELECT k, seen::int FROM source",
    ),
}
_OTHER_SOURCES = {
    "virtual column": f"CREATE TABLE source (k bigint, seen bigint GENERATED ALWAYS AS (k + 1) "
    f"VIRTUAL){_FILL_KEYS}",
    "stored column": _CONVERTED.format("VOLATILE", "STORED", "") + _FILL_KEYS,
}


@pytest.mark.parametrize(("setup", "sql"), _DOMAINS.values(), ids=_DOMAINS)
def test_domains_of_columns_that_are_left_out(connection: Connection, setup: str, sql: str) -> None:
    assert_left_and_counted(connection, setup, sql)


@pytest.mark.parametrize("setup", _OTHER_COLUMNS.values(), ids=_OTHER_COLUMNS)
def test_other_columns_can_be_left_out(connection: Connection, setup: str) -> None:
    sql = f"{_INSERT} {_FROM}"
    with fresh(connection, setup):
        assert judgement(connection, sql) == ELIGIBLE
    assert outcome(connection, setup, sql, ONE_PAGE) == outcome(connection, setup, sql, STOCK)


@pytest.mark.parametrize(("setup", "sql"), _FOREIGN_TABLES.values(), ids=_FOREIGN_TABLES)
def test_foreign_tables(connection: Connection, setup: str, sql: str) -> None:
    assert_left_and_counted(connection, setup, sql)


def test_tables_of_core_stop_nothing(connection: Connection) -> None:
    setup = f"CREATE TABLE source (k bigint, seen bigint DEFAULT f(), other d); {_FILL}"
    with fresh(connection, setup):
        assert judgement(connection, _SELECT) == ELIGIBLE
    assert outcome(connection, setup, _SELECT, ONE_PAGE) == outcome(
        connection, setup, _SELECT, STOCK
    )


@pytest.mark.parametrize(("setup", "sql"), _VIRTUAL_COLUMNS.values(), ids=_VIRTUAL_COLUMNS)
def test_virtual_columns(connection: Connection, setup: str, sql: str) -> None:
    assert_left_and_counted(connection, setup, sql)


@pytest.mark.parametrize("setup", _OTHER_SOURCES.values(), ids=_OTHER_SOURCES)
def test_other_generated_columns_stop_nothing(connection: Connection, setup: str) -> None:
    with fresh(connection, setup):
        assert judgement(connection, _SELECT) == ELIGIBLE
    stock = outcome(connection, setup, _SELECT, STOCK)
    assert outcome(connection, setup, _SELECT, ONE_PAGE) == stock


@pytest.mark.parametrize("default", ["0", "nextval('q')", "kept(1)"])
def test_other_foreign_tables_stop_nothing(connection: Connection, default: str) -> None:
    setup = (
        "CREATE SEQUENCE q; CREATE FUNCTION kept(bigint) RETURNS bigint IMMUTABLE "
        "LANGUAGE plpgsql AS 'BEGIN RETURN $1; END'; " + _FOREIGN.format(default)
    )
    with fresh(connection, setup):
        assert judgement(connection, _SELECT) == ELIGIBLE
    found = outcome(connection, setup, _SELECT, ONE_PAGE)
    assert len(found.rows) == ROWS
    assert found == outcome(connection, setup, _SELECT, STOCK)


@pytest.mark.parametrize("setup", [_FOREIGN.format("f()"), _VIRTUAL], ids=["foreign", "virtual"])
def test_new_tables(connection: Connection, setup: str) -> None:
    with fresh(connection, setup):
        lines = connection.execute("EXPLAIN (LOOKAHEAD) CREATE TABLE made AS TABLE source")
        assert lines.fetchall()[-1][0] == "Lookahead: stock (volatile function)"


@pytest.mark.parametrize(
    ("setup", "function"),
    [
        ("ALTER FUNCTION f() IMMUTABLE; " + _FOREIGN.format("f()"), "f()"),
        (_CONVERTED.format("IMMUTABLE", "VIRTUAL", ""), "converted(point)"),
    ],
    ids=["default", "virtual column"],
)
def test_what_becomes_volatile(connection: Connection, setup: str, function: str) -> None:
    generic = f"SET LOCAL plan_cache_mode = force_generic_plan; PREPARE p AS {_SELECT}"
    with fresh(connection, f"{setup}; {generic}"):
        assert judgement(connection, "EXECUTE p") == ELIGIBLE
        connection.execute(f"ALTER FUNCTION {function} VOLATILE")
        assert judgement(connection, "EXECUTE p") == VOLATILE


def test_a_type_that_a_foreign_table_reads_can_get_a_column(connection: Connection) -> None:
    """Which the file has, too: a plan that is kept does not ask for that column of the table."""
    rows = f"COPY (SELECT g, ROW({{}})::one {_FROM}) TO PROGRAM 'cat > rows' (FORMAT binary)"
    setup = (
        f"{_FILES} CREATE TYPE one AS (x bigint); {rows.format('g')}; "
        "CREATE FOREIGN TABLE source (k bigint, v one) SERVER files "
        "OPTIONS (program 'cat rows', format 'binary'); SET LOCAL plan_cache_mode = "
        "force_generic_plan; PREPARE p AS INSERT INTO w SELECT k, 0 FROM source; EXECUTE p"
    )
    change = (
        f"ALTER TYPE one ADD ATTRIBUTE y d; {rows.format('g, g')}; DELETE FROM w; DELETE FROM notes"
    )
    with fresh(connection, setup):
        assert judgement(connection, "EXECUTE p") == ELIGIBLE
    assert_left_and_counted(connection, f"{setup}; {change}", "EXECUTE p")


def test_a_plan_keeps_the_function_that_it_finds_partitions_by(connection: Connection) -> None:
    """Also when the operator's family has let go of it."""
    with fresh(connection, _NOTING + _DROP):
        assert judgement(connection, "EXECUTE p") == VOLATILE
    assert_counted(connection, _NOTING + _DROP, "EXECUTE p")


def test_that_function_can_become_volatile(connection: Connection) -> None:
    with fresh(connection, _CMP.format("IMMUTABLE", "")):
        assert judgement(connection, "EXECUTE p") == ELIGIBLE
        connection.execute(f"ALTER FUNCTION cmp(bigint, numeric) VOLATILE; {_DROP}")
        assert judgement(connection, "EXECUTE p") == VOLATILE


@pytest.mark.parametrize("condition", ["k = g", "k = g OR k = g + 1"])
def test_partitions_found_by_core_stop_nothing(connection: Connection, condition: str) -> None:
    setup = (
        "CREATE TABLE source (k bigint) PARTITION BY RANGE (k); "
        "CREATE TABLE s1 PARTITION OF source FOR VALUES FROM (0) TO (25); "
        "CREATE TABLE s2 PARTITION OF source FOR VALUES FROM (25) TO (99)"
    )
    sql = f"INSERT INTO w SELECT g, (SELECT count(*) FROM source WHERE {condition}) {_FROM}"
    with fresh(connection, setup):
        assert judgement(connection, sql) == ELIGIBLE
    assert outcome(connection, setup, sql, DEFAULT) == outcome(connection, setup, sql, STOCK)
