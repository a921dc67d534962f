"""The server and the tables on which `lookahead check` is tried, and how it is called there."""

from collections.abc import Iterator
from contextlib import contextmanager

from server_log import ServerFactory, WatchedServer

from lab.outcome import Outcome, run_command
from lookahead.extension import Stage

_TABLES = """
    CREATE TABLE orders AS SELECT id, id * 7919 % 50000 AS k, repeat('x', 200) AS pad
        FROM generate_series(0, 49999) AS id;
    CREATE INDEX orders_k ON orders (k);
    CREATE TABLE odd (day date, number numeric);
    INSERT INTO odd VALUES ('infinity', 'NaN'), (NULL, 1), ('4000-01-01 BC', 2);
    CREATE ROLE reader LOGIN;
    GRANT SELECT ON orders TO reader;
    CREATE FUNCTION looks(int) RETURNS bigint LANGUAGE plpgsql STABLE
        AS $$ BEGIN RETURN (SELECT count(*) FROM orders WHERE k = $1); END $$;
    ALTER DATABASE postgres SET enable_bitmapscan = off;
    ALTER DATABASE postgres SET enable_seqscan = off;
"""
QUERY = "SELECT * FROM orders WHERE k BETWEEN 100 AND 3000 ORDER BY k"


def dsn_of(server: WatchedServer, user: str = "postgres", database: str = "postgres") -> str:
    place = f"host={server.socket_directory} port={server.port}"
    return f"{place} user={user} dbname={database}"


@contextmanager
def orders_server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    """A server on which no session has the library unless it loads it."""
    settings = {"session_preload_libraries": ""}
    with server_factory(stage=stage, settings=settings) as made:
        with made.connect() as connection:
            connection.execute(_TABLES)
            connection.execute("VACUUM ANALYZE orders")
        yield made


def run_check(
    server: WatchedServer, statement: str, *options: str, user: str = "postgres"
) -> Outcome:
    return run_command("check", statement, "--dsn", dsn_of(server, user), *options)
