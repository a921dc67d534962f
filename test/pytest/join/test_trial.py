"""A join that comes to the inner table's pages in order finds out whether asking gains anything."""

from collections.abc import Iterator

import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from join.tables import cold_loops, stock_rows

# More than a whole trial reads: 768 pages asleep, 2,304 awake at most.
_PAGES = 8_000
_ASLEEP = 768
# Those of one are read asleep, and some more.
_IN_ORDER = 1_000
# Where pages are wanted by many rows each, 96 are read asleep.
_FEW_PAGES, _ROWS_EACH, _FEW_ASLEEP = 2_000, 40, 96
_MAKE = f"""
CREATE TABLE large (k int, pad text);
ALTER TABLE large ALTER pad SET STORAGE PLAIN;
INSERT INTO large SELECT i, repeat('x', 5000) FROM generate_series(0, {_PAGES - 1}) i;
CREATE INDEX large_k ON large (k);
CREATE TABLE in_order AS SELECT k FROM generate_series(0, {_PAGES - 1}) AS k;
CREATE TABLE at_random AS SELECT k * 4999 % {_PAGES} AS k FROM in_order;
CREATE TABLE both_ways AS (SELECT k FROM in_order WHERE k < {_IN_ORDER} ORDER BY k);
INSERT INTO both_ways SELECT k FROM at_random WHERE k >= {_IN_ORDER};
CREATE TABLE nearly AS SELECT (CASE WHEN k % 500 >= 300 AND k % 6 = 0
    THEN k * 4999::bigint % {_PAGES} ELSE k END)::int AS k FROM in_order;
CREATE TABLE seldom AS SELECT i / {_ROWS_EACH} * 4999 % {_PAGES} AS k
    FROM generate_series(0, {_FEW_PAGES * _ROWS_EACH - 1}) i;
ANALYZE large, in_order, at_random, both_ways, nearly, seldom
"""
_JOIN = "SELECT count(l.pad) FROM {} o JOIN large l ON l.k = o.k"


@pytest.fixture(autouse=True, scope="module")
def _tables(server: WatchedServer) -> Iterator[None]:
    with server.connect() as session:
        for statement in _MAKE.split(";"):
            session.execute(statement)
    yield
    with server.connect() as session:
        session.execute("DROP TABLE large, in_order, at_random, both_ways, nearly, seldom")


def test_pages_in_order_are_read_asleep_for_a_while(
    server: WatchedServer, connection: Connection
) -> None:
    connection.execute("SET pg_lookahead.test_trial_gains = 1")
    (loop,) = cold_loops(server, connection, _JOIN.format("in_order"), "large")
    assert 100 < loop["Drawn Rows"] < _PAGES - 0.9 * _ASLEEP


def test_pages_in_another_order_are_asked_for(
    server: WatchedServer, connection: Connection
) -> None:
    (loop,) = cold_loops(server, connection, _JOIN.format("at_random"), "large")
    assert loop["Drawn Rows"] > 0.95 * _PAGES


def test_the_order_may_end(server: WatchedServer, connection: Connection) -> None:
    """It does so before there is an answer for pages in order, which would be wrong for others."""
    connection.execute("SET pg_lookahead.test_trial_gains = 0")
    (loop,) = cold_loops(server, connection, _JOIN.format("both_ways"), "large")
    assert loop["Drawn Rows"] > 0.9 * (_PAGES - _IN_ORDER)


def test_an_order_with_gaps_goes_on(server: WatchedServer, connection: Connection) -> None:
    """There is one trial, after which all is asked for."""
    connection.execute("SET pg_lookahead.test_trial_gains = 1")
    (loop,) = cold_loops(server, connection, _JOIN.format("nearly"), "large")
    assert 0.7 * _PAGES < loop["Drawn Rows"] < _PAGES - 0.9 * _ASLEEP


def test_pages_that_few_rows_want_are_read_asleep_for_a_while(
    server: WatchedServer, connection: Connection
) -> None:
    # Pages of the index are among them.
    (loop,) = cold_loops(server, connection, _JOIN.format("seldom"), "large")
    assert 2_000 < loop["Drawn Rows"] < _ROWS_EACH * (_FEW_PAGES - 0.5 * _FEW_ASLEEP)


def test_pages_from_a_device_begin_the_measurement(
    server: WatchedServer, connection: Connection
) -> None:
    """The phase before it ends with them: half as many rows are drawn as when it does not."""
    connection.execute("SET pg_lookahead.test_trial_gains = 0")
    connection.execute("SET pg_lookahead.test_trial_pages = 1300")
    (loop,) = cold_loops(server, connection, _JOIN.format("at_random"), "large")
    assert loop["Drawn Rows"] < 1_000


@pytest.mark.parametrize("pages", [1, 2, 7, 50])
def test_rows_while_it_goes_to_and_fro(connection: Connection, pages: int) -> None:
    query = "SELECT o.id, i.g FROM outer_rows o JOIN inner_rows i ON i.k = o.ref"
    expected = stock_rows(connection, query)
    connection.execute(f"SET pg_lookahead.test_trial_pages = {pages}")
    connection.execute("SET pg_lookahead.test_start_after = 0")
    restarts = "SELECT restarts FROM pg_stat_lookahead WHERE feature = 'nested_loop'"
    before = scalar(connection, restarts)
    assert connection.execute(query).fetchall() == expected
    if pages < 50:
        assert scalar(connection, restarts) > before
