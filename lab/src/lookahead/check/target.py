"""The server a statement is checked on, with the library loaded in each session.

That is the server libpq's rules lead to (a connection string, the PG* variables). It finds its
tables cold after the extension has evicted them.
"""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import psycopg

from lookahead.check.plan_tree import plan_nodes, table_of
from lookahead.check.statement import StatementCancelled
from lookahead.errors import UnavailableError, UsageError
from lookahead.extension import LIBRARY
from lookahead.formats import one_line, server_size
from lookahead.guarded_connection import (
    GuardedConnection,
    explained_queries,
    find_member,
    open_guarded,
    server_message,
)
from lookahead.installation import SUPPORTED_MAJOR

# Before the library is loaded, its option of EXPLAIN is a syntax error.
_PROBE = "EXPLAIN (LOOKAHEAD) SELECT"
_EVICT = "pg_lookahead_evict"
# Somebody may read along: as cold.py has it.
_COLD_SHARE = 0.01
# Not joined with the function: that could be called before the schema is compared.
_EVICT_RELATION = """
    SELECT e.bytes::pg_catalog.int8, e.bytes_cached::pg_catalog.int8
               + e.buffers_skipped * pg_catalog.current_setting('block_size')::pg_catalog.int4
    FROM {function}((
        SELECT c.oid FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %s AND c.relname = %s)::pg_catalog.regclass) AS e"""


def connect(dsn: str) -> GuardedConnection:
    """A session in which EXPLAIN knows LOOKAHEAD; raises LabError when there can be none."""
    connection = open_guarded(dsn, "lookahead check")
    try:
        with explained_queries():
            _load_library(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _load_library(connection: GuardedConnection) -> None:
    major = connection.info.server_version // 10000
    if major != SUPPORTED_MAJOR:
        raise UnavailableError(
            f"the server is PostgreSQL {major}; {LIBRARY} needs PostgreSQL {SUPPORTED_MAJOR}",
            "Check the statement on a server of that version.",
        )
    if _knows_lookahead(connection):
        return
    try:
        connection.execute(f"LOAD '{LIBRARY}'")
    except psycopg.errors.InsufficientPrivilege:
        raise UnavailableError(
            f"{LIBRARY} is not loaded, and role {one_line(connection.info.user)} may not load it",
            "Let a superuser run the check, or have one add the library to "
            "session_preload_libraries: docs/install.md.",
        ) from None
    except psycopg.Error as error:
        raise UnavailableError(
            f"{LIBRARY} cannot be loaded: {server_message(error)}",
            "Install it for this server: make install PG_CONFIG=/path/to/its/pg_config.",
        ) from None
    if not _knows_lookahead(connection):
        raise UnavailableError(
            f"{LIBRARY} was loaded, yet EXPLAIN does not know LOOKAHEAD",
            "Is another version of the library installed there?",
        )


def _knows_lookahead(connection: GuardedConnection) -> bool:
    try:
        connection.execute(_PROBE)
    except psycopg.errors.SyntaxError:
        return False
    return True


def cold_maker(dsn: str, plan: Mapping[str, Any]) -> Callable[[float], str]:
    """What to call before each execution, with its time limit; it says what was least cold so far.

    Raises LabError where the caches of the server cannot be emptied.
    """
    relations = sorted(_relations_of(plan))
    if not relations:
        raise UsageError(
            "--cold has nothing to empty: the plan reads no table of this server",
            "Statements inside functions are not seen; check one of them by itself.",
        )
    # The function is C code of the extension's, named with its schema.
    query = _EVICT_RELATION.format(function=_evict_function(dsn)).encode()

    worst = (0, 0)

    def evict(limit_s: float) -> str:
        nonlocal worst
        end = monotonic() + limit_s
        with connect(dsn) as connection:
            sizes = [_evict(connection, query, relation, end) for relation in relations]
        size, cached = (sum(column) for column in zip(*sizes, strict=True))
        worst = max(worst, (cached, size))
        return _evicted(len(relations), *worst)

    return evict


def _evicted(relations: int, cached: int, size: int) -> str:
    if cached <= size * _COLD_SHARE:
        return f"cold: {relations} relations evicted"
    return (
        f"not cold: {server_size(cached)} of {server_size(size)} stayed in memory when "
        f"{relations} relations were evicted"
    )


def _evict(
    connection: GuardedConnection, query: bytes, relation: tuple[str, str], end: float
) -> tuple[int, int]:
    """Bytes of its files, and how many of them are still cached; `end` is of all evictions."""
    left_s = end - monotonic()
    if left_s <= 0:
        raise StatementCancelled("an eviction was ended: no time is left")
    try:
        connection.limit_time(left_s, in_transaction=False)
        row = connection.execute(query, relation).fetchone()
        assert row is not None
        return row[0] or 0, row[1] or 0  # NULL of one that is gone
    except psycopg.errors.QueryCanceled as error:
        raise StatementCancelled(f"an eviction was ended: {server_message(error)}") from None
    except psycopg.Error as error:
        raise UnavailableError(
            f'cannot evict "{".".join(map(one_line, relation))}": ' + server_message(error),
            one_line(error.diag.message_hint or "Leave --cold out."),
        ) from None


def _relations_of(plan: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Tables and indexes of a plan; an index lies in the schema of its table."""
    found = set()
    schema = ""
    for node in plan_nodes(plan):
        table = table_of(node)
        if table and node["Node Type"] != "Foreign Scan":  # whose pages are elsewhere
            schema = table[0]
            found.add(table)
        if "Index Name" in node:
            found.add((schema, str(node["Index Name"])))
    return found


def _evict_function(dsn: str) -> str:
    """The extension's function with its schema, as it stands in a statement."""
    with connect(dsn) as connection:
        found = find_member(connection, LIBRARY, "function", f"{_EVICT}(pg_catalog.regclass)")
        permitted = found is not None and connection.execute(
            "SELECT pg_catalog.has_function_privilege(%s::pg_catalog.oid, 'EXECUTE')", (found.oid,)
        ).fetchone() == (True,)
    if found is None or not permitted:
        raise UnavailableError(
            f"--cold is not possible here: this role has no function {_EVICT}(regclass) of the "
            "extension",
            "Let a superuser run CREATE EXTENSION pg_lookahead (of a standby: on its primary), and "
            "the check.",
        )
    return f"{found.schema}.{_EVICT}"
