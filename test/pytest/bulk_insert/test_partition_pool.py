"""Rows of partitions that wait together, in little memory and in much, with wide ones among them.

Pages of ours come from the first row on.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from extension.probes import Connection, need_extension, scalar
from psycopg import sql

from bulk_insert.arms import EXTENTS, STOCK, Arm, Counters, choose
from bulk_insert.copying import Case, run
from bulk_insert.partitioned import lists, make
from bulk_insert.ways import check_sound, size

_LEAVES = 60
# Of ten partitions first, then of all of them, then of one; some values are compressed, some
# toasted elsewhere.
_LONG = "(SELECT string_agg(md5((i * 100 + j)::text), '') FROM generate_series(1, 100) j)"
_ROWS = (
    "SELECT CASE WHEN i < 9000 THEN i % 10 WHEN i < 18000 THEN i % 60 ELSE 7 END, "
    f"CASE WHEN i % 97 = 0 THEN {_LONG} WHEN i % 101 = 0 THEN repeat('c', 5000) "
    "ELSE 'value ' || i END FROM generate_series(1, 21000) i"
)
_CHUNKS = (
    "SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid IN "
    "(SELECT relid FROM pg_partition_tree('p')) AND reltoastrelid <> 0"
)


def _filled(session: Connection, arm: Arm, statement: str, memory: str) -> tuple[Any, ...]:
    """What is in the partitions and their TOAST tables afterwards; amcheck finds nothing."""
    make(session, "int", "LIST (k)", lists(*map(str, range(_LEAVES))))
    session.execute("CREATE INDEX ON p (k)")
    session.execute(sql.SQL("SET work_mem = {}").format(memory))
    choose(session, arm)
    session.execute(statement)
    rows = session.execute(
        "SELECT tableoid::regclass::text, k, md5(string_agg(s, ' ' ORDER BY s)), count(*) "
        "FROM p GROUP BY 1, 2 ORDER BY 1, 2"
    ).fetchall()
    names = [name for (name,) in session.execute(_CHUNKS).fetchall()]
    chunks = sum(int(scalar(session, f"SELECT count(*) FROM {name}")) for name in names)
    check_sound(session, "p")
    return rows, chunks, size(session, "p")


@pytest.mark.parametrize("memory", ["64kB", "256kB", "1MB", "4MB"])
def test_rows(connection: Connection, memory: str) -> None:
    """Memory for pages of all partitions, of some of them until others are met, of none."""
    need_extension(connection, "amcheck")
    statement = f"INSERT INTO p {_ROWS}"
    stock = _filled(connection, STOCK, statement, memory)
    before = Counters.of(connection).rows
    ours = _filled(connection, EXTENTS.with_settings(bulk_extend_size=1), statement, memory)
    assert ours[:2] == stock[:2]
    assert Counters.of(connection).rows - before > 15_000
    # A page for each partition that rows before a wide one do not fill.
    assert ours[2] <= stock[2] + _LEAVES


_THIRDS = (
    "CREATE TABLE t (k int, s text) PARTITION BY LIST ((k % 3)); "
    "CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0);"
    "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1);"
    "CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2);"
    "CREATE UNIQUE INDEX ON t1 (k)"
)


@pytest.mark.parametrize("place", [4000, 12_345, 29_999])
def test_line_of_a_duplicate(connection: Connection, place: int) -> None:
    """The error of a row that waited names its line."""
    numbers = [7 if number == place else 3 * number + 1 for number in range(30_000)]
    data = "".join(f"{k}\tvalue {k}\n{k + 1}\tother {k}\n" for k in numbers)
    case = Case(f"{_THIRDS}; SET work_mem = '128kB'", data)
    stock = run(connection, STOCK, case)
    assert stock.failed
    assert run(connection, EXTENTS, case).outcome == stock.outcome


def test_rows_beside_others_that_core_inserts(connection: Connection) -> None:
    """Rows of a partition with a BEFORE trigger come in turn with toasted ones of others."""
    making = (
        f"{_THIRDS}; SET work_mem = '128kB'; "
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;"
        "CREATE TRIGGER a BEFORE INSERT ON t0 FOR EACH ROW EXECUTE FUNCTION f()"
    )
    wide = "w" * 3000
    data = "".join(
        f"{k}\t{wide if k % 30 == 1 else k}\n"
        for k in range(1, 30_000)
        if k % 3 != 0 or k % 300 == 0
    )
    found = []
    for arm in (STOCK, EXTENTS):
        case = Case(making, data, after="SELECT count(*), sum(k), sum(length(s)) FROM t")
        result = run(connection, arm, case)
        pages = size(connection, "t")
        found.append((result.outcome, sorted(result.rows), result.after))
        if arm is STOCK:
            most = pages * 1.2
    assert found[0] == found[1]
    assert pages <= most


def test_cancel_while_rows_are_inserted(connection: Connection) -> None:
    """Indexes count the rows that are in, and cancel their own session before the next one."""
    connection.execute(
        "DROP SCHEMA IF EXISTS copying CASCADE; CREATE SCHEMA copying; SET search_path = copying;"
        f"{_THIRDS}; SET work_mem = '1MB'; CREATE SEQUENCE q;"
        "CREATE FUNCTION number(regclass) RETURNS bigint IMMUTABLE LANGUAGE internal AS "
        "'nextval_oid'; CREATE INDEX ON t2 (number(CASE WHEN k > 0 THEN 'q'::regclass END));"
        "CREATE FUNCTION cancel(int) RETURNS boolean IMMUTABLE STRICT LANGUAGE internal AS "
        "'pg_cancel_backend';"
        f"CREATE INDEX ON t2 (cancel(CASE s WHEN '2048' THEN {connection.info.backend_pid} END))"
    )
    choose(connection, EXTENTS)
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute("INSERT INTO t SELECT 3 * g + 2, g FROM generate_series(0, 9999) g")
    assert scalar(connection, "SELECT last_value FROM q") < 2100
    connection.execute("DROP SCHEMA copying CASCADE; RESET search_path; RESET work_mem")


def _extensions(session: Connection) -> int:
    return int(scalar(session, "SELECT sum(extends) FROM pg_stat_get_backend_io(pg_backend_pid())"))


def test_tables_are_not_extended_page_by_page(connection: Connection) -> None:
    """Where rows are wide, and the partitions few."""
    data = "".join(f"{k}\t{'wide ' * 600}{k}\n" for k in range(9000))
    found = []
    for arm in (STOCK, EXTENTS):
        connection.execute("SELECT pg_stat_force_next_flush()")
        before = _extensions(connection)
        assert not run(connection, arm, Case(_THIRDS, data)).failed
        connection.execute("SELECT pg_stat_force_next_flush()")
        found.append(_extensions(connection) - before)
    assert found[1] < 2 * found[0]
