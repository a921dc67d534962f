"""What `lookahead check` says of nested loops, and what the library then does in them."""

from collections.abc import Iterator

import pytest
from extension.probes import QUIET, explain, nodes
from server_log import ServerFactory, WatchedServer

from lab.outcome import run_command
from lookahead.extension import Stage

_ROWS = "SELECT a, h, ARRAY[a] AS list, a::varchar(9) AS name, a::positive AS pos, pad FROM big"
_TABLES = f"""
    CREATE EXTENSION pg_lookahead;
    SELECT setseed(0.5);
    CREATE DOMAIN positive AS int CHECK (VALUE > 0);
    CREATE TABLE big AS SELECT id, 1 + (random() * 29999)::int AS a, id % 3 AS h,
        repeat('x', 300) AS pad FROM generate_series(1, 30000) AS id;
    CREATE UNIQUE INDEX ON big (id); CREATE INDEX ON big (a);
    CREATE TABLE hashed AS TABLE big; CREATE INDEX ON hashed USING hash (a);
    CREATE TABLE two AS {_ROWS}; CREATE INDEX ON two (h, a);
    CREATE TABLE three AS {_ROWS}; CREATE INDEX ON three (a, h, pos);
    CREATE TABLE lists AS {_ROWS}; CREATE INDEX ON lists (list);
    CREATE INDEX ON lists (a, list);
    CREATE TABLE names AS {_ROWS}; CREATE INDEX ON names (name);
    CREATE INDEX ON names (a, name text_pattern_ops);
    CREATE TABLE chars AS SELECT *, a::char(9) AS padded FROM big; CREATE INDEX ON chars (padded);
    CREATE TABLE sums AS {_ROWS}; CREATE INDEX ON sums ((a + 1));
    CREATE TABLE keys AS SELECT x, y, ARRAY[y] AS list, y::varchar(9) AS name, y::positive AS pos
        FROM generate_series(1, 2000) AS x, LATERAL (SELECT 1 + (x * 7919 % 29999) AS y) AS s;
"""
_LOOP = "enable_hashjoin=off enable_mergejoin=off enable_memoize=off enable_material=off"
_INDEX = f"{_LOOP} enable_seqscan=off enable_bitmapscan=off"
_BITMAP = f"{_LOOP} enable_seqscan=off enable_indexscan=off"
_EITHER = f"{_LOOP} enable_seqscan=off"
_AHEAD = ""
_NUMBERED = "(SELECT y, row_number() OVER (ORDER BY x) AS n FROM keys)"
_PORT = "current_setting('port')::int"
# Settings, what is joined, and the reason why no rows are drawn ahead, if none are.
_LOOPS = {
    "index": (_INDEX, "big JOIN keys ON a = y", _AHEAD),
    "bitmap": (_BITMAP, "big JOIN keys ON a = y", _AHEAD),
    "either": (_EITHER, "big JOIN keys ON a = y OR id = y", _AHEAD),
    "either, one fixed": (_EITHER, "big JOIN keys ON a = y OR id = 7", _AHEAD),
    "hash": (_INDEX, "hashed JOIN keys ON a = y", "inner side"),
    "second column": (_INDEX, "two JOIN keys ON a = y", "inner side"),
    "second column, fixed first": (_INDEX, "two JOIN keys ON h = 1 AND a = y", _AHEAD),
    "second column, range first": (_INDEX, "two JOIN keys ON h > 1 AND a = y", "inner side"),
    "second column, list first": (_INDEX, "two JOIN keys ON h IN (1, 2) AND a = y", "inner side"),
    "bounds behind": (_INDEX, "three JOIN keys ON a = y AND h > 0 AND h < 9", _AHEAD),
    "two bounds of a side": (
        _INDEX,
        "three JOIN keys ON a = y AND h < 9 AND h < abs(1) + 8",
        "inner side",
    ),
    "bounds of arrays": (_INDEX, "lists JOIN keys ON a = y AND lists.list > '{0}'", "inner side"),
    "bounds of texts": (_INDEX, "names JOIN keys ON a = y AND names.name LIKE '1%'", _AHEAD),
    "bound worked out": (_INDEX, f"three JOIN keys ON a = y AND h < {_PORT}", "inner side"),
    "key worked out": (_INDEX, f"two JOIN keys ON h = {_PORT} % 3 AND a = y", "inner side"),
    "InitPlan of the join": (_INDEX, "two JOIN keys ON h = (SELECT 1) AND a = y", "inner side"),
    "InitPlan above": (_INDEX, "two JOIN keys ON h = (SELECT 1) AND a = y ORDER BY x", _AHEAD),
    "bounds too far behind": (_INDEX, "three JOIN keys ON a = y AND three.pos > 0", "inner side"),
    "no NULL": (_INDEX, "big JOIN keys ON a = y AND a IS NOT NULL", _AHEAD),
    "arrays": (_INDEX, "lists JOIN keys ON lists.list = keys.list", "inner side"),
    "varchar": (_INDEX, "names JOIN keys ON names.name = keys.name", _AHEAD),
    "char": (_INDEX, "chars JOIN keys ON padded = keys.name", _AHEAD),
    "on a condition": (
        _INDEX,
        "keys LEFT JOIN LATERAL (SELECT pad FROM big WHERE a = y AND x > 9 LIMIT 1) AS one ON true",
        "inner side",
    ),
    "domain": (_INDEX, "big JOIN keys ON a = keys.pos", _AHEAD),
    "expression": (_INDEX, "sums JOIN keys ON a + 1 = y", _AHEAD),
    "max": (
        _INDEX,
        "keys, LATERAL (SELECT max(h) FROM three WHERE a = y AND pad <> 'y') AS m",
        _AHEAD,
    ),
    "made outside": (
        _INDEX,
        "big JOIN (SELECT abs(y) AS z FROM keys OFFSET 0) AS k ON a = z",
        _AHEAD,
    ),
    "cast outside": (
        _INDEX,
        "big JOIN (SELECT y::bigint AS z FROM keys OFFSET 0) AS k ON a = z",
        _AHEAD,
    ),
    "sample": (
        _INDEX,
        "(SELECT * FROM keys TABLESAMPLE SYSTEM (100)) AS k JOIN big ON a = y",
        "outer side",
    ),
    "window": (_INDEX, f"{_NUMBERED} AS k JOIN big ON a = y", "outer side"),
    "set": (
        _INDEX,
        "(SELECT y, generate_series(1, 1) FROM keys) AS k JOIN big ON a = y",
        "outer side",
    ),
    "with": (_INDEX, "k JOIN big ON a = y", "outer side"),
    "window before": (
        _INDEX,
        f"(SELECT y FROM keys WHERE x >= (SELECT min(n) FROM {_NUMBERED} AS k) OFFSET 0) AS z "
        "JOIN big ON a = y",
        _AHEAD,
    ),
}


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    settings = {**QUIET, "max_parallel_workers_per_gather": "0"}
    with server_factory(stage=test_stage, settings=settings) as made:
        with made.connect() as connection:
            connection.execute(_TABLES)
            connection.execute("VACUUM ANALYZE")
        yield made


