"""A quiet server with the test build, partitioned tables on it, and sessions that start late."""

from collections.abc import Iterator

import pytest
from extension.probes import QUIET, Connection
from server_log import ServerFactory, WatchedServer

from late_start.tables import TABLES
from lookahead.extension import Stage


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=test_stage, settings=QUIET) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            session.execute(TABLES)
        yield started


@pytest.fixture
def session(server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as connection:
        connection.execute("SET pg_lookahead.enable_late_start = on")
        connection.execute("SET plan_cache_mode = force_generic_plan")
        yield connection
