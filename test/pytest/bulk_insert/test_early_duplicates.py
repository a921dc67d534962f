"""A duplicate key is found soon, however much memory there is to let keys wait unchecked.

How many rows a statement has made before it failed says a sequence, which no rollback sets back.
"""

from itertools import pairwise

import psycopg
import pytest
from extension.probes import Connection, scalar
from psycopg import sql

from bulk_insert.arms import DEFAULT, EXTENTS, STOCK, Arm, Counters, choose
from bulk_insert.ways import COPY_PARTITIONS, INSERT_PARTITIONS, WAYS, Way, rows_file

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
def _much_memory_and_no_table(connection: Connection) -> None:
    connection.execute("SET work_mem = '64MB'; CREATE SEQUENCE IF NOT EXISTS made")
    connection.execute("DROP TABLE IF EXISTS t")


_COLUMNS = "k int PRIMARY KEY, n bigint DEFAULT nextval('made'), p text DEFAULT repeat('x', 60)"


def _like_the_first(duplicate: int) -> str:
    """The key of each row `i`, of which this one has that of the first."""
    return f"CASE i WHEN {duplicate} THEN 1 ELSE i END"


def _rows_made(session: Connection, arm: Arm, way: Way, key: str, before: str = "SELECT") -> int:
    """Rows of a statement that fails because two rows have the same key."""
    choose(session, arm)
    statement, end = _statement(session, way, key)
    session.execute("ALTER SEQUENCE made RESTART")
    with pytest.raises(psycopg.errors.UniqueViolation), session.transaction():
        session.execute(before)
        session.execute(statement)
    session.execute(end)
    return int(scalar(session, "SELECT last_value FROM made"))


def _statement(session: Connection, way: Way, key: str) -> tuple[str, str]:
    """A statement, and what it leaves to be removed."""
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
    connection.execute(way.making("t", _COLUMNS, "k"))
    if filled == "filled":
        choose(connection, STOCK)
        connection.execute(_FILLING)
    before = "TRUNCATE t" if filled == "new file" else "SELECT"
    key = _like_the_first(duplicate)
    made = [_rows_made(connection, arm, way, key, before) for arm in (STOCK, DEFAULT)]
    assert duplicate <= made[0]
    assert made[1] <= 2 * max(duplicate, made[0]) + _MORE


def test_few_lines_for_many_partitions_wait(connection: Connection) -> None:
    """There is room for 64 kB of rows for each, which are 40,000 of all."""
    connection.execute(_hashed(64, _COLUMNS))
    key = _like_the_first(100)
    assert _rows_made(connection, DEFAULT, COPY_PARTITIONS, key) <= 2 * 1000 + _MORE


def _hashed(count: int, columns: str) -> str:
    parts = "".join(
        f"; CREATE TABLE t_{n} PARTITION OF t FOR VALUES WITH (MODULUS {count}, REMAINDER {n})"
        for n in range(count)
    )
    return f"CREATE TABLE t ({columns}) PARTITION BY HASH (k){parts}"


@pytest.mark.parametrize("memory", ["64kB", "64MB"])
@pytest.mark.parametrize("arm", [DEFAULT, EXTENTS], ids=lambda arm: arm.name)
@pytest.mark.parametrize("duplicate", [5000, 50_000])
@pytest.mark.parametrize("way", [INSERT_PARTITIONS, COPY_PARTITIONS], ids=lambda way: way.name)
def test_few_rows_for_its_partition(
    connection: Connection, way: Way, duplicate: int, arm: Arm, memory: str
) -> None:
    """All other rows are for partitions that have pages of them in the pool."""
    edges = [-1, 0, 20_000, 90_000, _ROWS + 1]
    parts = "".join(
        f"; CREATE TABLE t_{low + 1} PARTITION OF t FOR VALUES FROM ({low}) TO ({high})"
        for low, high in pairwise(edges)
    )
    connection.execute(f"CREATE TABLE t ({_COLUMNS}) PARTITION BY RANGE (k){parts}")
    connection.execute(sql.SQL("SET work_mem = {}").format(memory))
    key = f"CASE WHEN i IN (1, {duplicate}) THEN -1 ELSE i END"
    assert _rows_made(connection, arm, way, key) <= 2 * duplicate + _MORE


@pytest.mark.parametrize("way", [INSERT_PARTITIONS, COPY_PARTITIONS], ids=lambda way: way.name)
def test_rows_without_keys_wait_on(connection: Connection, way: Way) -> None:
    """Those of each partition come in one batch; with an index some others come before."""
    choose(connection, DEFAULT)
    connection.execute(_hashed(64, "k int"))
    batches = []
    for index in ("SELECT", "CREATE INDEX ON t (k)"):
        connection.execute(index)
        before = Counters.of(connection).batches
        rows = "SELECT i FROM generate_series(1, 4000) i"
        connection.execute(way.statement(connection, "t", rows))
        batches.append(Counters.of(connection).batches - before)
    assert batches[0] == 64
    assert batches[1] > 64
