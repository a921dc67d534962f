"""Functions of operator classes and types that are taken by their word, or are not."""

import pytest
from extension.probes import Connection, need_extension, scalar
from psycopg.errors import InternalError_

from bulk_insert.arms import EXTENTS, ONE_PAGE, STOCK, Counters
from bulk_insert.copying import Case, copy, make
from bulk_insert.judging import ELIGIBLE, SERIES, VOLATILE, fresh, judgement, outcome

_SQL = f"INSERT INTO w SELECT g FROM {SERIES}"
_COMPARED = (
    "INSERT INTO w SELECT g, (SELECT count(*) FROM (VALUES ('a'), ('b')) v (x) WHERE x {} 'a') "
    f"FROM {SERIES}"
)
_C = "c AS '$libdir/citext', '{}'"
_TEXTS = (
    "CREATE FUNCTION compared(text, text) RETURNS int {0} STRICT LANGUAGE {1}; "
    "CREATE FUNCTION same(text, text) RETURNS boolean {2} STRICT LANGUAGE {3}; "
    "CREATE OPERATOR <<< (LEFTARG = text, RIGHTARG = text, FUNCTION = text_lt); "
    "CREATE OPERATOR === (LEFTARG = text, RIGHTARG = text, FUNCTION = same); "
    "CREATE OPERATOR CLASS texts FOR TYPE text USING btree AS OPERATOR 1 <<<, OPERATOR 3 ===, "
    "FUNCTION 1 compared(text, text)"
)
_COMPARE_IN_C = _C.format("citext_cmp")
_SAME_IN_C = _C.format("citext_eq")
_STABLE_IN_C = _TEXTS.format("STABLE", _COMPARE_IN_C, "STABLE", _SAME_IN_C)

_IN_DOUBT = {
    "volatile function in C": ("VOLATILE", _COMPARE_IN_C, "STABLE", _SAME_IN_C),
    "volatile operator in C": ("STABLE", _COMPARE_IN_C, "VOLATILE", _SAME_IN_C),
    "core's function": ("STABLE", "internal AS 'bttextcmp'", "STABLE", _SAME_IN_C),
    "core's operator": ("STABLE", _COMPARE_IN_C, "STABLE", "internal AS 'texteq'"),
    "procedural language": (
        "STABLE",
        "plpgsql AS 'BEGIN RETURN bttextcmp($1, $2); END'",
        "IMMUTABLE",
        _SAME_IN_C,
    ),
}

# A copy of text, as citext is one.
_WORD = (
    "CREATE TYPE word; CREATE FUNCTION word_in(cstring) RETURNS word IMMUTABLE STRICT "
    "LANGUAGE internal AS 'textin'; CREATE FUNCTION word_out(word) RETURNS cstring IMMUTABLE "
    "STRICT LANGUAGE internal AS 'textout'; "
    "CREATE FUNCTION word_receive(internal) RETURNS word STABLE STRICT LANGUAGE internal AS "
    "'textrecv'; CREATE FUNCTION word_send(word) RETURNS bytea STABLE STRICT LANGUAGE internal AS "
    "'textsend'; CREATE TYPE word (INPUT = word_in, OUTPUT = word_out, RECEIVE = word_receive, "
    "SEND = word_send, LIKE = text, CATEGORY = 'S')"
)
_WORDS = f"INSERT INTO w (k, e) SELECT g, ('x=>' || g)::{{}} FROM {SERIES}"
_CHANGES = {
    "volatile": "ALTER FUNCTION word_receive(internal) VOLATILE",
    "procedural language": (
        "CREATE FUNCTION sends(word) RETURNS bytea STABLE LANGUAGE plpgsql AS "
        "'BEGIN RETURN NULL; END'; ALTER TYPE word SET (SEND = sends)"
    ),
}

# Only what takes `internal`, so is in C, is as good as PostgreSQL's; not that of a btree.
_EXECUTED = "ANALYZE, LOOKAHEAD"
_GIST = (
    "CREATE EXTENSION btree_gist; ALTER FUNCTION "
    "gbt_int8_consistent(internal, bigint, smallint, oid, internal) VOLATILE; "
)
_SORTS = (
    "CREATE FUNCTION sorts(internal) RETURNS void STABLE LANGUAGE c AS '$libdir/btree_gist', "
    "'gbt_int8_sortsupport'; CREATE OPERATOR CLASS sorts FOR TYPE bigint USING btree AS "
    "OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, "
    "FUNCTION 1 btint8cmp(bigint, bigint), FUNCTION 2 sorts(internal)"
)
_INDEXES = {
    "function of the operator class": (
        f"{_STABLE_IN_C}; ALTER TABLE w ADD t text; CREATE INDEX ON w (t texts)"
    ),
    "function that takes internal": f"{_SORTS}; CREATE INDEX ON w (k sorts)",
}

# Its function inserts into the table that is being filled.
_LYING = (
    "CREATE FUNCTION extend() RETURNS void VOLATILE LANGUAGE sql AS "
    "'INSERT INTO w SELECT -x FROM generate_series(1, 3000) x'; "
    "CREATE FUNCTION ordered(bigint, bigint) RETURNS int IMMUTABLE LANGUAGE plpgsql AS "
    "'BEGIN IF $1 = 5000 THEN PERFORM extend(); END IF; RETURN sign($1 - $2); END'; "
    "CREATE OPERATOR <<< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = int8lt); "
    "CREATE OPERATOR CLASS sorts FOR TYPE bigint USING btree AS OPERATOR 1 <<<, "
    "OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, "
    "FUNCTION 1 ordered(bigint, bigint); TRUNCATE w"
)


