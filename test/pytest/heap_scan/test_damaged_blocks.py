"""A damaged page that nobody wants fails no statement, also when it lies within a request."""

from collections.abc import Iterator

import psycopg
import pytest
from extension.probes import QUIET, Connection, need_extension
from segments import place_of_page
from server_log import ServerFactory, WatchedServer

from heap_scan.probes import (
    BITMAP_SCANS,
    FORCED,
    OFF,
    SEQ_SCANS,
    TAKEN_OVER,
    make_cold,
    make_pages,
    only_scan,
)
from lookahead.extension import Stage

_PAGES = 200
_DAMAGED = 50  # of rows 100 and 101
# Of every other page one row: of all pages but the damaged one and its like.
_UNHURT = "SELECT k, ctid FROM d WHERE k = ANY (ARRAY(SELECT generate_series(3, 399, 4)))"


@pytest.fixture(scope="module", params=["--data-checksums", "--no-data-checksums"])
def server(
    request: pytest.FixtureRequest,
    server_factory: ServerFactory,
    test_stage: Stage,
) -> Iterator[WatchedServer]:
    """A server on which the header of page 50 of table d is damaged."""
    settings = QUIET
    with server_factory(
        stage=test_stage, settings=settings, initdb_options=(request.param,)
    ) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            need_extension(session, "pg_buffercache")
            make_pages(session, "d", _PAGES)
            session.execute("CHECKPOINT")
            path, position = place_of_page(started, session, "d", _DAMAGED)
        started.stop()
        with path.open("r+b") as file:
            file.seek(position)
            file.write(b"oops" * 8)
        started.start()
        yield started


@pytest.fixture(
    params=["SET jit = off", FORCED, TAKEN_OVER], ids=["default", "forced", "taken_over"]
)
def session(request: pytest.FixtureRequest, server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as connection:
        connection.execute(request.param)
        connection.execute("SET pg_lookahead.gap_limit = 256")
        yield connection


def test_gap_is_read_through_without_an_error(session: Connection) -> None:
    session.execute(BITMAP_SCANS)
    session.execute(OFF)
    make_cold(session, "d")
    expected = session.execute(_UNHURT).fetchall()
    session.execute("RESET pg_lookahead.enabled")
    make_cold(session, "d")
    assert session.execute(_UNHURT).fetchall() == expected
    assert [row[0] for row in expected] == list(range(3, 400, 4))
    make_cold(session, "d")
    scan = only_scan(session, _UNHURT)
    # Fewer requests than there are gaps, a hundred: the damaged page was part of one. Before ours,
    # core's stream may have read over a few, fewer than the 25 up to the damaged one.
    assert scan["Bridged Blocks"] > 75
    assert scan["Requests"] < 20


@pytest.mark.parametrize(
    ("settings", "condition"),
    [
        (BITMAP_SCANS, "k BETWEEN 80 AND 120"),
        (BITMAP_SCANS, "r >= 0"),
        (SEQ_SCANS, "true"),
    ],
    ids=["bitmap", "whole_bitmap", "seq"],
)
def test_wanted_page_gives_stocks_error(session: Connection, settings: str, condition: str) -> None:
    messages = []
    for setting in ("off", "on"):
        session.execute(f"{settings}; SET pg_lookahead.enabled = {setting}")
        make_cold(session, "d")
        with pytest.raises(psycopg.errors.DataCorrupted) as error:
            session.execute(f"SELECT k FROM d WHERE {condition}")
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert f"invalid page in block {_DAMAGED} " in messages[0]
