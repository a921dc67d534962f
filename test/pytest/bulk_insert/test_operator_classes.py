"""Functions that core calls for operator classes of users, and that no insert names."""

import pytest
from extension.probes import Connection, scalar

from bulk_insert.arms import DEFAULT, EXTENTS, ONE_PAGE, STOCK, Counters
from bulk_insert.copying import Case, copy, make
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
_PAIRS = "FROM (VALUES (g), (g + 1)) v (x)"
_ARRAY = ", ".join(map(str, range(1, 13)))
_ROWS = ", ".join(f"({x}::bigint)" for x in range(1, 51))
_SOME_POINTS = ", ".join(f"point({x}, 1)" for x in range(12))

# Operators of core's functions, in classes whose own functions note how many rows they see.
_ORDERED = (
    "CREATE FUNCTION ordered({0}, {0}) RETURNS int VOLATILE LANGUAGE plpgsql AS "
    "'BEGIN PERFORM passes($1); RETURN sign({1}); END'; "
)
_HASHED = (
    "CREATE FUNCTION hashed({0}) RETURNS int VOLATILE STRICT LANGUAGE plpgsql AS "
    "'BEGIN PERFORM passes($1); RETURN 1; END'; "
)
_SORT = (
    _ORDERED.format("bigint", "$1 - $2")
    + "CREATE OPERATOR <<< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = int8lt); "
    "CREATE OPERATOR CLASS sorts FOR TYPE bigint USING btree AS OPERATOR 1 <<<, OPERATOR 2 <=, "
    "OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 ordered(bigint, bigint); "
)
_HASH = (
    _HASHED.format("bigint")
    + "CREATE OPERATOR === (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = int8eq, "
    "COMMUTATOR = ===, HASHES); "
    "CREATE OPERATOR CLASS hashes FOR TYPE bigint USING hash AS OPERATOR 1 ===, "
    "FUNCTION 1 hashed(bigint); "
)
_POINTS = (
    _ORDERED.format("point", "$1[0] - $2[0]")
    + "CREATE FUNCTION lower(point, point) RETURNS boolean IMMUTABLE LANGUAGE sql AS "
    "'SELECT $1[0] < $2[0]'; "
    "CREATE OPERATOR <<< (LEFTARG = point, RIGHTARG = point, FUNCTION = lower); "
    "CREATE OPERATOR CLASS points DEFAULT FOR TYPE point USING btree AS OPERATOR 1 <<<, "
    "OPERATOR 3 ~=, FUNCTION 1 ordered(point, point); "
)
_HASHED_POINTS = (
    _HASHED.format("point") + "CREATE OPERATOR CLASS points DEFAULT FOR TYPE point USING hash AS "
    "OPERATOR 1 ~=, FUNCTION 1 hashed(point); "
)
_SOURCE = f"CREATE TABLE source AS SELECT g AS k {_FROM}; "
# Nothing is found while an index is built.
_INDEXED = (
    "CREATE TABLE source (k bigint); CREATE INDEX ON source (k sorts); "
    f"INSERT INTO source SELECT g {_FROM}; SET LOCAL enable_seqscan = off; "
    "SET LOCAL enable_bitmapscan = off; "
)
_ONLY = "SET LOCAL enable_nestloop = {}; SET LOCAL enable_hashjoin = {}; SET LOCAL enable_sort = {}"
_OF_USER = (
    "CREATE TYPE one AS (a bigint); "
    + _ORDERED.format("one", "($1).a - ($2).a")
    + "CREATE FUNCTION lower(one, one) RETURNS boolean IMMUTABLE LANGUAGE sql AS "
    "'SELECT ($1).a < ($2).a'; "
    "CREATE FUNCTION same(one, one) RETURNS boolean IMMUTABLE LANGUAGE sql AS "
    "'SELECT ($1).a = ($2).a'; "
    "CREATE OPERATOR <<< (LEFTARG = one, RIGHTARG = one, FUNCTION = lower); "
    "CREATE OPERATOR === (LEFTARG = one, RIGHTARG = one, FUNCTION = same); "
    "CREATE OPERATOR CLASS ones FOR TYPE one USING btree AS OPERATOR 1 <<<, OPERATOR 3 ===, "
    "FUNCTION 1 ordered(one, one)"
)
_NUMBER = (
    "CREATE TYPE {0}; CREATE FUNCTION {0}_in(cstring) RETURNS {0} IMMUTABLE STRICT "
    "LANGUAGE internal AS 'int8in'; CREATE FUNCTION {0}_out({0}) RETURNS cstring IMMUTABLE STRICT "
    "LANGUAGE internal AS 'int8out'; "
    "CREATE TYPE {0} (INPUT = {0}_in, OUTPUT = {0}_out, LIKE = bigint); "
)
# Of values that are taken for those of another type; the class need not be its default.
_OTHER = (
    _NUMBER.format("other")
    + _ORDERED.format("other", "$1::text::bigint - $2::text::bigint")
    + "CREATE FUNCTION compared(other, other) RETURNS boolean IMMUTABLE LANGUAGE internal AS "
    "'int8lt'; CREATE FUNCTION same(other, other) RETURNS boolean IMMUTABLE LANGUAGE internal AS "
    "'int8eq'; CREATE OPERATOR <<< (LEFTARG = other, RIGHTARG = other, FUNCTION = compared); "
    "CREATE OPERATOR === (LEFTARG = other, RIGHTARG = other, FUNCTION = same); "
    "CREATE OPERATOR CLASS others {} FOR TYPE other USING btree AS OPERATOR 1 <<<, "
    "OPERATOR 3 ===, FUNCTION 1 ordered(other, other); "
    "CREATE CAST ({} AS other) WITHOUT FUNCTION AS IMPLICIT"
)
_OF_PAGES = (
    "CREATE FUNCTION lower(bigint, bigint) RETURNS boolean VOLATILE LANGUAGE plpgsql AS "
    "'BEGIN RETURN passes($1) AND $1 < $2; END'; "
    "CREATE OPERATOR <<< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = lower); "
    "CREATE OPERATOR CLASS sums FOR TYPE bigint USING {0} AS OPERATOR 1 <<<, OPERATOR 2 <=, "
    "OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 brin_minmax_opcinfo(internal), "
    "FUNCTION 2 brin_minmax_add_value(internal, internal, internal, internal), "
    "FUNCTION 3 brin_minmax_consistent(internal, internal, internal), "
    "FUNCTION 4 brin_minmax_union(internal, internal, internal); "
    "INSERT INTO w VALUES (0, 0); CREATE INDEX ON w USING {0} (k sums); DELETE FROM w"
)
_GIN = (
    "CREATE OPERATOR CLASS parted FOR TYPE text[] USING gin AS OPERATOR 1 && (anyarray, anyarray), "
    "{0} FUNCTION 2 ginarrayextract(anyarray, internal, internal), FUNCTION 3 ginqueryarrayextract("
    "anyarray, internal, smallint, internal, internal, internal, internal), "
    "FUNCTION 4 ginarrayconsistent(internal, smallint, anyarray, integer, internal, internal, "
    "internal, internal), STORAGE {1}; "
    "DROP TABLE w; CREATE TABLE w (k text[], seen bigint); CREATE INDEX ON w USING gin (k parted)"
)
_KEYS = (
    "CREATE TYPE word; CREATE FUNCTION word_in(cstring) RETURNS word IMMUTABLE STRICT "
    "LANGUAGE internal AS 'textin'; CREATE FUNCTION word_out(word) RETURNS cstring IMMUTABLE "
    "STRICT LANGUAGE internal AS 'textout'; "
    "CREATE TYPE word (INPUT = word_in, OUTPUT = word_out, LIKE = text); "
    + _ORDERED.format("word", "length($1::text) - length($2::text)")
    + "CREATE FUNCTION lower(word, word) RETURNS boolean IMMUTABLE LANGUAGE internal AS 'text_lt'; "
    "CREATE OPERATOR <<< (LEFTARG = word, RIGHTARG = word, FUNCTION = lower); "
    "CREATE OPERATOR CLASS words DEFAULT FOR TYPE word USING btree AS OPERATOR 1 <<<, "
    "FUNCTION 1 ordered(word, word); " + _GIN.format("", "word")
)
_TEXTS = _ORDERED.format("text", "length($1) - length($2)") + _GIN.format(
    "FUNCTION 1 ordered(text, text),", "text"
)

