"""`lookahead check` where others may create objects: whose code runs, and what it may leave behind.

The traps raise an error when they are called, whoever calls them; the server's own session is a
superuser's, whose rights are what a trap is after.
"""

from collections.abc import Iterator

import pytest
from server_log import ServerFactory, WatchedServer

from lab.outcome import Outcome, run_command
from lab.volatile import VOLATILE
from lookahead.check.facts import cached_bytes, collect_facts
from lookahead.check.target import cold_maker
from lookahead.device.probe.place import tablespace_folder
from lookahead.errors import ExitStatus, UsageError
from lookahead.extension import Stage
from lookahead.guarded_connection import open_guarded
from lookahead.installation import Installation

_TRAP = "LANGUAGE plpgsql AS $$ BEGIN RAISE 'a trap was called'; END $$"
# What the lab calls and compares with, in a schema that is searched before the server's own, by
# exact argument types, which win.
_FUNCTIONS = (
    "current_setting(text)",
    "set_config(text, text, boolean)",
    "pg_size_bytes(text)",
    "pg_relation_size(oid)",
    "pg_table_size(oid)",
    "pg_relation_filenode(oid)",
    "format(text, text, text)",
    "to_regclass(text)",
    "has_function_privilege(oid, text)",
    "current_database()",
    "pg_is_in_recovery()",
    "unnest(oid[])",
)
_OPERATORS = (
    ("=", "oid", "oid"),
    ("=", "name", "name"),
    ("=", "name", "text"),
    ("=", "char", "char"),
    ("=", "text", "text"),
    ("<>", "integer", "integer"),
    ("/", "bigint", "integer"),
    ("||", "text", "text"),
    ("~~", "text", "text"),
    ("!~~", "text", "text"),
)
_RELATIONS = ("pg_class", "pg_namespace", "pg_stats", "pg_proc", "pg_buffercache", "pg_tablespace")
_HOSTILE = """
    CREATE TABLE orders AS SELECT id, id % 100 AS k, 'x' AS pad FROM generate_series(1, 5000) AS id;
    CREATE INDEX orders_k ON orders (k);
    CREATE SCHEMA trap;
"""
_QUERY = "SELECT * FROM orders WHERE k = 7"


def _traps() -> Iterator[str]:
    yield _HOSTILE
    for function in _FUNCTIONS:
        yield f"CREATE FUNCTION trap.{function} RETURNS text {_TRAP}"
    for number, (operator, left, right) in enumerate(_OPERATORS):
        kinds = f'"{left}"' if left == "char" else left, f'"{right}"' if right == "char" else right
        yield f"CREATE FUNCTION trap.operator_{number}({kinds[0]}, {kinds[1]}) RETURNS bool {_TRAP}"
        yield (
            f"CREATE OPERATOR trap.{operator} (LEFTARG = {kinds[0]}, RIGHTARG = {kinds[1]}, "
            f"FUNCTION = trap.operator_{number})"
        )
    yield f"CREATE FUNCTION trap.evil() RETURNS int {_TRAP}"
    for relation in _RELATIONS:
        yield f"CREATE VIEW trap.{relation} AS SELECT trap.evil() AS oid, 0 AS relfilenode"


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage) as made:
        with made.connect() as connection:
            connection.execute("CREATE DATABASE hostile")
        with made.connect("hostile") as connection:
            for statement in _traps():
                connection.execute(statement)
            connection.execute("ANALYZE orders")
            connection.execute("ALTER DATABASE hostile SET search_path = trap, pg_catalog, public")
        yield made


def _dsn(server: WatchedServer, database: str, user: str = "postgres") -> str:
    place = f"host={server.socket_directory} port={server.port}"
    return f"{place} user={user} dbname={database}"


def _check(server: WatchedServer, statement: str, *options: str, user: str = "postgres") -> Outcome:
    return run_command("check", statement, "--dsn", _dsn(server, "postgres", user), *options)


def test_no_trap_is_called_for_a_plan(server: WatchedServer) -> None:
    # With names and operators in the way of the statement's own, it is the user's.
    outcome = run_command("check", "TABLE orders", "--dsn", _dsn(server, "hostile"), "--measure")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert "Seq Scan on public.orders" in outcome.stdout
    assert "rows:       5,000, the same" in outcome.stdout


