"""A server whose maintenance runs by itself, and sessions."""

from collections.abc import Iterator

import pytest
from extension.probes import Connection
from intervals.conftest import renew
from server_log import ServerFactory, WatchedServer

from lookahead.extension import Stage
from maintenance_worker.workers import SETTINGS, WORKER


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage, settings=SETTINGS) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            session.execute("CREATE ROLE owner; CREATE ROLE other")
        yield started


@pytest.fixture
def session(server: WatchedServer) -> Iterator[Connection]:
    """A session of a superuser, with schema s, empty, and no policy."""
    with server.connect() as connection:
        renew(connection)
        yield connection
        # After a failure one may hang in a table that is to be dropped.
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = %s"
        connection.execute(end, (WORKER,))
        renew(connection)
