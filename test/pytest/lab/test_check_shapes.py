"""What `lookahead check` makes of plans with subqueries, filters and limits in odd places."""

from dataclasses import replace
from typing import Any

import pytest

from lookahead.check.advice import Advice, advise
from lookahead.check.facts import Column, Facts, Index, Memory, Relation
from lookahead.check.plan_tree import INDEX_ROWS, Participation, executions

_BIG, _KEYS = ("shop", "big"), ("shop", "keys")
_ELIGIBLE = {"Lookahead": {"Status": "eligible"}}
_PAGES, _ROWS = 2_500, 60_000


def _facts() -> Facts:
    """`big` has random `a` and three values of `tenant`; `keys` has 2,000 rows."""
    columns = {
        "a": Column("a", 0.0, _ROWS),
        "tenant": Column("tenant", 0.3, 3.0),
        "id": Column("id", 0.0, _ROWS / 3),
    }
    return Facts(
        Memory(128 << 20, 4 << 30),
        {
            _BIG: Relation(_PAGES, _ROWS, 0, _PAGES * 8192, None),
            _KEYS: Relation(20, 2_000.0, 0, 20 * 8192, None),
        },
        {
            ("shop", "big_a"): Index("btree", (columns["a"],)),
            ("shop", "big_tenant_id"): Index("btree", (columns["tenant"], columns["id"])),
        },
        {
            _BIG: columns,
            _KEYS: {"y": Column("y", 0.0, 2_000.0), "tenant": Column("tenant", 0.3, 3.0)},
        },
        Participation(joins_ahead=True),
    )


def _node(kind: str, rows: float, *children: dict[str, Any], **more: Any) -> dict[str, Any]:
    costs = {"Startup Cost": 0.0, "Total Cost": float(rows)}
    return {"Node Type": kind, "Plan Rows": rows, **costs, "Plans": list(children), **more}


def _scan(table: str, rows: float, kind: str = "Seq Scan", **more: Any) -> dict[str, Any]:
    names = {"Schema": "shop", "Relation Name": table, "Alias": table}
    return _node(kind, rows, **names, **_ELIGIBLE, **more)


def _index(condition: str, rows: float, index: str = "big_a", /, **more: Any) -> dict[str, Any]:
    found = {"Index Name": index, "Index Cond": condition}
    return _scan("big", rows, "Index Scan", **found, **more)


def _bitmap(rows: float, *subplans: dict[str, Any], **more: Any) -> dict[str, Any]:
    condition = {"Index Name": "big_a", "Index Cond": "(big.a > 1)"}
    part = _node("Bitmap Index Scan", rows, **condition, **_outer())
    return {**_scan("big", rows, "Bitmap Heap Scan", **more), "Plans": [part, *subplans]}


def _outer(relationship: str = "Outer") -> dict[str, str]:
    return {"Parent Relationship": relationship}


def _called(plan: dict[str, Any], kind: str, number: int = 1) -> dict[str, Any]:
    return {**plan, "Parent Relationship": kind, "Subplan Name": f"{kind} {number}"}


def _loop(inner: dict[str, Any], rows: float, **more: Any) -> dict[str, Any]:
    sides = {**_scan("keys", 2_000), **_outer()}, {**inner, **_outer("Inner")}
    return _node("Nested Loop", rows, *sides, **{"Join Type": "Inner"}, **_ELIGIBLE, **more)


def _pages(advice: Advice) -> int | None:
    (found,) = (node.estimated_pages for node in advice.nodes if node.relation == "shop.big")
    return found


@pytest.mark.parametrize("kind", ["SubPlan", "InitPlan"])
def test_a_bitmap_scan_with_a_subquery(kind: str) -> None:
    """Such as a bitmap scan itself, whose pages are not those of this one."""
    alone = _bitmap(900)
    other = _called(_node("Bitmap Index Scan", 3, **{"Index Name": "x"}), kind)
    beside = _bitmap(900, other, Filter="(NOT (SubPlan 1))")
    if kind == "InitPlan":
        beside["Plans"].reverse()
    assert _pages(advise(alone, _facts())) == _pages(advise(beside, _facts())) == 756


def test_rows_of_an_insert_are_not_those_of_a_subquery_beside_it() -> None:
    before = _called(_node("Aggregate", 1), "InitPlan")
    insert = _node("ModifyTable", 0, before, _node("Result", 5_000), Operation="Insert")
    found = advise({**insert, **_ELIGIBLE}, _facts())
    assert "its rows (about 5,000) would be inserted" in found.conclusion