_CASES = {
    "ORDER BY": (_SORT, f"{_INSERT} g, (SELECT x {_PAIRS} ORDER BY x USING <<< LIMIT 1) {_FROM}"),
    "ORDER BY of an aggregate": (
        _SORT,
        f"{_INSERT} g, (SELECT sum(x ORDER BY x USING <<<) {_PAIRS}) {_FROM}",
    ),
    "window": (
        _SORT,
        f"{_INSERT} g, (SELECT max(n) FROM (SELECT rank() OVER (ORDER BY x USING <<<) AS n "
        f"{_PAIRS}) r) {_FROM}",
    ),
    "comparison of rows": (_SORT, f"{_INSERT} g, (ROW(g, 1) <<< ROW(g + 1, 2))::int {_FROM}"),
    "look into an index by core's operator": (
        _SORT + _INDEXED,
        f"{_INSERT} g, (SELECT k FROM source WHERE k = g) {_FROM}",
    ),
    "merge join by core's operator": (
        _SORT + _INDEXED + _ONLY.format("off", "off", "off"),
        f"{_INSERT} a.k, b.k FROM source a JOIN source b ON a.k = b.k",
    ),
    "hashed query": (
        _HASH,
        f"{_INSERT} g, (g === ANY (SELECT generate_series(1::bigint, 9)))::int {_FROM}",
    ),
    "hashed array": (_HASH, f"{_INSERT} g, (g === ANY ('{{{_ARRAY}}}'))::int {_FROM}"),
    "hash join": (
        f"{_HASH} {_SOURCE} {_ONLY.format('off', 'on', 'on')}",
        f"{_INSERT} g, k {_FROM} JOIN source ON k === g",
    ),
    "hashed array by core's operator": (
        _HASHED_POINTS,
        f"{_INSERT} g, (point(g, 1) ~= ANY (ARRAY[{_SOME_POINTS}]))::int {_FROM}",
    ),
    "DISTINCT": (
        _HASHED_POINTS,
        f"{_INSERT} g, (SELECT count(*) FROM (SELECT DISTINCT point(x, 1) {_PAIRS}) d) {_FROM}",
    ),
    "greatest": (_POINTS, f"{_INSERT} (greatest(point(g, 1), point(-g, 1)))[0] {_FROM}"),
    "comparison of arrays": (
        _POINTS,
        f"{_INSERT} g, (ARRAY[point(g, 1)] < ARRAY[point(g, 2)])::int {_FROM}",
    ),
    "family of core": (
        _HASHED.format("numeric")
        + "CREATE FUNCTION same(numeric, bigint) RETURNS boolean IMMUTABLE LANGUAGE sql AS "
        "'SELECT $1 = $2'; CREATE OPERATOR === (LEFTARG = numeric, RIGHTARG = bigint, "
        "FUNCTION = same, HASHES); ALTER OPERATOR FAMILY integer_ops USING hash ADD "
        "OPERATOR 1 === (numeric, bigint), OPERATOR 1 = (numeric, numeric), "
        "FUNCTION 1 (numeric, numeric) hashed(numeric)",
        f"{_INSERT} g, (g::numeric === ANY (SELECT generate_series(1::bigint, 9)))::int {_FROM}",
    ),
    "type of a user": (
        _OF_USER,
        f"{_INSERT} g, (SELECT (x).a FROM (VALUES (ROW(g)::one), (ROW(g + 1)::one)) v (x) "
        f"ORDER BY x USING <<< LIMIT 1) {_FROM}",
    ),
    "class of another type": (
        _NUMBER.format("mine") + _OTHER.format("DEFAULT", "mine"),
        f"{_INSERT} greatest(g::text::mine, (g - 1)::text::mine)::text::bigint {_FROM}",
    ),
    "class of a type that does not come up": (
        _OTHER.format("", "bigint"),
        f"{_INSERT} g, (SELECT x {_PAIRS} ORDER BY x USING <<< LIMIT 1) {_FROM}",
    ),
    "column of an index that the query does not name": (
        f"{_OF_USER}; CREATE TABLE source (a one, b bigint); "
        "CREATE INDEX ON source (a ones, b); INSERT INTO source "
        "SELECT ROW(x % 3)::one, x FROM generate_series(1, 300) x; "
        "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off",
        f"{_INSERT} g, (SELECT count(*) FROM source WHERE b = g) {_FROM}",
    ),
    "keys of an index": (_KEYS, f"{_INSERT} ARRAY[g::text, 'x'] {_FROM}"),
    "function of GIN that SQL can call": (_TEXTS, f"{_INSERT} ARRAY[g::text, 'x'] {_FROM}"),
    "negator of core's operator": (
        "CREATE FUNCTION lacks(anyarray, anyarray) RETURNS boolean VOLATILE LANGUAGE plpgsql AS "
        "'BEGIN PERFORM passes($1); RETURN true; END'; CREATE OPERATOR !@> (LEFTARG = anyarray, "
        "RIGHTARG = anyarray, FUNCTION = lacks, NEGATOR = @>)",
        f"{_INSERT} g, (NOT (ARRAY[g] @> ARRAY[7::bigint]))::int {_FROM}",
    ),
    "bounds of a partition": (
        "CREATE FUNCTION part(bigint, bigint) RETURNS bigint VOLATILE LANGUAGE plpgsql AS "
        "'BEGIN PERFORM passes($1); RETURN 1; END'; "
        "CREATE OPERATOR CLASS parts FOR TYPE bigint USING hash AS OPERATOR 1 =, "
        "FUNCTION 2 part(bigint, bigint); "
        "CREATE TABLE p (k bigint, seen bigint) PARTITION BY HASH (k parts); "
        "ALTER TABLE p ATTACH PARTITION w FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
        f"{_INSERT} g {_FROM}",
    ),
    "summary of the table's pages": (_OF_PAGES.format("brin"), f"{_INSERT} g {_FROM}"),
}
# BRIN by other names.
_OTHER_METHODS = {
    "method": "CREATE ACCESS METHOD brin2 TYPE INDEX HANDLER brinhandler; ",
    "handler": "CREATE FUNCTION brins(internal) RETURNS index_am_handler LANGUAGE internal AS "
    "'brinhandler'; CREATE ACCESS METHOD brin2 TYPE INDEX HANDLER brins; ",
}
_LOOKING = _HASH.replace("passes($1)", "count(*) FROM t")
_IMMUTABLE = "ALTER FUNCTION hashed(bigint) IMMUTABLE; "
_OF_ARRAY = "k === ANY ('{" + _ARRAY + "}')"

