"""Where `lookahead check` says that it does not know, or that nothing is gained, and not YES."""

import json
from collections.abc import Iterator

import pytest
from extension.probes import scalar
from server_log import ServerFactory, WatchedServer

from lab.outcome import Outcome, run_command
from lookahead.errors import ExitStatus
from lookahead.extension import Stage

_TABLES = """
    CREATE EXTENSION pg_lookahead;
    SELECT setseed(0.5);
    CREATE TABLE big AS SELECT id, (random() * 30000)::int AS a, repeat('x', 300) AS pad
        FROM generate_series(1, 30000) AS id;
    CREATE UNIQUE INDEX ON big (id); CREATE INDEX ON big (a); CREATE INDEX ON big (a, id);
    CREATE TABLE keys AS SELECT x, 1 + (random() * 29999)::int AS y
        FROM generate_series(1, 2000) AS x;
    CREATE TABLE par (a int, b int, pad text) PARTITION BY HASH (a);
    CREATE TABLE par_0 PARTITION OF par FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE TABLE par_1 PARTITION OF par FOR VALUES WITH (MODULUS 2, REMAINDER 1);
    INSERT INTO par SELECT id, a, pad FROM big;
    CREATE INDEX ON par (b);
    CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
    CREATE TRIGGER t BEFORE UPDATE ON par FOR EACH ROW EXECUTE FUNCTION same();
    CREATE TABLE cut AS SELECT id AS a,
        id AS bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb FROM big;
    CREATE TYPE mood AS ENUM ('good', 'bad');
    CREATE DOMAIN positive AS int CHECK (VALUE > 0);
    CREATE TABLE kinds AS SELECT 'bad'::mood AS mood, make_interval(secs => id) AS span,
        ARRAY[id] AS list, id::positive AS positive, id::text AS name
        FROM generate_series(1, 20000) AS id;
    CREATE INDEX kinds_mood ON kinds (mood);
    CREATE FUNCTION one() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
    CREATE TABLE before_row (id int);
    CREATE TRIGGER t BEFORE INSERT ON before_row FOR EACH ROW EXECUTE FUNCTION same();
    CREATE TABLE all_rows (id int);
    CREATE TRIGGER t AFTER INSERT ON all_rows REFERENCING NEW TABLE AS rows
        FOR EACH STATEMENT EXECUTE FUNCTION same();
    CREATE TABLE filled (id int, other int DEFAULT one());
    CREATE TABLE checked (id int CHECK (one() > 0));
    CREATE TABLE ruled (id int);
    CREATE RULE r AS ON INSERT TO ruled DO INSTEAD NOTHING;
    CREATE TABLE made (id int, other int, twice int GENERATED ALWAYS AS (id * 2) STORED);
    CREATE TABLE secured (id int);
    ALTER TABLE secured ENABLE ROW LEVEL SECURITY;
    CREATE ROLE clerk; GRANT INSERT ON secured TO clerk; CREATE VIEW shown AS TABLE kinds;
    CREATE TABLE clerks (id int); ALTER TABLE clerks OWNER TO clerk;
    CREATE TABLE keyed (id int PRIMARY KEY, k int); CREATE MATERIALIZED VIEW kept AS TABLE kinds;
    CREATE FUNCTION heaps(internal) RETURNS table_am_handler LANGUAGE internal
        AS 'heap_tableam_handler';
    CREATE ACCESS METHOD other TYPE TABLE HANDLER heaps;
    CREATE TABLE elsewhere USING other AS SELECT id FROM big;
"""
_LOCALES = """
    CREATE TABLE locales AS SELECT id AS number, id::text COLLATE "th-x-icu" AS thai,
        id::text COLLATE "de-x-icu" AS german FROM generate_series(1, 20000) AS id;
    CREATE INDEX locales_thai ON locales (number, thai);
    CREATE INDEX locales_german ON locales (german);
    ANALYZE locales;
"""
_LOOP = "enable_hashjoin=off enable_mergejoin=off enable_seqscan=off enable_bitmapscan=off"
_PLAIN = "DON'T KNOW: the join looks ahead for plain columns"
_PAGES = "DON'T KNOW: how many pages"
_FIRST = "LATERAL (SELECT pad FROM big WHERE a = y AND {} LIMIT 1) AS one"
_LARGER = "its rows would be inserted in larger batches"


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage, settings={"autovacuum": "off"}) as made:
        with made.connect() as connection:
            connection.execute(_TABLES)
            connection.execute("VACUUM ANALYZE")
        yield made