def test_no_trap_is_called_for_a_probe(server: WatchedServer) -> None:
    place = tablespace_folder("pg_default", _dsn(server, "hostile"))
    assert place.folder == server.data_directory / "base"


def test_an_eviction_in_a_hostile_database(server: WatchedServer) -> None:
    """The function of the extension, in a schema with an odd name, beside others of its name."""
    with server.connect("hostile") as connection:
        connection.execute(
            f"""SET search_path = pg_catalog;
            CREATE SCHEMA "odd ""%s"; CREATE EXTENSION pg_lookahead SCHEMA "odd ""%s";
            CREATE FUNCTION trap.pg_lookahead_evict(regclass) RETURNS void {_TRAP};
            CREATE FUNCTION public.pg_lookahead_evict(regclass) RETURNS void {_TRAP}"""
        )
    options = ("--measure", "--cold", "--repetitions", "1")
    outcome = run_command("check", "TABLE orders", "--dsn", _dsn(server, "hostile"), *options)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert "caches:     cold: 1 relations evicted" in outcome.stdout


def test_a_function_of_the_name_alone_is_never_called(server: WatchedServer) -> None:
    with server.connect() as connection:
        connection.execute(
            f"CREATE FUNCTION public.pg_lookahead_evict(regclass) RETURNS void {_TRAP}"
        )
    outcome = _check(server, "TABLE pg_catalog.pg_am", "--measure", "--cold")
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "has no function pg_lookahead_evict(regclass) of the extension" in outcome.stderr


def test_a_view_of_the_name_alone_is_never_read(server: WatchedServer) -> None:
    with server.connect() as connection:
        connection.execute(
            f"CREATE FUNCTION public.evil() RETURNS int {_TRAP};"
            "CREATE VIEW public.pg_buffercache AS "
            "SELECT public.evil() AS relfilenode, 0 AS reldatabase"
        )
    outcome = _check(server, "TABLE pg_catalog.pg_am")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert "of it are there now" not in outcome.stdout


