"""What was found out about an insert stays with its plan, and goes when the plan does."""

import pytest
from extension.probes import Connection, scalar

from bulk_insert.arms import ONE_PAGE, STOCK, Counters, choose
from bulk_insert.judging import (
    ELIGIBLE,
    ROWS,
    SERIES,
    VOLATILE,
    assert_counted,
    fresh,
    judgement,
    outcome,
)

_PREPARED = "SET LOCAL plan_cache_mode = force_generic_plan; PREPARE p AS"
_INSERT = "INSERT INTO w SELECT g, {} FROM generate_series(1::bigint, 50) g"
_CALM = """
    CREATE FUNCTION calm(bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS
        'BEGIN RETURN f(); END';
    CREATE FUNCTION calm(bigint, bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS
        'BEGIN RETURN f(); END';
    CREATE FUNCTION simple(bigint) RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 1';
    CREATE OPERATOR ### (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = calm);
    CREATE TYPE record_of AS (a bigint);
    CREATE VIEW v AS SELECT 1 AS x;
"""

# A statement that inserts, with {} for what each row has; and what prepares that.
_WAYS = {
    "SQL function": (
        "CREATE FUNCTION fill() RETURNS void VOLATILE LANGUAGE sql AS "
        f"'INSERT INTO w SELECT g, {{}} FROM {SERIES}'",
        "SELECT fill()",
    ),
    "SQL function with a body": (
        "CREATE FUNCTION fill(n bigint) RETURNS void VOLATILE LANGUAGE sql BEGIN ATOMIC "
        "INSERT INTO w SELECT g, {} FROM generate_series(1, n) g; END",
        f"SELECT fill({ROWS})",
    ),
    "PL/pgSQL": (
        "CREATE FUNCTION fill(n bigint) RETURNS void LANGUAGE plpgsql AS "
        "'BEGIN INSERT INTO w SELECT g, {} FROM generate_series(1, n) g; END'",
        f"SELECT fill({ROWS})",
    ),
    "DO": ("", f"DO $$ BEGIN INSERT INTO w SELECT g, {{}} FROM {SERIES}; END $$"),
    "rule beside it": (
        "CREATE TABLE x (k bigint); CREATE RULE r AS ON INSERT TO x DO ALSO "
        "INSERT INTO w SELECT g, {} FROM generate_series(NEW.k, NEW.k + 49) g",
        "INSERT INTO x VALUES (1)",
    ),
    "rule instead of it": (
        "CREATE TABLE x (g bigint); CREATE RULE r AS ON INSERT TO x DO INSTEAD "
        "INSERT INTO w SELECT s.g, s.f FROM (SELECT NEW.g, {} AS f FROM (SELECT NEW.g) g) s",
        f"INSERT INTO x SELECT * FROM {SERIES}",
    ),
    "view of the table": (
        "CREATE VIEW x AS TABLE w",
        f"INSERT INTO x SELECT g, {{}} FROM {SERIES}",
    ),
    "prepared": (f"{_PREPARED} INSERT INTO w SELECT g, {{}} FROM {SERIES}", "EXECUTE p"),
    "prepared with parameters": (
        f"{_PREPARED} INSERT INTO w SELECT g, {{}} FROM generate_series($1::bigint, $2) g",
        f"EXECUTE p(1, {ROWS})",
    ),
}


def _of_each_row(way: tuple[str, str], value: str) -> tuple[str, str]:
    setup, sql = way
    return setup.replace("{}", value), sql.replace("{}", value)


@pytest.mark.parametrize("way", _WAYS.values(), ids=_WAYS)
def test_each_row_sees_those_before(connection: Connection, way: tuple[str, str]) -> None:
    assert_counted(connection, *_of_each_row(way, "f()"))


@pytest.mark.parametrize("way", _WAYS.values(), ids=_WAYS)
def test_others_are_collected(connection: Connection, way: tuple[str, str]) -> None:
    setup, sql = _of_each_row(way, "2")
    before = Counters.of(connection)
    ours = outcome(connection, setup, sql, ONE_PAGE)
    assert Counters.of(connection).rows == before.rows + ROWS
    assert ours == outcome(connection, setup, sql, STOCK)


