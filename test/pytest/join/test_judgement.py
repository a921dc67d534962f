"""Which joins look ahead, by what is around them: as many as can without anybody seeing it."""

from time import monotonic
from typing import Any

import psycopg
import pytest
from extension.probes import Connection, explain, nodes
from server_log import WatchedServer

from join.tables import OUTER_ROWS, cold_loops, loops, make_cold, stock_rows

_INNER = "JOIN inner_rows i ON i.k = o.ref"
# The same, and never joined otherwise.
_LOOKED_UP = ", LATERAL (SELECT * FROM inner_rows i WHERE i.k = o.ref OFFSET 0) i"
# numeric_lt is not leakproof, so who may stop early must not draw over it.
_FILTERED = f"(SELECT o.id, o.ref, i.g FROM outer_rows o {_LOOKED_UP} WHERE o.big < 1000 OFFSET 0)"
_VOLATILE = "volatile function"
_EARLY = "early stop"


def _drawn(loop: dict[str, Any]) -> int:
    return int(loop.get("Drawn Rows", 0))


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT count(*) FROM {_FILTERED} j JOIN third t ON t.g = j.g",
        f"SELECT generate_series(1, 2), id FROM {_FILTERED} j",
        f"SELECT id, count(*) OVER () FROM {_FILTERED} j",
    ],
    ids=["probe side of a hash join", "rows of a set", "window"],
)
def test_who_reads_to_the_end(server: WatchedServer, connection: Connection, query: str) -> None:
    connection.execute("SET enable_hashjoin = on; SET enable_nestloop = off")
    connection.execute("SET pg_lookahead.test_start_after = 0")
    (loop,) = cold_loops(server, connection, query)
    assert _drawn(loop) > OUTER_ROWS / 2
    assert connection.execute(query).fetchall() == stock_rows(connection, query)


def test_an_empty_hash_table_ends_the_join(connection: Connection) -> None:
    """Rows up to a match are read before the table is built, and no error of another is met."""
    connection.execute(
        "SET enable_hashjoin = on; SET enable_nestloop = off; SET pg_lookahead.test_start_after = 0"
    )
    throws = (
        "(SELECT o.id, o.ref, i.g FROM outer_rows o, LATERAL (SELECT * FROM inner_rows i "
        "WHERE i.k = o.ref AND pad > CASE WHEN o.id < 3 THEN 'z' ELSE '' END OFFSET 0) i "
        "WHERE 1 / (o.id - 5) < 9 OFFSET 0)"
    )
    query = f"SELECT j.* FROM {throws} j JOIN third t ON t.k = j.id AND t.g < 0"
    assert connection.execute(query).fetchall() == []
    plan = explain(connection, query)
    assert plan["Node Type"] == "Hash Join"
    assert list(nodes(plan["Plans"][1]))[-1]["Relation Name"] == "third"


@pytest.mark.parametrize(
    ("rows", "condition", "ahead"),
    [
        ("o.id, i.g", "o.id < 1000", True),
        ("o.id, i.g", "o.big < 1000", False),
        ("sum(i.g)", "o.big < 1000", True),
    ],
    ids=["cannot throw", "may throw", "read to its end"],
)
def test_a_worker_knows_its_own_part(
    server: WatchedServer, connection: Connection, rows: str, condition: str, ahead: bool
) -> None:
    """Whether its leader stops it is not known: then no row is drawn ahead that may throw."""
    _take_workers(connection)
    make_cold(server, connection, "inner_rows")
    plan = explain(connection, f"SELECT {rows} FROM outer_rows o {_INNER} WHERE {condition}")
    assert any(node["Node Type"] == "Gather" for node in nodes(plan))
    (loop,) = loops(plan)
    assert (_drawn(loop) > 0) == ahead


