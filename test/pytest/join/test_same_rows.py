"""Whatever a join looks like, its rows and their order are those of PostgreSQL's own code."""

import pytest
from extension.probes import Connection
from server_log import WatchedServer

from join.tables import MIXED, PARTITIONS, drawn, make_cold, stock_rows

_FROM = "SELECT o.id, i.g FROM outer_rows o"
_QUERIES = {
    "one row": f"{_FROM} JOIN inner_rows i ON i.k = o.ref",
    "many rows": f"{_FROM} JOIN many i ON i.k = o.id",
    "two keys": f"{_FROM} JOIN many i ON i.k = o.id AND i.g = o.wide",
    "one key of two": f"{_FROM} JOIN many i ON i.k = o.id AND i.g = o.id * 7919 % 400",
    "range": f"{_FROM} JOIN many i ON i.k = o.id AND i.g BETWEEN o.zero AND o.wide",
    "constant key": f"{_FROM} LEFT JOIN many i ON i.k = 3 AND i.g = o.id",
    "left": f"{_FROM} LEFT JOIN inner_rows i ON i.k = o.ref",
    "left with a filter": f"{_FROM} LEFT JOIN inner_rows i ON i.k = o.ref AND i.g % 3 = 0",
    "semi": "SELECT o.id FROM outer_rows o WHERE EXISTS "
    "(SELECT FROM inner_rows i WHERE i.k = o.ref AND i.pad > '')",
    "semi with many": "SELECT o.id FROM outer_rows o WHERE EXISTS "
    "(SELECT FROM many i WHERE i.k = o.id AND i.g % 5 <> o.id % 3)",
    "anti": "SELECT o.id FROM outer_rows o WHERE NOT EXISTS "
    "(SELECT FROM inner_rows i WHERE i.k = o.ref AND i.pad > '')",
    "three tables": f"{_FROM} JOIN inner_rows i ON i.k = o.ref JOIN third t ON t.k = i.g",
    "wider type": f"{_FROM} JOIN inner_rows i ON i.k = o.wide",
    "text": f"{_FROM} JOIN many i ON i.name = o.name",
    "expression index": f"{_FROM} JOIN many i ON i.g * 2 = o.ref",
    "partial index": f"{_FROM} JOIN many i ON i.g = o.ref WHERE i.k < 25",
    "key of an expression": f"{_FROM} JOIN many i ON i.k = o.id + 1",
    "aggregate": "SELECT o.id, m.most FROM outer_rows o, LATERAL "
    "(SELECT max(g % 100) most FROM many i WHERE i.k = o.id) m",
    "limit": "SELECT o.id, m.g FROM outer_rows o, LATERAL "
    "(SELECT g FROM many i WHERE i.k = o.id AND pad > '' LIMIT 2) m",
    "rescans": "SELECT o.id, s.n FROM outer_rows o, LATERAL (SELECT count(i.pad) n FROM many x "
    "JOIN inner_rows i ON i.k = x.g WHERE x.k = o.id) s WHERE o.id < 60",
    "left early": "SELECT o.id, w.g FROM outer_rows o, LATERAL (SELECT * FROM (SELECT i.g, "
    "row_number() OVER () n FROM many x JOIN inner_rows i ON i.k = x.g WHERE x.k = o.id) w "
    "WHERE n < 3) w WHERE o.id < 60",
    "two levels": "SELECT o.id, s.g FROM outer_rows o, LATERAL (SELECT i.g FROM third t JOIN many i"
    " ON i.k = o.id AND i.g = t.k WHERE t.k BETWEEN o.id * 3 AND o.id * 3 + 20) s "
    "WHERE o.id < 60",
    "subplan": "SELECT (SELECT count(i.pad) FROM many x JOIN inner_rows i ON i.k = x.g "
    "WHERE x.k = o.id) FROM outer_rows o WHERE o.id < 60",
    "sorted": f"{_FROM} JOIN inner_rows i ON i.k = o.ref ORDER BY o.big DESC LIMIT 50",
    "grouped": "SELECT o.r, i.g FROM (SELECT ref % 40 r, count(*) FROM outer_rows GROUP BY 1) o "
    "JOIN inner_rows i ON i.k = o.r",
    "union": "SELECT o.v, i.g FROM (SELECT ref v FROM outer_rows UNION ALL SELECT id FROM "
    "outer_rows) o JOIN inner_rows i ON i.k = o.v",
    "function": "SELECT f, i.g FROM generate_series(1, 100) f JOIN inner_rows i ON i.k = f",
    "values": "SELECT v.a, i.g FROM (VALUES (3), (1), (399), (NULL), (3)) v(a) "
    "JOIN inner_rows i ON i.k = v.a",
    "wide rows": "SELECT o.id, length(o.w), i.g FROM (SELECT id, ref, repeat(name, 3000) w "
    "FROM outer_rows OFFSET 0) o JOIN inner_rows i ON i.k = o.ref",
    "whole rows": "SELECT o, i.g FROM outer_rows o JOIN inner_rows i ON i.k = o.ref",
    "added column": "SELECT o.id, o.added, i.g FROM grown o JOIN inner_rows i ON i.k = o.added",
    "setting": "SELECT o.id, o.s, set_config('my.last', o.id::text, true) FROM (SELECT id, ref, "
    "nullif(current_setting('my.last', true), '') s FROM outer_rows OFFSET 0) o "
    "JOIN inner_rows i ON i.k = o.ref",
    "partitioned": f"{_FROM} JOIN parts i ON i.k = o.ref",
    "partition by a wider type": f"{_FROM} LEFT JOIN parts i ON i.k = o.wide",
    "partitions of two levels": f"{_FROM} JOIN third t ON t.k = o.ref JOIN parts i ON i.k = t.g",
    "partition from above": "SELECT o.id, s.g FROM outer_rows o, LATERAL (SELECT i.g FROM third t "
    "LEFT JOIN parts i ON i.k = o.ref AND i.g = t.k WHERE t.k BETWEEN o.id AND o.id + 3) s "
    "WHERE o.id < 60",
    "keys of an array": f"{_FROM} JOIN many i ON i.k = ANY (ARRAY[o.id, o.ref])",
    "row comparison": f"{_FROM} JOIN many i ON i.k = o.id AND (i.k, i.g) > (o.id, o.ref)",
    "mixed partitions": f"{_FROM} LEFT JOIN mixed i ON i.k = o.ref",
    "unlogged": f"{_FROM} JOIN unlogged_rows i ON i.k = o.ref",
    "nothing": f"{_FROM} JOIN inner_rows i ON i.k = o.ref WHERE o.id < 0",
    "system columns": "SELECT o.ctid, o.tableoid, i.ctid FROM outer_rows o "
    "JOIN inner_rows i ON i.k = o.ref",
}
# Nothing is known of the key before the inner side has begun, or of the rows' comparison; or a
# row's values depend on what was done with the row before.
_NOT_AHEAD = {
    "key of an expression",
    "two levels",
    "setting",
    "partition from above",
    "keys of an array",
    "one key of two",
    "row comparison",
    "nothing",
}
# A join that misses pages for so few does not look ahead.
_FEW_ROWS = {"values", "added column", "two keys"}
_PLANS = {
    "": "SELECT 1",
    " by bitmaps": "SET enable_bitmapscan = on; SET enable_indexscan = off",
    " by index only": "SET enable_indexonlyscan = on",
    " memoized": "SET enable_memoize = on",
}


