"""A COPY FROM does what stock's does: rows, their order, the command's tag, all of an error."""

from __future__ import annotations

from dataclasses import replace

import pytest
from extension.probes import Connection
from server_log import WatchedServer

from bulk_insert.arms import DEFAULT, EXTENTS, STOCK, Counters
from bulk_insert.copying import MANY, Case, assert_same_error, copy, lines, make, run

_LOGGED = """
    CREATE TABLE log (at int GENERATED ALWAYS AS IDENTITY, who text, k int);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO log (who, k) VALUES (TG_NAME, CASE WHEN TG_LEVEL = 'ROW' THEN NEW.k END);
            RETURN NULL;
        END $$;
    CREATE TABLE t (k int, s text)
"""
_LOG = "SELECT who, k FROM log ORDER BY at"
_CSV = "".join(f'{k},"value, {k}"\n' for k in range(1, MANY))
_ODD = "".join(f"{k}\t{'x' * (k * 37 % 5000)}\n" for k in range(600))

_ROWS = {
    "text": Case(),
    "one_row": Case(data=lines(1)),
    "no_rows": Case(data=""),
    "no_columns": Case("CREATE TABLE t ()", data="\n" * 500),
    "end_of_data": Case(data=lines(300) + "\\.\n"),
    "no_last_newline": Case(data=lines().rstrip("\n")),
    "carriage_returns": Case(data=lines().replace("\n", "\r\n")),
    "csv": Case(data=_CSV, options="(FORMAT csv)"),
    "csv_lines_in_values": Case(data=_CSV.replace(", ", "\n"), options="(FORMAT csv)"),
    "csv_header": Case(data="a,b\n" + _CSV, options="(FORMAT csv, HEADER)"),
    "header_match": Case(data="k\ts\n" + lines(), options="(HEADER match)"),
    "csv_quotes": Case(
        data="".join(f"{k};$a$$b{k}$\n" for k in range(MANY)),
        options="(FORMAT csv, DELIMITER ';', QUOTE '$')",
    ),
    "nulls": Case(data=lines().replace("value 7\n", "NIX\n"), options="(NULL 'NIX')"),
    "force_null": Case(data='1,""\n2,"x"\n' * 400, options="(FORMAT csv, FORCE_NULL (s), NULL '')"),
    "force_not_null": Case(data="1,\n2,x\n" * 400, options="(FORMAT csv, FORCE_NOT_NULL (s))"),
    "default_marker": Case(
        "CREATE TABLE t (k int DEFAULT 7, s text DEFAULT 'none')",
        lines(700).replace("value 6", "@"),
        "(DEFAULT '@')",
    ),
    "latin1": Case(
        data=lines().replace("value", "Größe").encode("latin-1"), options="(ENCODING 'latin1')"
    ),
    "columns": Case(
        "CREATE SEQUENCE q; CREATE TABLE t (a int DEFAULT nextval('q'), s text, k int, "
        "b date DEFAULT 'epoch')",
        target="t (k, s)",
    ),
    "identity": Case(
        "CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY, k int, s text)", target="t (k, s)"
    ),
    "generated": Case(
        "CREATE TABLE t (k int, s text, g int GENERATED ALWAYS AS (k * 2) STORED, "
        "v text GENERATED ALWAYS AS (s || '!') VIRTUAL CHECK (v <> ''))"
    ),
    "dropped": Case("CREATE TABLE t (x int, k int, y text, s text); ALTER TABLE t DROP x, DROP y"),
    "enum": Case(
        "CREATE TYPE e AS ENUM ('x', 'y'); CREATE TABLE t (k int, s e CHECK (s <> 'y'))",
        "".join(f"{k}\tx\n" for k in range(MANY)),
    ),
    "toast_all": Case(
        "CREATE TABLE t (k int, s text STORAGE EXTERNAL)",
        "".join(f"{k}\t{'y' * 3000}\n" for k in range(200)),
    ),
    "fillfactor": Case("CREATE TABLE t (k int, s text) WITH (fillfactor = 30)"),
    "unlogged": Case("CREATE UNLOGGED TABLE t (k int, s text)"),
    "temporary": Case("DROP TABLE IF EXISTS pg_temp.t; CREATE TEMPORARY TABLE t (k int, s text)"),
    "read_only_temporary": Case(
        "DROP TABLE IF EXISTS pg_temp.t; CREATE TEMPORARY TABLE t (k int, s text)",
        inside="SET TRANSACTION READ ONLY",
    ),
    "truncated": Case(inside="TRUNCATE t"),
    "truncated_with_index": Case(
        "CREATE TABLE t (k int PRIMARY KEY, s text); CREATE INDEX ON t (s)", inside="TRUNCATE t"
    ),
    "frozen": Case(options="(FREEZE)", inside="TRUNCATE t"),
    "indexes": Case(
        "CREATE TABLE t (k int PRIMARY KEY, s text); CREATE INDEX ON t (s); "
        "CREATE INDEX ON t (k) WHERE k % 2 = 0; CREATE INDEX ON t USING hash (s)",
        after=f"SELECT count(*) FROM generate_series(1, {MANY}) g JOIN t ON t.s = 'value ' || g",
    ),
    "foreign_key": Case(
        f"CREATE TABLE p AS SELECT generate_series(1, {MANY}) k; ALTER TABLE p ADD PRIMARY KEY (k);"
        "CREATE TABLE t (k int REFERENCES p, s text)"
    ),
    "triggers": Case(
        f"{_LOGGED};"
        "CREATE TRIGGER a BEFORE INSERT ON t EXECUTE FUNCTION note();"
        "CREATE TRIGGER b AFTER INSERT ON t FOR EACH ROW WHEN (NEW.k % 7 = 0) "
        "EXECUTE FUNCTION note();"
        "CREATE TRIGGER c AFTER INSERT ON t EXECUTE FUNCTION note()",
        after=_LOG,
    ),
    "deferred_trigger": Case(
        f"{_LOGGED};"
        "CREATE CONSTRAINT TRIGGER a AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
        "EXECUTE FUNCTION note()",
        after=_LOG,
    ),
    "deferrable_key": Case(
        "CREATE TABLE t (k int UNIQUE DEFERRABLE INITIALLY DEFERRED, s text)",
    ),
    "before_row": Case(
        f"{_LOGGED}; CREATE FUNCTION half() RETURNS trigger LANGUAGE plpgsql AS $$ "
        "BEGIN RETURN CASE WHEN NEW.k % 2 = 0 THEN NEW END; END $$;"
        "CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION half()"
    ),
    "view": Case(
        f"{_LOGGED}; ALTER TABLE t RENAME TO base; CREATE VIEW t AS SELECT * FROM base;"
        "CREATE TRIGGER a INSTEAD OF INSERT ON t FOR EACH ROW EXECUTE FUNCTION note()",
        after=_LOG,
    ),
    "partition": Case(
        "CREATE TABLE p (k int, s text) PARTITION BY RANGE (k); "
        "CREATE TABLE t PARTITION OF p FOR VALUES FROM (1) TO (100000)"
    ),
    "partitioned": Case(
        "CREATE TABLE t (k int, s text) PARTITION BY LIST ((k % 3)); "
        "CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0);"
        "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1, 2)"
    ),
    "security_of_others": Case(
        "CREATE TABLE t (k int, s text); ALTER TABLE t ENABLE ROW LEVEL SECURITY"
    ),
    "user_type": Case(
        "CREATE TYPE pair AS (a int, b text); CREATE TABLE t (k pair, s pair[])",
        "".join(f'({k},x)\t{{"({k},y)","(0,z)"}}\n' for k in range(MANY)),
    ),
}

