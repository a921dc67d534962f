"""How a checked statement finds its tables cold: a private server restarts, a user's one evicts."""

from collections.abc import Callable, Mapping
from typing import Any

import psycopg

from lookahead.check.extension_member import find_member
from lookahead.check.plan_tree import plan_nodes, table_of
from lookahead.check.target import Target
from lookahead.errors import ExitStatus, LabError
from lookahead.extension import LIBRARY
from lookahead.foreign_text import one_line

_EVICT = "pg_lookahead_evict"
_FIND_RELATION = """
    SELECT c.oid FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s"""


def cold_maker(target: Target, plan: Mapping[str, Any]) -> Callable[[], str]:
    """What to call before each execution; it says what it did.

    Raises LabError where the caches of the server cannot be emptied.
    """
    server = target.server
    if server is not None:

        def restart() -> str:
            evidence = server.cold_restart()
            resident_mb = evidence.resident_bytes_after / 1e6
            return f"cold: server restarted, {resident_mb:.0f} MB resident"

        return restart
    relations = sorted(_relations_of(plan))
    function = _evict_function(target)

    def evict() -> str:
        with target.connect() as connection:
            for schema, name in relations:
                _evict(connection, function, schema, name)
        return f"cold: {len(relations)} relations evicted"

    return evict


def _evict(connection: psycopg.Connection[Any], function: str, schema: str, name: str) -> None:
    try:
        found = connection.execute(_FIND_RELATION, (schema, name)).fetchone()
        if found is not None:
            # The function is C code of the extension's, named with its schema.
            connection.execute(f"SELECT {function}(%s::pg_catalog.oid::pg_catalog.regclass)", found)
    except psycopg.Error as error:
        raise LabError(
            f'cannot evict "{one_line(schema)}.{one_line(name)}": '
            + one_line(error.diag.message_primary or str(error)),
            one_line(error.diag.message_hint or "Leave --cold out."),
            status=ExitStatus.ENVIRONMENT,
        ) from None


def _relations_of(plan: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Tables and indexes of a plan; an index lies in the schema of its table."""
    found = set()
    schema = ""
    for node in plan_nodes(plan):
        table = table_of(node)
        if table:
            schema = table[0]
            found.add(table)
        if "Index Name" in node:
            found.add((schema, str(node["Index Name"])))
    return found


def _evict_function(target: Target) -> str:
    """The extension's function with its schema, as it stands in a statement."""
    with target.connect() as connection:
        found = find_member(connection, LIBRARY, "function", f"{_EVICT}(pg_catalog.regclass)")
        permitted = found is not None and connection.execute(
            "SELECT pg_catalog.has_function_privilege(%s::pg_catalog.oid, 'EXECUTE')", (found.oid,)
        ).fetchone() == (True,)
    if found is None or not permitted:
        raise LabError(
            f"--cold is not possible here: this role has no function {_EVICT}(regclass) of the "
            "extension",
            "Let a superuser run CREATE EXTENSION pg_lookahead and the check, or check a private "
            "server with --directory.",
            status=ExitStatus.ENVIRONMENT,
        )
    return f"{found.schema}.{_EVICT}"