def test_stable_functions_in_c_stop_nothing(connection: Connection) -> None:
    """Whole access methods, such as RUM, have operators of this sort."""
    sql = _COMPARED.format("<<<")
    with fresh(connection, _STABLE_IN_C):
        assert judgement(connection, sql) == ELIGIBLE
    stock = outcome(connection, _STABLE_IN_C, sql, STOCK)
    assert outcome(connection, _STABLE_IN_C, sql, ONE_PAGE) == stock


def test_they_count_where_the_query_names_them(connection: Connection) -> None:
    with fresh(connection, _STABLE_IN_C):
        assert judgement(connection, _COMPARED.format("===")) == VOLATILE


@pytest.mark.parametrize("functions", _IN_DOUBT.values(), ids=_IN_DOUBT)
def test_others_are_in_doubt(connection: Connection, functions: tuple[str, ...]) -> None:
    with fresh(connection, _TEXTS.format(*functions)):
        assert judgement(connection, _SQL) == VOLATILE


@pytest.mark.parametrize("table", ["TABLE", "partitioned"])
def test_an_index_other_than_a_btree_stops_nothing(connection: Connection, table: str) -> None:
    """PostGIS and pgvector have most functions of such indexes volatile, as nothing was said."""
    with connection.transaction(force_rollback=True):
        need_extension(connection, "btree_gist")
    partitions = (
        "DROP TABLE w; CREATE TABLE w (k bigint, seen bigint) PARTITION BY RANGE (k); "
        "CREATE TABLE w1 PARTITION OF w DEFAULT; "
    )
    setup = f"{_GIST}{partitions if table == 'partitioned' else ''}CREATE INDEX ON w USING gist (k)"
    stock = outcome(connection, setup, _SQL, STOCK)
    assert outcome(connection, setup, _SQL, ONE_PAGE) == stock
    with fresh(connection, setup):
        assert judgement(connection, _SQL, _EXECUTED) == {"Status": "prefetch"}
        before = Counters.of(connection)
        connection.execute("COPY w (k) FROM PROGRAM 'seq 50'")
        after = Counters.of(connection)
        assert after.left == before.left
        assert after.rows == before.rows + 50


@pytest.mark.parametrize("setup", _INDEXES.values(), ids=_INDEXES)
def test_functions_of_a_btree_count(connection: Connection, setup: str) -> None:
    with connection.transaction(force_rollback=True):
        need_extension(connection, "btree_gist")
    with fresh(connection, setup):
        assert judgement(connection, _SQL, _EXECUTED) == VOLATILE


def _assert_collected(connection: Connection, setup: str, type_: str) -> None:
    sql = _WORDS.format(type_)
    with fresh(connection, setup):
        assert judgement(connection, sql) == ELIGIBLE
    assert outcome(connection, setup, sql, ONE_PAGE) == outcome(connection, setup, sql, STOCK)


def test_stable_functions_of_a_type_stop_nothing(connection: Connection) -> None:
    _assert_collected(connection, f"{_WORD}; ALTER TABLE w ADD e word", "word")


@pytest.mark.parametrize(
    ("name", "change"),
    [("citext", ""), ("hstore", "; ALTER FUNCTION hstore_in(cstring) STABLE")],
    ids=["citext", "in C"],
)
def test_nor_do_those_of_extensions(connection: Connection, name: str, change: str) -> None:
    with connection.transaction(force_rollback=True):
        need_extension(connection, name)
    _assert_collected(
        connection, f"CREATE EXTENSION {name}{change}; ALTER TABLE w ADD e {name}", name
    )


@pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES)
def test_a_type_can_become_doubtful(connection: Connection, change: str) -> None:
    with fresh(connection, f"{_WORD}; ALTER TABLE w ADD e word"):
        assert judgement(connection, _WORDS.format("word")) == ELIGIBLE
        connection.execute(change)
        assert judgement(connection, _WORDS.format("word")) == VOLATILE


def test_copy_into_a_column_of_such_a_type(connection: Connection) -> None:
    case = Case(f"{_WORD}; CREATE TABLE t (k bigint, s word)")
    make(connection, STOCK, case)
    stock = copy(connection, case)
    make(connection, EXTENTS, case)
    before = Counters.of(connection)
    assert copy(connection, case) == stock
    after = Counters.of(connection)
    assert after.left == before.left
    assert after.rows > before.rows


def test_a_function_that_lies_loses_no_rows(connection: Connection) -> None:
    """Of a file to which pages are being appended nothing is written over."""
    sql = (
        "INSERT INTO w SELECT g, (SELECT x FROM (VALUES (g), (g + 1)) v (x) "
        "ORDER BY x USING <<< LIMIT 1) FROM generate_series(1::bigint, 20000) g"
    )
    with fresh(connection, _LYING, STOCK):
        connection.execute(sql)
        assert scalar(connection, "SELECT count(*) FROM w WHERE k > 0") == 20000
        assert scalar(connection, "SELECT count(*) FROM w WHERE k < 0") > 0
    with (
        pytest.raises(InternalError_, match="was extended while pages were appended to it"),
        fresh(connection, _LYING, EXTENTS),
    ):
        connection.execute(sql)