_HARMLESS = {
    "immutable functions": (
        f"{_HASH} CREATE OR REPLACE FUNCTION hashed(bigint) RETURNS int IMMUTABLE STRICT "
        "LANGUAGE internal AS 'hashint8'",
        _CASES["hashed array"][1],
    ),
    "class whose btree has no equality": (
        _POINTS.replace("VOLATILE", "IMMUTABLE")
        .replace("PERFORM passes($1);", "")
        .replace(", OPERATOR 3 ~=", ""),
        _CASES["greatest"][1],
    ),
    "operators of GiST that nobody names": (
        "CREATE FUNCTION near(text, text) RETURNS boolean STABLE LANGUAGE sql AS 'SELECT true'; "
        "CREATE OPERATOR ~~~~ (LEFTARG = text, RIGHTARG = text, FUNCTION = near); "
        "CREATE OPERATOR FAMILY texts USING gist; "
        "ALTER OPERATOR FAMILY texts USING gist ADD OPERATOR 1 ~~~~ (text, text)",
        f"{_INSERT} g {_FROM}",
    ),
    "functions of an index that are in C": (
        "CREATE FUNCTION parts(anyarray, internal, internal) RETURNS internal VOLATILE STRICT "
        "LANGUAGE internal AS 'ginarrayextract'; CREATE OPERATOR CLASS parted FOR TYPE text[] "
        "USING gin AS OPERATOR 1 && (anyarray, anyarray), "
        "FUNCTION 2 parts(anyarray, internal, internal), STORAGE text",
        f"{_INSERT} g {_FROM}",
    ),
}