_KEY = "CREATE TABLE t (k int PRIMARY KEY, s text)"
_ERRORS = {
    "duplicate_in_input": Case(_KEY, lines(900) + lines(1, 437)),
    "duplicate_early": Case(_KEY, lines(9) + lines(1, 4) + lines(9, 10)),
    "duplicate_in_table": Case(_KEY + "; INSERT INTO t VALUES (777, 'before')"),
    "duplicate_after_lines_in_values": Case(
        _KEY, (_CSV + "1234,x\n").replace(", ", "\n"), "(FORMAT csv)"
    ),
    "duplicate_after_truncation": Case(_KEY, lines() + lines(1, 437), inside="TRUNCATE t"),
    "exclusion": Case(
        "CREATE TABLE t (k int, s text, EXCLUDE (k WITH =))", lines(500) + lines(1, 99)
    ),
    "deferred_key": Case(
        "CREATE TABLE t (k int UNIQUE DEFERRABLE INITIALLY DEFERRED, s text)", lines() + lines(1, 9)
    ),
    "index_row": Case(
        "CREATE TABLE t (k int, s text STORAGE EXTERNAL); CREATE INDEX ON t (s)",
        lines(500) + "501\t" + "x" * 3000 + "\n" + lines(20),
    ),
    "index_expression": Case(
        "CREATE TABLE t (k int, s text); CREATE INDEX ON t ((1000 / (k - 800)))"
    ),
    "check": Case("CREATE TABLE t (k int CHECK (k <> 1700), s text)"),
    "check_first_row": Case("CREATE TABLE t (k int CHECK (k <> 1), s text)"),
    "check_of_domain": Case(
        "CREATE DOMAIN d AS int CHECK (VALUE <> 1700); CREATE TABLE t (k d, s text)"
    ),
    "check_divides": Case("CREATE TABLE t (k int CHECK (1 / (k - 1234) < 2), s text)"),
    "not_null": Case("CREATE TABLE t (k int, s text NOT NULL)", lines(300) + "301\t\\N\n"),
    "generated": Case(
        "CREATE TABLE t (k int, s text, g int GENERATED ALWAYS AS (1 / (k - 1100)) STORED)"
    ),
    "default": Case(
        "CREATE TABLE t (k int, s text, g int DEFAULT 1 / (now() <> now())::int)", target="t (k, s)"
    ),
    "foreign_key": Case(
        "CREATE TABLE p (k int PRIMARY KEY); CREATE TABLE t (k int REFERENCES p)", "1\n2\n"
    ),
    "trigger": Case(
        "CREATE TABLE t (k int, s text); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE 'no % here', NEW.k; END $$; CREATE TRIGGER a AFTER INSERT ON t "
        "FOR EACH ROW WHEN (NEW.k = 1500) EXECUTE FUNCTION f()"
    ),
    "trigger_condition": Case(
        "CREATE TABLE t (k int, s text); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RETURN NULL; END $$; CREATE TRIGGER a AFTER INSERT ON t "
        "FOR EACH ROW WHEN (1 / (NEW.k - 1500) = 1) EXECUTE FUNCTION f()"
    ),
    "partition": Case(
        "CREATE TABLE p (k int, s text) PARTITION BY RANGE (k); "
        "CREATE TABLE t PARTITION OF p FOR VALUES FROM (1) TO (1800)"
    ),
    "no_partition": Case(
        "CREATE TABLE t (k int, s text) PARTITION BY RANGE (k); "
        "CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (1) TO (1800)"
    ),
    "no_number": Case(data=lines(700) + "x\ty\n"),
    "missing_column": Case(data=lines(700) + "5\n"),
    "extra_column": Case(data=lines(700) + "5\tx\ty\n"),
    "carriage_return": Case(data=lines(700) + "5\tx\r\n"),
    "wrong_encoding": Case(data=lines(700).encode() + b"5\t\xe9\xff\n"),
    "null_byte": Case(data=lines(700).encode() + b"5\t\x00\n"),
    "unterminated_quote": Case(data=_CSV + '1,"x\n', options="(FORMAT csv)"),
    "header": Case(data="k\tt\n" + lines(), options="(HEADER match)"),
    "reject_limit": Case(options="(REJECT_LIMIT 1)"),
    "signature": Case(data=b"not a binary file", options="(FORMAT binary)"),
    "binary_trailer": Case(
        data=b"PGCOPY\n\xff\r\n\x00" + bytes(8) + b"\x00\x03" + bytes(12), options="(FORMAT binary)"
    ),
    "unknown_column": Case(target="t (k, nothing)"),
    "column_twice": Case(target="t (k, k)"),
    "generated_column": Case(
        "CREATE TABLE t (k int, g int GENERATED ALWAYS AS (1) STORED)", target="t (k, g)"
    ),
    "unknown_option": Case(options="(NOTHING)"),
    "conflicting_options": Case(options="(FORMAT binary, DELIMITER ',')"),
    "force_null_column": Case(options="(FORMAT csv, FORCE_NULL (nothing))"),
    "no_table": Case(target="nothing"),
    "no_schema": Case(target="nothing.t"),
    "index": Case("CREATE TABLE t (k int PRIMARY KEY)", target="t_pkey"),
    "view": Case("CREATE VIEW t AS SELECT 1 AS k"),
    "materialized_view": Case("CREATE MATERIALIZED VIEW t AS SELECT 1 AS k"),
    "sequence": Case("CREATE SEQUENCE t"),
    "freeze_too_late": Case(options="(FREEZE)"),
    "freeze_partitioned": Case("CREATE TABLE t (k int) PARTITION BY RANGE (k)", options="(FREEZE)"),
    "read_only": Case(inside="SET TRANSACTION READ ONLY"),
    "catalog": Case(target="pg_catalog.pg_am", data="1\tx\n"),
    "no_privilege": Case(
        "CREATE TABLE t (k int, s text); GRANT USAGE ON SCHEMA copying TO nobody",
        inside="SET LOCAL ROLE nobody",
    ),
    "no_privilege_on_schema": Case(inside="SET LOCAL ROLE nobody"),
    "no_privilege_on_column": Case(
        "CREATE TABLE t (k int, s text); GRANT USAGE ON SCHEMA copying TO nobody; "
        "GRANT INSERT (k) ON t TO nobody",
        inside="SET LOCAL ROLE nobody",
    ),
    "row_security": Case(
        "CREATE TABLE t (k int, s text); ALTER TABLE t ENABLE ROW LEVEL SECURITY; "
        "GRANT USAGE ON SCHEMA copying TO nobody; GRANT INSERT ON t TO nobody",
        inside="SET LOCAL ROLE nobody",
    ),
    "row_security_off": Case(
        "CREATE TABLE t (k int, s text); ALTER TABLE t ENABLE ROW LEVEL SECURITY; "
        "GRANT USAGE ON SCHEMA copying TO nobody; GRANT INSERT ON t TO nobody",
        inside="SET LOCAL row_security = off; SET LOCAL ROLE nobody",
    ),
}

