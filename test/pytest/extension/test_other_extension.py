"""Beside a library that replaces the execution function of scans too."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from compiling import loadable_library
from server_log import ServerFactory, WatchedServer

from extension.probes import (
    AWAKE,
    INDEX_SCANS_ONLY,
    QUIET,
    Connection,
    explain,
    lookahead,
    make_shuffled,
    scalar,
)
from lookahead.extension import Stage
from lookahead.installation import Installation

_SOURCE = Path(__file__).with_name("other_extension.c")
_ROWS = 3_000
_SCAN = "SELECT k, pad FROM o WHERE k < 900 ORDER BY k"


@pytest.fixture(scope="module")
def other_library(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The other library, built for the server under test."""
    return loadable_library(_SOURCE, tmp_path_factory, installation)


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    settings = {**QUIET, "session_preload_libraries": ""}
    with server_factory(stage=test_stage, settings=settings) as started:
        with started.connect() as session:
            make_shuffled(session, "o", _ROWS)
        yield started


def _rows(session: Connection, first: str, second: str) -> list[tuple[int, str]]:
    session.execute(f"LOAD '{first}'; LOAD '{second}'")
    session.execute(f"{INDEX_SCANS_ONLY}; {AWAKE}")
    return session.execute(_SCAN).fetchall()


def _check_rows(rows: list[tuple[int, str]]) -> None:
    assert [key for key, _ in rows] == list(range(900))


def _load(session: Connection, other_library: Path, ours_first: bool) -> None:
    libraries = ["pg_lookahead", str(other_library)]
    for library in libraries if ours_first else reversed(libraries):
        session.execute(f"LOAD '{library}'")


def _status_and_calls(session: Connection, path: str, sql: str, rows: int) -> tuple[str, int]:
    """What EXPLAIN says of a scan of one kind, and how often the other is called for its rows."""
    for other in {"bitmapscan", "seqscan", "indexscan"} - {path}:
        session.execute(f"SET enable_{other} = off")
    [group] = lookahead(explain(session, sql))
    before = int(scalar(session, "SHOW other_extension.calls"))
    assert len(session.execute(sql).fetchall()) == rows
    return group["Status"], int(scalar(session, "SHOW other_extension.calls")) - before


def test_a_node_taken_before_is_left_alone(server: WatchedServer, other_library: Path) -> None:
    with server.connect() as session:
        _check_rows(_rows(session, str(other_library), "pg_lookahead"))
        [group] = lookahead(explain(session, _SCAN))
        assert group == {"Status": "stock", "Reason": "other extension"}


def test_a_node_taken_afterwards_still_prefetches(
    server: WatchedServer, other_library: Path
) -> None:
    with server.connect() as session:
        _check_rows(_rows(session, "pg_lookahead", str(other_library)))
        [group] = lookahead(explain(session, _SCAN))
        assert group["Status"] == "prefetch"
        assert group["Scans"] == 1


@pytest.mark.parametrize(
    ("path", "sql", "rows"),
    [
        ("bitmapscan", "SELECT k, pad FROM o WHERE k < 900", 900),
        ("seqscan", "SELECT k, pad FROM o", _ROWS),
    ],
)
@pytest.mark.parametrize("ours_first", [True, False])
def test_table_scans_are_shared(
    server: WatchedServer, other_library: Path, path: str, sql: str, rows: int, ours_first: bool
) -> None:
    """Either calls the other for every row, or core."""
    with server.connect() as session:
        _load(session, other_library, ours_first)
        session.execute(AWAKE)
        status, calls = _status_and_calls(session, path, sql, rows)
        assert status == ("prefetch" if ours_first else "stock")
        assert calls == rows + 1


@pytest.mark.parametrize(
    ("path", "sql", "rows"),
    [
        ("indexscan", _SCAN, 900),
        ("bitmapscan", "SELECT k, pad FROM o WHERE k < 900", 900),
        ("seqscan", "SELECT k, pad FROM o", _ROWS),
    ],
)
@pytest.mark.parametrize("ours_first", [True, False])
def test_what_stands_in_front_is_called(
    server: WatchedServer, other_library: Path, path: str, sql: str, rows: int, ours_first: bool
) -> None:
    """Once, as on stock: core's ExecProcNodeFirst() puts the node's own function there."""
    with server.connect() as session:
        _load(session, other_library, ours_first)
        session.execute(f"{AWAKE}; SET other_extension.wraps = on")
        status, calls = _status_and_calls(session, path, sql, rows)
        assert status == "prefetch"
        assert calls == 1


@pytest.mark.parametrize(
    ("feature", "sql"),
    [
        ("nested_loop", "SELECT a.k, a.pad, b.pad FROM o a JOIN o b ON b.k = a.k"),
        ("subplan", "SELECT a.k, a.pad, (SELECT max(b.pad) FROM o b WHERE b.k = a.k) FROM o a"),
    ],
)
@pytest.mark.parametrize("ours_first", [True, False])
def test_what_stays_in_front_gets_all_rows(
    server: WatchedServer, other_library: Path, feature: str, sql: str, ours_first: bool
) -> None:
    """It keeps the function that it found at the first row, and the node wakes some rows later."""
    drawn = f"SELECT prefetched_blocks FROM pg_stat_lookahead WHERE feature = '{feature}'"
    with server.connect() as session:
        session.execute("CREATE EXTENSION IF NOT EXISTS pg_lookahead")
        _load(session, other_library, ours_first)
        session.execute("SET enable_hashjoin = off; SET enable_mergejoin = off")
        session.execute("SET enable_material = off; SET enable_memoize = off")
        session.execute(f"{AWAKE}; SET other_extension.wraps = on; SET other_extension.stays = on")
        before = int(scalar(session, drawn))
        rows = session.execute(sql).fetchall()
        assert int(scalar(session, "SHOW other_extension.calls")) == _ROWS + 1
        assert sorted(row[0] for row in rows) == list(range(_ROWS))
        assert int(scalar(session, drawn)) - before > _ROWS * 9 // 10
