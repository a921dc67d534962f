"""The server a statement is checked on, with the library loaded in each session.

That is the server libpq's rules lead to (a connection string, the PG* variables), or the private
server that an earlier run kept in a folder.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from lookahead.conninfo import shown_error
from lookahead.errors import ExitStatus, LabError
from lookahead.extension import LIBRARY, find_stage
from lookahead.foreign_text import one_line
from lookahead.guarded_connection import GuardedConnection, connect_guarded
from lookahead.installation import SUPPORTED_MAJOR, find_installation
from lookahead.server import PrivateServer

# Before the library is loaded, its option of EXPLAIN is a syntax error.
_PROBE = "EXPLAIN (LOOKAHEAD) SELECT"


class Target:
    """Makes sessions with the library loaded; `server` is the private server, if it is one."""

    def __init__(self, dsn: str, server: PrivateServer | None = None) -> None:
        self._dsn = dsn
        self.server = server

    def connect(self) -> GuardedConnection:
        """A session in which EXPLAIN knows LOOKAHEAD; raises LabError when there can be none."""
        try:
            connection = connect_guarded(self._dsn, "lookahead check")
        except psycopg.OperationalError as error:
            raise LabError(
                f"no connection to the server: {shown_error(self._dsn, error)}",
                "Name it with --dsn or the PG* variables of libpq, such as PGHOST and PGDATABASE.",
                status=ExitStatus.ENVIRONMENT,
            ) from None
        except psycopg.ProgrammingError:
            # libpq's own words would quote the string, and with it a password.
            raise LabError(
                "--dsn is no connection string",
                'Such as "host=/run/postgresql dbname=shop" or postgresql://host/shop.',
                status=ExitStatus.USAGE,
            ) from None
        try:
            _load_library(connection)
        except psycopg.OperationalError as error:
            raise connection_lost(error) from None
        except BaseException:
            connection.close()
            raise
        return connection


def connection_lost(error: psycopg.OperationalError) -> LabError:
    """What to say when the server goes away between two statements."""
    return LabError(
        f"the connection is lost: {str(error).strip()}", "See the server's log, then try again."
    )


@contextmanager
def open_target(
    dsn: str | None, directory: Path | None, pg_config: Path | None, library: Path | None
) -> Iterator[Target]:
    """The private server kept in `directory` if that is given, else the one `dsn` leads to."""
    if directory is None:
        yield Target(dsn or "")
        return
    if not (directory / "data" / "PG_VERSION").exists():
        raise LabError(
            f'"{directory}" holds no private server',
            "Name a folder that `lookahead run ... --keep` has printed.",
            status=ExitStatus.USAGE,
        )
    installation = find_installation(pg_config)
    stage = find_stage(installation, library=library)
    with PrivateServer(installation, stage=stage, directory=directory, keep=True) as server:
        server.start()
        place = server.environment()
        yield Target(
            make_conninfo(
                host=place["PGHOST"],
                port=place["PGPORT"],
                user=place["PGUSER"],
                dbname=place["PGDATABASE"],
            ),
            server,
        )


def _load_library(connection: GuardedConnection) -> None:
    major = connection.info.server_version // 10000
    if major != SUPPORTED_MAJOR:
        raise LabError(
            f"the server is PostgreSQL {major}; {LIBRARY} needs PostgreSQL {SUPPORTED_MAJOR}",
            "Check the statement on a server of that version.",
            status=ExitStatus.ENVIRONMENT,
        )
    if _knows_lookahead(connection):
        return
    try:
        connection.execute(f"LOAD '{LIBRARY}'")
    except psycopg.errors.InsufficientPrivilege:
        raise LabError(
            f"{LIBRARY} is not loaded, and role {one_line(connection.info.user)} may not load it",
            "Let a superuser run the check, or let one set session_preload_libraries = "
            f"'{LIBRARY}' for this role or database.",
            status=ExitStatus.ENVIRONMENT,
        ) from None
    except psycopg.Error as error:
        raise LabError(
            f"{LIBRARY} cannot be loaded: {one_line(error.diag.message_primary or str(error))}",
            "Install it for this server: make install PG_CONFIG=/path/to/its/pg_config.",
            status=ExitStatus.ENVIRONMENT,
        ) from None
    if not _knows_lookahead(connection):
        raise LabError(
            f"{LIBRARY} was loaded, yet EXPLAIN does not know LOOKAHEAD",
            "Is another version of the library installed there?",
            status=ExitStatus.ENVIRONMENT,
        )


def _knows_lookahead(connection: GuardedConnection) -> bool:
    try:
        connection.execute(_PROBE)
    except psycopg.errors.SyntaxError:
        return False
    return True
