"""Queries that fill a new table: CREATE TABLE AS, SELECT INTO, materialized views."""

import re

import psycopg
import pytest
from extension.probes import Connection, scalar

from bulk_insert.arms import DEFAULT, STOCK, Arm, Counters, choose

_NARROW = "SELECT i, i % 7 AS g, 'row ' || i AS t FROM generate_series(1, 200000) i"
_WIDE = (
    "SELECT i, CASE WHEN i % 50 = 0 THEN repeat(md5(i::text), 300) "
    "ELSE repeat('x', i % 900) END AS t, CASE WHEN i % 70 = 0 THEN repeat('y', 3000) END AS u "
    "FROM generate_series(1, 30000) i"
)
_FROM_PAGE_ONE = Arm("from page one", {"test_insert_threshold": "0"})
# Columns whose values, each of 8 bytes, no page has room for.
_TOO_MANY = range(1100)
_TOO_WIDE = ", ".join(f"i::bigint * 1000000007 AS c{number}" for number in _TOO_MANY)
_WIDEST = f"CREATE TABLE made ({', '.join(f'c{number} bigint' for number in _TOO_MANY)})"
_SMALL_STEPS = DEFAULT.with_settings(bulk_extend_size=40)


def _make(session: Connection, arm: Arm, statement: str) -> list[tuple[object, ...]]:
    """The rows of the table `made`, in the order of the file."""
    session.execute("DROP TABLE IF EXISTS made")
    choose(session, arm)
    session.execute(statement)
    rows = session.execute("SELECT * FROM made ORDER BY ctid").fetchall()
    session.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
    assert session.execute("SELECT * FROM verify_heapam('made')").fetchall() == []
    return rows


def _batched(session: Connection) -> int:
    return int(
        scalar(
            session,
            "SELECT batched_rows FROM pg_stat_lookahead WHERE feature = 'bulk_insert'",
        )
    )


@pytest.mark.parametrize("query", [_NARROW, _WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize("arm", [DEFAULT, _SMALL_STEPS, _FROM_PAGE_ONE], ids=lambda arm: arm.name)
@pytest.mark.parametrize(
    "statement",
    ["CREATE TABLE made AS {}", "CREATE UNLOGGED TABLE made AS {}", "CREATE TEMP TABLE made AS {}"],
    ids=["logged", "unlogged", "temporary"],
)
def test_rows_are_those_of_stock(
    connection: Connection, statement: str, arm: Arm, query: str
) -> None:
    expected = _make(connection, STOCK, statement.format(query))
    before = _batched(connection)
    assert _make(connection, arm, statement.format(query)) == expected
    assert _batched(connection) - before > len(expected) // 2


def test_inner_commands_do_not_end_what_was_begun(connection: Connection) -> None:
    """A query is looked at because of the command around it."""
    connection.execute(
        "CREATE FUNCTION inner_command() RETURNS event_trigger LANGUAGE plpgsql AS "
        "$$ BEGIN COMMENT ON FUNCTION inner_command IS 'called'; END $$; "
        "CREATE EVENT TRIGGER early ON ddl_command_start WHEN TAG IN ('CREATE TABLE AS') "
        "EXECUTE FUNCTION inner_command()"
    )
    try:
        before = _batched(connection)
        rows = _make(connection, DEFAULT, f"CREATE TABLE made AS {_NARROW}")
        assert _batched(connection) - before > len(rows) // 2
    finally:
        connection.execute("DROP EVENT TRIGGER early; DROP FUNCTION inner_command")


def test_select_into(connection: Connection) -> None:
    statement = _NARROW.replace(" FROM", " INTO made FROM", 1)
    assert _make(connection, DEFAULT, statement) == _make(connection, STOCK, statement)


@pytest.mark.parametrize("concurrently", ["", "CONCURRENTLY"])
def test_materialized_view(connection: Connection, concurrently: str) -> None:
    seen = []
    for arm in (STOCK, DEFAULT):
        choose(connection, arm)
        connection.execute("DROP MATERIALIZED VIEW IF EXISTS view")
        connection.execute(f"CREATE MATERIALIZED VIEW view AS {_NARROW}")
        connection.execute("CREATE UNIQUE INDEX ON view (i)")
        before = _batched(connection)
        connection.execute(f"REFRESH MATERIALIZED VIEW {concurrently} view")
        assert (_batched(connection) > before) == (arm is DEFAULT)
        seen.append(connection.execute("SELECT * FROM view ORDER BY i").fetchall())
        connection.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
        assert connection.execute("SELECT * FROM verify_heapam('view')").fetchall() == []
        connection.execute("SELECT bt_index_check('view_i_idx', true)")
    assert seen[0] == seen[1]
    connection.execute("DROP MATERIALIZED VIEW view")


@pytest.mark.parametrize("kind", ["TABLE", "MATERIALIZED VIEW"])
def test_no_page_is_passed_by(connection: Connection, kind: str) -> None:
    """Pages by which core extends it in advance are filled before others are appended."""
    choose(connection, DEFAULT)
    before = _batched(connection)
    connection.execute(f"CREATE {kind} filled AS {_NARROW}")
    blocks = "SELECT (ctid::text::point)[0] AS block FROM filled"
    empty = f"SELECT max(block) + 1 - count(DISTINCT block) FROM ({blocks}) b"
    found = scalar(connection, empty)
    connection.execute(f"DROP {kind} filled")
    assert found == 0
    assert _batched(connection) > before


def _explained(session: Connection, statement: str, options: str = "") -> str:
    lines = session.execute(f"EXPLAIN (LOOKAHEAD, COSTS OFF{options}) {statement}").fetchall()
    return str(lines[-1][0] if not options else "\n".join(str(line[0]) for line in lines))


def test_explain_tells_what_was_done(connection: Connection) -> None:
    choose(connection, DEFAULT)
    connection.execute("DROP TABLE IF EXISTS made")
    statement = f"CREATE TABLE made AS {_NARROW}"
    assert _explained(connection, statement) == "Lookahead: eligible"
    text = _explained(connection, statement, ", ANALYZE, TIMING OFF, SUMMARY OFF, BUFFERS OFF")
    rows = re.search(
        r"^Lookahead: rows=(\d+) batches=\d+ extensions=0 extended=\d+ sorted=0", text, re.M
    )
    assert rows is not None, text
    assert 100_000 < int(rows[1]) < 200_000
    choose(connection, STOCK)
    connection.execute("DROP TABLE made")
    assert _explained(connection, statement) == "Lookahead: stock (disabled)"


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("VOLATILE", "Lookahead: stock (volatile function)"),
        ("STABLE", "Lookahead: stock (volatile function)"),
        ("IMMUTABLE", "Lookahead: stock (function of a user)"),
    ],
)
def test_functions_of_the_query(connection: Connection, function: str, reason: str) -> None:
    """A stable function may look at the new table, or have another one insert into it."""
    connection.execute("DROP TABLE IF EXISTS made")
    connection.execute(
        "CREATE OR REPLACE FUNCTION peek(i int) RETURNS bigint LANGUAGE plpgsql "
        f"{function} AS $$ DECLARE n bigint; BEGIN IF i % 3000 = 0 THEN "
        "EXECUTE 'SELECT count(*) FROM made' INTO n; RETURN n; END IF; RETURN 0; END $$"
    )
    query = "SELECT i, peek(i) AS n, repeat('x', 500) AS p FROM generate_series(1, 40000) i"
    statement = f"CREATE TABLE made AS {query}"
    choose(connection, DEFAULT)
    assert _explained(connection, statement) == reason
    assert _make(connection, DEFAULT, statement) == _make(connection, STOCK, statement)


