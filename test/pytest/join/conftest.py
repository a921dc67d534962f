"""A quiet server with the test build for each module, and sessions whose joins look ahead."""

from collections.abc import Iterator

import pytest
from extension.probes import QUIET, Connection, need_extension
from server_log import ServerFactory, WatchedServer

from join.tables import LOOPS_ONLY, make_tables
from lookahead.extension import Stage


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    """A running server with the tables of the tests."""
    with server_factory(stage=test_stage, settings=QUIET) as started:
        with started.connect() as session:
            need_extension(session, "pg_lookahead")
            make_tables(session)
        yield started


@pytest.fixture
def connection(server: WatchedServer) -> Iterator[Connection]:
    """A session that joins by nested loops only, which look ahead."""
    with server.connect() as session:
        session.execute(f"{LOOPS_ONLY}; SET pg_lookahead.enable_join_prefetch = on")
        yield session
