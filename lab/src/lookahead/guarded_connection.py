"""Sessions on servers that are not ours, where a name may be a trap, and how they are reached.

Whoever may create objects in a schema of the search path can give a name or an operator that we
use another meaning, and it is executed with the rights of the role that connects. So a session
of ours searches the server's own schema only; what lies elsewhere is called by its qualified name
and after its extension was asked whether it belongs to it, never by its name alone. The user's
search path is in effect during the user's own statement.

A pooler may hand the session on to somebody else, with our search path and the library in it, and
ours may go on in another that has neither: behind one nothing is asked at all.

Connection strings are shown and kept without what opens a door: only what names the place stays, so
a secret that a later libpq takes is not kept either. A password that was not quoted as it should be
(an "@" or "/" in a URL, a space) ends up in other parts, or in what libpq says of it: then nothing
is shown.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import ExecStatus

from lookahead.errors import LabError, UnavailableError, UsageError
from lookahead.formats import one_line

# Named last, temporary tables hide nothing; functions and operators are never looked up there.
_OWN_PATH = "pg_catalog, pg_temp"
_SESSION = "SELECT pg_catalog.current_setting('search_path'), pg_catalog.pg_backend_pid()"
# A limit of the user's own stays, if it is shorter; 0 is none. In milliseconds.
_SET_TIMEOUT = """
    SELECT pg_catalog.set_config('statement_timeout', CASE WHEN setting::pg_catalog.int8 = 0
               THEN mine::pg_catalog.text
               ELSE least(setting::pg_catalog.int8, mine)::pg_catalog.text END, %s)
    FROM pg_catalog.pg_settings, (SELECT %s::pg_catalog.int8 AS mine) AS limits
    WHERE name = 'statement_timeout'"""
# Of a look at the server, in seconds. Arbitrary.
_LOOK_LIMIT_S = 60.0
_PLACE = ("host", "hostaddr", "port", "dbname", "user", "service")
# Of SQLSTATE: connection exceptions, an end of the server or of the session.
_LOST = ("08", "57P")
_HIDDEN = "(a connection string that is not shown)"
# What precedes a value within an argument: "--dsn=", "-d".
_PREFIX = re.compile(r"(?:--[\w-]+=|-[A-Za-z](?=.))?", re.DOTALL)
# `identity` and `schema` are quoted as SQL wants them.
_MEMBER = """
    SELECT member.objid, object.schema
    FROM pg_catalog.pg_extension extension
    JOIN pg_catalog.pg_depend member
      ON member.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
     AND member.refobjid = extension.oid AND member.deptype = 'e',
    LATERAL pg_catalog.pg_identify_object(member.classid, member.objid, 0) AS object
    WHERE extension.extname = %s AND object.type = %s
      AND object.identity = object.schema || '.' || %s"""


class GuardedConnection(psycopg.Connection[Any]):
    """A session whose search path is the server's own schema; `users_path` is what it was."""

    users_path: str

    @contextmanager
    def users_names(self) -> Iterator[None]:
        """Names mean what they mean to the user; only within a transaction.

        After an error the end of the transaction puts the path back.
        """
        self._search(self.users_path)
        yield
        self._search(_OWN_PATH)

    def require_single(self, text: bytes) -> None:
        """Raise what the server says against the text as one statement, without executing it.

        Executed by the simple protocol, a text may be several statements.
        """
        result = self.pgconn.prepare(b"", text)
        if result.status != ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(result)

    def limit_time(self, limit_s: float, *, in_transaction: bool = True) -> None:
        """Have the server cancel what takes longer, for the rest of the transaction or session."""
        self.execute(_SET_TIMEOUT, (in_transaction, max(1, round(limit_s * 1000))))

    def _search(self, path: str, *, in_transaction: bool = True) -> None:
        arguments = ("search_path", path, in_transaction)
        self.execute("SELECT pg_catalog.set_config(%s, %s, %s)", arguments)

    def guard(self) -> None:
        """Search the server's own schema from here on; LabError where others have the session."""
        row = self.execute(_SESSION).fetchone()
        assert row is not None
        self.users_path, process = row
        if process != self.info.backend_pid:  # poolers make up one for each client
            raise UnavailableError(
                "there is a connection pooler in between, and it shares sessions with others",
                "Name the server itself: its own host and port.",
            )
        self._search(_OWN_PATH, in_transaction=False)
        self.execute("SET quote_all_identifiers = off")  # or no identity would be as we write it


