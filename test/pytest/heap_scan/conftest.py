"""A quiet server with the test build for each module, and sessions on it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from extension.probes import QUIET, Connection, need_extension
from server_log import ServerFactory, WatchedServer
from transports import transport_settings

from lookahead.extension import Stage
from lookahead.installation import Installation


@pytest.fixture(scope="module", params=["worker"])
def transport(request: pytest.FixtureRequest, installation: Installation) -> dict[str, str]:
    """Server settings: advice to the kernel; modules about bitmap scans add a read stream."""
    return transport_settings(request.param, installation, Path(tempfile.gettempdir()))


@pytest.fixture(scope="module")
def server(
    server_factory: ServerFactory, test_stage: Stage, transport: dict[str, str]
) -> Iterator[WatchedServer]:
    """A running server whose sessions have look-ahead with the test settings."""
    with server_factory(stage=test_stage, settings={**QUIET, **transport}) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            need_extension(session, "pg_buffercache")
        yield started


@pytest.fixture
def connection(server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as session:
        yield session
