"""Servers killed at named points of a build; what stays behind is at most what stock leaves."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from extension.probes import need_injection_points, scalar, stands_at
from server_log import WatchedServer
from waiting import wait_until

from index_build.leftovers import files_of, temporary
from index_build.twins import Counters, check_tree, choose
from lookahead.installation import Installation

_ROWS = 60_000
_STATEMENT = "CREATE INDEX k_s ON k (s)"
# So little that entries go to temporary files, and pages are written many times.
_MEMORY = "SET maintenance_work_mem = '2MB'"
_POINTS = (
    "pg-lookahead-entries-spilled",
    "pg-lookahead-table-scanned",
    "pg-lookahead-file-extended",
    "pg-lookahead-pages-logged",
    "pg-lookahead-pages-written",
    "pg-lookahead-pages-durable",
)


@pytest.fixture(scope="module")
def _injection_points(installation: Installation) -> None:
    need_injection_points(installation)


@pytest.fixture
def victim(_injection_points: None, own_server: WatchedServer) -> WatchedServer:
    with own_server.connect() as session:
        session.execute(
            "CREATE EXTENSION injection_points; "
            "CREATE TABLE k AS SELECT i AS id, md5(i::text) AS s "
            f"FROM generate_series(1, {_ROWS}) i; CHECKPOINT"
        )
    return own_server


def _kill_at(victim: WatchedServer, point: str) -> int:
    """Kill the server when a build stands at the point. Returns how many temporary files it had."""
    with victim.connect() as watcher, victim.connect() as builder, ThreadPoolExecutor(1) as pool:
        watcher.execute(f"SELECT injection_points_attach('{point}', 'wait')")
        choose(builder, "ours")
        builder.execute(_MEMORY)
        building = pool.submit(builder.execute, _STATEMENT)
        wait_until(lambda: stands_at(watcher, point), f"the build stands at {point}")
        count = len(temporary(files_of(victim)))
        victim.crash()
        with pytest.raises(psycopg.OperationalError):
            building.result(60)
    return count


@pytest.mark.parametrize("point", _POINTS)
def test_killed_at(victim: WatchedServer, point: str) -> None:
    """Recovered without the library: no index, no temporary file, at most one orphan as stock."""
    before = files_of(victim)
    count = _kill_at(victim, point)
    assert count > 0 or point != "pg-lookahead-entries-spilled"
    victim.start({"session_preload_libraries": ""})
    with victim.connect() as session:
        session.execute("CHECKPOINT")
        left = files_of(victim) - before
        assert not temporary(left)
        assert len(left) <= 1, f"more than the file of the index: {left}"
        assert scalar(session, "SELECT to_regclass('k_s')") is None
        assert scalar(session, "SELECT count(*) FROM k") == _ROWS
    victim.restart({})
    with victim.connect() as session:
        session.execute(_STATEMENT)
        assert Counters.of(session).built == 1
        check_tree(session, "k_s")
