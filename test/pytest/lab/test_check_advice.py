"""What `lookahead check` concludes from a plan and the catalogs."""

from dataclasses import replace
from typing import Any

import pytest

from lookahead.check.advice import Advice, advice_lines, advise
from lookahead.check.conditions import is_computed
from lookahead.check.facts import Column, Facts, Index, Memory, Relation
from lookahead.check.measure import ARMS, CheckSample, Measurement, measurement_lines
from lookahead.check.plan_tree import INDEX_ROWS
from lookahead.check.verdicts import Verdict
from lookahead.stats import ratio_of_medians

_MB = 2**20
_MEMORY = Memory(shared_buffers=128 * _MB, effective_cache_size=4096 * _MB)
_ELIGIBLE = {"Status": "eligible"}
_ORDERS = ("shop", "orders")


def _relation(pages: int) -> Relation:
    return Relation(pages, pages * 10.0, pages, pages * 8192, None)


def _facts(pages: int, correlation: float | None = 0.0) -> Facts:
    column = Column("k", correlation, pages * 10.0)
    index = Index("btree", (column,))
    return Facts(
        _MEMORY,
        {_ORDERS: _relation(pages)},
        {("shop", "orders_k"): index},
        {_ORDERS: {"k": column}},
    )


def _scan(rows: int, group: dict[str, str] | None, **more: Any) -> dict[str, Any]:
    scan = {
        "Node Type": "Index Scan",
        "Schema": "shop",
        "Relation Name": "orders",
        "Alias": "orders",
        "Index Name": "orders_k",
        "Index Cond": "(orders.k > 1)",
        "Plan Rows": rows,
        **more,
    }
    return scan if group is None else {**scan, "Lookahead": group}


@pytest.mark.parametrize(
    ("pages", "rows", "group", "verdict", "words"),
    [
        (1_000_000, 5_000, _ELIGIBLE, "yes", "about 4,988 pages to read ahead"),
        (100_000, 5_000, _ELIGIBLE, "when cold", "the cache of the system"),
        (10_000, 5_000, _ELIGIBLE, "when cold", "once they are in shared buffers"),
        (1_000_000, 3, _ELIGIBLE, "little", "reads few pages"),
        (1_000_000, 5_000, {"Status": "stock", "Reason": "snapshot"}, "no", "is left to Postgre"),
        (1_000_000, 5_000, None, "no", "is left to Postgre"),
    ],
)
def test_verdicts(
    pages: int, rows: int, group: dict[str, str] | None, verdict: Verdict, words: str
) -> None:
    found = advise(_scan(rows, group), _facts(pages))
    assert found.verdict == verdict
    assert words in found.conclusion


def test_verdicts_say_what_they_go_by() -> None:
    larger = advise(_scan(5_000, _ELIGIBLE), _facts(1_000_000)).conclusion
    assert "of tables larger than effective_cache_size (" in larger
    left = advise(_scan(5_000, {"Status": "stock", "Reason": ""}), _facts(1_000)).conclusion
    assert left == "every scan is left to PostgreSQL"


def test_tables_have_to_fit_together() -> None:
    """Such as the partitions of one."""
    facts = _facts(300_000)
    other = ("shop", "older")
    both = replace(facts, relations={**facts.relations, other: _relation(300_000)})
    scans = [
        _scan(5_000, _ELIGIBLE),
        _scan(5_000, _ELIGIBLE, **{"Relation Name": "older", "Alias": "older"}),
    ]
    assert advise({"Node Type": "Append", "Plans": scans[:1]}, both).verdict == "when cold"
    assert advise({"Node Type": "Append", "Plans": [scans[0]] * 2}, both).verdict == "when cold"
    assert advise({"Node Type": "Append", "Plans": scans}, both).verdict == "yes"


@pytest.mark.parametrize(
    ("node", "correlation", "words"),
    [
        ({"Node Type": "Seq Scan"}, 0.0, "read it in order and ahead already"),
        ({"Node Type": "Tid Range Scan"}, 0.0, "read it in order and ahead already"),
        ({}, 1.0, "the pages lie side by side"),
        ({"Node Type": "Index Only Scan"}, 0.0, "its pages are all-visible"),
        ({"Plan Rows": 400_000}, 0.0, None),
        ({"Index Cond": "(orders.k = ANY ('{1,2,3}'::integer[]))"}, 1.0, None),
    ],
)
def test_what_gains_nothing_is_told(
    node: dict[str, Any], correlation: float, words: str | None
) -> None:
    found = advise({**_scan(5_000, _ELIGIBLE), **node}, _facts(100_000, correlation))
    assert (found.nodes[0].no_gain is None) == (words is None)
    if words is not None:
        assert found.verdict == "little"
        assert words in found.conclusion


