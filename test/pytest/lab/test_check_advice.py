"""What `lookahead check` concludes from a plan and the catalogs."""

from typing import Any

import pytest

from lookahead.check.advice import (
    Advice,
    Facts,
    Memory,
    Relation,
    Verdict,
    advise,
    estimate_pages,
)
from lookahead.check.display import advice_lines, size_text

_MB = 2**20
_MEMORY = Memory(shared_buffers=128 * _MB, effective_cache_size=4096 * _MB)
_ELIGIBLE = {"Status": "eligible"}


def _relation(pages: int) -> Relation:
    return Relation(pages, pages * 10.0, pages, pages * 8192, None)


def _facts(pages: int) -> Facts:
    return Facts(_MEMORY, {("shop", "orders"): _relation(pages)}, {})


def _index_scan(rows: int, group: dict[str, str] | None, **more: Any) -> dict[str, Any]:
    scan = {
        "Node Type": "Index Scan",
        "Schema": "shop",
        "Relation Name": "orders",
        "Index Name": "orders_k",
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
        (1_000_000, 3, _ELIGIBLE, "little", "touch few pages"),
        (1_000_000, 5_000, {"Status": "stock", "Reason": "snapshot"}, "no", "is left to Postgre"),
        (1_000_000, 5_000, None, "no", "is left to Postgre"),
    ],
)
def test_verdicts(
    pages: int, rows: int, group: dict[str, str] | None, verdict: Verdict, words: str
) -> None:
    found = advise(_index_scan(rows, group), _facts(pages))
    assert found.verdict == verdict
    assert words in found.conclusion


def _lines(advice: Advice) -> list[str]:
    return list(advice_lines(advice))


def test_text() -> None:
    scan = _index_scan(5_000, _ELIGIBLE, Filter="(a = 1)")
    other = {**_index_scan(10, {"Status": "stock", "Reason": "mark and restore"}), "Schema": "x"}
    plan = {"Node Type": "Merge Join", "Plans": [scan, other]}
    assert _lines(advise(plan, _facts(100_000)))[:-1] == [
        "Index Scan using orders_k on shop.orders",
        "  would read ahead: at least 4,877 of 100,000 table pages",
        "  table: 781 MB, larger than shared buffers, fits into effective_cache_size",
        "Index Scan using orders_k on x.orders",
        "  left to PostgreSQL: mark and restore",
    ]


def test_what_is_not_a_table_is_passed_over() -> None:
    plan = {"Node Type": "CTE Scan", "Plans": [{"Node Type": "Function Scan"}]}
    found = advise(plan, _facts(1))
    assert found.nodes == ()
    assert _lines(found)[0] == "The plan reads no table."


def test_a_sequential_scan_reads_all_pages() -> None:
    scan = {"Node Type": "Seq Scan", "Schema": "shop", "Relation Name": "orders", "Plan Rows": 1}
    (node,) = advise(scan, _facts(700)).nodes
    assert (node.attached, node.estimated_pages) == (False, 700)
    assert node.reason == "not a kind of scan that is read ahead"


def test_an_index_only_scan_reads_pages_that_are_not_all_visible() -> None:
    half = Relation(1_000, 10_000.0, 500, 8_192_000, None)
    facts = Facts(_MEMORY, {("shop", "orders"): half}, {})
    scan = {**_index_scan(100_000, None), "Node Type": "Index Only Scan"}
    assert advise(scan, facts).nodes[0].estimated_pages == 500


@pytest.mark.parametrize(
    ("rows", "correlation", "pages"),
    [(0, 0.0, 0), (1, 0.0, 1), (1e9, 0.0, 1_000), (1_000, 1.0, 100), (1_000, -1.0, 100)],
)
def test_estimated_pages(rows: float, correlation: float, pages: int) -> None:
    assert estimate_pages(rows, _relation(1_000), correlation) == pages


def test_correlation_lies_between_the_extremes() -> None:
    estimates = [estimate_pages(2_000, _relation(1_000), step / 10) for step in range(11)]
    assert estimates == sorted(estimates, reverse=True)
    assert (estimates[0], estimates[-1]) == (865, 200)
    assert estimate_pages(10, _relation(0), 0.5) == 0


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (8192, "8 kB"), (1.5 * _MB, "1.5 MB"), (3 * 2**40, "3 TB")],
)
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text


def test_what_is_in_shared_buffers_now() -> None:
    relation = Relation(10, 100.0, 10, 81_920, 40_960)
    facts = Facts(_MEMORY, {("shop", "orders"): relation}, {})
    lines = _lines(advise(_index_scan(5, _ELIGIBLE), facts))
    assert lines[2] == "  table: 80 kB, fits into shared buffers; 40 kB of it are there now"