def _check(server: WatchedServer, statement: str, settings: str = "", *more: str) -> Outcome:
    options = " ".join(f"-c {setting}" for setting in settings.split())
    place = f"host={server.socket_directory} port={server.port} user=postgres dbname=postgres"
    return run_command("check", statement, "--dsn", f"{place} options='{options}'", *more)


@pytest.mark.parametrize(
    ("condition", "verdict"),
    [
        ("big JOIN keys ON big.id = keys.y", "WHEN COLD: "),
        ("big JOIN (SELECT y + 1 AS z FROM keys OFFSET 0) AS k ON big.id = z", "WHEN COLD: "),
        ("big JOIN keys ON big.id = keys.y + 1", _PLAIN),
        ("big JOIN keys ON big.id = (keys.y + 1) * (keys.x + 1)", _PLAIN),
        ("big JOIN keys ON big.id = abs(keys.y)", _PLAIN),
        ("big JOIN keys ON big.id = keys.y::bigint", _PLAIN),
        ("big JOIN keys ON big.a = keys.y AND big.id > keys.x + 1", _PLAIN),
        (f"keys, {_FIRST.format('id < abs(pg_backend_pid()) ORDER BY id')}", _PLAIN),
        (f"keys, {_FIRST.format('id < abs(pg_backend_pid()) ORDER BY id DESC')}", "LITTLE: each"),
        ("par JOIN keys ON par.b = keys.y", _PLAIN),
    ],
)
def test_a_join_looks_up_plain_columns(server: WatchedServer, condition: str, verdict: str) -> None:
    outcome = _check(server, f"SELECT pad FROM {condition}", _LOOP)
    assert outcome.stdout.startswith(verdict), outcome.stdout


@pytest.mark.parametrize(
    ("condition", "verdict"),
    [
        ("big WHERE id = ANY (ARRAY(SELECT y FROM keys))", _PAGES),
        ("big WHERE id = ANY ((SELECT array_agg(y) FROM keys)::int[])", _PAGES),
        ("big WHERE id = ANY ($1)", _PAGES),
        ("big JOIN unnest($1::int[]) AS u ON u = id", _PAGES),
        ("big JOIN unnest(ARRAY(SELECT y FROM keys)) AS u ON u = id", _PAGES),
        ("big WHERE id IN ($1, $2)", "LITTLE: it reads few pages"),
        ("big WHERE id = ANY ('{1,2}')", "LITTLE: it reads few pages"),
    ],
)
def test_a_list_that_is_not_seen_may_be_long(
    server: WatchedServer, condition: str, verdict: str
) -> None:
    outcome = _check(server, f"SELECT pad FROM {condition}", _LOOP)
    assert outcome.stdout.startswith(verdict), outcome.stdout


def test_pages_that_were_changed_are_not_all_visible(server: WatchedServer) -> None:
    query = "SELECT count(a) FROM changed WHERE a BETWEEN 0 AND 30000"
    with server.connect() as connection:
        connection.execute("CREATE TABLE changed AS TABLE big; CREATE INDEX ON changed (a)")
        connection.execute("SELECT pg_stat_force_next_flush()")
    with server.connect() as connection:
        connection.execute("VACUUM ANALYZE changed")
    assert _check(server, query, _LOOP).stdout.startswith("LITTLE: its pages are all-visible")
    for change in ("DELETE FROM changed WHERE 0", "UPDATE changed SET a = a + 1 WHERE 1"):
        with server.connect() as connection:
            connection.execute("VACUUM ANALYZE changed")
            connection.execute(f"{change} = id % 10")
            connection.execute("SELECT pg_stat_force_next_flush()")
        lines = _check(server, query, _LOOP).stdout.splitlines()
        assert not lines[0].startswith("LITTLE"), lines
        most = lines[2].rpartition(" of ")[0].rpartition(" ")[2]
        assert int(most.replace(",", "")) > 1000
    with server.connect() as connection:  # as a crash and a promotion do
        connection.execute("VACUUM ANALYZE changed")
        connection.execute("SELECT pg_stat_reset_single_table_counters('changed'::regclass)")
    first = _check(server, query, _LOOP).stdout.splitlines()[0]
    assert first.startswith(_PAGES), first
    assert "are not counted: ANALYZE the table" in first
    document = json.loads(_check(server, query, _LOOP, "--json").stdout, parse_constant=pytest.fail)
    assert document["nodes"][0]["table"]["changed_pages"] is None
    with server.connect() as connection:
        connection.execute("ANALYZE changed")
    assert _check(server, query, _LOOP).stdout.startswith("LITTLE: its pages are all-visible")


