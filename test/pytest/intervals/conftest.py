"""A quiet server with the extension, and sessions."""

from collections.abc import Iterator

import pytest
from extension.probes import QUIET, Connection
from server_log import ServerFactory, WatchedServer

from intervals.needed import ON
from intervals.policies import make, set_policy
from lookahead.extension import Stage


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage, settings=QUIET) as started:
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
        renew(connection)


@pytest.fixture
def aged(session: Connection) -> Iterator[Connection]:
    """Table s.p of days, the oldest of which is ten days ago, with a row each."""
    make(session, "date")
    session.execute(
        "SELECT * FROM pg_lookahead_create_range_partitions('s.p', current_date - 10, '1 day', 11)"
    )
    session.execute("INSERT INTO s.p SELECT current_date - i FROM generate_series(0, 10) i")
    yield session


def renew(session: Connection) -> None:
    """Schema s, empty, which everybody may use, and no policy."""
    session.execute("RESET ROLE; RESET ALL; SET client_min_messages = error")
    session.execute("DROP SCHEMA IF EXISTS s CASCADE; CREATE SCHEMA s")
    session.execute("GRANT ALL ON SCHEMA s TO PUBLIC")
    session.execute("DELETE FROM pg_lookahead_interval_policy")
    session.execute("DELETE FROM pg_lookahead_interval_state")
    session.execute("RESET client_min_messages")


@pytest.fixture
def table(session: Connection) -> Connection:
    """Table s.p with a policy of tens, and no partition; creation is on."""
    make(session, "int PRIMARY KEY")
    set_policy(session, "10")
    session.execute(ON)
    return session
