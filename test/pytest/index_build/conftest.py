"""A quiet server with the released library, and a session that compares builds."""

from collections.abc import Iterator

import pytest
from extension.probes import QUIET, Connection, need_extension
from server_log import ServerFactory, WatchedServer

from index_build.twins import SWITCH, Twins
from lookahead.extension import Stage

# Small, so that a scan of any but the smallest table is a synchronised one.
_BUILDER = {
    **QUIET,
    SWITCH: "on",
    "shared_buffers": "1MB",
    "max_wal_size": "4GB",
    "statement_timeout": "20min",
}


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage, settings=_BUILDER) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
        yield started


@pytest.fixture
def own_server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    """A server of the test's own, which may crash, with amcheck."""
    with server_factory(stage=stage, settings={**QUIET, SWITCH: "on"}) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            need_extension(session, "amcheck")
        yield started


@pytest.fixture
def connection(server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as session:
        yield session


@pytest.fixture
def twins(server: WatchedServer, connection: Connection) -> Twins:
    return Twins(connection, server.data_directory)