def test_a_worker_that_cannot_hand_on_its_counters(
    server: WatchedServer, connection: Connection
) -> None:
    """It knows no more of its leader than others, and raises no error behind the Limit."""
    _take_workers(connection)
    connection.execute("SET max_parallel_workers = 1; SET pg_lookahead.test_fail_worker_table = on")
    query = (
        "SELECT row_number() OVER (), o.id, i.pad FROM (SELECT id, ref FROM outer_rows "
        f"WHERE 1 / (id - 25) < 2) o {_INNER} LIMIT 4"
    )
    make_cold(server, connection, "inner_rows")
    assert len(connection.execute(query).fetchall()) == 4


def _take_workers(connection: Connection) -> None:
    connection.execute(
        "SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; "
        "SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; "
        "SET parallel_leader_participation = off; SET pg_lookahead.test_start_after = 0"
    )


_MAKE_EFFECTS = """
CREATE TABLE IF NOT EXISTS taken (id int, g int);
CREATE TABLE IF NOT EXISTS watched (id int, g int);
CREATE OR REPLACE FUNCTION note_row() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE NOTICE '%', NEW.id; RETURN NEW; END $$;
CREATE OR REPLACE TRIGGER note BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION note_row();
CREATE OR REPLACE FUNCTION note_step(s int, x int) RETURNS int LANGUAGE plpgsql AS
    $$ BEGIN RAISE NOTICE '%', x; RETURN x; END $$;
CREATE OR REPLACE AGGREGATE last_noted (int) (SFUNC = note_step, STYPE = int);
DROP DOMAIN IF EXISTS noted;
CREATE DOMAIN noted AS int CHECK (note_step(0, value) IS NOT NULL);
CREATE OR REPLACE FUNCTION said(x int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
    $$ BEGIN RAISE NOTICE '%', x; RETURN x; END $$;
CREATE OR REPLACE FUNCTION alike(x int, y int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS
    $$ BEGIN RETURN x = y; END $$;
DROP OPERATOR IF EXISTS ==== (int, int) CASCADE;
CREATE OPERATOR ==== (LEFTARG = int, RIGHTARG = int, FUNCTION = alike, HASHES);
CREATE OPERATOR CLASS said FOR TYPE int USING hash AS
    OPERATOR 1 ==== (int, int), FUNCTION 1 said(int)
"""
_THROWS = f"(SELECT o.id, i.g FROM outer_rows o {_INNER} WHERE 1 / o.zero < 2 OFFSET 0)"
_EFFECTS = {
    "trigger": f"INSERT INTO watched SELECT * FROM {_THROWS} j",
    "returning": f"INSERT INTO taken SELECT * FROM {_THROWS} j RETURNING id",
    "aggregate": f"SELECT last_noted(id) FROM {_THROWS} j",
    "domain": f"SELECT id::noted FROM {_THROWS} j",
    "domain of JSON": f"SELECT JSON_VALUE(id::text::jsonb, '$' RETURNING noted) FROM {_THROWS} j",
    "function of a user": f"SELECT said(id) FROM {_THROWS} j",
    "hash function of a user": f"SELECT j.id FROM {_THROWS} j JOIN third t ON t.k ==== j.id",
}


@pytest.mark.parametrize("name", list(_EFFECTS))
def test_effects_before_an_error(server: WatchedServer, connection: Connection, name: str) -> None:
    connection.execute(_MAKE_EFFECTS)
    connection.execute("SET pg_lookahead.test_start_after = 0")
    make_cold(server, connection, "inner_rows")
    query = _EFFECTS[name].replace("1 / o.zero < 2", "1 / (o.zero + 999) < 2")
    (loop,) = loops(explain(connection, query))
    assert loop["Reason"] == _VOLATILE


