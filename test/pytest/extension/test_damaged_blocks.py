"""A damaged table page hurts the statements that need its rows and no others."""

from collections.abc import Iterator

import psycopg
import pytest
from segments import place_of_page
from server_log import ServerFactory, WatchedServer

from extension.probes import AWAKE, INDEX_SCANS_ONLY, QUIET, STREAM_ALWAYS, Connection, scalar
from lookahead.extension import Stage

_DAMAGED = 50


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    """A server on which page 50 of table d fails its checksum. Row k is on page k / 10."""
    settings = QUIET
    with server_factory(stage=test_stage, settings=settings) as started:
        with started.connect() as session:
            session.execute("CREATE TABLE d (k int, pad text)")
            session.execute("ALTER TABLE d ALTER pad SET STORAGE PLAIN")
            session.execute(
                "INSERT INTO d SELECT i, repeat('x', 740) FROM generate_series(0, 1999) i"
            )
            session.execute("CREATE INDEX ON d (k)")
            session.execute("VACUUM (FREEZE, ANALYZE) d")
            first = scalar(session, f"SELECT min(k) FROM d WHERE ctid >= '({_DAMAGED},0)'")
            last = scalar(session, f"SELECT max(k) FROM d WHERE ctid < '({_DAMAGED + 1},0)'")
            assert (first, last) == (500, 509)
            path, position = place_of_page(started, session, "d", _DAMAGED)
        started.stop()
        with path.open("r+b") as file:
            file.seek(position + 4000)
            file.write(b"oops")
        started.start()
        yield started


@pytest.fixture(params=[AWAKE, STREAM_ALWAYS], ids=["mid_scan", "forced"])
def session(request: pytest.FixtureRequest, server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as connection:
        connection.execute(INDEX_SCANS_ONLY)
        connection.execute(request.param)
        yield connection


def _keys(session: Connection, sql: str) -> list[int]:
    return [row[0] for row in session.execute(sql).fetchall()]


def test_rows_of_other_pages_are_returned(session: Connection) -> None:
    assert _keys(session, "SELECT k, pad FROM d WHERE k < 500") == list(range(500))
    assert _keys(session, "SELECT k, pad FROM d WHERE k > 509") == list(range(510, 2000))
    assert _keys(session, "SELECT k, pad FROM d WHERE k >= 480 ORDER BY k LIMIT 20") == list(
        range(480, 500)
    )


def test_rows_of_the_page_itself_give_stocks_error(session: Connection) -> None:
    messages = []
    for setting in ("off", "on"):
        session.execute(f"SET pg_lookahead.enabled = {setting}")
        with pytest.raises(psycopg.errors.DataCorrupted) as error:
            session.execute("SELECT k, pad FROM d WHERE k BETWEEN 400 AND 600")
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert f"invalid page in block {_DAMAGED} " in messages[0]


def test_rows_before_the_page_arrive_before_the_error(session: Connection) -> None:
    """The error comes with the first row that needs the page, not with one before it."""
    session.execute("BEGIN")
    session.execute("DECLARE c NO SCROLL CURSOR FOR SELECT k, pad FROM d WHERE k >= 300 ORDER BY k")
    assert _keys(session, "FETCH 200 FROM c") == list(range(300, 500))
    with pytest.raises(psycopg.errors.DataCorrupted):
        session.execute("FETCH 1 FROM c")
    session.execute("ROLLBACK")
    assert scalar(session, "SELECT count(pad) FROM d WHERE k < 500") == 500


def test_cursor_closed_before_the_page(session: Connection) -> None:
    """Nobody asked for the damaged rows, though the cursor may have read ahead to them.

    Then its end reports the page, as the end of stock's sequential scan does: a read that was
    begun is finished, and its error shown (docs/limitations.md). It must be that error, and the
    session goes on.
    """
    session.execute("BEGIN")
    session.execute("DECLARE c NO SCROLL CURSOR FOR SELECT k, pad FROM d WHERE k >= 300 ORDER BY k")
    assert _keys(session, "FETCH 200 FROM c") == list(range(300, 500))
    try:
        session.execute("CLOSE c")
    except psycopg.errors.DataCorrupted as error:
        assert f"invalid page in block {_DAMAGED} " in str(error)
    session.execute("ROLLBACK")
    assert scalar(session, "SELECT count(pad) FROM d WHERE k < 500") == 500