def test_the_extensions_own_view_is_read(
    server: WatchedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server.connect("hostile") as connection:
        known = connection.execute(
            "SELECT FROM pg_catalog.pg_available_extensions "
            "WHERE name OPERATOR(pg_catalog.=) 'pg_buffercache'"
        ).rowcount
        if not known:
            pytest.skip("this server has no pg_buffercache")
        connection.execute('SET search_path = pg_catalog; CREATE SCHEMA "a %s"')
        connection.execute('CREATE EXTENSION pg_buffercache SCHEMA "a %s"')
    with open_guarded(_dsn(server, "hostile"), "test") as connection:
        connection.execute("SELECT pg_catalog.count(*) FROM public.orders")
        plan = {"Node Type": "Seq Scan", "Schema": "public", "Relation Name": "orders"}
        facts = collect_facts(connection, plan, cached_bytes(connection))
        relation = facts.relations["public", "orders"]
        assert relation.cached_bytes == relation.pages * 8192
        # The view makes a row of each buffer.
        monkeypatch.setattr("lookahead.check.facts._MOST_BUFFERS_BYTES", 0)
        assert cached_bytes(connection) is None


def test_names_in_the_statement_are_the_users(server: WatchedServer) -> None:
    with server.connect() as connection:
        connection.execute(
            "CREATE SCHEMA mine; CREATE TABLE mine.things (id int);"
            "CREATE ROLE owner SUPERUSER LOGIN; ALTER ROLE owner SET search_path = mine"
        )
    outcome = _check(server, "TABLE things", "--measure", user="owner")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert "Seq Scan on mine.things" in outcome.stdout


@pytest.fixture(scope="module")
def volatile(server: WatchedServer) -> WatchedServer:
    with server.connect() as connection:
        connection.execute(VOLATILE)
    return server


@pytest.mark.parametrize(
    ("statement", "function"),
    [
        ("VALUES (random())", "random()"),
        ("SELECT v.f(1)", "v.f(integer)"),
        ("SELECT a FROM v.t ORDER BY v.f(a)", "v.f(integer)"),
        ("SELECT 1 FROM v.t WHERE a IN (SELECT v.f(b) FROM v.t)", "v.f(integer)"),
        ("SELECT a FROM v.t LIMIT v.f(1)", "v.f(integer)"),
        ("SELECT v.inlined(a) FROM v.t", "v.f(integer)"),
        ("TABLE v.nested", "v.f(integer)"),
        ("SELECT OPERATOR(v.@@@) a FROM v.t", "v.f(integer)"),
        ("SELECT ROW(a)::v.pair::int FROM v.t", "v.cast_pair(v.pair)"),
        ("SELECT v.total(a) FROM v.t", "v.step(integer,integer)"),
        ("SELECT v.total(a) OVER () FROM v.t", "v.step(integer,integer)"),
        ("SELECT a::v.above FROM v.t", "v.f(integer)"),
        ("SELECT e::v.checked FROM v.t", "v.f(integer)"),
        ("TABLE v.parsed", "v.f(integer)"),
        ("SELECT jsonb_populate_record(NULL::v.record, '{}')", "v.f(integer)"),
        ("SELECT * FROM json_to_record('{}') AS r(a v.above)", "v.f(integer)"),
        ("SELECT * FROM jsonb_to_recordset('[]') AS r(a v.record)", "v.f(integer)"),
        ("SELECT JSON_VALUE(jsonb '1', '$' RETURNING v.checked) FROM v.t", "v.f(integer)"),
        (
            "SELECT * FROM JSON_TABLE(jsonb '[1]', '$[*]' COLUMNS (a v.checked PATH '$'))",
            "v.f(integer)",
        ),
        ("SELECT e::v.span FROM v.t", "v.f(integer)"),
        (
            "SELECT jsonb_populate_record(r, '{}') FROM (SELECT d FROM v.values) AS r",
            "v.f(integer)",
        ),
        ("SELECT jsonb_populate_record_valid(r, '{}') FROM v.records", "v.f(integer)"),
        ("SELECT jsonb_populate_record(v.two(), '{}')::text", "v.f(integer)"),
        ("SELECT * FROM generate_series(1, v.f(2))", "v.f(integer)"),
        ("SELECT nextval('v.s')", "nextval(regclass)"),
        ("SELECT pg_input_is_valid('a', 'v.checked')", "pg_input_is_valid(text,text)"),
        ("SELECT * FROM pg_input_error_info('a', 'v.checked')", "pg_input_error_info(text,text)"),
        ("SELECT schema_to_xml('v', true, true, '')", "schema_to_xml(name,boolean,boolean,text)"),
        # So long a tree that lines are broken between a label and its number.
        (f"SELECT {'-(' * 50}v.f(a){')' * 50} FROM v.t", "v.f(integer)"),
        ("SELECT a FROM v.t TABLESAMPLE SYSTEM (v.f(5))", "v.f(integer)"),
        ("SELECT o FROM v.ordered ORDER BY o", "v.sorts(v.odd,v.odd)"),
        ("SELECT os FROM v.ordered ORDER BY os", "v.sorts(v.odd,v.odd)"),
        ("SELECT greatest(os, os) FROM v.ordered", "v.sorts(v.odd,v.odd)"),
        ("SELECT w FROM v.wrapped ORDER BY w", "v.sorts(v.odd,v.odd)"),
        ("SELECT h FROM v.ordered AS h ORDER BY h", "v.sorts(v.odd,v.odd)"),
        ("SELECT DISTINCT t FROM v.felt", "v.alike(v.twin,v.twin)"),
        ("SELECT m FROM v.felt WHERE ts = ts", "v.alike(v.twin,v.twin)"),
        ("SELECT to_json(m) FROM v.felt", "v.told(v.mood)"),
        ("SELECT 'x' || n FROM v.felt", "v.said(v.tone)"),
        ("SELECT quote_literal(n) FROM v.felt", "v.said(v.tone)"),
        ("SELECT v.glue(n) FROM v.felt", "v.said(v.tone)"),
        ("SELECT to_jsonb(ms) FROM v.felt", "v.told(v.mood)"),
        ("SELECT json_agg(f) FROM v.felt AS f", "v.told(v.mood)"),
        ("SELECT to_json(v.feel())", "v.told(v.mood)"),
        ("SELECT v.feel() = v.feel()", "v.alike(v.twin,v.twin)"),
        ("SELECT to_json(v.opaque())", "v.told(v.mood)"),
        ("SELECT to_json(v.veiled())", "v.told(v.mood)"),
        ("SELECT jsonb_populate_record(v.opaque(), '{}')::text", "v.f(integer)"),
        ("SELECT to_json(most_common_vals) FROM pg_stats", "v.told(v.mood)"),
        ("SELECT to_json(s) FROM pg_statistic AS s", "v.told(v.mood)"),
        ("SELECT (v.two()).d", "v.f(integer)"),
        ("SELECT v.last(d) FROM v.records", "v.f(integer)"),
        ("SELECT v.last(d) OVER () FROM v.records", "v.f(integer)"),
        ("SELECT ns FROM v.arrays WHERE ns && '{1}'", "v.compare(integer,integer)"),
        ("SELECT i || 'x' FROM v.values", "v.as_text(date)"),
        ("SELECT array_agg(d) FROM v.records", "v.f(integer)"),  # workers send it
        ("SELECT v.begun(a) OVER () FROM v.t", "v.f(integer)"),
        ("SELECT a::v.lazy FROM v.t", "v.f(integer)"),
        ("SELECT array_length('{5}'::v.checked[], 1)", "v.f(integer)"),
        ("SELECT a::v.hidden FROM v.t", "v.f(integer)"),
        ("SELECT c FROM v.networks ORDER BY c USING OPERATOR(v.<<<)", "v.across(inet,inet)"),
        ("SELECT v.whole(a, a + 3) FROM v.t", "v.canonical(v.whole)"),
        ("SELECT fmgr_sql_validator('v.stable'::regproc)", "fmgr_sql_validator(oid)"),
        ("SELECT domain_in('1', 'v.checked'::regtype, -1)::text", "domain_in(cstring,oid,integer)"),
        ("SELECT array_in('{1}', 'v.checked'::regtype, -1)", "array_in(cstring,oid,integer)"),
    ],
)
def test_volatile_functions_are_not_called(
    volatile: WatchedServer, statement: str, function: str
) -> None:
    outcome = _check(volatile, statement, "--measure", "--repetitions", "1")
    assert outcome.status is ExitStatus.USAGE, outcome.stdout
    assert "error: the statement calls volatile functions: " in outcome.stderr
    assert function in outcome.stderr
    assert "--allow-volatile" in outcome.stderr


@pytest.mark.parametrize(
    ("call", "function"),
    [
        ("crosstab('SELECT 1, 2, 3')", "crosstab"),
        ("connectby('t', 'a', 'b', '1', 0)", "connectby"),
    ],
)
def test_functions_in_c_that_execute_texts(
    volatile: WatchedServer, installation: Installation, call: str, function: str
) -> None:
    """They are declared stable."""
    if not (installation.pkglibdir / "tablefunc.so").exists():
        pytest.skip("this server has no tablefunc")
    with volatile.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS tablefunc")
    statement = f"SELECT * FROM {call} AS t(a text, b text, c int)"
    outcome = _check(volatile, statement)
    assert outcome.stdout.startswith("DON'T KNOW: statements inside functions are not seen")
    measured = _check(volatile, statement, "--measure")
    assert measured.status is ExitStatus.USAGE
    assert f"volatile functions: public.{function}(" in measured.stderr


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT now(), count(*), sum(a), lower(min(e)) FROM v.t WHERE a + 1 > v.stable(b) - 9",
        "SELECT a, rank() OVER (ORDER BY b) FROM v.t ORDER BY e || 'x' LIMIT 5",
        "SELECT a FROM v.t WHERE (a, b) > (0, 1) AND a = ANY (ARRAY[1, 2, 3, 4, 5, 6, 7, 8, 9])",
        "SELECT e::text::varchar(3), a::numeric, b::text::int FROM v.t;",
        "TABLE v.placed",  # an index of its class would call one
        "TABLE v.arrays",
        "TABLE v.guarded",  # a superuser bypasses the policy
        "SELECT to_json(c), to_json(n), to_jsonb(r), quote_literal(c), i + 1 FROM v.values",
        "SELECT (r).c, any_value(d) FROM v.records GROUP BY r",
        "SELECT array_agg(d) OVER () FROM v.records",
        "SELECT v.first(a) OVER () FROM v.t",  # there is no first state to be made
        "SELECT lag(d) OVER w, first_value(r) OVER w FROM v.records WINDOW w AS (ORDER BY d)",
        "SELECT coalesce(d, d), greatest(d, d), ds[1], CASE a WHEN 1 THEN d END FROM v.t, v.values",
        "SELECT count(d), min(d), max(a.d) FROM v.values AS a WHERE d > 0 GROUP BY ds",
    ],
)
def test_other_functions_are_called(volatile: WatchedServer, statement: str) -> None:
    outcome = _check(volatile, statement, "--measure", "--repetitions", "1")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert "read-only, rolled back; what functions do beside tables" in outcome.stdout