def test_a_materialized_view_that_was_never_analyzed(server: WatchedServer) -> None:
    with server.connect() as connection:
        connection.execute("CREATE MATERIALIZED VIEW fresh AS TABLE kinds")
    for statement, verdict in (
        ("CREATE INDEX ON fresh (name)", "DON'T KNOW: fresh was never analyzed"),
        ("COPY fresh TO STDOUT", "NO: COPY of a table reads it in order"),
        ("COPY fresh FROM STDIN", "NO: fresh is no table that rows are stored in"),
    ):
        assert _check(server, statement).stdout.startswith(verdict)


def test_a_window_may_stop_early(server: WatchedServer) -> None:
    numbered = "SELECT a, pad, row_number() OVER (ORDER BY a) AS n FROM big"
    outcome = _check(server, f"SELECT * FROM ({numbered}) AS s WHERE n <= 3", _LOOP)
    assert outcome.stdout.startswith(_PAGES)
    assert _check(server, numbered, _LOOP).stdout.startswith("WHEN COLD: ")


def test_a_whole_table_has_each_of_its_values(server: WatchedServer) -> None:
    """The pages that these lie on are within the bounds, give or take a few."""
    query = "SELECT (SELECT pad FROM big WHERE id = keys.y) FROM keys"
    with server.connect() as connection:
        row = connection.execute(
            "SELECT count(DISTINCT (big.ctid::text::point)[0]) FROM big JOIN keys ON id = y"
        ).fetchone()
    document = json.loads(_check(server, query, "", "--json").stdout, parse_constant=pytest.fail)
    (node,) = (one for one in document["nodes"] if one["relation"] == "public.big")
    assert row is not None
    assert node["estimated_pages"] / 2 < row[0] < node["estimated_pages"] * 2
    assert node["least_pages"] <= row[0] * 1.05
    assert node["most_pages"] > row[0] * 0.95


@pytest.mark.parametrize("name", ["txid_current", "pg_current_xact_id"])
def test_transaction_ids_are_not_used_up(server: WatchedServer, name: str) -> None:
    place = f"host={server.socket_directory} port={server.port} user=postgres dbname=postgres"
    outcome = run_command("check", f"SELECT {name}()", "--measure", "--dsn", place)
    assert outcome.status is ExitStatus.USAGE
    assert f"error: the statement calls volatile functions: {name}()" in outcome.stderr


def test_an_execution_that_fails(server: WatchedServer) -> None:
    place = f"host={server.socket_directory} port={server.port} user=postgres dbname=postgres"
    query = "SELECT 1 / (id - 1) FROM big"
    outcome = run_command("check", query, "--measure", "--dsn", place)
    assert outcome.status is ExitStatus.FAILURE
    assert "error: its execution failed: division by zero" in outcome.stderr
    assert "EXPLAIN" not in outcome.stderr