def test_a_bitmap_of_most_pages_gains_nothing() -> None:
    def heap(rows: int) -> dict[str, Any]:
        bitmap = {**_scan(rows, None), "Node Type": "Bitmap Index Scan"}
        del bitmap["Relation Name"]
        return {**_scan(rows, _ELIGIBLE), "Node Type": "Bitmap Heap Scan", "Plans": [bitmap]}

    found = advise(heap(20_000), _facts(10_000))
    assert (found.verdict, found.nodes[0].estimated_pages) == ("little", 8647)
    assert "most pages of the table" in found.conclusion
    assert advise(heap(5_000), _facts(10_000)).verdict == "when cold"


def test_a_table_in_shared_buffers_gains_nothing_now() -> None:
    facts = _facts(10_000)
    cached = replace(facts.relations[_ORDERS], cached_bytes=9_900 * 8192)
    found = advise(_scan(5_000, _ELIGIBLE), replace(facts, relations={_ORDERS: cached}))
    assert found.verdict == "no"
    assert found.conclusion == "what it reads is in shared buffers now"


def test_an_empty_table_is_nowhere() -> None:
    assert not Relation(0, 0.0, 0, 0, 0).is_cached


def test_what_does_not_follow_from_statistics_is_said() -> None:
    found = advise(_scan(10_000, _ELIGIBLE, Filter="(orders.a = 1)"), _facts(100_000, None))
    (node,) = found.nodes
    assert (node.estimated_pages, node.least_pages, node.most_pages) == (None, 1000, 100_000)
    assert _lines(found)[2] == (
        "  would read ahead: don't know how many of 100,000 table pages: 1,000 to 100,000"
    )
    assert found.conclusion.startswith("at least 1,000 pages to read ahead while the tables")
    few = advise(_scan(50, _ELIGIBLE), _facts(100_000, None))
    assert few.verdict == "unknown"
    assert few.conclusion.startswith("how many pages")


def test_rows_that_a_filter_rejects_are_read() -> None:
    scan = _scan(50, _ELIGIBLE, Filter="(orders.a = 1)", **{INDEX_ROWS: 5_000.0})
    assert advise(scan, _facts(100_000)).nodes[0].estimated_pages == 4877


def test_a_small_part_of_what_is_read_is_told() -> None:
    whole = {**_scan(1, _ELIGIBLE), "Node Type": "Seq Scan", "Relation Name": "lines"}
    facts = _facts(10_000)
    relations = {**facts.relations, ("shop", "lines"): _relation(1_000_000)}
    plan = {"Node Type": "Hash Join", "Plans": [_scan(500, _ELIGIBLE), whole]}
    found = advise(plan, replace(facts, relations=relations))
    assert found.verdict == "little"
    assert "a small part" in found.conclusion


def _lines(advice: Advice) -> list[str]:
    return list(advice_lines(advice))


def test_text() -> None:
    scan = _scan(5_000, _ELIGIBLE)
    other = {**_scan(10, {"Status": "stock", "Reason": "mark and restore"}), "Schema": "x"}
    plan = {"Node Type": "Hash Join", "Plans": [scan, {**other, "Alias": "others"}]}
    assert _lines(advise(plan, _facts(100_000))) == [
        "WHEN COLD: about 4,877 pages to read ahead while the tables are cold; it changes little "
        "once they are in the cache of the system, where they fit",
        "Index Scan using orders_k on shop.orders",
        "  would read ahead: about 4,877 of 100,000 table pages",
        "  table: 781 MB, larger than shared buffers, fits into effective_cache_size",
        "Index Scan using orders_k on x.orders",
        "  left to PostgreSQL: mark and restore",
    ]


@pytest.mark.parametrize(("found", "verdict"), [(995_000, "when cold"), (980_000, "yes")])
def test_what_is_used_of_a_large_table_may_be_in_memory(found: int, verdict: Verdict) -> None:
    facts = _facts(1_000_000)
    used = replace(_relation(1_000_000), fetched_pages=1_000_000, found_pages=found)
    advice = advise(_scan(5_000, _ELIGIBLE), replace(facts, relations={_ORDERS: used}))
    assert advice.verdict == verdict
    assert ("has been in shared buffers so far" in advice.conclusion) == (verdict == "when cold")