def test_rows_kept_behind_an_error(server: WatchedServer, connection: Connection) -> None:
    """What RETURN QUERY has put into its result is not taken back by an exception handler."""
    connection.execute("SET pg_lookahead.test_start_after = 0")
    connection.execute(
        "CREATE OR REPLACE FUNCTION kept_rows() RETURNS SETOF int LANGUAGE plpgsql AS $$ BEGIN "
        "RETURN QUERY SELECT i.k FROM (SELECT ref, 1 / zero AS z FROM outer_rows OFFSET 0) o "
        "JOIN inner_rows i ON i.k = o.ref WHERE o.z + i.k > -100; "
        "EXCEPTION WHEN division_by_zero THEN RETURN; END $$"
    )
    query = "SELECT * FROM kept_rows()"
    expected = stock_rows(connection, query)
    make_cold(server, connection, "inner_rows")
    assert len(expected) > 200
    assert connection.execute(query).fetchall() == expected


_READ_LATE = {
    "a function for each row": "(SELECT o.ref, g FROM outer_rows o, "
    "LATERAL generate_series(1, 1 + abs(1 / o.zero) * 0) g OFFSET 0)",
    "a sort for each row": "(SELECT b.ref FROM outer_rows b, LATERAL (SELECT t.k FROM third t "
    "WHERE t.k < 2 ORDER BY t.k + 1 / b.zero OFFSET 0) x OFFSET 0)",
    "a sort behind other rows": "(SELECT ref FROM outer_rows WHERE id < 100 UNION ALL "
    "(SELECT ref FROM outer_rows ORDER BY 1 / zero, id OFFSET 0))",
    "distinct rows behind others": "(SELECT ref, 1 AS q FROM outer_rows WHERE id < 100 UNION ALL "
    "SELECT DISTINCT ref, 1 / zero FROM outer_rows)",
}


