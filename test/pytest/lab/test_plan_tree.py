"""How often the scans of a plan are executed, and how much of them is asked for."""

from typing import Any

import pytest

from lookahead.check.page_ranges import Range
from lookahead.check.plan_tree import Execution, Participation, executions, own_rows


def _node(kind: str, rows: float = 1, *children: dict[str, Any], **more: Any) -> dict[str, Any]:
    placed = [
        {"Parent Relationship": "Inner" if number else "Outer", **child}
        for number, child in enumerate(children)
    ]
    costs = {"Startup Cost": 0.0, "Total Cost": float(rows)}
    return {"Node Type": kind, "Plan Rows": rows, **costs, "Plans": placed, **more}


def _scan(rows: float = 1000, /, **more: Any) -> dict[str, Any]:
    return _node("Seq Scan", rows, Alias="a", **more)


def _found(plan: dict[str, Any], kind: str = "Seq Scan") -> tuple[dict[str, Any], Execution]:
    ((node, execution),) = [
        item for item in executions(plan, Participation()) if item[0]["Node Type"] == kind
    ]
    return dict(node), execution


@pytest.mark.parametrize(
    ("node", "consumed"),
    [
        ({"kind": "Result"}, Range(0.1, 0.1)),
        ({"kind": "Sort"}, Range(1, 1)),
        ({"kind": "Incremental Sort"}, Range(0, 1)),
        ({"kind": "Aggregate", "Strategy": "Hashed"}, Range(1, 1)),
        ({"kind": "Aggregate", "Strategy": "Sorted"}, Range(0.1, 0.1)),
        ({"kind": "Merge Join"}, Range(0, 0.1)),
        ({"kind": "Append"}, Range(0, 1)),
    ],
)
def test_below_a_limit(node: dict[str, Any], consumed: Range) -> None:
    kind = node.pop("kind")
    limited = _node(kind, 1000, _scan(), **node)
    plan = _node("Limit", 100, limited)
    assert _found(plan)[1].consumed == consumed


def test_rows_that_are_skipped_are_read() -> None:
    plan = {**_node("Limit", 10, _scan()), "Startup Cost": 500.0, "Total Cost": 510.0}
    assert _found(plan)[1].consumed == Range(0.51, 0.51)


def test_the_inner_side_of_a_nested_loop() -> None:
    outer = _node("Function Scan", 40)
    execution = _found(_node("Nested Loop", 60, outer, _scan(3), **{"Join Type": "Inner"}))[1]
    assert (execution.loops, execution.row_limit) == (Range(40, 40), 60)
    execution = _found(_node("Nested Loop", 60, outer, _scan(3), **{"Join Type": "Semi"}))[1]
    assert (execution.consumed, execution.row_limit) == (Range(0, 1), float("inf"))


@pytest.mark.parametrize(("workers", "rows"), [(0, 1000), (1, 1700), (2, 2400), (4, 4000)])
def test_rows_of_a_scan_that_processes_share(workers: int, rows: float) -> None:
    plan = _node(
        "Gather", 1, _scan(1000, **{"Parallel Aware": True}), **{"Workers Planned": workers}
    )
    node, execution = _found(plan)
    assert own_rows(node, execution) == pytest.approx(rows)
    plan = _node("Gather", 1, _scan(), **{"Workers Planned": workers})
    assert own_rows(*_found(plan)) == 1000


@pytest.mark.parametrize(
    ("more", "loops"),
    [
        ({"Output": ["(SubPlan 1)"]}, Range(50, 50)),
        ({"Filter": "(a.b = (SubPlan 1))"}, Range(50, float("inf"))),
        ({"Filter": "(ANY (a.b = (hashed SubPlan 1).col1))"}, Range(1, 1)),
        ({"Filter": "(b <> 'SubPlan 1'::text)"}, Range(50, 50)),
        ({"Output": ["(SubPlan 1)", "'hashed SubPlan 1'::text"]}, Range(50, 50)),
        ({"Output": ["(SubPlan 1)", "(ANY (a = (hashed SubPlan 10).col1))"]}, Range(50, 50)),
    ],
)
def test_a_subplan(more: dict[str, Any], loops: Range) -> None:
    subplan = _scan(1000, **{"Parent Relationship": "SubPlan", "Subplan Name": "SubPlan 1"})
    plan = {**_node("Function Scan", 50, **more), "Plans": [subplan]}
    assert _found(plan)[1].loops == loops