@pytest.mark.parametrize(("setup", "sql"), _CASES.values(), ids=_CASES)
def test_each_row_sees_those_before(connection: Connection, setup: str, sql: str) -> None:
    assert_left_and_counted(connection, setup, sql)


@pytest.mark.parametrize("making", _OTHER_METHODS.values(), ids=_OTHER_METHODS)
def test_methods_of_other_names(connection: Connection, making: str) -> None:
    """A server with assertions refuses such an index."""
    setup = making + _OF_PAGES.format("brin2")
    sql = f"{_INSERT} g {_FROM}"
    with fresh(connection, setup[: setup.index("INSERT INTO w")]):
        assert judgement(connection, sql) == VOLATILE
    if scalar(connection, "SHOW debug_assertions") == "off":
        assert_counted(connection, setup, sql)


@pytest.mark.parametrize(("setup", "sql"), _HARMLESS.values(), ids=_HARMLESS)
def test_others_stop_nothing(connection: Connection, setup: str, sql: str) -> None:
    with fresh(connection, setup):
        assert judgement(connection, sql) == ELIGIBLE
    assert outcome(connection, setup, sql, ONE_PAGE) == outcome(connection, setup, sql, STOCK)


def test_extensions_of_postgresql_stop_nothing(connection: Connection) -> None:
    names = "btree_gin btree_gist bloom citext cube hstore intarray isn ltree pg_trgm seg"
    with fresh(connection, "; ".join(f"CREATE EXTENSION {name}" for name in names.split())):
        sql = f"CREATE TABLE made AS SELECT g {_FROM}"
        lines = connection.execute(f"EXPLAIN (LOOKAHEAD) {sql}").fetchall()
        assert lines[-1][0] == "Lookahead: eligible"


