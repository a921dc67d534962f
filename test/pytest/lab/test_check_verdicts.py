"""The verdict in the first line of `lookahead check`: of commands, inserts, functions."""

from collections.abc import Iterator
from typing import Any

import pytest
from server_log import ServerFactory, WatchedServer

from lab.outcome import Outcome, run_command
from lookahead.errors import ExitStatus
from lookahead.extension import Stage

_TABLES = """
    CREATE TABLE orders AS SELECT id, id * 7919 % 50000 AS k, repeat('x', 200) AS pad
        FROM generate_series(0, 49999) AS id;
    CREATE INDEX orders_k ON orders (k);
    CREATE UNIQUE INDEX ON orders (id);
    CREATE TABLE few AS SELECT id * 47 % 50000 AS id, id * 7919 % 50000 AS any
        FROM generate_series(1, 1000) AS id;
    CREATE TABLE odd (day date, number numeric, "k)" int);
    CREATE TABLE parts (id int, k int) PARTITION BY RANGE (id);
    CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (3000);
    CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (3000) TO (9000);
    CREATE TABLE deep (id int, k int) PARTITION BY RANGE (id);
    CREATE TABLE deep_1 PARTITION OF deep DEFAULT PARTITION BY LIST (k);
    CREATE FOREIGN DATA WRAPPER w; CREATE SERVER far FOREIGN DATA WRAPPER w;
    CREATE TABLE spread (id int) PARTITION BY LIST (id);
    CREATE FOREIGN TABLE spread_1 PARTITION OF spread DEFAULT SERVER far;
    INSERT INTO parts SELECT id, id FROM generate_series(0, 5999) AS id;
    CREATE TABLE hashed AS TABLE orders;
    CREATE INDEX hashed_k ON hashed USING hash (k);
    CREATE INDEX orders_partial ON orders (k) WHERE k < 5;
    CREATE VIEW seen AS TABLE orders;
    CREATE TABLE little (id int); INSERT INTO little VALUES (1), (2), (3);
    CREATE FUNCTION looks(int) RETURNS bigint LANGUAGE plpgsql STABLE
        AS $$ BEGIN RETURN (SELECT count(*) FROM orders WHERE k = $1); END $$;
    CREATE FUNCTION "looks too"(int) RETURNS bigint LANGUAGE plpgsql STABLE
        AS $$ BEGIN RETURN looks($1); END $$;
    ALTER DATABASE postgres SET enable_bitmapscan = off;
    ALTER DATABASE postgres SET enable_seqscan = off;
"""

_BATCHES = "NO: its rows would be inserted in larger batches, but"
_ONLY_WITH_INSERTS = (
    "LITTLE: inserting: its rows (about 50,000) would be inserted in batches, but that is "
    "switched off (pg_lookahead.{} is off)"
)


def _dsn(server: WatchedServer) -> str:
    return f"host={server.socket_directory} port={server.port} user=postgres dbname=postgres"


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage, settings={"session_preload_libraries": ""}) as made:
        with made.connect() as connection:
            connection.execute(_TABLES)
            connection.execute("VACUUM ANALYZE orders, few, little, parts, hashed")
        yield made


def _check(server: WatchedServer, statement: str, *options: str) -> Outcome:
    return run_command("check", statement, "--dsn", _dsn(server), *options)


def _content(server: WatchedServer) -> Any:
    with server.connect() as connection:
        return connection.execute(
            "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM pg_class)"
        ).fetchone()


