"""Correlated subqueries of a sequential scan: what the rows behind want is asked for together."""

from typing import Any

import pytest
from extension.probes import Connection, explain, nodes, scalar
from server_log import WatchedServer

from join.tables import MIXED, OUTER_ROWS, PAGES, PARTITIONS, make_cold, stock_rows

_FROM = "FROM outer_rows o"
_ONE = f"SELECT o.id, (SELECT i.pad FROM inner_rows i WHERE i.k = o.ref) {_FROM}"
_MANY = f"SELECT o.id, (SELECT sum(length(m.pad)) FROM many m WHERE m.k = o.id) {_FROM}"
_EXISTS = (
    f"SELECT o.id {_FROM} WHERE o.id < 0 OR EXISTS "
    "(SELECT FROM many m WHERE m.k = o.id AND length(m.pad) > o.id - 1000 AND m.pad > '')"
)
_FROM_ON = f"SELECT o.id {_FROM} WHERE (SELECT i.k FROM inner_rows i WHERE i.k = o.id) >="
_QUERIES = {
    "one row": _ONE,
    "many rows": _MANY,
    "exists": _EXISTS,
    "filter": f"SELECT o.id {_FROM} WHERE o.id >= (SELECT max(m.g) FROM many m WHERE m.k = o.id)",
    "some rows": "SELECT CASE WHEN o.id % 3 = 0 THEN "
    f"(SELECT g FROM inner_rows i WHERE i.k = o.ref) END {_FROM}",
    "two of them": f"SELECT (SELECT max(g) FROM many m WHERE m.k = o.id), "
    f"(SELECT i.pad FROM inner_rows i WHERE i.k = o.ref) {_FROM}",
    "one within another": "SELECT (SELECT max((SELECT t.pad FROM third t WHERE t.k = m.g)) "
    f"FROM many m WHERE m.k = o.id) {_FROM}",
    "a join": "SELECT (SELECT count(i.pad) FROM many x JOIN inner_rows i ON i.k = x.g "
    f"WHERE x.k = o.id) {_FROM} WHERE o.id < 60",
    "text": f"SELECT (SELECT pad FROM many m WHERE m.name = o.name) {_FROM}",
    "wider type": f"SELECT (SELECT pad FROM inner_rows i WHERE i.k = o.wide) {_FROM}",
    "partitioned": f"SELECT (SELECT i.pad FROM parts i WHERE i.k = o.ref) {_FROM}",
    "mixed partitions": f"SELECT (SELECT max(i.pad) FROM mixed i WHERE i.k = o.ref) {_FROM}",
    "rescans": "SELECT t.k, s.* FROM third t, LATERAL (SELECT o.id, (SELECT i.pad "
    f"FROM inner_rows i WHERE i.k = o.ref) {_FROM} WHERE o.id < t.k OFFSET 0) s WHERE t.k < 40",
    "from above": "SELECT t.k, s.* FROM third t, LATERAL (SELECT o.id, (SELECT sum(m.g) "
    f"FROM many m WHERE m.k = o.id AND m.g >= t.k) {_FROM} OFFSET 0) s WHERE t.k < 40",
    "limit": f"{_ONE} LIMIT 70",
    "latest": "SELECT (SELECT m.pad FROM many m WHERE m.k = o.id ORDER BY m.g DESC LIMIT 1) "
    f"{_FROM} WHERE o.id < 50",
    "array": f"SELECT ARRAY(SELECT g FROM many m WHERE m.k = o.id ORDER BY g) {_FROM}",
    "row": "SELECT o.id FROM outer_rows o WHERE (o.id, o.id) <> "
    "(SELECT i.k, i.g FROM inner_rows i WHERE i.k = o.ref)",
    "any": f"SELECT o.id = ANY (SELECT m.g FROM many m WHERE m.k = o.id) {_FROM}",
    "key of an expression": f"SELECT (SELECT i.pad FROM inner_rows i WHERE i.k = o.id + 1) {_FROM}",
    "added bound": "SELECT (SELECT sum(length(m.pad)) FROM many m "
    "WHERE m.k = o.id AND m.g >= o.added) FROM grown o",
    "added column": "SELECT (SELECT i.pad FROM inner_rows i WHERE i.k = o.added) FROM grown o",
}
_NOT_AHEAD = {"key of an expression", "added column"}
_FEW_MISSES = {"rescans", "from above"}
_COLD = ("inner_rows", "third", "many", *PARTITIONS, *MIXED)
_ADVISED = "SELECT advised_blocks FROM pg_stat_lookahead WHERE feature = 'subplan'"


