"""A duplicate key is found soon, however much memory there is to let keys wait unchecked.

How many rows a statement has made before it failed says a sequence, which no rollback sets back.
"""

import psycopg
import pytest
from extension.probes import Connection, scalar

from bulk_insert.arms import DEFAULT, STOCK, Arm, choose
from bulk_insert.ways import COPY_PARTITIONS, WAYS, Way, rows_file

_ROWS = 200_000
# Rows behind the duplicate that a statement makes at most: as many as before it, those that wait
# until then in 64 kB of keys, or by the thousand with COPY, and those that go with them on a page.
_MORE = 2000
_KEYS = {
    # The first keys are inserted one by one; some 40,000 rows are 4 MB.
    "among the first rows": 100,
    "among the next": 5000,
    "before there are many": 38_000,
}
_FILLING = "INSERT INTO t SELECT -i FROM generate_series(1, 3000) i"


@pytest.fixture(autouse=True)
def _much_memory(connection: Connection) -> None:
    connection.execute("SET work_mem = '64MB'; CREATE SEQUENCE IF NOT EXISTS made")


def _rows_made(session: Connection, arm: Arm, way: Way, duplicate: int, before: str) -> int:
    """Rows of a statement that fails because this row has the key of the first one."""
    choose(session, arm)
    statement, end = _statement(session, way, duplicate)
    session.execute("ALTER SEQUENCE made RESTART")
    with pytest.raises(psycopg.errors.UniqueViolation), session.transaction():
        session.execute(before)
        session.execute(statement)
    session.execute(end)
    return int(scalar(session, "SELECT last_value FROM made"))


def _statement(session: Connection, way: Way, duplicate: int) -> tuple[str, str]:
    """A statement, and what it leaves to be removed."""
    key = f"CASE i WHEN {duplicate} THEN 1 ELSE i END"
    rows = f"generate_series(1, {_ROWS}) i"
    if not way.copies:
        return f"INSERT INTO t (k, n) SELECT {key}, nextval('made') FROM {rows}", "SELECT"
    path = rows_file(session)
    session.execute(f"COPY (SELECT {key} FROM {rows}) TO '{path}'")
    return f"COPY t (k) FROM '{path}'", f"COPY (SELECT) TO '{path}'"


@pytest.mark.parametrize("duplicate", _KEYS.values(), ids=_KEYS.keys())
@pytest.mark.parametrize("filled", ["", "filled", "new file"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_few_rows_come_behind_it(
    connection: Connection, way: Way, filled: str, duplicate: int
) -> None:
    columns = "k int PRIMARY KEY, n bigint DEFAULT nextval('made'), p text DEFAULT repeat('x', 60)"
    connection.execute(f"DROP TABLE IF EXISTS t; {way.making('t', columns, 'k')}")
    if filled == "filled":
        choose(connection, STOCK)
        connection.execute(_FILLING)
    before = "TRUNCATE t" if filled == "new file" else "SELECT"
    made = [_rows_made(connection, arm, way, duplicate, before) for arm in (STOCK, DEFAULT)]
    assert duplicate <= made[0]
    assert made[1] <= 2 * max(duplicate, made[0]) + _MORE
    connection.execute("DROP TABLE t")


def test_few_lines_for_many_partitions_wait(connection: Connection) -> None:
    """There is room for 64 kB of rows for each, which are 40,000 of all."""
    parts = "".join(
        f"; CREATE TABLE t_{n} PARTITION OF t FOR VALUES WITH (MODULUS 64, REMAINDER {n})"
        for n in range(64)
    )
    connection.execute(
        "CREATE TABLE t (k int PRIMARY KEY, n bigint DEFAULT nextval('made'), "
        f"p text DEFAULT repeat('x', 60)) PARTITION BY HASH (k){parts}"
    )
    assert _rows_made(connection, DEFAULT, COPY_PARTITIONS, 100, "SELECT") <= 2 * 1000 + _MORE
    connection.execute("DROP TABLE t")