# Those of which no row is collected: left to core, or without rows.
_NONE_COLLECTED = {
    "read_only_temporary",
    "frozen",
    "before_row",
    "view",
    "no_rows",
}


@pytest.fixture(scope="module", autouse=True)
def _roles(server: WatchedServer) -> None:
    with server.connect() as session:
        session.execute("CREATE ROLE nobody")


@pytest.mark.parametrize("name", _ROWS)
def test_rows(connection: Connection, name: str) -> None:
    case = _ROWS[name]
    stock = run(connection, STOCK, case)
    assert not stock.failed, stock.outcome
    assert run(connection, DEFAULT, case) == stock
    before = Counters.of(connection)
    ours = run(connection, EXTENTS, case)
    if name == "partitioned":
        # What does not fill a page of ours goes to room before them.
        stock, ours = (replace(result, rows=sorted(result.rows)) for result in (stock, ours))
    assert ours == stock
    collected = Counters.of(connection).rows - before.rows
    assert (collected > 0) == (name not in _NONE_COLLECTED)


def test_wide_and_narrow_rows(connection: Connection) -> None:
    """Which of them share a page is not the same, and nothing that a client could rely on."""
    case = Case(data=_ODD)
    stock = run(connection, STOCK, case)
    for arm in (DEFAULT, EXTENTS):
        ours = run(connection, arm, case)
        assert (ours.outcome, sorted(ours.rows)) == (stock.outcome, sorted(stock.rows))


