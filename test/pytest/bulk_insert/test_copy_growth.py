"""How tables grow by COPY: by core's pages first, then by ours; none stays empty for ever."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from extension.probes import Connection, scalar

from bulk_insert.arms import DEFAULT, STOCK, Arm, Counters, choose
from bulk_insert.partitioned import from_to, make
from bulk_insert.ways import size

_KEYS = 1000
# The bytes of most rows.
_ROW = 130


def _make(session: Connection, partitions: int) -> None:
    """The table p, with as many partitions of equal size; none if 0."""
    if partitions == 0:
        session.execute("DROP TABLE IF EXISTS p; CREATE TABLE p (k int, s text)")
        return
    edges = [str(number * _KEYS // partitions) for number in range(partitions + 1)]
    make(session, "int", "RANGE (k)", from_to(*edges))


def _copy(session: Connection, arm: Arm, values: Sequence[str]) -> None:
    """Rows with these values, their keys in turn."""
    choose(session, arm)
    with session.cursor() as cursor, cursor.copy("COPY p FROM STDIN") as stream:
        stream.write("".join(f"{n % _KEYS}\t{value}\n" for n, value in enumerate(values)))


@pytest.mark.parametrize("partitions", [0, 2, 100])
def test_pages_of_ours_follow_those_of_core(connection: Connection, partitions: int) -> None:
    """The free space map says of pages that core has filled that they are empty."""
    _make(connection, partitions)
    before = Counters.of(connection).extended
    _copy(connection, DEFAULT, ["x" * _ROW] * 80_000)
    assert Counters.of(connection).extended - before > 500


@pytest.mark.parametrize("partitions", [0, 2, 40, 100])
@pytest.mark.parametrize("rows", [20_000, 60_000])
def test_no_more_empty_pages_than_stock(connection: Connection, partitions: int, rows: int) -> None:
    pages = []
    for arm in (STOCK, DEFAULT):
        _make(connection, partitions)
        _copy(connection, arm, ["x" * _ROW] * rows)
        pages.append(size(connection, "p"))
    # A page that is not full for each partition, and an extension of core's.
    assert pages[1] <= pages[0] + partitions + 64


@pytest.mark.parametrize("wide", ["y" * 2400, "EXTERNAL"])
def test_room_in_partitions_is_used_again(connection: Connection, wide: str) -> None:
    """Toasted rows do not need pages of ours where there is room."""
    partitions = 2
    value = wide if wide != "EXTERNAL" else "z" * 2400
    values = [value if n % 5 == 0 else "x" * 200 for n in range(40_000)]
    sizes = []
    for arm in (STOCK, DEFAULT):
        _make(connection, partitions)
        if wide == "EXTERNAL":
            connection.execute("ALTER TABLE p0 ALTER s SET STORAGE EXTERNAL")
            connection.execute("ALTER TABLE p1 ALTER s SET STORAGE EXTERNAL")
        _copy(connection, arm, values)
        for _ in range(3):
            connection.execute("DELETE FROM p WHERE ctid NOT IN ('(0,1)') AND k % 50 <> 0")
            connection.execute("VACUUM (TRUNCATE false) p")
            _copy(connection, arm, values)
        sizes.append(size(connection, "p"))
    assert sizes[1] <= sizes[0] * 1.1


def test_pages_of_many_partitions_are_read_never(connection: Connection) -> None:
    """The ring of pages that come and go has room for two of a thousand partitions."""
    partitions = 1500
    make(connection, "int", "RANGE (k)", from_to(*map(str, range(partitions + 1))))
    choose(connection, DEFAULT)
    reads = "SELECT sum(reads) FROM pg_stat_io WHERE context = 'bulkwrite'"
    connection.execute("SELECT pg_stat_reset_shared('io')")
    with connection.cursor() as cursor, cursor.copy("COPY p FROM STDIN") as stream:
        stream.write("".join(f"{n % partitions}\t{'x' * _ROW}\n" for n in range(250_000)))
    connection.execute("SELECT pg_stat_force_next_flush()")
    assert scalar(connection, reads) == 0


def test_few_pages_are_pinned(connection: Connection) -> None:
    """Those of temporary partitions, of which there is room for few in memory."""
    connection.execute("SET temp_buffers = 100")
    connection.execute("CREATE TEMP TABLE q (k int, s text) PARTITION BY RANGE (k)")
    for number in range(150):
        values = f"FROM ({number}) TO ({number + 1})"
        connection.execute(f"CREATE TEMP TABLE q{number} PARTITION OF q FOR VALUES {values}")
    choose(connection, DEFAULT)
    with connection.cursor() as cursor, cursor.copy("COPY q FROM STDIN") as stream:
        stream.write("".join(f"{n % 150}\t{'y' * 2500}\n" for n in range(300)))
    assert scalar(connection, "SELECT count(*) FROM q") == 300
