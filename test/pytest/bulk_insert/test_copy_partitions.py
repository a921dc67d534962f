"""COPY FROM into partitions, some of which are not for batches, does what stock's does."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from extension.probes import Connection, need_extension
from server_log import WatchedServer

from bulk_insert.arms import DEFAULT, EXTENTS, STOCK, Counters, choose
from bulk_insert.copying import MANY, Case, Result, assert_same_error, lines, run

_TABLE = "CREATE TABLE t (k int, s text) PARTITION BY"
_THIRDS = f"""
    {_TABLE} LIST ((k % 3));
    CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0);
    CREATE TABLE t1 (s text, dropped int, k int);
    ALTER TABLE t1 DROP dropped;
    ALTER TABLE t ATTACH PARTITION t1 FOR VALUES IN (1);
    CREATE TABLE t2 PARTITION OF t DEFAULT"""
_LOG = """
    CREATE TABLE log (at int GENERATED ALWAYS AS IDENTITY, k int, others int);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO log (k, others) SELECT NEW.k, count(*) FROM t WHERE tableoid <> TG_RELID;
            IF NEW.k % 2 = 0 THEN RETURN NULL; END IF;
            NEW.s := NEW.s || '!';
            RETURN NEW;
        END $$"""
_SYSTEM_COLUMNS = "WHEN (NEW.xmin IS NOT NULL AND NEW.ctid > '(0,1)') EXECUTE FUNCTION note()"


def _ranges(count: int, kind: str = "TABLE") -> str:
    """Partitions that rows of all places in the input go to, and one for the rest."""
    bounds = ((i * 7, i * 7 + 7) for i in range(count))
    return "; ".join(
        [f"{_TABLE} RANGE ((k % 500))"]
        + [
            f"CREATE {kind} t{low} PARTITION OF t FOR VALUES FROM ({low}) TO ({high})"
            for low, high in bounds
        ]
        + [f"CREATE {kind} tt PARTITION OF t DEFAULT"]
    )


_ROWS = {
    "thirds": Case(_THIRDS),
    "one_row": Case(_THIRDS, lines(1)),
    "ranges": Case(_ranges(60)),
    "unlogged": Case(_ranges(9, "UNLOGGED TABLE")),
    "hash": Case(
        f"{_TABLE} HASH (k);"
        + "".join(
            f"CREATE TABLE t{i} PARTITION OF t FOR VALUES WITH (MODULUS 8, REMAINDER {i});"
            for i in range(8)
        )
    ),
    "keys": Case(
        "CREATE TABLE t (k int PRIMARY KEY, s text) PARTITION BY HASH (k);"
        "CREATE TABLE t0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0);"
        "CREATE TABLE t1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1);"
        "CREATE INDEX ON t (s)"
    ),
    "foreign_key": Case(
        f"CREATE TABLE p AS SELECT generate_series(1, {MANY}) k; ALTER TABLE p ADD PRIMARY KEY (k);"
        f"{_THIRDS}; ALTER TABLE t ADD FOREIGN KEY (k) REFERENCES p"
    ),
    "generated": Case(
        "CREATE TABLE t (k int, s text, g int GENERATED ALWAYS AS (k + 1) STORED) "
        "PARTITION BY LIST ((k % 2)); CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0);"
        "CREATE TABLE t1 (g int GENERATED ALWAYS AS (k + 2) STORED, s text, k int);"
        "ALTER TABLE t ATTACH PARTITION t1 FOR VALUES IN (1)"
    ),
    "without_bulk_extension": Case(
        _ranges(9), inside="SET LOCAL pg_lookahead.bulk_extend_size = 0"
    ),
    "trigger_before_rows_of_one": Case(
        f"{_THIRDS}; {_LOG};"
        "CREATE TRIGGER a BEFORE INSERT ON t1 FOR EACH ROW EXECUTE FUNCTION note()",
        after="SELECT k, others FROM log ORDER BY at",
    ),
    "trigger_after_rows_of_one": Case(
        f"{_THIRDS}; {_LOG};"
        "CREATE TRIGGER a AFTER INSERT ON t1 FOR EACH ROW EXECUTE FUNCTION note()",
        after="SELECT k, others FROM log ORDER BY at",
    ),
    "trigger_that_looks_at_system_columns": Case(
        f"{_THIRDS}; {_LOG};"
        "CREATE TRIGGER a AFTER INSERT ON t1 FOR EACH ROW WHEN (NEW.xmin IS NOT NULL) "
        "EXECUTE FUNCTION note()",
        after="SELECT k, others FROM log ORDER BY at",
    ),
    "trigger_that_looks_at_system_columns_where_rows_do_not_wait": Case(
        f"{_THIRDS}; {_LOG};"
        "CREATE FUNCTION f(int) RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT true';"
        "ALTER TABLE t0 ADD CHECK (f(k)); ALTER TABLE t1 ADD CHECK (f(k));"
        f"CREATE TRIGGER a AFTER INSERT ON t0 FOR EACH ROW {_SYSTEM_COLUMNS};"
        f"CREATE TRIGGER a AFTER INSERT ON t1 FOR EACH ROW {_SYSTEM_COLUMNS}",
        after="SELECT k, others FROM log ORDER BY k",
    ),
    "volatile_check_of_one": Case(
        f"{_THIRDS}; CREATE FUNCTION f(int) RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT true';"
        "ALTER TABLE t1 ADD CHECK (f(k))"
    ),
    "statement_triggers": Case(
        f"{_THIRDS}; CREATE TABLE log (at int GENERATED ALWAYS AS IDENTITY, seen bigint);"
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO log (seen) SELECT count(*) FROM t; RETURN NULL; END $$;"
        "CREATE TRIGGER a BEFORE INSERT ON t EXECUTE FUNCTION f();"
        "CREATE TRIGGER b AFTER INSERT ON t EXECUTE FUNCTION f()",
        after="SELECT seen FROM log ORDER BY at",
    ),
}
_ERRORS = {
    "no_partition": Case(
        f"{_TABLE} RANGE (k); CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (1) TO (1800)"
    ),
    "no_partitions": Case(f"{_TABLE} RANGE (k)"),
    "null_key": Case(
        f"{_TABLE} RANGE (k); CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (1) TO (1800)",
        lines(99) + "\\N\tx\n",
    ),
    "key_expression": Case(
        f"{_TABLE} LIST ((1 / (k - 1500))); CREATE TABLE t0 PARTITION OF t DEFAULT"
    ),
    "duplicate": Case(_ROWS["keys"].making, lines() + lines(1, 1234)),
    "duplicate_in_table": Case(_ROWS["keys"].making + "; INSERT INTO t VALUES (1234, 'x')"),
    "check": Case(f"{_THIRDS}; ALTER TABLE t1 ADD CHECK (k <> 1999)"),
    "no_number": Case(_THIRDS, lines() + "x\ty\n"),
    "index_row": Case(
        f"{_THIRDS}; ALTER TABLE t ALTER s SET STORAGE EXTERNAL; CREATE INDEX ON t (s)",
        lines(500) + "501\t" + "x" * 3000 + "\n" + lines(20, 900),
    ),
    "trigger_moves_a_row": Case(
        f"{_THIRDS}; CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.k = 1501 THEN NEW.k := 1502; END IF; RETURN NEW; END $$;"
        "CREATE TRIGGER a BEFORE INSERT ON t1 FOR EACH ROW EXECUTE FUNCTION f()"
    ),
    "duplicate_where_one_has_a_trigger": Case(
        f"{_THIRDS}; CREATE UNIQUE INDEX ON t0 (k); {_LOG};"
        "CREATE TRIGGER a BEFORE INSERT ON t1 FOR EACH ROW EXECUTE FUNCTION note()",
        lines(900) + lines(1, 300) + lines(9, 1000),
    ),
}


def _sorted(result: Result) -> Result:
    """Which rows share a page depends on how many wait together."""
    return replace(result, rows=sorted(result.rows))


@pytest.mark.parametrize("name", _ROWS)
def test_rows(connection: Connection, name: str) -> None:
    case = _ROWS[name]
    stock = _sorted(run(connection, STOCK, case))
    assert not stock.failed, stock.outcome
    for arm in (DEFAULT, EXTENTS):
        before = Counters.of(connection)
        assert _sorted(run(connection, arm, case)) == stock
        assert Counters.of(connection).rows > before.rows


@pytest.mark.parametrize("name", _ERRORS)
def test_errors(connection: Connection, name: str) -> None:
    # The place of a row is part of the message.
    arms = (DEFAULT,) if name == "index_row" else (DEFAULT, EXTENTS)
    assert_same_error(connection, _ERRORS[name], arms)


def test_rows_of_a_partition_keep_their_order(connection: Connection) -> None:
    case = _ROWS["ranges"]
    assert run(connection, EXTENTS, case).rows == run(connection, STOCK, case).rows


def test_wide_rows(connection: Connection) -> None:
    """Those before one that is toasted are in its partition when it is."""
    data = "".join(f"{k}\t{'x' * (k * 37 % 9000)}\n" for k in range(600))
    case = Case(f"{_THIRDS}; ALTER TABLE t ALTER s SET STORAGE EXTERNAL", data)
    stock = _sorted(run(connection, STOCK, case))
    for arm in (DEFAULT, EXTENTS):
        assert _sorted(run(connection, arm, case)) == stock


def test_little_memory(connection: Connection) -> None:
    case = Case(_ranges(60), lines(20_000), inside="SET LOCAL work_mem = '64kB'")
    stock = _sorted(run(connection, STOCK, case))
    assert _sorted(run(connection, EXTENTS, case)) == stock


def test_triggers_after_rows_are_called_in_core(connection: Connection) -> None:
    """Among partitions there would be another order."""
    case = Case(
        f"{_THIRDS}; {_LOG}; "
        "CREATE TRIGGER a AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION note()",
        after="SELECT k, others FROM log ORDER BY at",
    )
    stock = run(connection, STOCK, case)
    before = Counters.of(connection).left.get("row trigger", 0)
    assert run(connection, EXTENTS, case) == stock
    assert Counters.of(connection).left["row trigger"] == before + 1


def test_triggers_of_statements_on_a_partition(connection: Connection) -> None:
    """They are not called when rows come by way of the table, so the rows may wait."""
    case = Case(
        f"{_THIRDS}; {_LOG}; CREATE TRIGGER a AFTER INSERT ON t1 REFERENCING NEW TABLE AS n "
        "FOR EACH STATEMENT EXECUTE FUNCTION note()",
        after="SELECT k, others FROM log",
    )
    stock = _sorted(run(connection, STOCK, case))
    assert stock.after == []
    before = Counters.of(connection).rows
    assert _sorted(run(connection, EXTENTS, case)) == stock
    assert Counters.of(connection).rows == before + MANY


def test_foreign_partition(server: WatchedServer, connection: Connection) -> None:
    """It is left to core, whatever the other partitions are: rows are sent in batches."""
    need_extension(connection, "postgres_fdw")
    connection.execute(
        "CREATE SERVER loopback FOREIGN DATA WRAPPER postgres_fdw OPTIONS "
        f"(host '{server.socket_directory}', port '{server.port}', dbname 'postgres', "
        "batch_size '100'); CREATE USER MAPPING FOR CURRENT_USER SERVER loopback;"
        "CREATE SCHEMA remote; CREATE TABLE remote.away (k int CHECK (k <> 2000), s text);"
        "CREATE SEQUENCE remote.statements; CREATE FUNCTION remote.count() RETURNS trigger "
        "LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('remote.statements'); RETURN NULL; END $$;"
        "CREATE TRIGGER counts BEFORE INSERT ON remote.away EXECUTE FUNCTION remote.count()"
    )
    case = Case(
        "TRUNCATE remote.away; ALTER SEQUENCE remote.statements RESTART; "
        f"{_TABLE} LIST ((k % 2)); CREATE TABLE t0 PARTITION OF t FOR VALUES IN (1);"
        "CREATE FOREIGN TABLE t1 PARTITION OF t FOR VALUES IN (0) SERVER loopback "
        "OPTIONS (schema_name 'remote', table_name 'away')",
        after="SELECT k, s, last_value FROM remote.statements LEFT JOIN remote.away ON true "
        "ORDER BY k",
    )
    for data in (lines(1500), lines()):
        stock = _sorted(run(connection, STOCK, replace(case, data=data)))
        before = Counters.of(connection)
        assert _sorted(run(connection, EXTENTS, replace(case, data=data))) == stock
        after = Counters.of(connection)
        assert after.rows == before.rows
        assert sum(after.left.values()) == sum(before.left.values()) + 1
    assert stock.failed
    connection.execute("DROP SERVER loopback CASCADE; DROP SCHEMA remote CASCADE")


def test_rows_of_a_triggered_partition_are_not_slow(
    server: WatchedServer, connection: Connection
) -> None:
    """A row that is inserted at once does not look at each of the partitions met before."""
    partitions, rows = 1000, 60_000
    connection.execute(
        f"DROP TABLE IF EXISTS t CASCADE; {_TABLE} RANGE (k); DO $$ BEGIN "
        f"FOR n IN 0 .. {partitions - 1} LOOP EXECUTE format('CREATE TABLE t%s PARTITION OF t "
        "FOR VALUES FROM (%s) TO (%s)', n, n, n + 1); END LOOP; END $$; "
        "CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; "
        "CREATE TRIGGER a BEFORE INSERT ON t0 FOR EACH ROW WHEN (false) EXECUTE FUNCTION never()"
    )
    data = "".join(f"{k}\tx\n" for k in range(partitions)) + "0\tx\n" * rows
    path = server.write_file("rows.txt", data)
    seconds: dict[str, float] = {}
    for arm in (STOCK, DEFAULT) * 2:
        choose(connection, arm)
        begun = time.monotonic()
        connection.execute(f"COPY t FROM '{path}'")
        taken = time.monotonic() - begun
        seconds[arm.name] = min(taken, seconds.get(arm.name, taken))
    connection.execute("DROP TABLE t; DROP FUNCTION never")
    # It was ten times as long. Says nothing about speed otherwise.
    assert seconds["default"] < 3 * seconds["stock"] + 0.05