@pytest.mark.parametrize("name", _ERRORS)
def test_errors(connection: Connection, name: str) -> None:
    assert_same_error(connection, _ERRORS[name])


def test_binary(connection: Connection) -> None:
    making = "CREATE TABLE t (k int, s text, d date, n numeric[])"
    rows = (
        "SELECT i, 'v' || i, '2000-01-01'::date + i, ARRAY[i, NULL]::numeric[] "
        f"FROM generate_series(1, {MANY}) i"
    )
    with connection.cursor().copy(f"COPY ({rows}) TO STDOUT (FORMAT binary)") as stream:
        data = b"".join(bytes(piece) for piece in stream)
    case = Case(making, data, "(FORMAT binary)")
    broken = replace(case, data=data[:40_000] + b"\xff" * 40)
    duplicate = replace(case, making=f"{making}; CREATE UNIQUE INDEX ON t ((k % 2000))")
    for each in (case, broken, duplicate):
        stock = run(connection, STOCK, each)
        assert run(connection, EXTENTS, each) == stock
        assert stock.failed == (each is not case)


def test_rows_of_two_copies_in_one_transaction(connection: Connection) -> None:
    """The second goes on where the first has stopped."""
    case = Case("CREATE TABLE t (k int, s text, UNIQUE (k))")
    found = []
    for arm in (STOCK, DEFAULT, EXTENTS):
        make(connection, arm, case)
        with connection.transaction():
            first = copy(connection, case)
            second = copy(connection, replace(case, data=lines(100, MANY + 1)))
        found.append((first, second))
    assert found[0] == found[1] == found[2]
