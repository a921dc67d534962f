"""Joins whose outer rows must not be drawn ahead are PostgreSQL's, with a reason."""

import pytest
from extension.probes import Connection, explain
from server_log import WatchedServer

from join.tables import ARRAYS, cold_loops, loops

_INNER = "JOIN inner_rows i ON i.k = o.ref"
_QUERIES = {
    "volatile target": (
        "volatile function",
        f"(SELECT ref, random() r FROM outer_rows) o {_INNER}",
    ),
    "volatile filter": (
        "volatile function",
        f"(SELECT ref FROM outer_rows WHERE random() >= 0 OFFSET 0) o {_INNER}",
    ),
    "volatile key of a scan": (
        "volatile function",
        f"(SELECT k AS ref FROM third WHERE k < (random() * 0)::int + 50 OFFSET 0) o {_INNER}",
    ),
    "volatile row of VALUES": (
        "volatile function",
        f"(VALUES (1), ((random() * 3)::int), (7)) o(ref) {_INNER}",
    ),
    "volatile limit": (
        "volatile function",
        f"(SELECT ref FROM outer_rows LIMIT (random() * 0)::int + 5) o {_INNER}",
    ),
    "volatile subplan": (
        "volatile function",
        "(SELECT (SELECT t.k + (random() * 0)::int FROM third t WHERE t.k = x.id) AS ref "
        f"FROM outer_rows x OFFSET 0) o {_INNER}",
    ),
    "volatile beside stable": (
        "volatile function",
        f"(SELECT ref, current_setting('work_mem') w FROM outer_rows OFFSET 0) o {_INNER} "
        "WHERE random() + i.g >= 0",
    ),
    "check of a domain": (
        "volatile function",
        f"(SELECT ref::checked AS ref FROM outer_rows OFFSET 0) o {_INNER}",
    ),
    "subplan not wanted so far": (
        "volatile function",
        "(SELECT CASE WHEN id < 290 THEN ref ELSE (SELECT max(g) FROM many) END AS ref "
        f"FROM outer_rows OFFSET 0) o {_INNER}",
    ),
    "distinct arrays": (
        "volatile function",
        "(SELECT ref, count(DISTINCT id), count(DISTINCT ARRAY[id]) FROM outer_rows GROUP BY ref "
        f"OFFSET 0) o {_INNER}",
    ),
    "sets of groups of arrays": (
        "volatile function",
        "(SELECT max(ref) AS ref FROM outer_rows GROUP BY GROUPING SETS (id, ARRAY[id]) OFFSET 0) "
        f"o {_INNER}",
    ),
    "who locked a row": (
        "volatile function",
        f"(SELECT ref, xmax FROM outer_rows OFFSET 0) o {_INNER} FOR UPDATE OF i",
    ),
    "locked rows": ("outer side", f"(SELECT ref FROM outer_rows FOR UPDATE) o {_INNER}"),
    "rows of a set": (
        "outer side",
        f"(SELECT generate_series(1, 3) AS ref FROM outer_rows OFFSET 0) o {_INNER}",
    ),
    "a modifying WITH": (
        "outer side",
        f"changed o {_INNER}",
    ),
    "no index": (
        "inner side",
        "outer_rows o JOIN inner_rows i ON i.g = o.ref, LATERAL (SELECT o.id) x",
    ),
    "array of keys": (
        "inner side",
        "outer_rows o JOIN inner_rows i ON i.k = ANY (ARRAY[o.ref, o.id])",
    ),
    "key of arrays": (
        "inner side",
        "(SELECT ARRAY[ref] AS a FROM outer_rows OFFSET 0) o JOIN by_array i ON i.k = o.a",
    ),
    "partitions by arrays": (
        "inner side",
        "(SELECT ref, ARRAY[ref] AS a FROM outer_rows OFFSET 0) o "
        "JOIN parts_by_array i ON i.k = o.a AND i.g = o.ref",
    ),
    "any partition": ("inner side", "outer_rows o JOIN parts i ON i.g = o.ref"),
    "a range": ("inner side", "outer_rows o JOIN inner_rows i ON i.k BETWEEN o.ref AND o.ref + 1"),
}


@pytest.mark.parametrize("name", list(_QUERIES))
def test_reason(server: WatchedServer, connection: Connection, name: str) -> None:
    reason, source = _QUERIES[name]
    connection.execute(
        "DROP DOMAIN IF EXISTS checked; CREATE DOMAIN checked AS int CHECK (value > random() - 9)"
    )
    connection.execute("SET pg_lookahead.test_start_after = 0")
    with_clause = ""
    if "changed" in source:
        connection.execute("CREATE TEMP TABLE IF NOT EXISTS target (ref int)")
        with_clause = (
            "WITH changed AS (INSERT INTO target SELECT ref FROM outer_rows RETURNING ref) "
        )
    found = cold_loops(
        server, connection, f"{with_clause}SELECT * FROM {source}", "inner_rows", "third", *ARRAYS
    )
    reasons = {loop.get("Reason") for loop in found}
    assert reason in reasons or (name == "no index" and not found)


def test_temporary_table(server: WatchedServer, connection: Connection) -> None:
    connection.execute(
        "CREATE TEMP TABLE own AS SELECT * FROM inner_rows; CREATE INDEX own_k ON own (k); "
        "SET pg_lookahead.test_start_after = 0"
    )
    (loop,) = loops(explain(connection, "SELECT * FROM outer_rows o JOIN own i ON i.k = o.ref"))
    assert loop["Reason"] == "inner side"


def test_disabled_and_without_parameters(connection: Connection) -> None:
    connection.execute("SET pg_lookahead.enable_join_prefetch = off")
    (loop,) = loops(explain(connection, f"SELECT * FROM outer_rows o {_INNER}"))
    assert loop["Reason"] == "disabled"
    assert loops(explain(connection, "SELECT FROM outer_rows o, outer_rows p WHERE o.id < 3")) == []


def test_stable_functions(server: WatchedServer, connection: Connection) -> None:
    """Where nothing volatile is beside them, and all rows are wanted at once."""
    query = (
        "SELECT * FROM (SELECT ref FROM outer_rows WHERE ref < length(current_setting('port')) "
        f"+ 500 OFFSET 0) o {_INNER}"
    )
    (loop,) = cold_loops(server, connection, query)
    assert loop["Drawn Rows"] > 100


def test_a_function_dropped_meanwhile(server: WatchedServer, connection: Connection) -> None:
    """PostgreSQL goes on with a function that it has looked up, and so must we."""
    connection.execute(
        "CREATE FUNCTION kept(int) RETURNS int AS 'int4abs' LANGUAGE internal IMMUTABLE STRICT; "
        "SET pg_lookahead.test_start_after = 20"
    )
    with server.connect() as other, connection.transaction():
        connection.execute(
            "DECLARE c NO SCROLL CURSOR FOR SELECT o.ref, i.g FROM "
            f"(SELECT kept(ref) AS ref FROM outer_rows OFFSET 0) o {_INNER}"
        )
        seen = len(connection.execute("FETCH 5 FROM c").fetchall())
        other.execute("DROP FUNCTION kept(int)")
        # Takes a lock, and so hears of it.
        connection.execute("SELECT count(*) FROM third")
        seen += len(connection.execute("FETCH ALL FROM c").fetchall())
    expected = connection.execute(f"SELECT count(*) FROM outer_rows o {_INNER}").fetchone()
    assert (seen,) == expected
