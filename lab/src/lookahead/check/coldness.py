"""How a checked statement finds its tables cold: a private server restarts, a user's one evicts."""

from collections.abc import Callable, Mapping
from typing import Any

import psycopg

from lookahead.check.advice import plan_nodes, table_of
from lookahead.check.target import Target
from lookahead.errors import ExitStatus, LabError

_EVICT = "pg_lookahead_evict"


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
        connection.execute(
            f"SELECT {function}(format('%%I.%%I', %s::text, %s::text)::regclass)", (schema, name)
        )
    except psycopg.Error as error:
        raise LabError(
            f'cannot evict "{schema}.{name}": {error.diag.message_primary or error}',
            error.diag.message_hint or "Leave --cold out.",
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
    """The function's name with its schema, in which CREATE EXTENSION has put it."""
    with target.connect() as connection:
        row = connection.execute(
            "SELECT p.oid::regproc::text FROM pg_proc p WHERE p.proname = %s "
            "AND p.pronargs = 1 AND p.proargtypes[0] = 'regclass'::regtype "
            "AND has_function_privilege(p.oid, 'EXECUTE')",
            (_EVICT,),
        ).fetchone()
    if row is None:
        raise LabError(
            f"--cold is not possible here: this role has no function {_EVICT}(regclass)",
            "Let a superuser run CREATE EXTENSION pg_lookahead and the check, or check a private "
            "server with --directory.",
            status=ExitStatus.ENVIRONMENT,
        )
    return str(row[0])