@pytest.mark.parametrize("joins_ahead", [True, False])
@pytest.mark.parametrize("kind", ["Seq Scan", "Index Scan"])
def test_a_subplan_whose_rows_are_looked_up_ahead(kind: str, joins_ahead: bool) -> None:
    subplan = _node("Result", 1, **{"Parent Relationship": "SubPlan", "Subplan Name": "SubPlan 1"})
    plan = {**_node(kind, 50, Lookahead={"Status": "eligible"}), "Plans": [subplan]}
    found = {
        node["Node Type"]: execution.drawn_ahead
        for node, execution in executions(plan, Participation(joins_ahead=joins_ahead))
    }
    assert found == {kind: False, "Result": kind == "Seq Scan" and joins_ahead}


@pytest.mark.parametrize("column", ["o.x", "b.x"])
def test_an_init_plan_of_min_or_max_by_an_index(column: str) -> None:
    lookup = _node("Index Scan", 1, Alias="b", **{"Index Cond": f"(b.y = {column})"})
    placed = {"Parent Relationship": "InitPlan", "Subplan Name": "InitPlan 1"}
    result = {**_node("Result"), "Plans": [{**_node("Limit", 1, lookup), **placed}]}
    outer = _scan(50, Lookahead={"Status": "eligible"})
    loop = _node("Nested Loop", 50, {**outer, "Alias": "o"}, result, Lookahead=outer["Lookahead"])
    found = _found(loop, "Index Scan")[1]
    is_of_row = column == "o.x"
    assert (found.loops.high, found.drawn_ahead) == ((50, True) if is_of_row else (1, False))


def test_a_common_table_expression_is_read_as_far_as_its_readers_want() -> None:
    expression = _scan(1000, **{"Parent Relationship": "InitPlan", "Subplan Name": "CTE x"})
    reader = _node("CTE Scan", 1000, **{"CTE Name": "x", "Parent Relationship": "Outer"})
    plan = {**_node("Limit", 10), "Plans": [expression, {**reader, "Total Cost": 100.0}]}
    assert _found(plan)[1].consumed == Range(0.1, 0.1)
    assert _found({**_node("Result"), "Plans": [expression, reader]})[1].consumed == Range(1, 1)


def test_a_plan_may_be_deep() -> None:
    plan = _scan()
    for _ in range(5000):
        plan = _node("Result", 1, plan)
    assert _found(plan)[1] == Execution()


def test_an_append_may_have_many_parts() -> None:
    """Each is looked at once: as often as there are parts, 20,000 would take minutes."""
    parts = [_scan() for _ in range(20_000)]
    plan = _node("Nested Loop", 9, _node("Result", 9), _node("Append", 1, *parts))
    found = [item for node, item in executions(plan, Participation()) if "Alias" in node]
    assert {execution.loops for execution in found} == {Range(9 / 20_000, 9)}


def test_a_node_may_have_many_subplans() -> None:
    """Its texts are read once: as often as there are subplans, they would take minutes."""
    numbers = range(1, 2_001)
    subplans = [
        _scan(**{"Parent Relationship": "SubPlan", "Subplan Name": f"SubPlan {number}"})
        for number in numbers
    ]
    output = [f"(SubPlan {number})" for number in numbers]
    plan = {**_node("Function Scan", 50, Output=output, Filter="(SubPlan 7)"), "Plans": subplans}
    found = [item.loops for node, item in executions(plan, Participation()) if "Alias" in node]
    assert found == [Range(50, float("inf") if number == 7 else 50) for number in numbers]
