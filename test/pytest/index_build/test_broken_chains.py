"""An index on rows whose HOT chains it breaks must not be used by older snapshots.

Whoever meets such a chain has to say so, also when that is a parallel worker alone.
"""

from collections.abc import Iterator

import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from index_build.lone_worker import gated, lone_worker
from index_build.twins import ARMS, Arm, Counters, choose

_PAGES = 40
_BROKEN = 20  # page whose rows were updated


@pytest.fixture(autouse=True)
def _table(connection: Connection) -> Iterator[None]:
    connection.execute(
        "CREATE TABLE h (id int, v int, pad text) "
        "WITH (autovacuum_enabled = off, fillfactor = 60); "
        "ALTER TABLE h ALTER pad SET STORAGE PLAIN"
    )
    connection.execute(
        f"INSERT INTO h SELECT i, i, repeat('x', 1800) FROM generate_series(1, {_PAGES * 2}) i"
    )
    with gated(connection):
        yield
        connection.execute("DROP TABLE h")


@pytest.mark.parametrize("arm", ARMS)
def test_chain_that_a_worker_meets(server: WatchedServer, connection: Connection, arm: Arm) -> None:
    choose(connection, arm)
    built = Counters.of(connection).built
    with server.connect() as old:
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        # The new versions are on the same page: the row has an index on no column yet.
        connection.execute(f"UPDATE h SET v = -v WHERE ctid = '({_BROKEN},1)'")
        with lone_worker(server, connection.info.backend_pid):
            connection.execute("CREATE INDEX h_i ON h (gated(id), v)")
    assert scalar(
        connection, "SELECT indcheckxmin FROM pg_index WHERE indexrelid = 'h_i'::regclass"
    )
    assert Counters.of(connection).built == built + (arm == "ours")