@pytest.mark.parametrize("plan", list(_PLANS))
def test_cold(server: WatchedServer, connection: Connection, plan: str) -> None:
    connection.execute(_PLANS[plan])
    for name, query in _QUERIES.items():
        must_draw = plan == "" and name not in _FEW_ROWS
        _compare_cold(server, connection, name, query, must_draw=must_draw)


def _compare_cold(
    server: WatchedServer, connection: Connection, name: str, query: str, *, must_draw: bool
) -> None:
    before = drawn(connection)
    make_cold(
        server, connection, "inner_rows", "many", "third", "unlogged_rows", *PARTITIONS, *MIXED
    )
    ours = connection.execute(query).fetchall()
    assert ours == stock_rows(connection, query), name
    if must_draw and name not in _NOT_AHEAD:
        assert drawn(connection) > before, name


@pytest.mark.parametrize("name", list(_QUERIES))
def test_forced(connection: Connection, name: str) -> None:
    connection.execute("SET pg_lookahead.test_start_after = 0")
    before = drawn(connection)
    ours = connection.execute(_QUERIES[name]).fetchall()
    assert ours == stock_rows(connection, _QUERIES[name])
    if name not in _NOT_AHEAD:
        assert drawn(connection) > before


@pytest.mark.parametrize("name", list(_QUERIES))
def test_a_few_rows_at_a_time(connection: Connection, name: str) -> None:
    query = _QUERIES[name]
    connection.execute("SET pg_lookahead.test_start_after = 0")
    with connection.transaction():
        connection.execute(f"DECLARE c CURSOR WITH HOLD FOR {query}")
        seen = connection.execute("FETCH 5 FROM c").fetchall()
    while rows := connection.execute("FETCH 40 FROM c").fetchall():
        seen += rows
    assert seen == stock_rows(connection, query)