def _loop(rows_each: int, condition: str = "k = ", **more: Any) -> dict[str, Any]:
    """A lookup in `orders` for each of 4,000 rows of another table."""
    outer = {"Node Type": "Seq Scan", "Schema": "shop", "Relation Name": "lines", "Alias": "lines"}
    inner = {**_scan(rows_each, _ELIGIBLE), "Parent Relationship": "Inner", **more}
    inner["Index Cond"] = f"(orders.{condition}lines.k)"
    return {
        "Node Type": "Nested Loop",
        "Join Type": "Inner",
        "Plan Rows": 4000 * rows_each,
        "Plans": [{**outer, "Plan Rows": 4000}, inner],
    }


@pytest.mark.parametrize(
    ("rows_each", "more", "verdict"),
    [
        (1, {}, "little"),
        (10, {}, "little"),
        (500, {}, "yes"),
        (2, {"Filter": "(orders.a > 1)"}, "unknown"),  # how many rows each finds is not known
    ],
)
def test_a_nested_loop_is_judged_by_each_of_its_executions(
    rows_each: int, more: dict[str, Any], verdict: Verdict
) -> None:
    facts = _facts(1_000_000)
    relations = {**facts.relations, ("shop", "lines"): _relation(100)}
    found = advise(_loop(rows_each, **more), replace(facts, relations=relations))
    assert found.verdict == verdict
    (inner,) = [node for node in found.nodes if node.index]
    assert inner.executions == 4000
    if verdict == "little":
        assert inner.no_gain is not None and "each execution reads few pages" in inner.no_gain
        assert ", in about 4,000 executions; no gain: each" in "\n".join(_lines(found))


@pytest.mark.parametrize(
    ("rows_each", "condition", "verdict"),
    [
        (1, "k = ", "yes"),
        (10, "k = ", "yes"),
        (1, "k > ", "little"),
        (1, "o = 5) AND (orders.k > ", "little"),
        (1, "k > 'a = b'::text) AND (orders.k < ", "little"),
    ],
)
def test_a_nested_loop_that_looks_ahead_is_judged_by_all_of_them(
    rows_each: int, condition: str, verdict: Verdict
) -> None:
    facts = _facts(1_000_000)
    lines = ("shop", "lines")
    relations = {**facts.relations, lines: _relation(400)}
    columns = {**facts.columns, lines: {"k": Column("k", 0.0, 4000.0)}}
    plan = {**_loop(rows_each, condition), "Lookahead": _ELIGIBLE}
    found = advise(plan, replace(facts, relations=relations, columns=columns))
    assert found.verdict == verdict
    assert ("finds out while it runs" in found.conclusion) == (verdict == "yes")


@pytest.mark.parametrize(
    ("above", "correlation", "words"),
    [
        ({"Node Type": "Limit", "Plan Rows": 100, "Total Cost": 1.0}, 0.0, "left before its end"),
        ({"Node Type": "Merge Join", "Plan Rows": 100}, 0.0, "left before its end"),
        ({"Node Type": "Sort", "Plan Rows": 4000}, 1.0, "in the order of the table"),
    ],
    ids=["limit", "merge join", "in order"],
)
def test_a_nested_loop_that_may_gain_nothing_is_not_known(
    above: dict[str, Any], correlation: float, words: str
) -> None:
    lines, facts = ("shop", "lines"), _facts(1_000_000, correlation)
    facts = replace(
        facts,
        relations={**facts.relations, lines: _relation(400)},
        columns={**facts.columns, lines: {"k": Column("k", correlation, 4000.0)}},
    )
    loop = {**_loop(1), "Lookahead": _ELIGIBLE, "Startup Cost": 0.0, "Total Cost": 9.0}
    found = advise({**above, "Plans": [loop]}, facts)
    assert found.verdict == "unknown"
    assert words in found.conclusion


@pytest.mark.parametrize(
    ("condition", "verdict"),
    [
        ("(lines.a = 5)", "unknown"),
        ("((lines.a = 'x = y'::text) AND (lines.k > 7))", "unknown"),
        ("(lines.a > 5)", "yes"),
        ("(lines.a = ANY ('{1,2}'::integer[]))", "yes"),
        ("(lines.a = other.a)", "yes"),
    ],
)
def test_rows_of_an_index_come_in_the_order_of_what_does_not_stay_the_same(
    condition: str, verdict: Verdict
) -> None:
    lines, facts = ("shop", "lines"), _facts(1_000_000, 1.0)
    index = Index("btree", (Column("a", 0.0, 100.0), Column("k", 0.0, 4000.0)))
    facts = replace(
        facts,
        relations={**facts.relations, lines: _relation(400)},
        indexes={**facts.indexes, ("shop", "lines_a_k"): index},
        columns={**facts.columns, lines: {"k": Column("k", 0.0, 4000.0)}},
    )
    loop = {**_loop(1), "Lookahead": _ELIGIBLE}
    outer = {"Node Type": "Index Scan", "Index Name": "lines_a_k", "Index Cond": condition}
    loop["Plans"][0].update(outer)
    found = advise(loop, facts)
    assert found.verdict == verdict
    assert ("in the order of the table" in found.conclusion) == (verdict == "unknown")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("(generate_series(1, 5))", True),
        ('(("Odd name"(7))::numeric(10,2) + 1)', True),
        ("lower((lines.k)::text)", False),
        ("''::character varying(10)", False),
        ("(5)::timestamp(3) without time zone", False),
        ("$1", False),
    ],
)
def test_values_that_may_differ_from_row_to_row(value: str, expected: bool) -> None:
    assert is_computed(value) is expected


