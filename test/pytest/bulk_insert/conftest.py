"""A quiet server with the test settings, and sessions that insert in batches."""

from collections.abc import Iterator

import pytest
from extension.probes import QUIET, Connection
from server_log import ServerFactory, WatchedServer

from bulk_insert.arms import SWITCH
from lookahead.extension import Stage


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=test_stage, settings={**QUIET, SWITCH: "on"}) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
        yield started


@pytest.fixture
def connection(server: WatchedServer) -> Iterator[Connection]:
    """A session with the switch on and all else at its default."""
    with server.connect() as session:
        yield session
