"""A quiet server with the test build for each module, and sessions that stream."""

from collections.abc import Iterator

import pytest
from server_log import ServerFactory, WatchedServer

from extension.probes import AWAKE, INDEX_SCANS_ONLY, QUIET, Connection
from lookahead.extension import Stage


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    """A running server whose sessions have look-ahead with the test settings."""
    with server_factory(stage=test_stage, settings=QUIET) as started:
        yield started


@pytest.fixture
def connection(server: WatchedServer) -> Iterator[Connection]:
    """A session that uses index scans only, which look ahead in memory, too."""
    with server.connect() as session:
        session.execute(f"{INDEX_SCANS_ONLY}; {AWAKE}")
        yield session