def test_back_and_forth(connection: Connection) -> None:
    connection.execute("SET pg_lookahead.test_start_after = 0")
    for name, query in _QUERIES.items():
        seen = []
        for enabled in ("on", "off"):
            connection.execute(f"SET pg_lookahead.enabled = {enabled}")
            with connection.transaction():
                connection.execute(f"DECLARE c SCROLL CURSOR FOR {query}")
                seen.append(
                    [
                        connection.execute(f"FETCH {step} FROM c").fetchall()
                        for step in ("30", "BACKWARD 10", "ABSOLUTE 5", "ALL", "BACKWARD 40")
                    ]
                )
        assert seen[0] == seen[1], name


def test_temporary_tables(server: WatchedServer, connection: Connection) -> None:
    """On either side: a table of ours is looked up, whatever its rows come from."""
    connection.execute(
        "CREATE TEMP TABLE own AS SELECT * FROM outer_rows; CREATE INDEX ON own (ref); "
        "ANALYZE own; SET pg_lookahead.test_start_after = 0"
    )
    for query in (
        "SELECT o.id, i.g FROM own o LEFT JOIN inner_rows i ON i.k = o.ref",
        "SELECT o.id, i.g FROM outer_rows p LEFT JOIN own o ON o.ref = p.id "
        "LEFT JOIN inner_rows i ON i.k = o.wide",
    ):
        before = drawn(connection)
        make_cold(server, connection, "inner_rows")
        assert connection.execute(query).fetchall() == stock_rows(connection, query)
        assert drawn(connection) > before


def test_generic_plan(server: WatchedServer, connection: Connection) -> None:
    connection.execute("SET plan_cache_mode = force_generic_plan")
    connection.execute(
        "PREPARE q(int, int) AS SELECT o.id, i.g FROM outer_rows o "
        "JOIN many i ON i.k = $1 AND i.g = o.id WHERE o.id > $2"
    )
    for key in (3, 17):
        make_cold(server, connection, "many")
        ours = connection.execute(f"EXECUTE q({key}, 5)").fetchall()
        assert ours == stock_rows(connection, f"EXECUTE q({key}, 5)")


def test_by_several_processes(server: WatchedServer, connection: Connection) -> None:
    connection.execute(
        "SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; "
        "SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0"
    )
    query = "SELECT count(i.pad), sum(o.id) FROM outer_rows o JOIN inner_rows i ON i.k = o.ref"
    plan = connection.execute(f"EXPLAIN {query}").fetchall()
    assert any("Gather" in line for (line,) in plan)
    make_cold(server, connection, "inner_rows")
    assert connection.execute(query).fetchall() == stock_rows(connection, query)
    assert drawn(connection) > 0
