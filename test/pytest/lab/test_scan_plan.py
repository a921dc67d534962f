"""What EXPLAIN says is believed only when it is the scan that was meant."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from lookahead.errors import LabError
from lookahead.experiments.scan_plan import check_path, parse_scan
from lookahead.experiments.scan_rows import check_attached

_PREFETCHED: dict[str, Any] = {
    "Status": "prefetch",
    "Scans": 1,
    "Prefetched Blocks": 9990,
    "Requests": 9000,
    "Advised Blocks": 9980,
    "Bridged Blocks": 7,
    "Pauses": 1,
    "Direct Blocks": 3,
    "Repeated Blocks": 2,
    "Mean Distance": 14.2,
    "Max Distance": 64,
    "Killed Items": 0,
    "Restarts": 0,
}
_DOCUMENT: list[dict[str, Any]] = [
    {
        "Plan": {
            "Node Type": "Index Scan",
            "Index Name": "lookahead_scan_k",
            "Actual Rows": 10000.00,
            "Shared Hit Blocks": 5,
            "Shared Read Blocks": 10027,
            "Lookahead": _PREFETCHED,
        },
        "Planning Time": 0.12,
        "Execution Time": 123.4,
    }
]


def _with(**changes: Any) -> list[dict[str, Any]]:
    document = copy.deepcopy(_DOCUMENT)
    document[0]["Plan"].update(changes)
    return document


def test_parsed() -> None:
    found = parse_scan(_DOCUMENT)
    assert (found.rows, found.execution_ms, found.shared_read_blocks) == (
        10_000,
        123.4,
        10_027,
    )
    assert found.lookahead.prefetched_blocks == 9990
    assert found.lookahead.mean_distance == 14.2
    ours = found.lookahead
    assert (ours.requests, ours.advised_blocks, ours.bridged_blocks, ours.pauses) == (
        9000,
        9980,
        7,
        1,
    )
    check_path(found, "lookahead")


def test_a_scan_below_limit() -> None:
    limit = {"Node Type": "Limit", "Plans": [_DOCUMENT[0]["Plan"]], "Actual Rows": 100.0}
    buffers = {"Shared Hit Blocks": 1, "Shared Read Blocks": 2}
    found = parse_scan([{**_DOCUMENT[0], "Plan": {**limit, **buffers}}], "lookahead")
    assert (found.rows, found.shared_read_blocks) == (100, 2)
    with pytest.raises(LabError, match="only 9990 of"):
        check_path(replace(found, rows=20_000), "lookahead")
    check_path(replace(found, rows=20_000), "lookahead", prefetches=False)


def test_a_bitmap_scan_below_its_sort() -> None:
    index = {"Node Type": "Bitmap Index Scan", "Index Name": "lookahead_scan_k"}
    scan = {"Node Type": "Bitmap Heap Scan", "Plans": [index]}
    buffers = {"Shared Hit Blocks": 1, "Shared Read Blocks": 2}
    sort = {"Node Type": "Sort", "Plans": [scan], "Actual Rows": 10.0, **buffers}
    document = [{**_DOCUMENT[0], "Plan": sort}]
    found = parse_scan(document, "bitmap")
    assert (found.node_type, found.index_name) == ("Bitmap Heap Scan", "lookahead_scan_k")
    check_path(found, "bitmap")
    with pytest.raises(LabError, match='chose "Sort" instead of "Index Scan"'):
        parse_scan(document, "stock")


def test_another_plan_is_refused() -> None:
    document = _with(**{"Node Type": "Bitmap Heap Scan"})
    with pytest.raises(LabError, match='chose "Bitmap Heap Scan" instead of "Index Scan"'):
        parse_scan(document)


@pytest.mark.parametrize("document", [None, [], [{}], [{"Plan": {"Node Type": "Index Scan"}}]])
def test_another_shape_is_refused(document: object) -> None:
    with pytest.raises(LabError, match="another shape"):
        parse_scan(document)


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (None, "reports nothing for the scan"),
        (
            {"Status": "stock", "Reason": "the cursor is scrollable"},
            "the cursor is scrollable",
        ),
        ({**_PREFETCHED, "Prefetched Blocks": 9000}, "only 9000 of 10000 pages"),
    ],
)
def test_our_path_did_not_run(group: dict[str, Any] | None, words: str) -> None:
    evidence = parse_scan(_with(Lookahead=group))
    with pytest.raises(LabError, match=words) as caught:
        check_path(evidence, "lookahead")
    assert caught.value.message.startswith("our path did not run")
    assert caught.value.hint


def test_the_stock_arm_must_be_stock() -> None:
    with pytest.raises(LabError, match="look-ahead ran in the stock arm"):
        check_path(parse_scan(_DOCUMENT), "stock")
    check_path(parse_scan(_with(Lookahead=None)), "stock")
    check_path(parse_scan(_with(Lookahead={"Status": "stock", "Reason": "disabled"})), "stock")


def test_rows_are_compared_between_the_right_arms_only() -> None:
    check_attached("prefetch", "lookahead")
    check_attached("stock", "stock")
    check_attached("absent", "stock")
    for status, arm in (("prefetch", "stock"), ("stock", "lookahead")):
        with pytest.raises(LabError, match="cannot be compared"):
            check_attached(status, arm)  # type: ignore[arg-type]
