"""How many rows the index scans of a plan find before their filters. Asks the planner.

EXPLAIN shows the rows that pass the filter. But each row that is found costs `cpu_tuple_cost`
(cost_index() in costsize.c), so the statement is planned twice more, with that setting a little
apart: the difference of a node's two costs, divided by that of the settings, is the number of rows.
All costs are multiplied by a large number before, since EXPLAIN rounds them to hundredths; plans
are chosen by ratios of costs, so they stay the same. Where they do not, nothing is said.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import psycopg

from lookahead.check.scan_pages import INDEX_ROWS
from lookahead.check.statement import explain
from lookahead.guarded_connection import GuardedConnection

_SCALE = 1e6
# Small enough for the choice between plans, large enough for the rounding.
_APART = 1e-4
_TUPLE_COST = "cpu_tuple_cost"
_COSTS = (
    _TUPLE_COST,
    "cpu_index_tuple_cost",
    "cpu_operator_cost",
    "parallel_setup_cost",
    "parallel_tuple_cost",
    "random_page_cost",
    "seq_page_cost",
)
_SHAPE = ("Node Type", "Parent Relationship", "Alias", "Index Name", "Plan Rows", "Filter")
_INDEX_SCANS = ("Index Scan", "Index Only Scan")


def add_index_rows(
    connection: GuardedConnection, statement: str, plans: list[dict[str, Any]]
) -> None:
    """Write `INDEX_ROWS` into the filtered index scans of the plans, where it can be found out.

    The last thing to do in the caller's transaction: its costs are no longer the user's.
    """
    shown = [node for plan in plans for node in _nodes(plan)]
    if not any(_is_filtered(node) for node in shown):
        return
    costs = {name: _setting(connection, name) * _SCALE for name in _COSTS}
    step = costs[_TUPLE_COST] * _APART
    if step <= 0:
        return
    base = _plan_with(connection, statement, costs)
    dearer = _plan_with(connection, statement, {**costs, _TUPLE_COST: costs[_TUPLE_COST] + step})
    if not _shapes(shown) == _shapes(base) == _shapes(dearer):
        return
    for node, cheap, dear in zip(shown, base, dearer, strict=True):
        if _is_filtered(node):
            node[INDEX_ROWS] = max(
                (dear["Total Cost"] - cheap["Total Cost"]) / step, float(node["Plan Rows"])
            )


def _is_filtered(node: Mapping[str, Any]) -> bool:
    # The cost of a filter with a subplan contains the rows of that, too.
    return node["Node Type"] in _INDEX_SCANS and "Filter" in node and "Plans" not in node


def _plan_with(
    connection: GuardedConnection, statement: str, costs: Mapping[str, float]
) -> list[dict[str, Any]]:
    for name, value in costs.items():
        connection.execute("SELECT pg_catalog.set_config(%s, %s, true)", (name, repr(value)))
    documents = explain(connection, statement, "VERBOSE")
    return [node for document in documents for node in _nodes(document["Plan"])]


def _setting(connection: psycopg.Connection[Any], name: str) -> float:
    row = connection.execute("SELECT pg_catalog.current_setting(%s)", (name,)).fetchone()
    assert row is not None
    return float(row[0])


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(node.get("Plans", ()))


def _shapes(nodes: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(node.get(key) for key in _SHAPE) for node in nodes]