@pytest.mark.parametrize("way", ["index", "bitmap", "memoize"])
def test_rows_that_a_filter_inside_a_loop_rejects_are_read(way: str) -> None:
    """The join returns few rows, as the planner thinks; each of the others is fetched before."""
    found = _index("(big.a = keys.y)", 1, Filter="(big.b = 7)", **{INDEX_ROWS: 2.0})
    if way == "bitmap":
        found = _bitmap(2, Filter="(big.b = 7)")
        found["Plans"][0]["Index Cond"] = "(big.a = keys.y)"
    inner = _node("Memoize", 1, {**found, **_outer()}) if way == "memoize" else found
    advice = advise(_loop(inner, 40), _facts())
    assert (_pages(advice) or 0) > 1_000
    assert advice.verdict == "when cold"


def test_keys_of_two_columns_are_as_many_as_both_have() -> None:
    key = "((big.tenant = keys.tenant) AND (big.id = keys.y))"
    advice = advise(_loop(_index(key, 1, "big_tenant_id"), 2_000), _facts())
    assert advice.verdict in ("when cold", "unknown")
    (node,) = (node for node in advice.nodes if node.index)
    assert node.most_pages is not None
    assert node.most_pages > 1_300


def test_bounds_of_many_values_find_the_same_rows() -> None:
    key = "((big.tenant = keys.tenant) AND (big.id > keys.y))"
    (node,) = (
        node
        for node in advise(_loop(_index(key, 900, "big_tenant_id"), 9e9), _facts()).nodes
        if node.index
    )
    assert (node.least_pages or 0) < _PAGES / 2


@pytest.mark.parametrize(
    ("start", "run", "rows", "high"),
    [(0.0, 500.0, 1, 0.1), (100.0, 400.0, 1, 0.1), (0.0, 500.0, 500, 0.599)],
    ids=["one row", "late", "many rows"],
)
def test_a_limit_with_a_subquery_of_its_own(
    start: float, run: float, rows: int, high: float
) -> None:
    """Its cost is in that of the Limit: of one that EXISTS may be, not known how much of it."""
    query = _called(_node("Aggregate", rows), "InitPlan")
    query.update({"Startup Cost": start, "Total Cost": start + run})
    limit = _node("Limit", 100, query, {**_scan("big", 1_000), **_outer()})
    limit.update({"Startup Cost": 500.0, "Total Cost": 600.0})
    (found,) = (one for node, one in executions(limit, Participation()) if "Alias" in node)
    assert found.consumed.low == pytest.approx(0.1)
    assert found.consumed.high == pytest.approx(high)


def test_a_limit_that_skips_rows_behind_a_subquery() -> None:
    query = _called(_node("Aggregate", 1), "InitPlan")
    query.update({"Total Cost": 500.0})
    limit = _node("Limit", 100, query, {**_scan("big", 1_000), **_outer()})
    limit.update({"Startup Cost": 700.0, "Total Cost": 800.0})
    (found,) = (one for node, one in executions(limit, Participation()) if "Alias" in node)
    assert (found.consumed.low, found.consumed.high) == pytest.approx((0.3, 0.3))


@pytest.mark.parametrize("key", [{"One-Time Filter": "(keys.h = 1)"}, {}])
def test_a_loop_over_what_is_executed_on_a_condition(key: dict[str, str]) -> None:
    inner = _node("Result", 1, {**_index("(big.a = keys.y)", 1), **_outer()}, **key)
    advice = advise(_loop(inner, 2_000), _facts())
    assert advice.verdict == ("little" if key else "when cold")


@pytest.mark.parametrize("keys", [8, 9])
def test_an_index_of_many_keys(keys: int) -> None:
    """The library looks up by eight of them at most."""
    facts = _facts()
    columns = tuple(Column(f"c{number}", 0.0, _ROWS) for number in range(keys))
    wide = replace(facts, indexes={("shop", "wide"): Index("btree", columns)})
    key = " AND ".join(f"(big.{one.name} = keys.y)" for one in columns)
    advice = advise(_loop(_index(f"({key})", 1, "wide"), 2_000), wide)
    assert advice.verdict == ("when cold" if keys == 8 else "little")


def test_a_subquery_does_not_choose_rows_of_the_scan_around_it() -> None:
    """Its own condition is none of that scan's: it looks as many values up as a join does."""
    called = _called(_index("(big.a = keys.y)", 1), "SubPlan")
    called["Subplan Name"] = "SubPlan 1"
    outer = {**_scan("keys", 2_000, Output=["(SubPlan 1)"]), "Plans": [called]}
    assert _pages(advise(outer, _facts())) == _pages(
        advise(_loop(_index("(big.a = keys.y)", 1), 2_000), _facts())
    )
