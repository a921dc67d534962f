"""A quiet server with the extension, and sessions."""

from collections.abc import Iterator

import pytest
from extension.probes import QUIET, Connection
from server_log import ServerFactory, WatchedServer

from lookahead.extension import Stage
from partitions.parents import SURROUNDINGS


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage, settings={**QUIET, "wal_level": "logical"}) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            session.execute(SURROUNDINGS)
            session.execute("SET allow_in_place_tablespaces = on")
            session.execute("CREATE TABLESPACE elsewhere LOCATION ''")
            session.execute("CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler")
        yield started


@pytest.fixture
def session(server: WatchedServer) -> Iterator[Connection]:
    """A session that finds schema s empty."""
    with server.connect() as connection:
        renew(connection)
        yield connection
        renew(connection)


def renew(session: Connection) -> None:
    """Schema s, empty, and no publication."""
    session.execute("RESET ALL; SET client_min_messages = warning; SET event_triggers = off")
    session.execute("DROP PUBLICATION IF EXISTS told, told_all")
    session.execute("DROP SCHEMA IF EXISTS s CASCADE")
    session.execute("CREATE SCHEMA s")
    session.execute("RESET event_triggers")