_FROM_JSON = "(jsonb_populate_record(NULL::record_of, jsonb_build_object('a', g))).a"
# What is inserted, and what makes it call a volatile function.
_CHANGES = {
    "function": ("calm(g)", "ALTER FUNCTION calm(bigint) VOLATILE"),
    "function in a sub-select": ("(SELECT calm(g))", "ALTER FUNCTION calm(bigint) VOLATILE"),
    "inlined function": ("simple(g)", "ALTER FUNCTION simple(bigint) VOLATILE"),
    "operator": ("g ### g", "ALTER FUNCTION calm(bigint, bigint) VOLATILE"),
    "column out of sight": (_FROM_JSON, "ALTER TYPE record_of ADD ATTRIBUTE b d"),
    "view": (
        "(SELECT count(*) FROM v WHERE x < g)",
        "CREATE OR REPLACE VIEW v AS SELECT 1 AS x WHERE passes(1)",
    ),
}


@pytest.mark.parametrize(("value", "change"), _CHANGES.values(), ids=_CHANGES)
def test_a_change_is_noticed_by_prepared_plans(
    connection: Connection, value: str, change: str
) -> None:
    setup = f"{_CALM}; {_PREPARED} {_INSERT.format(value)}"
    with fresh(connection, setup):
        assert judgement(connection, "EXECUTE p") == ELIGIBLE
        connection.execute(change)
        assert judgement(connection, "EXECUTE p") == VOLATILE


# What a trigger of the statement changes.
_BEGUN = {
    "function": ("seen_by(g)", "ALTER FUNCTION seen_by(anyelement) VOLATILE"),
    "type": (_FROM_JSON, "ALTER TYPE record_of ADD ATTRIBUTE b d"),
}


@pytest.mark.parametrize(("value", "change"), _BEGUN.values(), ids=_BEGUN)
@pytest.mark.parametrize("prefix", ["", "EXPLAIN (ANALYZE)"])
def test_a_change_is_noticed_after_the_beginning(
    connection: Connection, prefix: str, value: str, change: str
) -> None:
    setup = (
        f"{_CALM}; ALTER FUNCTION seen_by(anyelement) IMMUTABLE; "
        "CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN EXECUTE '{change}'; RETURN NULL; END $$; "
        "CREATE TRIGGER change BEFORE INSERT ON w FOR EACH STATEMENT EXECUTE FUNCTION change()"
    )
    assert_counted(connection, setup, f"{prefix} {_INSERT.format(value)}")


# What core looks for when a value of the type word is made JSON of, or compared.
_LATER = {
    "cast": (
        "CREATE CAST (word AS json) WITH FUNCTION json_of(word)",
        "length(to_json((enum_range(NULL::word))[g - g + 1])::text)",
    ),
    "operator class": (
        "CREATE OPERATOR CLASS words DEFAULT FOR TYPE word USING hash AS "
        "OPERATOR 1 === (word, word), FUNCTION 1 hash_of(word)",
        "(SELECT count(DISTINCT a) FROM unnest(ARRAY['yes'::word, 'yes']) a WHERE g > 0)",
    ),
}


@pytest.mark.parametrize(("making", "value"), _LATER.values(), ids=_LATER)
def test_what_is_made_later_ends_the_judgement(
    connection: Connection, making: str, value: str
) -> None:
    setup = (
        "CREATE TYPE word AS ENUM ('yes'); CREATE FUNCTION json_of(word) RETURNS json "
        "LANGUAGE plpgsql AS 'BEGIN RETURN to_json((SELECT count(*) FROM w)); END'; "
        "CREATE FUNCTION hash_of(word) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN f(); END'; "
        "CREATE FUNCTION same(word, word) RETURNS boolean IMMUTABLE LANGUAGE sql RETURN true; "
        "CREATE OPERATOR === (LEFTARG = word, RIGHTARG = word, FUNCTION = same); "
        f"{_PREPARED} {_INSERT.format(value)}"
    )
    with fresh(connection, setup):
        assert judgement(connection, "EXECUTE p") == ELIGIBLE
        connection.execute(making)
        assert judgement(connection, "EXECUTE p") == VOLATILE
        connection.execute("DISCARD PLANS")
        assert judgement(connection, "EXECUTE p") == VOLATILE