def _scans(connection: Connection, query: str) -> list[dict[str, Any]]:
    """What EXPLAIN says about look-ahead of scans that call plans."""
    return [
        node["Lookahead"]
        for node in nodes(explain(connection, query))
        if node["Node Type"] == "Seq Scan"
        and "Lookahead" in node
        and any(plan["Parent Relationship"] == "SubPlan" for plan in node.get("Plans", []))
    ]


def _cold_scan(server: WatchedServer, connection: Connection, query: str) -> dict[str, Any]:
    make_cold(server, connection, *_COLD)
    (scan,) = _scans(connection, query)
    return scan


@pytest.mark.parametrize("forced", [False, True], ids=["cold", "forced"])
@pytest.mark.parametrize("name", list(_QUERIES))
def test_same_rows(server: WatchedServer, connection: Connection, name: str, forced: bool) -> None:
    query = _QUERIES[name]
    expected = stock_rows(connection, query)
    if forced:
        connection.execute("SET pg_lookahead.test_start_after = 0")
    make_cold(server, connection, *_COLD)
    before = scalar(connection, _ADVISED)
    assert connection.execute(query).fetchall() == expected
    if forced or name not in _FEW_MISSES:
        assert (scalar(connection, _ADVISED) > before) == (name not in _NOT_AHEAD)


@pytest.mark.parametrize("step", [1, 7, 100])
def test_a_cursor(server: WatchedServer, connection: Connection, step: int) -> None:
    connection.execute("SET pg_lookahead.test_start_after = 0")
    expected = stock_rows(connection, _ONE)
    make_cold(server, connection, *_COLD)
    rows: list[Any] = []
    with connection.transaction():
        connection.execute(f"DECLARE c SCROLL CURSOR FOR {_ONE}")
        while found := connection.execute(f"FETCH {step} FROM c").fetchall():
            rows += found
            if len(rows) == 5 * step:
                back = connection.execute(f"FETCH BACKWARD {step} FROM c").fetchall()
                assert back == rows[-step - 1 : -1][::-1]
                connection.execute(f"MOVE FORWARD {step} FROM c")
    assert rows == expected


def test_what_is_asked_for(server: WatchedServer, connection: Connection) -> None:
    """Each page but that of the first row on a page of the scan."""
    outer_pages = scalar(connection, "SELECT pg_relation_size('outer_rows') / 8192")
    wanted = scalar(
        connection, f"SELECT count(DISTINCT i.k) {_FROM} JOIN inner_rows i ON i.k = o.ref"
    )
    index_pages = scalar(connection, "SELECT pg_relation_size('inner_rows_k') / 8192")
    scan = _cold_scan(server, connection, _ONE)
    assert wanted - 4 * outer_pages <= scan["Advised Blocks"] <= wanted + index_pages
    assert scan["Scans"] == 1


def test_asleep_where_all_is_cached(connection: Connection) -> None:
    for query in (_ONE, _MANY):
        connection.execute(query)
        (scan,) = _scans(connection, query)
        assert (scan["Scans"], scan["Prefetched Blocks"]) == (0, 0)


def test_exists_asks_for_one_page(server: WatchedServer, connection: Connection) -> None:
    scan = _cold_scan(server, connection, _EXISTS)
    assert 20 <= scan["Advised Blocks"] <= 80


def test_in_asks_for_one_page(server: WatchedServer, connection: Connection) -> None:
    """It ends with the first row that decides."""
    scan = _cold_scan(
        server,
        connection,
        f"SELECT o.id {_FROM} WHERE o.id < 0 OR o.id - o.id + 5000 IN "
        "(SELECT length(m.pad) FROM many m WHERE m.k = o.id)",
    )
    assert 20 <= scan["Advised Blocks"] <= 80


@pytest.mark.parametrize("counted", ["on", "off"])
def test_one_index_for_two_subqueries(
    server: WatchedServer, connection: Connection, counted: str
) -> None:
    """No row comes to the second one."""
    connection.execute(
        "DROP TABLE IF EXISTS pairs; CREATE TABLE pairs AS SELECT i AS a, i + 150 AS b "
        f"FROM generate_series(1, 150) i; ANALYZE pairs; SET track_counts = {counted}"
    )
    found = "(SELECT i.pad FROM inner_rows i WHERE i.k = p.{})"
    scan = _cold_scan(
        server,
        connection,
        f"SELECT COALESCE({found.format('a')}, {found.format('b')}) FROM pairs p",
    )
    assert 100 < scan["Advised Blocks"] < 165