@pytest.mark.parametrize(
    ("statement", "verdict"),
    [
        ("CREATE INDEX ON orders (k)", "YES: about 50,000 rows of orders would be sorted"),
        ("/* a */ -- b\ncreate unique index concurrently i on only public.orders (k)", "YES: "),
        ('CREATE INDEX IF NOT EXISTS "a b" ON "orders" USING btree (k)', "YES: "),
        ("CREATE INDEX ON orders USING hash (k)", "NO: only btree indexes"),
        ("CREATE INDEX ON odd (day)", "DON'T KNOW: "),
        ("CREATE INDEX ON little (id)", "LITTLE: too few rows to gain from it: little has about 3"),
        ("REINDEX INDEX CONCURRENTLY orders_k", "YES: about 50,000 rows"),
        ("REINDEX (VERBOSE) TABLE orders;", "YES: "),
        ("COPY orders (id, k) FROM STDIN", "YES: its rows would be inserted into orders"),
        ("COPY parts FROM PROGRAM 'freeze where' (NULL \"on_error\") -- where", "YES: "),
        ("COPY orders FROM STDIN WHERE k > 5", f"{_BATCHES} a COPY with WHERE is left to"),
        ("COPY orders FROM STDIN (FORMAT csv, on_error ignore)", f"{_BATCHES} a COPY with ON_ERR"),
        ("COPY orders (id) FROM '/x' FREEZE", f"{_BATCHES} a COPY with FREEZE is left to"),
        ('COPY odd (day, "k)") FROM STDIN (FORCE_NULL (freeze))', "YES: "),
        ("COPY deep FROM STDIN", f"{_BATCHES} partitions of deep are partitioned again"),
        ("COPY deep_1 FROM STDIN", "YES: "),
        ("COPY spread FROM STDIN", f"{_BATCHES} partitions of spread are foreign tables"),
        ("CREATE INDEX ON parts (k)", "LITTLE: too few rows to gain from it: parts has"),
        ("CREATE INDEX ON ONLY parts (k)", "NO: ONLY parts builds nothing"),
        ("CREATE INDEX ON orders (k) WHERE k < 5", "DON'T KNOW: of about 50,000 rows of orders"),
        ("CREATE INDEX ON orders (k, (k || ' where '))", "YES: "),
        ('CREATE INDEX ON orders (k, id "where") /* where */ -- where', "YES: "),
        ("CREATE INDEX ON orders (k, (orders.where))", "YES: "),
        ("CREATE /* a /* b */ c */ INDEX ON orders ((k || ')')) WHERE k < 5", "DON'T KNOW: "),
        ("REINDEX INDEX orders_partial", "DON'T KNOW: of about 50,000 rows of orders_partial"),
        (
            "REINDEX INDEX hashed_k",
            "NO: only btree indexes are built by pg_lookahead, and hashed_k",
        ),
        ("REINDEX TABLE hashed", "NO: only btree indexes"),
        ("COPY seen FROM STDIN", "NO: seen is no table that rows are stored in"),
        ("SELECT * INTO made FROM orders", "YES: inserting: its rows (about 50,000)"),
        ("COPY orders TO STDOUT", "NO: COPY of a table reads it in order"),
        ("INSERT INTO orders SELECT * FROM orders", "YES: inserting: its rows (about 50,000)"),
        ("CREATE TABLE made AS TABLE orders", "YES: inserting: its rows (about 50,000)"),
        (
            "INSERT INTO orders SELECT * FROM orders RETURNING id",
            "LITTLE: inserting: PostgreSQL inserts its rows one by one: RETURNING; reading: ",
        ),
        ("INSERT INTO orders VALUES (1)", "LITTLE: inserting: too few rows to gain"),
    ],
)
def test_verdicts_of_commands(server: WatchedServer, statement: str, verdict: str) -> None:
    before = _content(server)
    outcome = _check(server, statement)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert outcome.stdout.startswith(verdict)
    measured = _check(server, statement, "--measure")
    assert measured.status is ExitStatus.USAGE
    assert _content(server) == before


@pytest.mark.parametrize(("table", "verdict"), [("orders", "NO: "), ("parts", "YES: ")])
def test_tables_that_are_not_extended_in_bulk(
    server: WatchedServer, table: str, verdict: str
) -> None:
    dsn = f"{_dsn(server)} options='-c pg_lookahead.bulk_extend_size=0'"
    outcome = run_command("check", f"COPY {table} FROM STDIN", "--dsn", dsn)
    assert outcome.stdout.startswith(verdict)


@pytest.mark.parametrize(
    ("table", "cause"),
    [
        ("a.b.c.d", "improper qualified name (too many dotted names): a.b.c.d"),
        ("other.public.orders", "cross-database references are not implemented"),
        ("nowhere", 'relation "nowhere" does not exist'),
    ],
)
def test_tables_that_are_not_there(server: WatchedServer, table: str, cause: str) -> None:
    outcome = _check(server, f"COPY {table} FROM STDIN")
    assert outcome.status is ExitStatus.USAGE
    assert f"error: the server refuses the statement: {cause}" in outcome.stderr