def open_guarded(dsn: str, purpose: str) -> GuardedConnection:
    """A session by libpq's rules, in UTF-8 and without transactions of its own; or LabError.

    `purpose` is what the server's administrator sees.
    """
    try:
        connection = GuardedConnection.connect(
            dsn, autocommit=True, application_name=purpose, client_encoding="utf8"
        )
        try:
            connection.guard()
        except BaseException:
            connection.close()
            raise
        return connection
    except UnicodeError:  # Python looks it up.
        reason = "the name of the host is none"
    except psycopg.OperationalError as error:
        # It might quote a part of a password.
        is_hidden = shown_dsn(dsn) == _HIDDEN
        reason = "the reason could quote a password" if is_hidden else str(error).strip()
    except psycopg.ProgrammingError as error:
        if error.sqlstate is not None:  # the server's
            raise query_failed(error) from None
        # libpq's own words would quote the string, and with it a password.
        raise UsageError(
            "--dsn is no connection string",
            'Such as "host=/run/postgresql dbname=shop" or postgresql://host/shop.',
        ) from None
    hint = "Name it with -h, -p and -d, with --dsn, or by the PG* variables, such as PGHOST."
    if "could not access file" in reason:
        hint = "A library that a setting names is not there: docs/install.md, leave."
    raise UnavailableError(f"no connection to the server: {reason}", hint)


def query_failed(error: psycopg.Error) -> LabError:
    """What to say when the server goes away between two statements, or refuses or ends one of ours.

    Raises the error again if it is not the server's.
    """
    if error.sqlstate is None and not isinstance(error, psycopg.OperationalError):
        raise error
    if error.sqlstate is not None and not error.sqlstate.startswith(_LOST):
        return LabError(
            f"a query of lookahead failed: {server_message(error)}",
            "It has a minute at most; limits and rights of the role apply, too.",
        )
    return LabError(
        f"the connection is lost: {str(error).strip()}", "See the server's log, then try again."
    )


@contextmanager
def explained_queries() -> Iterator[None]:
    """Turn what the server says against queries of ours into a LabError."""
    try:
        yield
    except psycopg.Error as error:
        raise query_failed(error) from None


@contextmanager
def asking(dsn: str, purpose: str, failure: str) -> Iterator[GuardedConnection]:
    """As `open_guarded`; an error in the block is a LabError, too, which begins with `failure`.

    No query takes longer than a minute, such as one that waits for a lock.
    """
    try:
        with open_guarded(dsn, purpose) as connection:
            connection.limit_time(_LOOK_LIMIT_S, in_transaction=False)
            yield connection
    except psycopg.OperationalError as error:
        raise query_failed(error) from None
    except psycopg.Error as error:
        raise LabError(f"{failure}: {server_message(error)}") from None


def server_message(error: psycopg.Error) -> str:
    """What the server says first, in one line."""
    return one_line(error.diag.message_primary or str(error).strip())


def shown_dsn(dsn: str) -> str:
    """The place that the string names, again as a connection string."""
    parts = _parse(dsn)
    if parts is None:
        return _HIDDEN
    place = {name: str(parts[name]) for name in _PLACE if parts.get(name)}
    return _HIDDEN if _is_doubtful(place) else make_conninfo(**place)


def shown_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """A command line whose connection strings are as `shown_dsn` has them."""
    return tuple(map(_shown_argument, ("", *arguments), arguments))


def _shown_argument(previous: str, argument: str) -> str:
    found = _PREFIX.match(argument)
    prefix = found[0] if found else ""
    value = argument.removeprefix(prefix)
    option = prefix.rstrip("=") or previous
    is_dsn = option == "--dsn" or (option in ("-d", "--dbname") and is_connection_string(value))
    parts = _parse(value)
    # Also a connection string with more than a place, wherever it stands.
    if is_dsn or (parts is not None and not parts.keys() <= set(_PLACE)):
        return prefix + shown_dsn(value)
    return argument


def is_connection_string(text: str) -> bool:
    """As libpq tells it from the name of a database."""
    return "=" in text or "://" in text


def _parse(dsn: str) -> dict[str, Any] | None:
    try:
        return conninfo_to_dict(dsn)
    except (psycopg.Error, UnicodeError):
        return None


def _is_doubtful(place: dict[str, str]) -> bool:
    """Whether a value looks like a part of a URL or of another string."""
    if not place.get("port", "").replace(",", "").isdecimal() and "port" in place:
        return True
    return any(mark in value for value in place.values() for mark in ("@", "=", "://"))


@dataclass(frozen=True)
class Member:
    """An object of an extension; `schema` is ready to stand in a statement with parameters."""

    oid: int
    schema: str


def find_member(
    connection: psycopg.Connection[Any],
    extension: str,
    kind: Literal["function", "view"],
    identity: str,
) -> Member | None:
    """The extension's object with this identity, without its schema; None where there is none.

    A function's has the qualified types of its arguments, such as "name(pg_catalog.regclass)".
    """
    row = connection.execute(_MEMBER, (extension, kind, identity)).fetchone()
    return Member(row[0], row[1].replace("%", "%%")) if row else None
