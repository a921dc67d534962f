"""TID range scans: their ranges, rescans with other ranges, cursors."""

import pytest
from extension.probes import Connection, explain, scalar

from heap_scan.probes import (
    FORCED,
    OFF,
    TID_RANGES,
    both_ways,
    make_pages,
    only_scan,
    scans,
    traces,
)

_PAGES = 300


@pytest.fixture(autouse=True)
def _table(connection: Connection) -> None:
    if scalar(connection, "SELECT to_regclass('t') IS NULL"):
        make_pages(connection, "t", _PAGES)
        connection.execute("DELETE FROM t WHERE k BETWEEN 250 AND 300")
    connection.execute(TID_RANGES)


def _between(first: str, last: str) -> str:
    return f"SELECT k, ctid FROM t WHERE ctid >= '({first})' AND ctid < '({last})'"


@pytest.mark.parametrize(
    ("first", "last", "rows"),
    [
        ("0,0", "300,0", 549),
        ("0,2", "299,2", 547),
        ("17,1", "18,1", 2),
        ("130,0", "140,0", 0),  # all deleted
        ("299,2", "4294967294,65535", 1),
        ("50,1", "50,1", 0),
        ("60,1", "50,1", 0),
        ("300,1", "4294967294,1", 0),
        ("4294967294,1", "4294967295,1", 0),
    ],
)
def test_ranges(connection: Connection, first: str, last: str, rows: int) -> None:
    sql = _between(first, last)
    connection.execute(OFF)
    stock = traces(connection, "t", sql)
    connection.execute(f"SET pg_lookahead.enabled = on; {FORCED}")
    assert traces(connection, "t", sql) == stock
    assert len(stock.rows) == rows
    scan = only_scan(connection, sql)
    assert scan["Node Type"] == "Tid Range Scan"
    assert scan["Status"] == "prefetch"


def test_only_pages_of_the_range_are_asked_for(connection: Connection) -> None:
    connection.execute(FORCED)
    connection.execute("SELECT pg_lookahead_evict('t')")
    # The page before any advice is read on its turn.
    assert only_scan(connection, _between("100,0", "120,0"))["Advised Blocks"] == 19
    assert only_scan(connection, _between("299,1", "300,0"))["Advised Blocks"] == 0


def test_rescans_with_other_ranges(connection: Connection) -> None:
    """Ranges that grow, shrink, are empty, lie past the end, and overlap the one before."""
    query = (
        "SELECT g, l.* FROM generate_series(0, 400) g CROSS JOIN LATERAL ("
        "SELECT count(*) AS n, min(k) AS low, max(k) AS high, sum(k) AS sum FROM t "
        "WHERE ctid >= ('(' || g * 7 % 320 || ',1)')::tid "
        "AND ctid < ('(' || g * 7 % 320 + g % 25 - 2 || ',2)')::tid AND k <> g) l"
    ).replace("+ g % 25 - 2", "+ g % 25")
    stock, ours = both_ways(connection, [query])
    assert ours == stock
    assert len({tuple(row[1:]) for row in ours}) > 100
    (scan,) = scans(explain(connection, query))
    assert scan["Status"] == "prefetch"


def test_range_that_is_null(connection: Connection) -> None:
    query = (
        "SELECT g, l.n FROM (VALUES (1), (NULL), (3)) v (g) CROSS JOIN LATERAL "
        "(SELECT count(*) AS n FROM t WHERE ctid < ('(' || g || ',1)')::tid) l"
    )
    stock, ours = both_ways(connection, [query])
    assert ours == stock == [(1, 2), (None, 0), (3, 6)]


def test_cursor_that_may_turn_is_left_to_core(connection: Connection) -> None:
    """Compared with stock: going back in a range, 18.6 loses rows of pages it has read ahead.

    How many those are depends on the time that reads take, unless all pages are in buffers.
    """
    for sql in (_between("10,0", "20,0"), "SELECT k, ctid FROM t WHERE k >= 0"):
        connection.execute("SET enable_seqscan = on")
        walks = []
        for settings in (OFF, f"SET pg_lookahead.enabled = on; {FORCED}"):
            connection.execute(settings)
            connection.execute("SELECT count(*) FROM t")
            with connection.transaction():
                connection.execute(f"DECLARE c SCROLL CURSOR FOR {sql}")
                steps = ("FETCH 15", "FETCH BACKWARD ALL", "FETCH 3", "FETCH LAST", "FETCH -2")
                walks.append([connection.execute(f"{step} FROM c").fetchall() for step in steps])
                connection.execute("CLOSE c")
        assert walks[0] == walks[1]
    left = "SELECT sum((fallbacks ->> 'scrollable cursor')::int) FROM pg_stat_lookahead"
    assert scalar(connection, left) == 2


def test_cursor_that_only_goes_on(connection: Connection) -> None:
    sql = _between("10,0", "290,0")
    connection.execute(OFF)
    expected = connection.execute(sql).fetchall()
    connection.execute(f"SET pg_lookahead.enabled = on; {FORCED}")
    with connection.transaction():
        connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {sql}")
        seen = []
        for count in (1, 2, 3, 50, 4, 100):
            seen += connection.execute(f"FETCH {count} FROM c").fetchall()
            connection.execute(f"SET pg_lookahead.bulk_read_size = {count % 4}")
        seen += connection.execute("FETCH ALL FROM c").fetchall()
    assert seen == expected
