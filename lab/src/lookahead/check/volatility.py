"""Which volatile functions the execution of a statement would call.

Neither EXPLAIN's text nor pg_depend tell: the one leaves expressions out (the rows of VALUES), the
other knows no functions of the server's own. The plan's tree has them all, with views, policies
and inlined functions put in their place, and `debug_print_plan` makes the server send it. Domains
are followed to their checks, aggregates to their parts. What a function calls out of the server's
sight is not known: its declared volatility is believed.
"""

import re
from collections.abc import Iterable

import psycopg

from lookahead.check.statement import explained_errors
from lookahead.errors import LabError
from lookahead.guarded_connection import GuardedConnection

# Of a role that may, the tree stays out of the server's log.
_PRINT_PLAN = """
    SELECT pg_catalog.set_config('debug_print_plan', 'on', true),
           pg_catalog.set_config('debug_pretty_print', 'off', true),
           pg_catalog.set_config('client_min_messages', 'log', true),
           CASE WHEN pg_catalog.has_parameter_privilege('log_min_messages', 'SET')
                THEN pg_catalog.set_config('log_min_messages', 'panic', true) END"""
_STOP_PRINTING = """
    SELECT pg_catalog.set_config('debug_print_plan', 'off', true)"""
# With parentheses: without them a statement that begins with ANALYZE would be executed.
_EXPLAIN = "EXPLAIN (COSTS OFF) "
_FUNCTION = re.compile(r":(?:funcid|opfuncid|aggfnoid|winfnoid|hashfuncid|negfuncid) (\d+)")
_OPERATORS = re.compile(r":opnos? (?:\(o )?([\d ]+)")
_TYPE = re.compile(r":resulttype (\d+)")
_DOMAIN_CHECKS = """
    WITH RECURSIVE domains AS (
        SELECT oid, typbasetype FROM pg_catalog.pg_type
        WHERE oid = ANY (%s::pg_catalog.oid[]) AND typtype = 'd'
        UNION
        SELECT base.oid, base.typbasetype FROM pg_catalog.pg_type base
        JOIN domains ON base.oid = domains.typbasetype WHERE base.typtype = 'd')
    SELECT conbin::pg_catalog.text FROM pg_catalog.pg_constraint
    WHERE contypid IN (SELECT oid FROM domains) AND conbin IS NOT NULL"""
_VOLATILE = """
    WITH called AS (
        SELECT pg_catalog.unnest(%(functions)s::pg_catalog.oid[]) AS oid
        UNION SELECT oprcode FROM pg_catalog.pg_operator
              WHERE oid = ANY (%(operators)s::pg_catalog.oid[])
        UNION SELECT pg_catalog.unnest(ARRAY[aggtransfn, aggfinalfn, aggcombinefn, aggserialfn,
                  aggdeserialfn, aggmtransfn, aggminvtransfn, aggmfinalfn]::pg_catalog.oid[])
              FROM pg_catalog.pg_aggregate
              WHERE aggfnoid = ANY (%(functions)s::pg_catalog.oid[]))
    SELECT oid::pg_catalog.regprocedure::pg_catalog.text FROM pg_catalog.pg_proc
    WHERE provolatile = 'v' AND oid IN (SELECT oid FROM called) ORDER BY 1"""


def volatile_functions(connection: GuardedConnection, statement: str) -> tuple[str, ...]:
    """Their signatures, in the caller's transaction, which must not go on to execute anything.

    Raises LabError when the server does not show the plan's tree.
    """
    texts = _plan_trees(connection, statement)
    if not texts:
        raise LabError(
            "the server does not show which functions the statement calls",
            "--allow-volatile executes it whatever it calls.",
        )
    seen: set[int] = set()
    while types := _numbers(_TYPE, texts) - seen:
        seen |= types
        texts += [row[0] for row in connection.execute(_DOMAIN_CHECKS, [list(types)])]
    called = {
        "functions": list(_numbers(_FUNCTION, texts)),
        "operators": list(_numbers(_OPERATORS, texts)),
    }
    return tuple(str(row[0]) for row in connection.execute(_VOLATILE, called))


def _plan_trees(connection: GuardedConnection, statement: str) -> list[str]:
    """Of the statement, and of what its planning itself planned."""
    texts: list[str] = []

    def keep(notice: psycopg.errors.Diagnostic) -> None:
        if notice.message_primary == "plan:" and notice.message_detail:
            texts.append(" ".join(notice.message_detail.split()))  # lines are broken anywhere

    connection.execute(_PRINT_PLAN)
    with explained_errors(statement, len(_EXPLAIN)), connection.users_names():
        # From here on: the queries that choose the names have plans, too.
        connection.add_notice_handler(keep)
        connection.execute(f"{_EXPLAIN}{statement}".encode(), binary=True)
        connection.remove_notice_handler(keep)
    connection.execute(_STOP_PRINTING)
    return texts


def _numbers(pattern: re.Pattern[str], texts: Iterable[str]) -> set[int]:
    """All numbers that the pattern's group has, wherever it matches."""
    groups = (match[1] for text in texts for match in pattern.finditer(text))
    return {int(number) for group in groups for number in group.split()}
