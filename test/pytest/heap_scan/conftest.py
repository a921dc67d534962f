"""A quiet server with the test build for each module, and sessions on it."""

from collections.abc import Iterator

import pytest
from extension.probes import QUIET, Connection, need_extension
from server_log import ServerFactory, WatchedServer

from lookahead.extension import Stage


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    """A running server whose sessions have look-ahead with the test settings."""
    with server_factory(stage=test_stage, settings=QUIET) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            need_extension(session, "pg_buffercache")
        yield started


@pytest.fixture
def connection(server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as session:
        yield session
