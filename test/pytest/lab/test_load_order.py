"""What the lab says of COPY on servers with pg_stat_statements, in each order of the libraries."""

from collections.abc import Iterator

import pytest
from bulk_insert.arms import Counters
from extension.probes import Connection, need_extension
from server_log import ServerFactory, WatchedServer

from lab.outcome import run_command
from lookahead.extension import Stage

# Libraries of the server and of the session, and whether a COPY goes in batches.
_ORDERS = {
    "first": ("pg_lookahead, pg_stat_statements", "", True),
    "last": ("pg_stat_statements, pg_lookahead", "", False),
    "in the session": ("pg_stat_statements", "pg_lookahead", False),
    "beside one that looks at queries": ("auto_explain, pg_lookahead", "", True),
}


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage) as made:
        with made.connect() as connection:
            need_extension(connection, "pg_stat_statements")
            connection.execute("CREATE TABLE t (k int); CREATE EXTENSION pg_lookahead")
        made.write_file("rows.txt", "1\n2\n")
        yield made


@pytest.mark.parametrize("order", _ORDERS)
def test_what_is_said_of_copy(server: WatchedServer, order: str) -> None:
    """It is what becomes of one."""
    of_server, of_session, batched = _ORDERS[order]
    libraries = {
        "shared_preload_libraries": of_server,
        "session_preload_libraries": of_session,
    }
    server.restart(libraries)
    dsn = f"host={server.socket_directory} port={server.port} user=postgres dbname=postgres"
    checked = run_command("check", "COPY t FROM STDIN", "--dsn", dsn).stdout
    diagnosed = run_command("doctor", "--dsn", dsn).stdout
    with server.connect() as connection:
        before = _left(connection)
        connection.execute(f"COPY t FROM '{server.write_file('rows.txt', '1')}'")
        after = _left(connection)
    refusal = "NO: its rows would be inserted in larger batches, but pg_stat_statements looks at"
    assert checked.startswith("YES: " if batched else refusal)
    assert ("name pg_lookahead first" in checked) == (not batched)
    assert ("COPY is left to PostgreSQL: loaded before" in diagnosed) == (not batched)
    assert after - before == (0 if batched else 1)


def _left(connection: Connection) -> int:
    """How often another library was the reason, also where the cluster counts."""
    connection.execute("SELECT pg_stat_force_next_flush()")
    return Counters.of(connection).left.get("other extension", 0)