def test_a_limit_bounds_the_rows(server: WatchedServer, connection: Connection) -> None:
    scan = _cold_scan(server, connection, f"{_ONE} LIMIT 20")
    assert scan["Advised Blocks"] <= 22


def test_rows_that_do_not_come_to_it(server: WatchedServer, connection: Connection) -> None:
    """A filter drops all but a tenth of the rows: what was asked for the others was in vain."""
    scan = _cold_scan(
        server,
        connection,
        f"SELECT o.id {_FROM} WHERE o.id % 10 = 0 AND (SELECT i.pad FROM inner_rows i "
        "WHERE i.k = o.ref) > ''",
    )
    assert scan["Advised Blocks"] < OUTER_ROWS / 2


def test_the_scan_below_does_not_ask_again(server: WatchedServer, connection: Connection) -> None:
    make_cold(server, connection, "many")
    plan = explain(connection, _MANY)
    below = [
        node["Lookahead"]["Advised Blocks"]
        for node in nodes(plan)
        if node["Node Type"] == "Index Scan" and "Lookahead" in node
    ]
    (scan,) = (node for node in nodes(plan) if node.get("Relation Name") == "outer_rows")
    assert scan["Lookahead"]["Advised Blocks"] > PAGES / 2
    assert sum(below) <= 60


def test_the_last_entry_of_a_key(server: WatchedServer, connection: Connection) -> None:
    """Nothing is asked for where the page of the last entry alone is in shared buffers."""
    query = _QUERIES["latest"]
    make_cold(server, connection, "many")
    stock_rows(connection, query)
    connection.execute("SET pg_lookahead.test_start_after = 0")
    (scan,) = _scans(connection, query)
    assert scan["Prefetched Blocks"] >= 45
    assert scan["Advised Blocks"] == 0


def test_it_ends_when_it_is_switched_off(server: WatchedServer, connection: Connection) -> None:
    make_cold(server, connection, *_COLD)
    with connection.transaction():
        connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {_ONE}")
        connection.execute("FETCH 10 FROM c")
        connection.execute("SET pg_lookahead.enable_join_prefetch = off")
        connection.execute("FETCH 10 FROM c")
        before = scalar(connection, "SELECT sum(blks_read) FROM pg_stat_database")
        connection.execute("FETCH ALL FROM c")
        assert scalar(connection, "SELECT sum(blks_read) FROM pg_stat_database") >= before
    assert scalar(connection, _ADVISED) < PAGES / 2


def test_it_is_switched_off_before_it_wakes(server: WatchedServer, connection: Connection) -> None:
    make_cold(server, connection, *_COLD)
    before = scalar(connection, "SELECT sum(advised_blocks) FROM pg_stat_lookahead")
    with connection.transaction():
        connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {_ONE}")
        connection.execute("SET LOCAL pg_lookahead.enable_join_prefetch = off")
        connection.execute("FETCH ALL FROM c")
    assert scalar(connection, "SELECT sum(advised_blocks) FROM pg_stat_lookahead") == before


def test_rows_that_do_not_come_to_an_index_only_scan(
    server: WatchedServer, connection: Connection
) -> None:
    """Pages of the index are all that is asked for."""
    connection.execute(
        "CREATE TABLE all_visible AS SELECT i AS k, repeat('x', 40) AS pad "
        "FROM generate_series(0, 40000) i; CREATE INDEX all_visible_k ON all_visible (k, pad); "
        "CREATE TABLE thousands AS SELECT i AS id, i * 379 % 40000 AS ref "
        "FROM generate_series(0, 3000) i; SET enable_indexonlyscan = on"
    )
    connection.execute("VACUUM ANALYZE all_visible, thousands")
    query = (
        "SELECT o.id FROM thousands o WHERE o.id % 20 = 0 AND "
        "(SELECT count(*) FROM all_visible a WHERE a.k = o.ref) > 0"
    )
    seen = []
    for enabled in ("off", "on"):
        connection.execute(f"SET pg_lookahead.enabled = {enabled}")
        make_cold(server, connection, "all_visible")
        scalar(connection, "SELECT buffers_skipped FROM pg_lookahead_evict('all_visible_k')")
        seen.append(explain(connection, query)["Shared Read Blocks"])
    connection.execute("DROP TABLE all_visible, thousands")
    assert seen[1] <= seen[0] + 64


