"""Conditions of AFTER ROW triggers see the rows that they see in stock, whatever inserts them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from extension.probes import Connection
from server_log import WatchedServer

from bulk_insert.arms import DEFAULT, EXTENTS, ONE_PAGE, STOCK, Arm, Counters
from bulk_insert.copying import Case, Result, copy, execute, lines, make, run

_ROWS = 600
_FLAT = "CREATE TABLE t (k int, s text); CREATE INDEX ON t (k)"
_OF = "CREATE TABLE t (k int, s text) PARTITION BY LIST ((k % 2)); CREATE INDEX ON t (k)"
_PARTITIONS = (
    f"{_OF}; CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0);"
    "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1)"
)
_PARTITION = (
    "CREATE TABLE p (k int, s text) PARTITION BY RANGE (k); CREATE INDEX ON p (k);"
    "CREATE TABLE t PARTITION OF p FOR VALUES FROM (0) TO (10000)"
)
_ROUTED = "partition that rows are routed to"
# Where the rows go, and whose trigger it is.
_TABLES = {
    "table": (_FLAT, "t"),
    "partitioned table": (_PARTITIONS, "t"),
    _ROUTED: (_PARTITIONS, "t1"),
    "partition by its name": (_PARTITION, "t"),
}
# Half of the rows, those that come late, the one that is looked for, or each one.
_CONDITIONS = {
    "count": "many()",
    "look by an index": "seen(NEW.k)",
    "sequence": f"random() < 2 AND currval('q') > {_ROWS // 2}",
}
_NOTE = f"""
    CREATE TABLE log (at int GENERATED ALWAYS AS IDENTITY, k int);
    CREATE SEQUENCE q;
    CREATE FUNCTION many() RETURNS boolean LANGUAGE plpgsql AS
        'BEGIN RETURN (SELECT count(*) FROM t) > {_ROWS // 2}; END';
    CREATE FUNCTION seen(int) RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off AS
        'BEGIN RETURN (SELECT count(*) FROM t WHERE k = $1) = 1; END';
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO log (k) VALUES (NEW.k); RETURN NULL; END'"""
_LOG = "SELECT k FROM log ORDER BY at"
_STATEMENTS = ("INSERT", "COPY")


def _case(table: str, condition: str) -> Case:
    making, of = _TABLES[table]
    return Case(
        f"{_NOTE}; {making}; ALTER TABLE t ALTER s SET DEFAULT nextval('q')::text;"
        f"CREATE TRIGGER a AFTER INSERT ON {of} FOR EACH ROW "
        f"WHEN ({_CONDITIONS[condition]}) EXECUTE FUNCTION note()",
        "".join(f"{k}\n" for k in range(1, _ROWS + 1)),
        target="t (k)",
        after=_LOG,
    )


def _inserted(connection: Connection, arm: Arm, statement: str, case: Case) -> Result:
    make(connection, arm, case)
    if statement == "COPY":
        result = copy(connection, case)
    else:
        result = execute(connection, case, f"INSERT INTO t (k) SELECT generate_series(1, {_ROWS})")
    return replace(result, rows=sorted(result.rows))


@pytest.mark.parametrize("condition", _CONDITIONS)
@pytest.mark.parametrize("table", _TABLES)
@pytest.mark.parametrize("statement", _STATEMENTS)
def test_volatile_conditions(
    connection: Connection, statement: str, table: str, condition: str
) -> None:
    case = _case(table, condition)
    # For a partition that a COPY meets on its way rows do not wait: it does what an INSERT does.
    as_insert = statement == "COPY" and table == _ROUTED
    stock = _inserted(connection, STOCK, "INSERT" if as_insert else statement, case)
    assert not stock.failed
    assert len(stock.after) >= _ROWS // 5
    for arm in (DEFAULT, EXTENTS):
        ours = _inserted(connection, arm, statement, case)
        assert replace(ours, outcome=stock.outcome) == stock if as_insert else ours == stock