@pytest.mark.parametrize(
    ("statement", "verdict"),
    [
        ("COPY orders FROM STDIN", _BATCHES),
        ("INSERT INTO orders SELECT * FROM orders", _ONLY_WITH_INSERTS),
        ("CREATE TABLE made AS TABLE orders", _ONLY_WITH_INSERTS),
    ],
)
def test_inserts_switched_off(server: WatchedServer, statement: str, verdict: str) -> None:
    for switch in ("enable_bulk_insert", "enabled"):
        dsn = f"{_dsn(server)} options='-c pg_lookahead.{switch}=off'"
        outcome = run_command("check", statement, "--dsn", dsn)
        assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
        reads = "NO" if switch == "enabled" else "LITTLE"
        expected = verdict.replace("LITTLE", reads).format(switch)
        assert outcome.stdout.startswith(expected), outcome.stdout


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT * FROM few JOIN orders o ON o.id = few.any", "WHEN COLD: "),
        ("SELECT (SELECT pad FROM orders o WHERE o.id = few.any) FROM few", "WHEN COLD: "),
        ("SELECT * FROM few JOIN orders o USING (id)", "DON'T KNOW: the join looks the rows up in"),
        (
            "SELECT * FROM (SELECT count(*) AS x FROM few GROUP BY id) f JOIN orders o ON o.id = x",
            "DON'T KNOW: how many pages",
        ),
        (
            "SELECT * FROM (SELECT generate_series(1, 5000) * 7 AS x) f JOIN orders o ON o.id = x",
            "LITTLE: each execution reads few pages of the table, and none looks ahead to the next "
            "one (outer side: see docs/troubleshooting.md, reasons)",
        ),
        (
            "SELECT * FROM few JOIN orders o ON o.id = few.any LIMIT 500",
            "DON'T KNOW: the join may be left before its end",
        ),
    ],
    ids=["loop", "subplan", "in order", "function", "set", "limit"],
)
def test_joins(server: WatchedServer, statement: str, expected: str) -> None:
    """Each lookup reads a page; a nested loop and a sequential scan read those of many ahead."""
    options = "-c enable_hashjoin=off -c enable_mergejoin=off"
    for switch, verdict in (("on", expected), ("off", "LITTLE: ")):
        dsn = f"{_dsn(server)} options='{options} -c pg_lookahead.enable_join_prefetch={switch}'"
        outcome = run_command("check", statement, "--dsn", dsn)
        assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
        assert outcome.stdout.startswith(verdict), outcome.stdout


@pytest.mark.parametrize(
    ("name", "value"),
    [("pg_lookahead.enable_index_build", "off"), ("max_parallel_maintenance_workers", "0")],
)
def test_builds_switched_off(server: WatchedServer, name: str, value: str) -> None:
    dsn = f"{_dsn(server)} options='-c {name}={value}'"
    outcome = run_command("check", "CREATE INDEX ON orders (k)", "--dsn", dsn)
    assert outcome.stdout.startswith(f"NO: index builds are left to PostgreSQL: {name} is {value}")


@pytest.mark.parametrize(
    ("statement", "verdict"),
    [
        ("SELECT looks(7)", "DON'T KNOW: statements inside functions are not seen (looks)"),
        ("SELECT * FROM public.looks(7)", "DON'T KNOW: "),
        ("SELECT \"looks too\"(7), 'upper(x)'", "DON'T KNOW: "),
        ("SELECT upper('a'), now()", "NO: the plan reads no table"),
        ("SELECT round(random()::numeric), log(random()::numeric)", "NO: the plan reads no table"),
        ("SELECT col_description(k, 1) FROM orders", "DON'T KNOW: "),
        ("SELECT ts_debug('a')", "DON'T KNOW: "),
        ("SELECT looks(k), pad FROM orders WHERE k BETWEEN 100 AND 3000 ORDER BY k", "WHEN COLD: "),
    ],
)
def test_statements_inside_functions_are_not_seen(
    server: WatchedServer, statement: str, verdict: str
) -> None:
    outcome = _check(server, statement)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert outcome.stdout.startswith(verdict)
    names = ("looks", "col_description", "ts_debug")
    assert ("inside functions" in outcome.stdout) == any(name in statement for name in names)


@pytest.mark.parametrize(
    "call",
    [
        "table_to_xml('orders', true, false, '')",
        "database_to_xml(true, false, '')",
        "cursor_to_xml('c', 7, true, false, '')",
        "query_to_xml('TABLE orders', true, false, '')",
        "pg_input_is_valid('7', 'int')",
    ],
)
def test_what_texts_name_is_not_seen(server: WatchedServer, call: str) -> None:
    name = call.partition("(")[0]
    expected = f"DON'T KNOW: statements inside functions are not seen ({name})"
    assert _check(server, f"SELECT {call}").stdout.startswith(expected)