@pytest.mark.parametrize(
    ("statement", "verdict"),
    [
        ("CREATE INDEX ON kinds (name DESC NULLS LAST, mood)", "YES: "),
        ("CREATE INDEX ON kinds (mood)", "NO: PostgreSQL builds indexes whose first column"),
        ("CREATE INDEX ON kinds (span)", "NO: PostgreSQL builds indexes whose first column"),
        ("CREATE INDEX ON kinds (list)", "NO: PostgreSQL builds indexes whose first column"),
        ("REINDEX INDEX kinds_mood", "NO: PostgreSQL builds indexes whose first column"),
        ("REINDEX TABLE pg_class", "NO: pg_class is PostgreSQL's own"),
        ("REINDEX TABLE pg_toast.pg_toast_1255", "NO: pg_toast.pg_toast_1255 is PostgreSQL's own"),
        ("CREATE INDEX IF NOT EXISTS keys ON kinds (name)", "NO: there is such a name, so IF NOT"),
        ("CREATE INDEX IF NOT EXISTS new ON kinds (name)", "YES: "),
        ("CREATE INDEX CONCURRENTLY ON kinds (name)", "YES: "),
        ("CREATE INDEX ON kinds (positive)", "DON'T KNOW: about 20,000 rows of kinds"),
        ("CREATE INDEX ON kinds (lower(name))", "DON'T KNOW: about 20,000 rows of kinds"),
        ("CREATE INDEX ON kinds (name text_pattern_ops)", "DON'T KNOW: about 20,000 rows of"),
        ("ALTER TABLE kinds ADD PRIMARY KEY (name)", "YES: about 20,000 rows of kinds would be"),
        ("ALTER TABLE kinds ADD UNIQUE (mood)", "NO: PostgreSQL builds indexes whose first colu"),
        ("ALTER TABLE kinds ALTER name TYPE varchar", "DON'T KNOW: EXPLAIN has no plan of it: "),
        ("CREATE INDEX ON elsewhere (id)", "DON'T KNOW: PostgreSQL may build indexes of elsewhere"),
        ("CREATE INDEX ON kept (name)", "YES: "),
        ("COPY before_row FROM STDIN", f"NO: {_LARGER}, but PostgreSQL inserts them: row trigger"),
        ("COPY all_rows FROM STDIN", f"NO: {_LARGER}, but PostgreSQL inserts them: transition"),
        ("COPY pg_class FROM STDIN", f"NO: {_LARGER}, but PostgreSQL inserts them: system catal"),
        ("COPY filled (id) FROM STDIN", f"DON'T KNOW: {_LARGER}, unless functions of users"),
        ("COPY checked FROM STDIN", f"DON'T KNOW: {_LARGER}, unless functions of users"),
        ("COPY ruled FROM STDIN", f"DON'T KNOW: {_LARGER}, unless functions of users"),
        ("COPY kinds (positive) FROM STDIN", f"DON'T KNOW: {_LARGER}, unless functions of users"),
        (f"CREATE INDEX ON cut ({'b' * 70})", "YES: "),
        ("COPY par FROM STDIN", "YES: "),
        ("COPY par FROM '/x'", "YES: "),
        ("COPY par FROM PROGRAM 'x'", "YES: "),
        ("COPY made FROM STDIN", "YES: "),
        ("COPY made (other, id) FROM STDIN", "YES: "),
        ("COPY secured FROM STDIN", "YES: "),
    ],
)
def test_commands_that_the_library_may_leave_to_postgresql(
    server: WatchedServer, statement: str, verdict: str
) -> None:
    outcome = _check(server, statement)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert outcome.stdout.startswith(verdict), outcome.stdout


@pytest.fixture(scope="module")
def locales(server: WatchedServer) -> WatchedServer:
    """The server with indexes by ICU's collations, where it was built with ICU."""
    with server.connect() as connection:
        if not scalar(connection, "SELECT count(*) FROM pg_collation WHERE collname = 'und-x-icu'"):
            pytest.skip("a server without ICU has no collations that shift keys")
        connection.execute(_LOCALES)
    return server


@pytest.mark.parametrize(
    ("statement", "verdict"),
    [
        ("CREATE INDEX ON locales (thai)", "DON'T KNOW: about 20,000 rows of locales"),
        ("CREATE INDEX ON locales (number, thai)", "DON'T KNOW: about 20,000 rows of locales"),
        ("REINDEX INDEX locales_thai", "DON'T KNOW: about 20,000 rows of locales_thai"),
        ("REINDEX INDEX locales_german", "YES: "),
    ],
)
def test_collations_that_leave_a_build_to_postgresql(
    locales: WatchedServer, statement: str, verdict: str
) -> None:
    outcome = _check(locales, statement)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert outcome.stdout.startswith(verdict), outcome.stdout


