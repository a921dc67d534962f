"""What `lookahead check` says of pages, against what PostgreSQL then reads of a cold table.

An estimate may miss by a factor of 2, a few pages aside; where there is none, the bounds hold.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from server_log import ServerFactory, WatchedServer

from lab.outcome import run_command
from lookahead.errors import ExitStatus
from lookahead.extension import Stage

_ROWS = 40_000
# The visibility map, and pages at both ends of a range.
_SLACK = 4
_READ_AHEAD = 64
# `jittered` is a little out of place, of `mixed` every 30th row is far away. ANALYZE looks at all
# rows (300 for each unit of the target): of a sample the order of `mixed` is now and then too low.
_TABLES = f"""
    CREATE EXTENSION pg_lookahead;
    SET default_statistics_target = 150;
    SELECT setseed(0.5);
    CREATE TABLE t AS SELECT i AS ordered, i * 7919 % {_ROWS} AS random,
        (i + 800 * (random() - 0.5))::int AS jittered,
        CASE WHEN i % 30 = 0 THEN (random() * {_ROWS})::int ELSE i END AS mixed,
        (random() * 50)::int AS few, i % 7 AS filtered, repeat('p', 300) AS pad
        FROM generate_series(0, {_ROWS - 1}) AS i;
    CREATE INDEX t_ordered ON t (ordered); CREATE INDEX t_random ON t (random);
    CREATE INDEX t_jittered ON t (jittered); CREATE INDEX t_mixed ON t (mixed);
    CREATE INDEX t_few ON t (few); CREATE INDEX t_lower ON t (lower(random::text));
    CREATE TABLE f AS SELECT i AS id, (random() * {_ROWS})::int AS key, i / 10 AS ordered_key,
        (random() * 100)::int AS repeated_key, repeat('q', 100) AS pad
        FROM generate_series(0, 19999) AS i;
    CREATE INDEX f_id ON f (id);
    CREATE TABLE p (random int, part int, pad text) PARTITION BY RANGE (part);
    CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (0) TO (10);
    CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (10) TO (20);
    CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (20) TO (30);
    INSERT INTO p SELECT i * 7919 % {_ROWS}, i % 30, repeat('p', 300)
        FROM generate_series(0, {_ROWS - 1}) AS i;
    CREATE INDEX ON p (random);
    CREATE TABLE hidden AS SELECT i * 7919 % {_ROWS} AS random, 0 AS changed, repeat('h', 300)
        AS pad FROM generate_series(0, {_ROWS - 1}) AS i;
    CREATE INDEX hidden_random ON hidden (random);