@pytest.mark.parametrize("name", list(_READ_LATE))
def test_what_is_not_read_for_the_first_row(connection: Connection, name: str) -> None:
    """It may throw for a later one, and then the effects of the rows before are there."""
    connection.execute("CREATE SEQUENCE IF NOT EXISTS effects")
    query = f"SELECT nextval('effects') FROM {_READ_LATE[name]} o {_INNER}"
    seen = []
    for enabled in ("off", "on"):
        connection.execute(f"SET pg_lookahead.enabled = {enabled}; SELECT setval('effects', 1)")
        connection.execute("SET pg_lookahead.test_start_after = 0")
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute(query)
        seen.append(connection.execute("SELECT last_value FROM effects").fetchone())
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("condition", "is_range"),
    [
        ("a = 1", True),
        ("a > 0", True),
        ("a = 1 AND b > 5", True),
        ("a > 0 AND b = 7", False),
        ("b = 7", False),
        ("a = ANY ('{1,2,3}')", False),
    ],
)
def test_entries_next_to_each_other(
    server: WatchedServer, connection: Connection, condition: str, is_range: bool
) -> None:
    """Where some are passed over, the row after the last that is wanted may cost a lot."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS ranges AS SELECT 1 + i % 3 AS a, i % 10 AS b, i AS ref "
        "FROM generate_series(1, 390) i; "
        "CREATE INDEX IF NOT EXISTS ranges_ab ON ranges (a, b); ANALYZE ranges; "
        "SET enable_seqscan = off; SET enable_sort = off; SET pg_lookahead.test_start_after = 0"
    )
    query = f"SELECT o.ref, i.g FROM ranges o {_INNER} WHERE {condition} ORDER BY a, b LIMIT 9"
    found = cold_loops(server, connection, query)
    assert [loop.get("Reason") for loop in found] == [None if is_range else _EARLY]


@pytest.mark.parametrize(
    "outer",
    [
        "(SELECT * FROM outer_rows WHERE big < 1000 ORDER BY name OFFSET 0)",
        "(SELECT DISTINCT ref FROM outer_rows WHERE big < 1000 OFFSET 0)",
        "unnest(ARRAY(SELECT ref FROM outer_rows WHERE big < 1000)) o(ref)",
    ],
    ids=["sorted", "distinct", "rows of a function"],
)
def test_rows_that_are_there_at_once(
    server: WatchedServer, connection: Connection, outer: str
) -> None:
    """What was read for the first row need not be free of errors, nor free."""
    alias = "" if "unnest" in outer else "o"
    connection.execute("SET enable_sort = on")
    (loop,) = cold_loops(
        server, connection, f"SELECT i.g FROM {outer} {alias} {_INNER} LIMIT 100", "inner_rows"
    )
    assert loop.get("Reason") is None
    assert _drawn(loop) > 0


def test_enums(server: WatchedServer, connection: Connection) -> None:
    connection.execute(
        "DROP TABLE IF EXISTS moods; DROP TYPE IF EXISTS mood; "
        "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy'); "
        "CREATE TABLE moods AS SELECT i * 7 % 400 AS ref, "
        "(ENUM_RANGE(NULL::mood))[1 + i % 3] AS m FROM generate_series(1, 300) i; ANALYZE moods"
    )
    query = f"SELECT o.m, i.g FROM (SELECT * FROM moods ORDER BY m OFFSET 0) o {_INNER}"
    (loop,) = cold_loops(server, connection, query)
    assert _drawn(loop) > 200
    query = f"SELECT o.m, i.g FROM moods o {_INNER} WHERE o.m IN ('sad', 'happy')"
    (loop,) = cold_loops(server, connection, query)
    assert _drawn(loop) > 150


def test_arrays_of_core_types(server: WatchedServer, connection: Connection) -> None:
    connection.execute(
        "DROP TABLE IF EXISTS listed; CREATE TABLE listed AS SELECT i * 7 % 400 AS ref, "
        "ARRAY[i] AS a FROM generate_series(1, 300) i; ANALYZE listed"
    )
    query = (
        "SELECT o.ref, i.g FROM (SELECT x.ref FROM listed x JOIN listed y ON x.a = y.a OFFSET 0) "
        "o, LATERAL (SELECT * FROM inner_rows i WHERE i.k = o.ref OFFSET 0) i"
    )
    connection.execute("SET enable_hashjoin = on")
    (loop,) = cold_loops(server, connection, query)
    connection.execute("SET enable_hashjoin = off")
    assert _drawn(loop) > 200


def test_plans_of_expressions_over_many_partitions(
    server: WatchedServer, connection: Connection
) -> None:
    """A plan that the scan of each partition calls is looked at once, whatever their number."""
    count = 200
    connection.execute("CREATE TABLE spread (id int) PARTITION BY LIST (id)")
    connection.execute(
        f"DO $$ BEGIN FOR i IN 1..{count} LOOP EXECUTE format('CREATE TABLE spread_%s PARTITION "
        "OF spread FOR VALUES IN (%s)', i, i); END LOOP; END $$"
    )
    connection.execute(f"INSERT INTO spread SELECT generate_series(1, {count}); ANALYZE spread")
    plans = " + ".join(f"(SELECT s.id + {n} OFFSET 0)" for n in range(100))
    query = (
        f"SELECT i.g, o.a FROM (SELECT id AS ref, {plans} AS a FROM spread s OFFSET 0) o {_INNER}"
    )
    started = monotonic()
    stock_rows(connection, query)
    limit = max(10 * (monotonic() - started), 1)
    connection.execute(f"SET statement_timeout = '{limit}s'")
    (loop,) = cold_loops(server, connection, query)
    connection.execute("RESET statement_timeout; DROP TABLE spread")
    assert _drawn(loop) > count / 2


def test_rows_of_some_kilobytes(server: WatchedServer, connection: Connection) -> None:
    """What rows behind us have held is free again."""
    query = (
        "SELECT o.n, length(o.w), i.g FROM (SELECT n, n * 7 % 400 AS ref, repeat('x', 3000) AS w "
        "FROM generate_series(1, 4000) n OFFSET 0) o JOIN inner_rows i ON i.k = o.ref"
    )
    connection.execute("SET pg_lookahead.test_start_after = 0")
    (loop,) = cold_loops(server, connection, query)
    assert _drawn(loop) > 3900
