"""Which running query a waking scan belongs to: functions, errors, triggers, WITH, partial fetches.

A scan is registered when a page has to be read, which may be while other queries run inside its
own, or after some of them have failed.
"""

from collections.abc import Iterator

import psycopg
import pytest
from server_log import WatchedServer

from extension.parts import make_pages, warm_only
from extension.probes import (
    INDEX_SCANS_ONLY,
    PINNED,
    Connection,
    explain,
    lookahead,
    need_extension,
    scalar,
    streamed_scans,
)

_PAGES = 400
_HOT = 100
# Counts of the view, beside those of the library's own functions.
_LOOKED_AHEAD = (
    "SELECT coalesce(sum(prefetched_blocks), 0) FROM pg_stat_lookahead WHERE feature = 'index_scan'"
)
# Entries that a ring may hold: the distance, twice, since the last one taken at once may be more.
_IN_RING = 2 * 64
_SCANS = "SELECT coalesce(sum(scans), 0) FROM pg_stat_lookahead WHERE feature = 'index_scan'"
# It fails for every row, or looks something up, in a query of its own.
_FUNCTIONS = """
CREATE OR REPLACE FUNCTION fails(n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE m int;
BEGIN
    SELECT sum(1 / (k - k)) INTO m FROM inner_rows WHERE k >= n % 350;
    RETURN m;
EXCEPTION WHEN division_by_zero THEN
    RETURN n;
END $$;
CREATE OR REPLACE FUNCTION counts(n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE m int;
BEGIN
    SELECT count(pad) INTO m FROM inner_rows WHERE k BETWEEN n % 300 AND n % 300 + 2;
    RETURN n + m - 3;
END $$;
"""


