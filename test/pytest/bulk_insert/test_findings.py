"""What was found out about types and constraints is kept, until any of it changes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from bulk_insert.arms import DEFAULT, ONE_PAGE, STOCK, choose
from bulk_insert.judging import ELIGIBLE, SERIES, SETUP, VOLATILE, fresh, judgement

_PREFETCH = {"Status": "prefetch"}
_EXECUTED = "ANALYZE, LOOKAHEAD"
_CALM = (
    "CREATE FUNCTION calm(bigint) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS "
    "'BEGIN RETURN passes($1); END'"
)
_PASSING = "CREATE FUNCTION {} RETURNS {} {} LANGUAGE plpgsql AS 'BEGIN RETURN {}; END'"
_WORD = "CREATE TYPE word AS ENUM ('yes')"
_ORDER = "; ".join(
    (
        _WORD,
        _PASSING.format("less(word, word)", "boolean", "IMMUTABLE", "false"),
        _PASSING.format("equal(word, word)", "boolean", "IMMUTABLE", "true"),
        _PASSING.format("more(word, word)", "boolean", "", "passes(1)"),
        _PASSING.format("hash_of(word)", "int", "IMMUTABLE", "1"),
        _PASSING.format("hash_of(word, bigint)", "bigint", "", "f()"),
        _PASSING.format("order_of(word, word)", "int", "IMMUTABLE", "0"),
        "CREATE OPERATOR <<< (LEFTARG = word, RIGHTARG = word, FUNCTION = less)",
        "CREATE OPERATOR === (LEFTARG = word, RIGHTARG = word, FUNCTION = equal)",
        "CREATE OPERATOR >>> (LEFTARG = word, RIGHTARG = word, FUNCTION = more)",
    )
)
_SORTED = (
    "CREATE OPERATOR CLASS words DEFAULT FOR TYPE word USING btree AS "
    "OPERATOR 1 <<<, OPERATOR 3 ===, FUNCTION 1 order_of(word, word)"
)
_HASHED = (
    "CREATE OPERATOR CLASS words DEFAULT FOR TYPE word USING hash AS "
    "OPERATOR 1 <<<, FUNCTION 1 hash_of(word)"
)
_WORDS = "cardinality(enum_range(NULL::word)) + g - g"
_ROW = "(jsonb_populate_record(NULL::pairs, jsonb_build_object('a', g))).a"

# What there is, what is inserted, and what makes it call a volatile function.
_CHANGES = {
    "column of a row": (
        "CREATE TYPE pairs AS (a bigint)",
        _ROW,
        "ALTER TYPE pairs ADD ATTRIBUTE b d",
    ),
    "function of a type": (
        "CREATE TYPE mine; CREATE FUNCTION mine_in(cstring) RETURNS mine IMMUTABLE STRICT "
        "LANGUAGE internal AS 'int8in'; CREATE FUNCTION mine_out(mine) RETURNS cstring IMMUTABLE "
        "STRICT LANGUAGE internal AS 'int8out'; "
        "CREATE TYPE mine (INPUT = mine_in, OUTPUT = mine_out, LIKE = bigint); "
        f"{_PASSING.format('mine_send(mine)', 'bytea', '', 'int8send(f())')}",
        "g::text::mine",
        "ALTER TYPE mine SET (SEND = mine_send)",
    ),
    "cast": (
        f"{_WORD}; {_PASSING.format('json_of(word)', 'json', '', 'to_json(f())')}",
        _WORDS,
        "CREATE CAST (word AS json) WITH FUNCTION json_of(word)",
    ),
    "operator class": (
        f"{_ORDER}; ALTER FUNCTION hash_of(word) VOLATILE",
        _WORDS,
        _HASHED,
    ),
    "operator of a class": (
        f"{_ORDER}; {_SORTED}",
        _WORDS,
        "ALTER OPERATOR FAMILY words USING btree ADD OPERATOR 5 >>> (word, word)",
    ),
    "function of a class": (
        f"{_ORDER}; {_HASHED}",
        _WORDS,
        "ALTER OPERATOR FAMILY words USING hash ADD FUNCTION 2 (word, word) hash_of(word, bigint)",
    ),
}
_each_change = pytest.mark.parametrize(
    ("setup", "value", "change"), _CHANGES.values(), ids=_CHANGES
)


def _insert(value: str) -> str:
    return f"INSERT INTO w SELECT g, 1 FROM {SERIES} WHERE {value} IS NOT NULL"


@_each_change
def test_a_change_is_noticed(connection: Connection, setup: str, value: str, change: str) -> None:
    """Its end, too, when it is taken back."""
    sql = _insert(value)
    with fresh(connection, setup):
        for _ in range(2):
            assert judgement(connection, sql) == ELIGIBLE
            with connection.transaction(force_rollback=True):
                connection.execute(change)
                assert judgement(connection, sql) == VOLATILE
                assert judgement(connection, sql) == VOLATILE
        assert judgement(connection, sql) == ELIGIBLE


@contextmanager
def _committed(server: WatchedServer, setup: str) -> Iterator[Connection]:
    """The tables and functions in a schema of their own, and a session that changes them."""
    with server.connect() as session:
        session.execute("CREATE SCHEMA shared; SET search_path = shared")
        session.execute(f"{SETUP}; {setup}")
        try:
            yield session
        finally:
            session.execute("DROP SCHEMA shared CASCADE")


@_each_change
def test_a_change_by_another_session_is_noticed(
    server: WatchedServer, setup: str, value: str, change: str
) -> None:
    """By a session that asks for no lock that it has not had, too."""
    sql = _insert(value)
    with _committed(server, setup) as other, server.connect() as session:
        session.execute("SET search_path = shared")
        choose(session, ONE_PAGE)
        with session.transaction(force_rollback=True):
            for _ in range(2):
                assert judgement(session, sql) == ELIGIBLE
            other.execute(change)
            assert judgement(session, sql) == VOLATILE


def test_a_plan_that_is_kept_hears_of_another_session(server: WatchedServer) -> None:
    """It has all of its locks from when it was executed first."""
    with _committed(server, _CALM) as other, server.connect() as session:
        session.execute("SET search_path = shared")
        choose(session, ONE_PAGE)
        session.execute(f"PREPARE p AS {_insert('calm(g)')}")
        with session.transaction(force_rollback=True):
            for _ in range(2):
                assert judgement(session, "EXECUTE p") == ELIGIBLE
            other.execute("ALTER FUNCTION calm VOLATILE")
            assert judgement(session, "EXECUTE p") == VOLATILE


def test_a_kept_plan_hears_of_a_check_of_its_table(server: WatchedServer) -> None:
    checked = f"{_CALM}; ALTER TABLE w ADD CHECK (calm(k))"
    with _committed(server, checked) as other, server.connect() as session:
        session.execute("SET search_path = shared")
        choose(session, ONE_PAGE)
        session.execute(f"PREPARE p AS {_insert('g')}")
        with session.transaction(force_rollback=True):
            for _ in range(2):
                assert judgement(session, "EXECUTE p", _EXECUTED) == _PREFETCH
            other.execute("ALTER FUNCTION calm VOLATILE")
            assert judgement(session, "EXECUTE p", _EXECUTED) == VOLATILE


_TRIGGER = (
    "CREATE OR REPLACE TRIGGER t AFTER INSERT ON w FOR EACH ROW WHEN ({}) "
    "EXECUTE FUNCTION nothing()"
)
# What a table has evaluated for a row, and what makes that call a volatile function.
_OF_TABLES = {
    "function of a CHECK": (
        f"{_CALM}; ALTER TABLE w ADD CHECK (calm(k))",
        "ALTER FUNCTION calm VOLATILE",
    ),
    "another function in its place": (
        f"{_CALM}; ALTER TABLE w ADD CHECK (calm(k))",
        _CALM.replace("CREATE", "CREATE OR REPLACE").replace("IMMUTABLE", "VOLATILE"),
    ),
    "another CHECK in its place": (
        "ALTER TABLE w ADD CONSTRAINT a CHECK (k > 0)",
        "ALTER TABLE w DROP CONSTRAINT a, ADD CONSTRAINT a CHECK (passes(k))",
    ),
    "operator that says the same": (
        f"{_PASSING.format('same(bigint, bigint)', 'boolean', 'IMMUTABLE', 'true')}; "
        f"{_PASSING.format('noting(bigint, bigint)', 'boolean', '', 'passes($1)')}; "
        "CREATE OPERATOR ### (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = same); "
        "ALTER TABLE w ADD CHECK (k ### 1)",
        "CREATE OPERATOR @@@ (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = noting, "
        "COMMUTATOR = ###)",
    ),
    "function of a generated column": (
        f"{_CALM}; ALTER TABLE w ADD a boolean GENERATED ALWAYS AS (calm(k)) STORED",
        "ALTER FUNCTION calm VOLATILE",
    ),
    "function of the condition of a trigger": (
        f"{_CALM}; {_TRIGGER.format('calm(NEW.k)')}",
        "ALTER FUNCTION calm VOLATILE",
    ),
    "another condition of a trigger": (
        _TRIGGER.format("NEW.k > 0"),
        _TRIGGER.format("passes(NEW.k)"),
    ),
    "condition of another trigger": (
        _TRIGGER.format("NEW.k > 0"),
        _TRIGGER.format("passes(NEW.k)").replace("TRIGGER t", "TRIGGER u"),
    ),
}


def _of_table(connection: Connection) -> dict[str, Any]:
    return judgement(connection, _insert("g"), _EXECUTED)


@pytest.mark.parametrize(("setup", "change"), _OF_TABLES.values(), ids=_OF_TABLES)
def test_a_change_of_a_table_is_noticed(connection: Connection, setup: str, change: str) -> None:
    making = (
        "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
    )
    with fresh(connection, f"{making}; {setup}"):
        for _ in range(2):
            assert _of_table(connection) == _PREFETCH
            with connection.transaction(force_rollback=True):
                connection.execute(change)
                assert _of_table(connection) == VOLATILE
                assert _of_table(connection) == VOLATILE
        assert _of_table(connection) == _PREFETCH


def test_what_goes_is_noticed(connection: Connection) -> None:
    """A domain is in doubt whatever becomes of it; what comes in its place is looked at."""
    with fresh(connection, "CREATE DOMAIN dd AS bigint; ALTER TABLE w ADD CHECK (k::dd > 0)"):
        for change in ("ADD CHECK (VALUE > 0)", "DROP CONSTRAINT dd_check"):
            assert _of_table(connection) == VOLATILE
            connection.execute(f"ALTER DOMAIN dd {change}")
        assert _of_table(connection) == VOLATILE
        connection.execute("DROP DOMAIN dd CASCADE")
        assert _of_table(connection) == _PREFETCH
        for making, found in ((_CALM, _PREFETCH), (_CALM.replace("IMMUTABLE", ""), VOLATILE)):
            connection.execute(f"{making}; ALTER TABLE w ADD CHECK (calm(k))")
            assert _of_table(connection) == found
            connection.execute("DROP FUNCTION calm CASCADE")
            assert _of_table(connection) == _PREFETCH


def test_a_judgement_is_not_kept_while_caches_are_discarded(connection: Connection) -> None:
    assertions = scalar(
        connection, "SELECT setting FROM pg_settings WHERE name = 'debug_assertions'"
    )
    if assertions != "on":
        pytest.skip("a build without assertions keeps its caches")
    sql = "INSERT INTO w VALUES (1, 1), (2, 1)"
    with fresh(connection, f"{_CALM}; ALTER TABLE w ADD CHECK (calm(k)), ADD CHECK (k > 0)"):
        connection.execute("SET LOCAL debug_discard_caches = 1")
        assert judgement(connection, sql, _EXECUTED) == _PREFETCH
        connection.execute("ALTER FUNCTION calm VOLATILE")
        assert judgement(connection, sql, _EXECUTED) == VOLATILE


def _planning_hits(connection: Connection, sql: str) -> int:
    document = scalar(connection, f"EXPLAIN (BUFFERS, FORMAT JSON) {sql}")
    return int(document[0].get("Planning", {}).get("Shared Hit Blocks", 0))


def test_catalogs_are_read_once(connection: Connection) -> None:
    with fresh(connection, f"{_WORD}; CREATE TYPE pairs AS (a bigint, b word)"):
        sql = _insert(_ROW)
        for arm in (STOCK, DEFAULT):
            choose(connection, arm)
            _planning_hits(connection, sql)
            hits = _planning_hits(connection, sql)
            assert hits == 0
            assert judgement(connection, sql) == ({} if arm is STOCK else ELIGIBLE)
