"""A quiet server with the test build for each module, and sessions that stream."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_log import ServerFactory, WatchedServer
from transports import transport_settings

from extension.probes import AWAKE, INDEX_SCANS_ONLY, QUIET, Connection
from lookahead.extension import Stage
from lookahead.installation import Installation


@pytest.fixture(scope="module", params=["worker", "stream"])
def transport(request: pytest.FixtureRequest, installation: Installation) -> dict[str, str]:
    """Server settings; modules run once for each way in which look-ahead reads."""
    return transport_settings(request.param, installation, Path(tempfile.gettempdir()))


@pytest.fixture(scope="module")
def server(
    server_factory: ServerFactory, test_stage: Stage, transport: dict[str, str]
) -> Iterator[WatchedServer]:
    """A running server whose sessions have look-ahead with the test settings."""
    with server_factory(stage=test_stage, settings={**QUIET, **transport}) as started:
        yield started


@pytest.fixture
def connection(server: WatchedServer) -> Iterator[Connection]:
    """A session that uses index scans only, which look ahead in memory, too."""
    with server.connect() as session:
        session.execute(f"{INDEX_SCANS_ONLY}; {AWAKE}")
        yield session