@pytest.fixture
def session(server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as connection:
        if scalar(connection, "SELECT to_regclass('outer_rows') IS NULL"):
            make_pages(connection, "outer_rows", _PAGES)
            make_pages(connection, "inner_rows", _PAGES)
            connection.execute(_FUNCTIONS)
        need_extension(connection, "pg_buffercache")
        warm_only(server, connection, "outer_rows", range(_HOT), _PAGES)
        connection.execute(INDEX_SCANS_ONLY)
        connection.execute("SET enable_material = off")
        yield connection
        assert scalar(connection, PINNED) == 0


@pytest.mark.parametrize("inner_cold", [False, True], ids=["inner_cached", "inner_cold"])
@pytest.mark.parametrize("function", ["fails", "counts"])
def test_queries_inside_a_query_that_wakes(
    server: WatchedServer, session: Connection, function: str, inner_cold: bool
) -> None:
    hot = () if inner_cold else range(_PAGES)
    warm_only(server, session, "inner_rows", hot, _PAGES)
    before = scalar(session, _SCANS)
    query = f"SELECT {function}(k) FROM outer_rows WHERE k >= 0 AND pad > '' ORDER BY k"
    assert [row[0] for row in session.execute(query).fetchall()] == list(range(_PAGES))
    # The outer scan has woken, whatever became of the inner ones.
    assert scalar(session, _SCANS) >= before + 1


def test_cursor_inside_a_function(server: WatchedServer, session: Connection) -> None:
    """A function fetches from a cursor of its caller's, whose query is then the innermost."""
    session.execute(
        "CREATE OR REPLACE FUNCTION next_key(c refcursor) RETURNS int LANGUAGE plpgsql AS "
        "$$ DECLARE n int; t text; BEGIN FETCH c INTO n, t; RETURN n; END $$"
    )
    warm_only(server, session, "inner_rows", range(_PAGES), _PAGES)
    before = scalar(session, _SCANS)
    with session.transaction():
        session.execute(
            "DECLARE c NO SCROLL CURSOR FOR SELECT k, pad FROM outer_rows WHERE k >= 0 ORDER BY k"
        )
        keys = session.execute(
            "SELECT next_key('c') FROM inner_rows WHERE k >= 0 AND pad > '' ORDER BY k"
        ).fetchall()
    assert [row[0] for row in keys] == list(range(_PAGES))
    assert scalar(session, _SCANS) == before + 1


def test_a_node_that_wakes_while_its_statement_is_finished(session: Connection) -> None:
    """A data-modifying WITH that nothing refers to runs in ExecutorFinish(), in no run."""
    before = scalar(session, _SCANS)
    session.execute("CREATE TEMPORARY TABLE copied (k int)")
    session.execute(
        "WITH w AS (INSERT INTO copied SELECT k FROM outer_rows WHERE k >= 0 AND pad > '' "
        "ORDER BY k RETURNING k) SELECT 1"
    )
    assert scalar(session, "SELECT array_agg(k) FROM copied") == list(range(_PAGES))
    assert scalar(session, _SCANS) == before + 1


def test_a_filter_that_drops_every_row(session: Connection) -> None:
    (group,) = lookahead(
        explain(session, "SELECT count(*) FROM outer_rows WHERE k >= 0 AND g < -k - 1")
    )
    # The order of the table's keys is a regular one: the last pages are left to the kernel.
    assert group["Prefetched Blocks"] >= 0.8 * (_PAGES - _HOT)


def test_look_ahead_is_switched_off_in_mid_cursor(session: Connection) -> None:
    """Before the scan wakes: it never does, and goes on as core's."""
    before = scalar(session, _SCANS)
    with session.transaction():
        session.execute(
            "DECLARE c NO SCROLL CURSOR FOR SELECT k, pad FROM outer_rows WHERE k >= 0 ORDER BY k"
        )
        seen = session.execute("FETCH 50 FROM c").fetchall()
        session.execute("SET LOCAL pg_lookahead.enabled = off")
        seen += session.execute("FETCH 200 FROM c").fetchall()
        assert scalar(session, _SCANS) == before
        session.execute("SET LOCAL pg_lookahead.enabled = on")
        seen += session.execute("FETCH ALL FROM c").fetchall()
    assert [row[0] for row in seen] == list(range(_PAGES))
    assert scalar(session, _SCANS) == before + 1


def test_a_ring_ends_when_look_ahead_is_switched_off(
    server: WatchedServer, session: Connection
) -> None:
    """What it held is used, and core goes on; nothing more is looked ahead at."""
    first = _HOT + 50
    handled = []
    for rest in (["CLOSE c"], ["SET LOCAL pg_lookahead.enabled = off", "FETCH ALL FROM c"]):
        warm_only(server, session, "outer_rows", range(_HOT), _PAGES)
        before = scalar(session, _LOOKED_AHEAD)
        with session.transaction():
            session.execute(
                "DECLARE c NO SCROLL CURSOR FOR "
                "SELECT k, pad FROM outer_rows WHERE k >= 0 ORDER BY k"
            )
            rows = session.execute(f"FETCH {first} FROM c").fetchall()
            for statement in rest:
                last = session.execute(statement)
        handled.append(scalar(session, _LOOKED_AHEAD) - before)
        assert [row[0] for row in rows] == list(range(first))
    assert [row[0] for row in last.fetchall()] == list(range(first, _PAGES))
    assert 30 < handled[0] <= handled[1] <= handled[0] + _IN_RING


def test_an_error_after_the_scan_woke(session: Connection) -> None:
    with session.transaction():
        for _ in range(3):
            with pytest.raises(psycopg.errors.DivisionByZero), session.transaction():
                session.execute(
                    f"SELECT 1 / (k - {_HOT + 20}) FROM outer_rows "
                    "WHERE k >= 0 AND pad > '' ORDER BY k"
                )
            assert scalar(session, PINNED) == 0
    query = "SELECT k FROM outer_rows WHERE k >= 0 AND pad > '' ORDER BY k"
    assert [row[0] for row in session.execute(query).fetchall()] == list(range(_PAGES))


def test_rescans_while_asleep_and_awake(server: WatchedServer, session: Connection) -> None:
    """An inner scan that is begun anew in its hot part, in its cold part, and across both."""
    warm_only(server, session, "inner_rows", range(0, _PAGES, 2), _PAGES)
    session.execute(
        "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off"
    )
    query = (
        "SELECT n, x.keys FROM generate_series(0, 340, 20) n, LATERAL (SELECT array_agg(k) AS keys "
        "FROM (SELECT k FROM outer_rows WHERE k BETWEEN n AND n + 45 AND pad > '' ORDER BY k) o) x"
    )
    plan = explain(session, query)
    assert streamed_scans(plan) > 5
    expected = [(g, list(range(g, min(g + 46, _PAGES)))) for g in range(0, 341, 20)]
    warm_only(server, session, "outer_rows", range(0, _PAGES, 3), _PAGES)
    assert session.execute(query).fetchall() == expected