@pytest.mark.parametrize("correlation", [1.0, -1.0])
@pytest.mark.parametrize("direction", ["Forward", "Backward"])
@pytest.mark.parametrize("descending", [False, True])
def test_a_scan_against_the_order_of_the_table_gains(
    correlation: float, direction: str, descending: bool
) -> None:
    facts = _facts(10_000, correlation)
    index = Index("btree", (Column("k", correlation, 100_000.0, descending),))
    facts = replace(facts, indexes={("shop", "orders_k"): index})
    scan = _scan(50_000, _ELIGIBLE, **{"Scan Direction": direction})
    is_forward = (correlation > 0) == ((direction == "Forward") == (not descending))
    assert advise(scan, facts).verdict == ("little" if is_forward else "when cold")


def test_what_is_not_a_table_is_passed_over() -> None:
    plan = {"Node Type": "CTE Scan", "Plans": [{"Node Type": "Function Scan"}]}
    found = advise(plan, _facts(1))
    assert found.nodes == ()
    assert _lines(found)[0] == "NO: the plan reads no table"


def test_a_sequential_scan_reads_all_pages() -> None:
    scan = {"Node Type": "Seq Scan", "Schema": "shop", "Relation Name": "orders", "Plan Rows": 1}
    (node,) = advise(scan, _facts(700)).nodes
    assert (node.attached, node.estimated_pages) == (False, 700)
    assert node.reason == "not a kind of scan that is read ahead"


def test_an_index_only_scan_reads_pages_that_are_not_all_visible() -> None:
    half = Relation(10_000, 100_000.0, 5_000, 81_920_000, None)
    facts = replace(_facts(10_000), relations={_ORDERS: half})
    scan = {**_scan(1_000_000, None), "Node Type": "Index Only Scan"}
    assert advise(scan, facts).nodes[0].estimated_pages == 4_968


def test_an_index_is_taken_to_be_no_larger_than_its_table() -> None:
    few = {**_scan(1, _ELIGIBLE), "Index Cond": "(orders.k = 1)"}
    only = {**_scan(1_000, _ELIGIBLE), "Node Type": "Index Only Scan"}
    far = {"Node Type": "Foreign Scan", "Schema": "x", "Relation Name": "far"}
    found = [
        advise({"Node Type": "Append", "Plans": plans}, _facts(700)).most_pages
        for plans in ([few], [few, only], [only], [few, far], [])
    ]
    assert found == [1, 701, 700, None, None]


def test_what_is_in_shared_buffers_now() -> None:
    facts = _facts(10)
    relations = {_ORDERS: Relation(10, 100.0, 10, 81_920, 40_960)}
    lines = _lines(advise(_scan(5, _ELIGIBLE), replace(facts, relations=relations)))
    assert lines[3] == "  table: 80 kB, fits into shared buffers; 40 kB of it are there now"


@pytest.mark.parametrize(
    ("times", "text"),
    [
        ([1.004] * 6, "1.004 times faster (1.004 to 1.004)"),
        ([0.5] * 6, "2.0 times slower (2.0 to 2.0)"),
        ([2.0] * 5, "2.0 times as fast (2.00 to 2.00) in 5 pairs, too few to tell"),
        ([2.0], "2.0 times as fast in one pair, too few to tell"),
    ],
)
def test_ratios_are_told_as_those_of_runs(times: list[float], text: str) -> None:
    """A difference is not shown as none."""
    samples = tuple(
        CheckSample(pair, arm, time_ms, 0, 0)
        for pair, time in enumerate(times)
        for arm, time_ms in zip(ARMS, (time, 1.0), strict=True)
    )
    estimate = ratio_of_medians(times, [1.0] * len(times), seed=1)
    measured = Measurement("cold", 5, True, 8, 1.0, 60.0, len(times), samples, estimate)
    lines = list(measurement_lines(measured))
    assert lines[0].endswith(f"on 1.00 ms: {text}")
    assert lines[1].startswith("pages:      none read")
    assert f" {len(times)} pair" in lines[3]