def test_a_plan_that_is_kept_notices_a_change(connection: Connection) -> None:
    generic = "SET LOCAL plan_cache_mode = force_generic_plan; PREPARE p AS"
    with fresh(connection, f"{_HASH} {_IMMUTABLE} {generic} {_CASES['hashed array'][1]}"):
        assert judgement(connection, "EXECUTE p") == ELIGIBLE
        connection.execute("ALTER FUNCTION hashed(bigint) VOLATILE")
        assert judgement(connection, "EXECUTE p") == VOLATILE


@pytest.mark.parametrize(
    "sql",
    [_CASES["hashed array"][1], f"{_INSERT} g {_FROM} WHERE g === ANY (VALUES {_ROWS})"],
    ids=["array", "VALUES"],
)
def test_a_plan_keeps_the_function_that_it_hashes_by(connection: Connection, sql: str) -> None:
    """Also when the operator's family has let go of it."""
    member = "ALTER OPERATOR FAMILY loose USING hash {} FUNCTION 1 (bigint, bigint)"
    setup = (
        f"{_HASH} DROP OPERATOR CLASS hashes USING hash; CREATE OPERATOR FAMILY loose USING hash; "
        "ALTER OPERATOR FAMILY loose USING hash ADD OPERATOR 1 === (bigint, bigint); "
        f"{member.format('ADD')} hashed(bigint); SET LOCAL plan_cache_mode = force_generic_plan; "
        f"PREPARE p AS {sql}; EXECUTE p; {member.format('DROP')}; DELETE FROM w"
    )
    with fresh(connection, setup):
        assert judgement(connection, "EXECUTE p") == VOLATILE
    assert_counted(connection, setup, "EXECUTE p")


def test_short_inserts_do_not_look_at_classes(connection: Connection) -> None:
    """What they cost is not much more than what PostgreSQL does."""
    with fresh(connection, _HASH, DEFAULT):
        before = Counters.of(connection).left.get("volatile function", 0)
        connection.execute(f"{_INSERT} g FROM generate_series(1, 32) g")
        assert Counters.of(connection).left.get("volatile function", 0) == before
        connection.execute(f"{_INSERT} g FROM generate_series(1, 33) g")
        assert Counters.of(connection).left["volatile function"] == before + 1


def test_new_tables_are_no_news_of_classes(connection: Connection) -> None:
    """Of which extensions bring hundreds of members, and programs a temporary table each time."""
    sql = f"{_INSERT} g {_FROM}"
    looks = "SELECT pg_stat_get_xact_numscans('pg_amop_oid_index'::regclass)"
    with fresh(connection, ""):
        assert judgement(connection, sql) == ELIGIBLE
        before = scalar(connection, looks)
        connection.execute("CREATE TEMP TABLE other (i int)")
        assert judgement(connection, sql) == ELIGIBLE
        assert scalar(connection, looks) == before
        connection.execute(_HASH)
        assert judgement(connection, sql) == VOLATILE


def test_classes_of_immutable_functions_stop_no_new_table(connection: Connection) -> None:
    with fresh(connection, _HASH + _IMMUTABLE):
        lines = connection.execute(f"EXPLAIN (LOOKAHEAD) CREATE TABLE made AS SELECT g {_FROM}")
        assert lines.fetchall()[-1][0] == "Lookahead: eligible"


@pytest.mark.parametrize(
    ("change", "reason"), [("", "volatile function"), (_IMMUTABLE, "function of a user")]
)
def test_new_tables(connection: Connection, change: str, reason: str) -> None:
    """An immutable function could look at the new table, too."""
    with fresh(connection, _HASH + change):
        sql = f"CREATE TABLE made AS SELECT {_OF_ARRAY.replace('k', 'g')} {_FROM}"
        lines = connection.execute(f"EXPLAIN (LOOKAHEAD) {sql}").fetchall()
        assert lines[-1][0] == f"Lookahead: stock ({reason})"


@pytest.mark.parametrize(
    "column",
    [f"CHECK ({_OF_ARRAY} OR k > 0)", f"GENERATED ALWAYS AS ({_OF_ARRAY}) STORED"],
    ids=["CHECK", "generated column"],
)
def test_copy(connection: Connection, column: str) -> None:
    case = Case(
        f"CREATE TABLE t (k bigint, s text); {_LOOKING}; ALTER TABLE t ADD c boolean {column}",
        target="t (k, s)",
    )
    make(connection, STOCK, case)
    stock = copy(connection, case)
    make(connection, EXTENTS, case)
    before = Counters.of(connection).left.get("volatile function", 0)
    assert copy(connection, case) == stock
    assert Counters.of(connection).left["volatile function"] == before + 1