def test_functions_in_conditions_can_have_an_index_in_use(server: WatchedServer) -> None:
    """An index of the transaction's own is not built at the end then."""
    case = Case(
        f"{_NOTE}; CREATE FUNCTION opens(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE "
        "SET enable_seqscan = off SET enable_sort = off AS $$"
        "DECLARE c refcursor := 'held'; r record; BEGIN IF $1 = 500 THEN "
        "OPEN c FOR SELECT FROM t WHERE k > 0 ORDER BY k; FETCH c INTO r; END IF; "
        "RETURN $1 % 7 = 0; END $$",
        lines(_ROWS),
        inside=(
            f"{_FLAT}; SET LOCAL pg_lookahead.enable_index_build = on;"
            "CREATE TRIGGER a AFTER INSERT ON t FOR EACH ROW "
            "WHEN (opens(NEW.k)) EXECUTE FUNCTION note()"
        ),
        after=_LOG,
    )
    with server.connect() as connection:
        stock = run(connection, STOCK, case)
        assert not stock.failed
        assert len(stock.after) == _ROWS // 7
        before = Counters.of(connection)
        assert run(connection, EXTENTS, case) == stock
        assert Counters.of(connection).rows == before.rows + _ROWS
        connection.execute("DROP SCHEMA copying CASCADE")


_SIZES = {
    "size of a toasted value": ("pg_column_size(NEW.s) > 10000", "repeat('x', 100000)"),
    "size of a short value": ("pg_column_size(NEW.s) < 5", "(ARRAY['abc', 'abd'])[1 + g % 2]"),
    "size of the row": ("pg_column_size(NEW) > 10000", "repeat('x', 100000)"),
    "compression": ("pg_column_compression(NEW.s) IS NULL", "repeat('x', 100000)"),
    "place of a toasted value": (
        "pg_column_toast_chunk_id(NEW.s) IS NULL",
        "(SELECT string_agg(md5(x::text || g), '') FROM generate_series(1, 100) x)",
    ),
}


@pytest.mark.parametrize(("condition", "value"), _SIZES.values(), ids=_SIZES)
def test_conditions_see_values_before_they_are_toasted(
    connection: Connection, condition: str, value: str
) -> None:
    case = Case(f"{_NOTE}; {_FLAT}; {_X.format(condition)}", after=_LOG)
    found = []
    for arm in (STOCK, DEFAULT, EXTENTS, ONE_PAGE):
        make(connection, arm, case)
        connection.execute(f"INSERT INTO t SELECT g, {value} FROM generate_series(1, {_ROWS}) g")
        found.append(connection.execute(_LOG).fetchall())
    assert len(found[0]) == _ROWS
    assert found[1:] == found[:1] * 3


_X = "CREATE OR REPLACE TRIGGER x AFTER INSERT ON t FOR EACH ROW WHEN ({}) EXECUTE FUNCTION note()"
_LAST = _X.format("last() = NEW.k")
_TRIGGERS = {
    "made": ("SELECT", f"EXECUTE $x${_LAST}$x$"),
    "exchanged": (
        _LAST,
        f"EXECUTE $x${_X.format('NEW.k > 0')}$x$; "
        "INSERT INTO t SELECT 0 FROM generate_series(1, 100)",
    ),
}


@pytest.mark.parametrize(("before", "change"), _TRIGGERS.values(), ids=_TRIGGERS)
def test_a_trigger_that_comes_after_the_copy_of_the_insert(
    connection: Connection, before: str, change: str
) -> None:
    """An insert has a copy of the triggers from before its BEFORE STATEMENT triggers are called."""
    making = f"""{_NOTE}; {_FLAT};
        CREATE FUNCTION last() RETURNS bigint LANGUAGE plpgsql AS
            'BEGIN RETURN (SELECT count(*) FROM t WHERE k > 0); END';
        {before};
        CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF pg_trigger_depth() = 1 AND NOT EXISTS (SELECT FROM t) THEN
                {change};
            END IF; RETURN NULL; END $$;
        CREATE TRIGGER a BEFORE INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION change()"""
    case = Case(making, after=_LOG)
    found = []
    for arm in (STOCK, DEFAULT, EXTENTS):
        make(connection, arm, case)
        with connection.transaction():
            for first in (1, 101):
                connection.execute(f"INSERT INTO t SELECT generate_series({first}, {first + 99})")
        found.append(connection.execute(_LOG).fetchall())
    assert len(found[0]) in (100, 200)
    assert found[1:] == found[:1] * 2