def test_a_read_only_transaction_reindexes(server: WatchedServer) -> None:
    outcome = _check(server, "REINDEX TABLE big", "default_transaction_read_only=on")
    assert outcome.stdout.startswith("YES: "), outcome.stderr
    with server.connect() as connection:
        connection.execute("SET default_transaction_read_only = on; REINDEX TABLE big")


def test_roles_that_may_not_be_listed(server: WatchedServer) -> None:
    with server.connect() as connection:
        connection.execute("REVOKE SELECT ON pg_roles FROM PUBLIC")
        outcome = _check(server, "COPY made FROM '/x'", "role=clerk")
        connection.execute("GRANT SELECT ON pg_roles TO PUBLIC")
    assert "this role has no privileges of pg_read_server_files" in outcome.stderr


def test_little_memory_for_a_build(server: WatchedServer) -> None:
    outcome = _check(server, "CREATE INDEX ON kinds (name)", "maintenance_work_mem=1MB")
    assert outcome.stdout.startswith("NO: index builds are left to PostgreSQL: maintenance_work")


@pytest.mark.parametrize(
    ("statement", "settings", "cause"),
    [
        ("CREATE INDEX ON kinds (name", "", "syntax error at end of input"),
        ("CREATE INDEX ON kinds (nope)", "", "kinds has no column nope"),
        ("CREATE INDEX keys ON kinds (name)", "", "there is a keys already"),
        ("CREATE INDEX CONCURRENTLY ON par (b)", "", "par is partitioned, and CONCURRENTLY"),
        ("CREATE INDEX ON kinds (name)", "role=clerk", "this role does not own kinds"),
        ("CREATE INDEX ON clerks (id)", "role=clerk", "this role may not CREATE in the schema of "),
        ("ALTER TABLE kinds ADD UNIQUE (nope)", "", "kinds has no column nope"),
        ("ALTER TABLE kinds ADD CONSTRAINT keys UNIQUE (name)", "", "there is a keys already"),
        ("ALTER TABLE kept ADD UNIQUE (name)", "", "kept is a materialized view"),
        ("ALTER TABLE keyed ADD PRIMARY KEY (k)", "", "keyed has a primary key already"),
        ("COPY made (id, nope) FROM STDIN", "", 'column "nope" of relation "made" does not exist'),
        ("COPY made (twice) FROM STDIN", "", 'cannot insert a non-DEFAULT value into column "twi'),
        ("COPY made FROM STDIN", "role=clerk", "permission denied for table made"),
        ("COPY secured FROM STDIN", "role=clerk", "secured has row security"),
        ("COPY made FROM '/x'", "role=clerk", "this role has no privileges of pg_read_server_fil"),
        ("COPY made FROM PROGRAM 'x'", "role=clerk", "this role has no privileges of pg_execute_"),
        ("REINDEX TABLE kinds", "role=clerk", "this role may not MAINTAIN kinds"),
        ("REINDEX INDEX kinds_mood", "role=clerk", "this role may not MAINTAIN kinds_mood"),
        ("REINDEX TABLE kinds_mood", "", "kinds_mood is no table with indexes"),
        ("REINDEX INDEX kinds", "", "kinds is no index"),
        ("CREATE INDEX ON kinds_mood (mood)", "", "kinds_mood is no table with indexes"),
        ("CREATE INDEX ON shown (name)", "", "shown is no table with indexes"),
        ("COPY made FROM STDIN", "default_transaction_read_only=on", "default_transaction_read_on"),
    ],
)
def test_commands_that_postgresql_refuses(
    server: WatchedServer, statement: str, settings: str, cause: str
) -> None:
    outcome = _check(server, statement, settings)
    assert outcome.status is ExitStatus.USAGE
    assert f"error: the server refuses the statement: {cause}" in outcome.stderr
