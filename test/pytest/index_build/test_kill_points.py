"""Servers killed at named points of a build; what stays behind is at most what stock leaves."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from extension.probes import QUIET, Connection, need_extension, scalar
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from index_build.twins import SWITCH, Counters, check_tree, choose
from lookahead.extension import Stage

_ROWS = 60_000
_STATEMENT = "CREATE INDEX k_s ON k (s)"
# So little that entries go to temporary files, and pages are written many times.
_MEMORY = "SET maintenance_work_mem = '256kB'"
_POINTS = (
    "pg-lookahead-entries-spilled",
    "pg-lookahead-table-scanned",
    "pg-lookahead-pages-logged",
    "pg-lookahead-pages-written",
)


@pytest.fixture
def victim(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage, settings={**QUIET, SWITCH: "on"}) as server:
        with server.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            need_extension(session, "injection_points")
            need_extension(session, "amcheck")
            session.execute(
                "CREATE TABLE k AS SELECT i AS id, md5(i::text) AS s "
                f"FROM generate_series(1, {_ROWS}) i; CHECKPOINT"
            )
        yield server


def _files(server: WatchedServer) -> set[Path]:
    """Files of relations and temporary files, without forks and what core caches."""
    base = server.data_directory / "base"
    temporary = base / "pgsql_tmp"
    return {
        path
        for path in base.rglob("*")
        if path.is_file() and (temporary in path.parents or path.name.replace(".", "").isdigit())
    }


def _temporary(files: set[Path]) -> int:
    return sum("pgsql_tmp" in path.parts for path in files)


def _stands_at(session: Connection, point: str) -> bool:
    waiting = f"SELECT count(*) FROM pg_stat_activity WHERE wait_event = '{point}'"
    return bool(scalar(session, waiting))


def _kill_at(victim: WatchedServer, point: str) -> int:
    """Kill the server when a build stands at the point. Returns how many temporary files it had."""
    with victim.connect() as watcher, victim.connect() as builder, ThreadPoolExecutor(1) as pool:
        watcher.execute(f"SELECT injection_points_attach('{point}', 'wait')")
        choose(builder, "ours")
        builder.execute(_MEMORY)
        building = pool.submit(builder.execute, _STATEMENT)
        wait_until(lambda: _stands_at(watcher, point), f"the build stands at {point}")
        temporary = _temporary(_files(victim))
        victim.crash()
        with pytest.raises(psycopg.OperationalError):
            building.result(60)
    return temporary


@pytest.mark.parametrize("point", _POINTS)
def test_killed_at(victim: WatchedServer, point: str) -> None:
    """Recovered without the library: no index, no temporary file, at most one orphan as stock."""
    before = _files(victim)
    temporary = _kill_at(victim, point)
    assert temporary > 0 or point != "pg-lookahead-entries-spilled"
    victim.start({"session_preload_libraries": ""})
    with victim.connect() as session:
        session.execute("CHECKPOINT")
        left = _files(victim) - before
        assert _temporary(left) == 0
        assert len(left) <= 1, f"more than the file of the index: {left}"
        assert scalar(session, "SELECT to_regclass('k_s')") is None
        assert scalar(session, "SELECT count(*) FROM k") == _ROWS
    victim.restart({})
    with victim.connect() as session:
        session.execute(_STATEMENT)
        assert Counters.of(session).built == 1
        check_tree(session, "k_s")