def test_a_foreign_partition_is_not_read(
    volatile: WatchedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session that executes may need one that the plan of this one leaves out."""
    trees = ["{PLANNEDSTMT :planTree {APPEND :appendplans ({SEQSCAN } {FOREIGNSCAN })}}"]
    monkeypatch.setattr("lookahead.check.statement._plan_trees", lambda *_: trees)
    outcome = _check(volatile, "TABLE v.t", "--measure")
    assert outcome.status is ExitStatus.USAGE
    assert "error: the statement reads tables of other servers" in outcome.stderr


@pytest.mark.parametrize(
    "node", [{"Node Type": "Foreign Scan"}, {"Custom Plan Provider": "Citus Adaptive"}]
)
def test_a_foreign_table_is_not_read(
    volatile: WatchedServer, monkeypatch: pytest.MonkeyPatch, node: dict[str, str]
) -> None:
    """What its server executes, a program for example, is not undone; no wrapper is needed here."""
    plan = {"Node Type": "Append", "Plans": [{"Node Type": "Custom Scan", **node}]}
    monkeypatch.setattr("lookahead.commands.check.advise_on", lambda *_: (plan, None))
    outcome = _check(volatile, "SELECT 1", "--measure")
    assert outcome.status is ExitStatus.USAGE
    assert "error: the statement reads tables of other servers" in outcome.stderr
    scan = {"Node Type": "Foreign Scan", "Schema": "public", "Relation Name": "far"}
    with pytest.raises(UsageError, match="reads no table of this server"):
        cold_maker("", scan)


def test_a_policy_is_looked_into(volatile: WatchedServer) -> None:
    """Also as a role that may not keep the plan's tree out of the server's log."""
    outcome = _check(volatile, "TABLE v.guarded", "--measure", user="watched")
    assert outcome.status is ExitStatus.USAGE
    assert "volatile functions: v.f(integer)" in outcome.stderr


def test_the_tree_of_a_superusers_plan_is_not_logged(volatile: WatchedServer) -> None:
    logged = len(volatile.read_log())
    assert _check(volatile, "TABLE v.t", "--measure").status is ExitStatus.SUCCESS
    assert "PLANNEDSTMT" not in volatile.read_log()[logged:]


def test_what_a_read_only_transaction_does_not_prevent(server: WatchedServer) -> None:
    statement = "SELECT pg_create_physical_replication_slot('left_behind')"
    slots = "SELECT count(*) FROM pg_replication_slots"
    refused = _check(server, statement, "--measure")
    assert refused.status is ExitStatus.USAGE
    assert "pg_create_physical_replication_slot(name,boolean,boolean)" in refused.stderr
    with server.connect() as connection:
        assert connection.execute(slots).fetchone() == (0,)
    _check(server, statement, "--measure", "--allow-volatile")
    with server.connect() as connection:
        assert connection.execute(slots).fetchone() == (1,)
        connection.execute("SELECT pg_drop_replication_slot('left_behind')")
