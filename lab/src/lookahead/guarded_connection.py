"""Sessions on servers that are not ours, where a name may be a trap.

Whoever may create objects in a schema of the search path can give a name or an operator that we
use another meaning, and it is executed with the rights of the role that connects. So a session
of ours searches the server's own schema only; what lies elsewhere is called by its qualified name
and after its extension was asked whether it belongs to it (extension_member.py). The user's search
path is in effect during the user's own statement.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

# Named last, temporary tables hide nothing; functions and operators are never looked up there.
_OWN_PATH = "pg_catalog, pg_temp"


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

    def _search(self, path: str, *, in_transaction: bool = True) -> None:
        arguments = ("search_path", path, in_transaction)
        self.execute("SELECT pg_catalog.set_config(%s, %s, %s)", arguments)

    def guard(self) -> None:
        """Search the server's own schema from here on."""
        row = self.execute("SELECT pg_catalog.current_setting('search_path')").fetchone()
        assert row is not None
        self.users_path = row[0]
        self._search(_OWN_PATH, in_transaction=False)


def connect_guarded(dsn: str, purpose: str) -> GuardedConnection:
    """A session by libpq's rules, in UTF-8 and without transactions of its own.

    `purpose` is what the server's administrator sees. Raises what psycopg raises.
    """
    connection = GuardedConnection.connect(
        dsn, autocommit=True, application_name=purpose, client_encoding="utf8"
    )
    try:
        connection.guard()
    except BaseException:
        connection.close()
        raise
    return connection
