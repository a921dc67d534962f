"""Copies of the cluster made at each step of a build's writing: all get the whole index.

A copy has what its files have, and the WAL from its redo point on. So each page must be in one of
them, wherever the redo point comes between logging, writing, syncing and committing it.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from backups.copies import Take, base_backup, file_copy
from extension.probes import (
    QUIET,
    Connection,
    need_extension,
    need_injection_points,
    scalar,
    stands_at,
)
from replication import wait_for_replay
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from index_build.pages import first_difference, read_image, without_free_space
from index_build.twins import SWITCH, Counters, choose, with_workers
from lookahead.extension import Stage
from lookahead.installation import Installation

_ROWS = 120_000  # an index of 8 MB
_STATEMENT = "CREATE INDEX b_s ON b (s)"
# Pages are written 1 MB at a time, the file grows by 2 MB: every other time it ends in zeroes.
_BATCH = "SET maintenance_work_mem = '16MB'"
_WORKERS = f"{with_workers(2)}; SET maintenance_work_mem = '160MB'"
# All builds have got so far before they go on to their point.
_ONE_STEP_WRITTEN = "pg-lookahead-step-written"
# While a build stands here no checkpoint begins, and so no backup.
_LOGGED = "pg-lookahead-pages-logged"
_POINTS = (
    "pg-lookahead-pages-collected",
    "pg-lookahead-file-extended",
    _LOGGED,
    _ONE_STEP_WRITTEN,
    "pg-lookahead-pages-written",
    "pg-lookahead-pages-durable",
)


@pytest.fixture(scope="module")
def primary(
    installation: Installation, server_factory: ServerFactory, stage: Stage
) -> Iterator[WatchedServer]:
    need_injection_points(installation)
    settings = {**QUIET, SWITCH: "on", "wal_keep_size": "1GB", "max_wal_size": "4GB"}
    with server_factory(stage=stage, settings=settings) as server:
        with server.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            need_extension(session, "amcheck")
            session.execute(
                "CREATE EXTENSION injection_points; "
                "CREATE TABLE b AS SELECT i AS id, md5(i::text) AS s "
                f"FROM generate_series(1, {_ROWS}) i"
            )
        yield server


@pytest.fixture
def watcher(primary: WatchedServer) -> Iterator[Connection]:
    with primary.connect() as session:
        session.execute("SET statement_timeout = '60s'")
        yield session


@pytest.fixture
def builder(primary: WatchedServer) -> Iterator[Connection]:
    with primary.connect() as session:
        choose(session, "ours")
        session.execute(_BATCH)
        yield session
        session.execute("ROLLBACK; DROP INDEX IF EXISTS b_s")


def _go_on(watcher: Connection, point: str) -> None:
    watcher.execute(f"SELECT injection_points_detach('{point}')")
    watcher.execute(f"SELECT injection_points_wakeup('{point}')")


@contextmanager
def _stopped(watcher: Connection, builder: Connection, point: str) -> Iterator[Future[object]]:
    """The build has written some pages and stands at the point; the caller lets it go on."""

    def attach(point: str) -> None:
        watcher.execute(f"SELECT injection_points_attach('{point}', 'wait')")

    def reach(point: str) -> None:
        wait_until(lambda: stands_at(watcher, point), f"the build stands at {point}")

    attach(_ONE_STEP_WRITTEN)
    with ThreadPoolExecutor(1) as pool:
        building: Future[object] = pool.submit(builder.execute, _STATEMENT)
        reach(_ONE_STEP_WRITTEN)
        if point != _ONE_STEP_WRITTEN:
            attach(point)
            _go_on(watcher, _ONE_STEP_WRITTEN)
            reach(point)
        yield building
        building.result(100)


def _checkpoint_waits(watcher: Connection) -> bool:
    return stands_at(watcher, "CheckpointDelayStart")


def _same_index(primary: WatchedServer, copy: WatchedServer) -> None:
    """Replays all there is; the index is whole, and its pages are the primary's."""
    with primary.connect() as source, copy.connect() as session:
        source.execute("CHECKPOINT")
        wait_for_replay(source, session)
        session.execute("CHECKPOINT")  # replayed pages are in shared buffers
        path = scalar(source, "SELECT pg_relation_filepath('b_s')")
        images = [
            without_free_space(read_image(server.data_directory / path))
            for server in (primary, copy)
        ]
        found = first_difference(*images)
        assert found is None, f"stock stands for the primary, ours for its copy: {found}"
        session.execute("SELECT bt_index_check('b_s', heapallindexed => true)")


@pytest.mark.parametrize(
    ("workers", "take"),
    [(False, base_backup), (False, file_copy), (True, base_backup)],
    ids=["alone", "alone-files", "workers"],
)
@pytest.mark.parametrize("point", _POINTS)
def test_backup_taken_at(
    primary: WatchedServer,
    server_factory: ServerFactory,
    watcher: Connection,
    builder: Connection,
    point: str,
    workers: bool,
    take: Take,
) -> None:
    conninfo = f"host={primary.socket_directory} port={primary.port} user=postgres"
    builder.execute(_WORKERS if workers else with_workers(0))
    with (
        server_factory(settings={**QUIET, "primary_conninfo": conninfo}, start=False) as copy,
        ThreadPoolExecutor(1) as pool,
    ):
        builder.execute("BEGIN")
        with _stopped(watcher, builder, point):
            backup = pool.submit(take, primary, copy)
            wait_until(
                lambda: backup.done() or _checkpoint_waits(watcher),
                "the backup is complete, or waits for a checkpoint",
            )
            waits = not backup.done()
            _go_on(watcher, point)
        backup.result(100)
        builder.execute("COMMIT")
        assert Counters.of(builder).built == 1
        (copy.data_directory / "standby.signal").touch()
        copy.start()
        _same_index(primary, copy)
        assert waits == (point == _LOGGED)


def test_interrupted_step_delays_no_checkpoint(watcher: Connection, builder: Connection) -> None:
    """An error between logging and writing leaves none waiting while its transaction goes on."""
    builder.execute("BEGIN; SAVEPOINT before")
    with (
        pytest.raises(psycopg.errors.QueryCanceled),
        _stopped(watcher, builder, _LOGGED),
    ):
        builder.cancel()
    builder.execute("ROLLBACK TO before")
    watcher.execute(f"SELECT injection_points_detach('{_LOGGED}')")
    watcher.execute("CHECKPOINT")
    builder.execute(f"{_STATEMENT}; COMMIT")
    assert Counters.of(builder).built == 2
    builder.execute("SELECT bt_index_check('b_s', heapallindexed => true)")