@pytest.mark.parametrize("name", _LOOPS)
def test_loops(server: WatchedServer, name: str) -> None:
    settings, joined, reason = _LOOPS[name]
    statement = f"WITH k AS MATERIALIZED (SELECT * FROM keys) SELECT * FROM {joined}"
    options = " ".join(f"-c {setting}" for setting in settings.split())
    place = f"host={server.socket_directory} port={server.port} user=postgres dbname=postgres"
    verdict = run_command("check", statement, "--dsn", f"{place} options='{options}'").stdout
    with server.connect() as connection:
        for setting in settings.split():
            connection.execute("SELECT set_config(%s, %s, false)", setting.split("="))
        for table in ("big", "hashed", "two", "three", "lists", "names", "chars", "sums"):
            connection.execute(f"SELECT pg_lookahead_evict('{table}')")
        plan = explain(connection, statement)
    (group,) = (node["Lookahead"] for node in nodes(plan) if node["Node Type"] == "Nested Loop")
    assert group.get("Reason", _AHEAD) == reason
    assert (group.get("Drawn Rows", 0) > 1000) == (not reason)
    if not reason:
        assert verdict.startswith("WHEN COLD: about "), verdict
        return
    assert verdict.startswith("LITTLE: each execution reads few pages of the table, and"), verdict
    assert ("(outer side: see" in verdict.splitlines()[0]) == (reason == "outer side")
