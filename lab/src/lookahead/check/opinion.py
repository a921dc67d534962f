"""One statement on a server: explained within a read-only transaction, and advised on."""

import re
from collections.abc import Callable
from typing import Any

from lookahead.check.advice import Advice, advise
from lookahead.check.facts import CachedBytes, add_index_rows, cached_bytes, collect_facts
from lookahead.check.inserts import NEW_TABLE, inserting
from lookahead.check.sql_text import code_of
from lookahead.check.statement import PLANNING_LIMIT_S, explain, read_only, unseen_functions
from lookahead.check.target import connect
from lookahead.check.utilities import advise_utility, without_plan
from lookahead.guarded_connection import GuardedConnection

_STATEMENTS = "Statements"
_NO_DATA = re.compile(r"\bwith\s+no\s+data[\s;]*\Z", re.IGNORECASE | re.ASCII)


def advise_on(
    dsn: str, statement: str, cached: Callable[[GuardedConnection], CachedBytes] | None = None
) -> tuple[dict[str, Any], Advice]:
    """Its plan and the advice; the plan of a command that EXPLAIN does not take is empty.

    `cached` says what is in shared buffers; without it the server is asked.
    """
    with connect(dsn) as connection, read_only(connection):
        connection.limit_time(PLANNING_LIMIT_S)
        plan: dict[str, Any] = {"Node Type": _STATEMENTS, "Plans": []}
        if utility := advise_utility(connection, statement):
            return plan, utility
        documents = explain(connection, statement, "VERBOSE, LOOKAHEAD")
        if not documents:
            return plan, without_plan(statement)
        # Rules can make several statements of one: a node above their plans.
        plans = plan["Plans"] = [document["Plan"] for document in documents]
        for document in documents:
            if "Lookahead" in document:
                document["Plan"][NEW_TABLE] = document["Lookahead"]
        if NEW_TABLE in plans[0] and _NO_DATA.search(code_of(statement)):
            return plan, Advice((), "no", "WITH NO DATA executes nothing")
        facts = collect_facts(connection, plan, (cached or cached_bytes)(connection))
        functions = unseen_functions(connection, plans)
        inserts = inserting(connection, plan)
        add_index_rows(connection, statement, plans)
        return plan, advise(plan, facts, functions, inserts)