def test_a_judgement_on_types_of_core_lasts(connection: Connection) -> None:
    setup = f"CREATE TYPE word AS ENUM ('yes'); {_PREPARED} {_INSERT.format('2')}"
    with fresh(connection, setup):
        connection.execute("EXECUTE p")
        connection.execute(
            "CREATE FUNCTION json_of(word) RETURNS json LANGUAGE sql RETURN 'null'::json; "
            "CREATE CAST (word AS json) WITH FUNCTION json_of(word)"
        )
        assert judgement(connection, "EXECUTE p") == ELIGIBLE


def test_the_switch_counts_when_a_plan_is_made(connection: Connection) -> None:
    with fresh(connection, ""):
        choose(connection, STOCK)
        connection.execute(f"{_PREPARED} {_INSERT.format(0)}")
        connection.execute("EXECUTE p")
        choose(connection, ONE_PAGE)
        before = Counters.of(connection)
        assert judgement(connection, "EXECUTE p") == {}
        connection.execute("EXECUTE p")
        assert Counters.of(connection) == before
        connection.execute("DISCARD PLANS")
        assert judgement(connection, "EXECUTE p") == ELIGIBLE
        connection.execute("EXECUTE p")
        assert Counters.of(connection).rows == before.rows + ROWS
        assert scalar(connection, "SELECT count(*) FROM w") == 3 * ROWS


def test_the_switch_counts_when_a_plan_is_executed(connection: Connection) -> None:
    with fresh(connection, ""):
        connection.execute(f"{_PREPARED} {_INSERT.format(0)}")
        connection.execute("EXECUTE p")
        before = Counters.of(connection)
        choose(connection, STOCK)
        assert judgement(connection, "EXECUTE p") == {"Status": "stock", "Reason": "disabled"}
        connection.execute("EXECUTE p")
        assert Counters.of(connection).rows == before.rows
        assert scalar(connection, "SELECT count(*) FROM w") == 2 * ROWS


@pytest.mark.parametrize(
    "options", ["VERBOSE", "VERBOSE, FORMAT JSON", "ANALYZE, BUFFERS OFF, TIMING OFF"]
)
def test_explain_shows_nothing_unasked(connection: Connection, options: str) -> None:
    sql = f"EXPLAIN ({options}, SUMMARY OFF) {_INSERT.format('f()')}"
    with fresh(connection, ""):
        shown = {}
        for arm in (STOCK, ONE_PAGE):
            choose(connection, arm)
            shown[arm.name] = connection.execute(sql).fetchall()
            connection.execute("TRUNCATE w")
    assert shown[STOCK.name] == shown[ONE_PAGE.name]


def test_marks_can_be_copied_written_and_read(connection: Connection) -> None:
    names = connection.execute(
        "SELECT name FROM pg_settings WHERE name IN "
        "('debug_copy_parse_plan_trees', 'debug_write_read_parse_plan_trees')"
    ).fetchall()
    if len(names) < 2:
        pytest.skip("this server has no debug_write_read_parse_plan_trees")
    for (name,) in names:
        connection.execute(f"SET {name} = on")
    with fresh(connection, ""):
        for value, expected in (("0", ELIGIBLE), ("f()", VOLATILE)):
            assert judgement(connection, _INSERT.format(value)) == expected
    before = Counters.of(connection)
    outcome(connection, "", _INSERT.format("0"), ONE_PAGE)
    assert Counters.of(connection).rows == before.rows + ROWS