def test_partitions_share_memory(server: WatchedServer, connection: Connection) -> None:
    """Each gives back what it had before the next one begins."""
    count = 120
    connection.execute("CREATE TABLE sliced (id int, ref int) PARTITION BY LIST (id)")
    connection.execute(
        f"DO $$ BEGIN FOR i IN 1..{count} LOOP EXECUTE format('CREATE TABLE sliced_%s PARTITION "
        "OF sliced FOR VALUES IN (%s)', i, i); END LOOP; END $$"
    )
    connection.execute(
        f"INSERT INTO sliced SELECT i, (i * 5 + n) % {PAGES} FROM generate_series(1, {count}) i, "
        "generate_series(1, 5) n; ANALYZE sliced; SET pg_lookahead.test_start_after = 0"
    )
    query = "SELECT o.id, (SELECT i.pad FROM inner_rows i WHERE i.k = o.ref) FROM sliced o"
    expected = stock_rows(connection, query)
    make_cold(server, connection, *_COLD)
    scans = [
        node["Lookahead"]
        for node in nodes(explain(connection, query))
        if node["Node Type"] == "Seq Scan" and "Lookahead" in node
    ]
    assert len(scans) == count
    assert all(scan["Status"] == "prefetch" and scan["Scans"] == 1 for scan in scans)
    assert connection.execute(query).fetchall() == expected
    connection.execute("DROP TABLE sliced")


def test_scans_that_are_no_concern(connection: Connection) -> None:
    """A hashed plan, one without columns of the row, and all while the setting is off."""
    hashed = f"SELECT o.id IN (SELECT k FROM third) {_FROM}"
    once = f"SELECT o.id, (SELECT max(k) FROM third) {_FROM}"
    connection.execute("SET pg_lookahead.enable_seq_prefetch = off")
    for query in (hashed, once):
        assert [scan["Reason"] for scan in _scans(connection, query)] in ([], ["disabled"])
    connection.execute("SET pg_lookahead.enable_join_prefetch = off")
    (scan,) = _scans(connection, _ONE)
    assert scan["Reason"] == "disabled"


def test_refusals(connection: Connection) -> None:
    connection.execute(
        "CREATE TEMP TABLE own AS SELECT * FROM inner_rows; CREATE INDEX own_k ON own (k); "
        "SET pg_lookahead.test_start_after = 0"
    )
    for condition in ("own i WHERE i.k = o.ref", "third i WHERE i.g = o.ref"):
        (scan,) = _scans(connection, f"SELECT (SELECT max(i.pad) FROM {condition}) {_FROM}")
        assert scan["Reason"] == "inner side"


def test_rows_changed_meanwhile(server: WatchedServer, connection: Connection) -> None:
    """EvalPlanQual executes a copy of the plan, which is PostgreSQL's."""
    connection.execute("DROP TABLE IF EXISTS changing")
    connection.execute("CREATE TABLE changing AS SELECT id, ref, 0 AS seen FROM outer_rows")
    connection.execute("SET pg_lookahead.test_start_after = 0")
    query = (
        "UPDATE changing o SET seen = 1 WHERE (SELECT i.g FROM inner_rows i WHERE i.k = o.ref) >= 0"
    )
    with server.connect() as other:
        other.execute("BEGIN; UPDATE changing SET ref = 5 WHERE id % 7 = 0")
        with server.connect() as third:
            third.execute("SET pg_lookahead.enable_join_prefetch = on")
            third.pgconn.send_query(query.encode())
            other.execute("SELECT pg_sleep(0.3); COMMIT")
            while third.pgconn.get_result() is not None:
                pass
    expected = scalar(
        connection, "SELECT count(*) FROM outer_rows o JOIN inner_rows i ON i.k = o.ref"
    )
    assert scalar(connection, "SELECT count(*) FROM changing WHERE seen = 1") == expected


@pytest.mark.parametrize(
    "query",
    [
        f"DECLARE c NO SCROLL CURSOR FOR {_ONE}",
        f"DECLARE c NO SCROLL CURSOR FOR SELECT EXISTS ({_FROM_ON} 18)",
        f"DECLARE c NO SCROLL CURSOR FOR {_FROM_ON} 0 LIMIT 20",
    ],
    ids=["cursor", "EXISTS", "Limit over a filter"],
)
def test_no_more_rows_ahead_than_were_used(
    server: WatchedServer, connection: Connection, query: str
) -> None:
    make_cold(server, connection, "inner_rows")
    before = scalar(connection, _ADVISED)
    with connection.transaction():
        connection.execute(query)
        assert len(connection.execute("FETCH 20 FROM c").fetchall()) in (1, 20)
    # A page for each row, and those of the index.
    assert 0 < scalar(connection, _ADVISED) - before <= 2 * 20 + 4