def test_prepared_statement_is_left_to_core(connection: Connection) -> None:
    choose(connection, DEFAULT)
    connection.execute("DROP TABLE IF EXISTS made")
    connection.execute(f"PREPARE filled AS {_NARROW}")
    connection.execute("EXPLAIN EXECUTE filled")
    before = _batched(connection)
    connection.execute("CREATE TABLE made AS EXECUTE filled")
    assert scalar(connection, "SELECT count(*) FROM made") == 200_000
    assert _batched(connection) == before
    connection.execute("DEALLOCATE filled")


def test_catalog_of_a_user_is_left_to_core(connection: Connection) -> None:
    connection.execute("DROP TABLE IF EXISTS made")
    choose(connection, DEFAULT)
    before = Counters.of(connection)
    connection.execute(f"CREATE TABLE made WITH (user_catalog_table = true) AS {_NARROW}")
    after = Counters.of(connection)
    assert after.rows == before.rows
    assert after.left["system catalog"] == before.left.get("system catalog", 0) + 1
    assert scalar(connection, "SELECT count(*) FROM made") == 200_000


def test_no_data_and_if_not_exists(connection: Connection) -> None:
    choose(connection, DEFAULT)
    connection.execute("DROP TABLE IF EXISTS made")
    connection.execute(f"CREATE TABLE made AS {_NARROW} WITH NO DATA")
    connection.execute(f"CREATE TABLE IF NOT EXISTS made AS {_NARROW}")
    assert scalar(connection, "SELECT count(*) FROM made") == 0


def test_error_leaves_nothing(connection: Connection) -> None:
    choose(connection, DEFAULT)
    connection.execute("DROP TABLE IF EXISTS made")
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute(
            "CREATE TABLE made AS SELECT i, 1 / (150000 - i) AS d, repeat('x', 50) AS t "
            "FROM generate_series(1, 200000) i"
        )
    assert scalar(connection, "SELECT to_regclass('made')") is None
    connection.execute(f"CREATE TABLE made AS {_NARROW}")
    assert scalar(connection, "SELECT count(*) FROM made") == 200_000


@pytest.mark.parametrize(
    ("setup", "insert"), [("", "CREATE TABLE made AS "), (_WIDEST, "INSERT INTO made ")]
)
def test_row_too_big(connection: Connection, setup: str, insert: str) -> None:
    """PostgreSQL's own error, whichever way the row would have gone."""
    errors = []
    for arm in (STOCK, _FROM_PAGE_ONE):
        choose(connection, arm)
        connection.execute("DROP TABLE IF EXISTS made")
        connection.execute(setup)
        with pytest.raises(psycopg.errors.ProgramLimitExceeded) as raised:
            connection.execute(f"{insert} SELECT {_TOO_WIDE} FROM generate_series(1, 1000) i")
        errors.append((raised.value.sqlstate, raised.value.diag.message_primary))
    assert errors[0] == errors[1]