"""
_ORDERS = ("ordered", "random", "jittered", "mixed")
_INDEX = "enable_seqscan=off enable_bitmapscan=off"
_BITMAP = "enable_seqscan=off enable_indexscan=off enable_indexonlyscan=off"
_LOOP = "enable_hashjoin=off enable_mergejoin=off enable_material=off"
_PARALLEL = (
    "max_parallel_workers_per_gather=2 parallel_setup_cost=0 parallel_tuple_cost=0 "
    "min_parallel_table_scan_size=0 min_parallel_index_scan_size=0"
)
_KINDS = {
    "index": (_INDEX, "Index Scan"),
    "bitmap": (_BITMAP, "Bitmap Heap Scan"),
    "lossy": (f"{_BITMAP} work_mem=64kB", "Bitmap Heap Scan"),
    "parallel index": (f"{_INDEX} {_PARALLEL}", "Index Scan"),
    "parallel bitmap": (f"{_BITMAP} {_PARALLEL}", "Bitmap Heap Scan"),
}
# Settings, statement, kind of the scan of the table whose pages must be known.
_KNOWN = {
    "filter, index": (_INDEX, "SELECT * FROM t WHERE random < 2000 AND filtered = 3", "Index Scan"),
    "filter, bitmap": (
        _BITMAP,
        "SELECT * FROM t WHERE random < 2000 AND filtered = 3",
        "Bitmap Heap Scan",
    ),
    "equal values": (_BITMAP, "SELECT * FROM t WHERE few = 7", "Bitmap Heap Scan"),
    "list": (_INDEX, "SELECT * FROM t WHERE random IN (5, 77, 7000, 20000, 33333)", "Index Scan"),
    "expression": (_BITMAP, "SELECT * FROM t WHERE lower(random::text) < '12'", "Bitmap Heap Scan"),
    "subquery in a filter, bitmap": (
        _BITMAP,
        "SELECT * FROM t WHERE random < 2000 AND mixed NOT IN (SELECT id FROM f WHERE id < 50)",
        "Bitmap Heap Scan",
    ),
    "either": (
        _BITMAP,
        "SELECT * FROM t WHERE random < 300 OR ordered BETWEEN 20000 AND 22000",
        "Bitmap Heap Scan",
    ),
    "both": (
        f"{_BITMAP} seq_page_cost=9 random_page_cost=9",
        "SELECT * FROM t WHERE random < 20000 AND few < 10",
        "Bitmap Heap Scan",
    ),
    "index only": (_INDEX, "SELECT random FROM hidden WHERE random < 9000", "Index Only Scan"),
    "sequential": ("", "SELECT count(pad) FROM t WHERE filtered = 3", "Seq Scan"),
    "parallel sequential": (_PARALLEL, "SELECT count(pad) FROM t WHERE filtered = 3", "Seq Scan"),
    "tid range": (
        "",
        "SELECT * FROM t WHERE ctid BETWEEN '(100,0)' AND '(300,0)'",
        "Tid Range Scan",
    ),
    "nested loop": (
        _LOOP,
        "SELECT * FROM f JOIN t ON t.random = f.key WHERE f.id < 500",
        "Index Scan",
    ),
    "nested loop, ordered table": (
        _LOOP,
        "SELECT * FROM f JOIN t ON t.ordered = f.key WHERE f.id < 500",
        "Index Scan",
    ),
    "nested loop, bitmap inside": (
        f"{_LOOP} {_BITMAP}",
        "SELECT * FROM f JOIN t ON t.random = f.key WHERE f.id < 200",
        "Bitmap Heap Scan",
    ),
    "nested loop, repeated keys": (
        f"{_LOOP} enable_memoize=off",
        "SELECT * FROM f JOIN t ON t.random = f.repeated_key WHERE f.id < 5000",
        "Index Scan",
    ),
    "memoize": (
        _LOOP,
        "SELECT * FROM f JOIN t ON t.random = f.repeated_key WHERE f.id < 5000",
        "Index Scan",
    ),
    "nested loop, filter inside": (
        _LOOP,
        "SELECT * FROM f JOIN t ON t.random = f.key AND t.filtered = 3 WHERE f.id < 500",
        "Index Scan",
    ),
    "parallel nested loop": (
        f"{_LOOP} {_PARALLEL}",
        "SELECT count(t.pad) FROM f JOIN t ON t.random = f.key WHERE f.id < 900",
        "Index Scan",
    ),
    "three tables": (
        _LOOP,
        "SELECT * FROM f JOIN t ON t.random = f.key JOIN t z ON z.random = t.mixed + 1 "
        "WHERE f.id < 100",
        None,
    ),
    "partitions": ("enable_seqscan=off", "SELECT * FROM p WHERE random < 2000", None),
    "partitions, parallel": (_PARALLEL, "SELECT count(pad) FROM p", "Seq Scan"),
    "partitions, pruned": (
        "enable_seqscan=off",
        "SELECT * FROM p WHERE random < 2000 AND part BETWEEN 5 AND 9",
        None,
    ),
    "expression with": (
        "",
        "WITH x AS MATERIALIZED (SELECT * FROM t WHERE random < 500) SELECT count(*) FROM x",
        None,
    ),
    "subplan": (
        "",
        "SELECT (SELECT max(mixed) FROM t WHERE t.random = f.key) FROM f WHERE id < 300",
        "Index Scan",
    ),
    "limit": (_INDEX, "SELECT * FROM t ORDER BY random LIMIT 300", "Index Scan"),
    "limit and offset": (
        _INDEX,
        "SELECT * FROM t ORDER BY random OFFSET 900 LIMIT 9",
        "Index Scan",
    ),
    "limit with a subquery": (
        _INDEX,
        "SELECT * FROM t WHERE random > (SELECT count(*) / 1000 FROM generate_series(1, 900000)) "
        "ORDER BY random LIMIT 300",
        "Index Scan",
    ),
    "limit above a sort": ("", "SELECT * FROM t ORDER BY pad LIMIT 3", "Seq Scan"),
    "limit above a union": (
        "",
        "SELECT * FROM (SELECT pad FROM t UNION SELECT pad FROM f) AS x LIMIT 3",
        "Seq Scan",
    ),
}
# Where there may be no estimate, its bounds hold.
_BOUNDED = {
    "hashed subplan": (
        "",
        "SELECT count(*) FROM f WHERE key NOT IN (SELECT mixed FROM t WHERE random < 900) "
        "AND id < 300",
    ),
    "filter below a limit": ("", "SELECT * FROM t WHERE filtered = 3 LIMIT 200"),
    "merge join": (
        "enable_hashjoin=off enable_nestloop=off enable_seqscan=off enable_sort=off",
        "SELECT count(t.pad) FROM t JOIN f ON t.ordered = f.id",
    ),
    "ordered keys": (_LOOP, "SELECT * FROM f JOIN t ON t.ordered = f.ordered_key WHERE id < 900"),
    "semi-join": (
        _LOOP,
        "SELECT * FROM f WHERE EXISTS (SELECT pad FROM t WHERE random = f.key "
        "AND filtered < 9) AND id < 200",
    ),
    "partitions in a loop": (_LOOP, "SELECT * FROM f JOIN p ON p.random = f.key WHERE f.id < 200"),
    "keys of an expression": (
        _LOOP,
        "WITH x AS MATERIALIZED (SELECT * FROM f WHERE id < 200) "
        "SELECT * FROM x JOIN t ON t.random = x.key",
    ),
    "recursion": (
        _LOOP,
        "WITH RECURSIVE w AS (SELECT 1 AS id UNION ALL SELECT t.random FROM w "
        "JOIN t ON t.ordered = w.id + 1 WHERE w.id < 30000) SELECT * FROM w LIMIT 50",
    ),
    "list of ordered values": (_INDEX, "SELECT * FROM t WHERE ordered IN (5, 77, 7000, 20000)"),
}


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage, settings={"shared_buffers": "64MB"}) as made:
        with made.connect() as connection:
            connection.execute(_TABLES)
            connection.execute("VACUUM ANALYZE")
            connection.execute("UPDATE hidden SET changed = 1 WHERE random % 40 = 0")
            connection.execute("ANALYZE hidden")
        yield made


def _dsn(server: WatchedServer, settings: str) -> str:
    options = " ".join(f"-c {setting}" for setting in settings.split())
    place = f"host={server.socket_directory} port={server.port} user=postgres dbname=postgres"
    return f"{place} options='{options}'"


def _advice(server: WatchedServer, settings: str, statement: str) -> Any:
    outcome = run_command("check", statement, "--dsn", _dsn(server, settings), "--json")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    return json.loads(outcome.stdout)


def _pages_read(
    server: WatchedServer, settings: str, statement: str, relations: set[str]
) -> dict[str, int]:
    """Pages of each table that an execution reads, of all that its EXPLAIN counts as read."""
    counter = "SELECT pg_stat_force_next_flush(), heap_blks_read FROM pg_statio_all_tables "
    counter += "WHERE relid = %s::regclass"

    def counts() -> dict[str, int]:
        with server.connect() as connection:
            rows = {name: connection.execute(counter, (name,)).fetchone() for name in relations}
        return {name: int(row[1]) for name, row in rows.items() if row}

    with server.connect() as connection:
        for name in relations:
            connection.execute("SELECT pg_lookahead_evict(%s::regclass)", (name,))
    before = counts()
    with server.connect() as connection:
        for setting in settings.split():
            connection.execute("SELECT set_config(%s, %s, false)", setting.split("="))
        row = connection.execute(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}".encode()
        ).fetchone()
        assert row is not None
        connection.execute("SELECT pg_stat_force_next_flush()")
    read = {name: count - before[name] for name, count in counts().items()}
    # Beside those of the tables, those of the indexes; a LIMIT leaves some that were read ahead.
    assert sum(read.values()) <= row[0][0]["Plan"]["Shared Read Blocks"] + _READ_AHEAD
    return read


def _tables(advice: Any) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for node in advice["nodes"]:
        found.setdefault(node["relation"], []).append(node)
    return found


def _compare(server: WatchedServer, settings: str, statement: str) -> Any:
    """Check each table: the estimate if there is one, its bounds otherwise."""
    advice = _advice(server, settings, statement)
    tables = _tables(advice)
    for name, read in _pages_read(server, settings, statement, set(tables)).items():
        nodes = tables[name]
        if all(node["estimated_pages"] is not None for node in nodes):
            # The second scan of a table finds pages of the first one.
            most = sum(node["estimated_pages"] for node in nodes)
            least = max(node["estimated_pages"] for node in nodes)
            assert least / 2 - _SLACK <= read <= most * 2 + _SLACK, (name, nodes, read)
            continue
        assert read + _SLACK >= max(node["least_pages"] for node in nodes) * 0.9, (nodes, read)
        if all(node["most_pages"] is not None for node in nodes):
            assert read <= sum(node["most_pages"] for node in nodes) * 1.1 + _SLACK, (nodes, read)
    return advice


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("column", _ORDERS)
def test_ranges(server: WatchedServer, column: str, kind: str) -> None:
    settings, node_type = _KINDS[kind]
    known = 0
    for rows in (40, 400, 4_000, 30_000):
        first = (_ROWS - rows) // 3
        statement = f"SELECT pad FROM t WHERE {column} BETWEEN {first} AND {first + rows - 1}"
        (node,) = _compare(server, settings, statement)["nodes"]
        assert node["node_type"] == node_type
        known += node["estimated_pages"] is not None
    # The order of the others says something of long ranges only.
    assert known == 4 if column in ("ordered", "random") else known >= 2


@pytest.mark.parametrize("name", _KNOWN)
def test_other_plans(server: WatchedServer, name: str) -> None:
    settings, statement, node_type = _KNOWN[name]
    nodes = _compare(server, settings, statement)["nodes"]
    assert all(node["estimated_pages"] is not None for node in nodes), nodes
    assert node_type is None or node_type in {node["node_type"] for node in nodes}


@pytest.mark.parametrize("name", _BOUNDED)
def test_plans_that_tell_little(server: WatchedServer, name: str) -> None:
    _compare(server, *_BOUNDED[name])


def test_a_table_larger_than_shared_buffers(server_factory: ServerFactory, stage: Stage) -> None:
    """Pages that are read again are counted."""
    with server_factory(stage=stage, settings={"shared_buffers": "4MB"}) as small:
        with small.connect() as connection:
            connection.execute(_TABLES)
            connection.execute("VACUUM ANALYZE")
        statement = "SELECT pad FROM t WHERE random < 6000"
        (node,) = _compare(small, _INDEX, statement)["nodes"]
        assert node["estimated_pages"] > node["table"]["pages"]
        assert (
            "of some more than one"
            in run_command("check", statement, "--dsn", _dsn(small, _INDEX)).stdout
        )
