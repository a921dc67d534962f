"""Trials: which arms are compared, what is shown, and what EXPLAIN must say; without a server."""

import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.made_results import make_scan_trial
from lab.made_trials import (
    ARMS,
    FAST,
    STOCK,
    make_trial_scenario,
    make_trials,
)
from lookahead.comparisons import compare, panels_of
from lookahead.errors import LabError
from lookahead.experiments.arms import check_node, parse_node
from lookahead.experiments.runner import Run
from lookahead.experiments.trials import Trial, Trials, check_counts
from lookahead.results import ResultDocument, encode, parse_result

_PLAN: dict[str, Any] = {
    "Node Type": "Aggregate",
    "Actual Rows": 1.0,
    "Actual Loops": 1,
    "Shared Hit Blocks": 7,
    "Shared Read Blocks": 1012,
    "Plans": [
        {
            "Node Type": "Gather",
            "Actual Rows": 3.0,
            "Actual Loops": 1,
            "Workers Launched": 2,
            "Plans": [
                {
                    "Node Type": "Bitmap Heap Scan",
                    "Actual Rows": 33.33,
                    "Actual Loops": 3,
                    "Rows Removed by Index Recheck": 10.0,
                    "Exact Heap Blocks": 10,
                    "Lossy Heap Blocks": 5,
                    "Workers": [
                        {"Worker Number": 0, "Exact Heap Blocks": 20, "Lossy Heap Blocks": 1},
                        {"Worker Number": 1, "Exact Heap Blocks": 30, "Lossy Heap Blocks": 2},
                    ],
                    "Lookahead": {"Status": "prefetch", "Requests": 12},
                    "Plans": [{"Node Type": "Bitmap Index Scan", "Actual Loops": 1}],
                }
            ],
        }
    ],
}
_DOCUMENT: list[dict[str, Any]] = [{"Plan": _PLAN, "Planning Time": 0.2, "Execution Time": 12.5}]


def test_fastest_of_several_arms_is_compared() -> None:
    answers = compare(make_trials(), seed=1)
    found = [(one.question.name, one.baseline, one.estimate.ratio) for one in answers]
    assert (
        found
        == [
            ("stock's default", STOCK, 2.0),
            ("best stock plan", FAST, 1.0),
        ]
        * 2
    )


def test_arms_that_an_interrupted_run_did_not_reach() -> None:
    data = make_trials()
    kept = [one for one in data.samples if one.arm != FAST and (one.arm == STOCK or one.round < 4)]
    answers = compare(replace(data, samples=tuple(kept)), seed=1)
    assert [one.baseline for one in answers] == [STOCK] * 4
    assert {one.estimate.pairs for one in answers} == {4}
    stock_only = [one for one in data.samples if one.arm == STOCK]
    assert compare(replace(data, samples=tuple(stock_only)), seed=1) == ()


def test_panels_share_all_factors_but_the_first() -> None:
    scenarios = [
        make_trial_scenario(share, method)
        for method in ("worker", "sync")
        for share in ("1 %", "2 %")
    ]
    panels = panels_of(scenarios)
    assert [(one.axis, one.title) for one in panels] == [
        ("pages", "I/O method worker"),
        ("pages", "I/O method sync"),
    ]
    assert panels[0].scenarios == tuple(scenarios[:2])


def test_result_file_keeps_everything(document: ResultDocument) -> None:
    data = make_trials()
    data = replace(data, comparisons=compare(data, seed=document.parameters.seed))
    made = replace(document, experiment="bitmap-scan", measurements=data)
    assert parse_result(encode(made), "made") == made


def test_parallel_scan_parsed() -> None:
    time_ms, found = parse_node(_DOCUMENT, "Bitmap Heap Scan")
    assert time_ms == 12.5
    assert (found.rows, found.removed_rows, found.workers) == (100, 30, 2)
    assert (found.exact_blocks, found.lossy_blocks) == (60, 8)
    assert found.shared_read_blocks == 1012
    assert (found.lookahead.status, found.lookahead.requests) == ("prefetch", 12)


def test_other_plan() -> None:
    with pytest.raises(LabError, match='chose "Bitmap Index Scan" instead of "Seq Scan"'):
        parse_node(_DOCUMENT, "Seq Scan")


@pytest.mark.parametrize("broken", [None, [], [{}], [{"Plan": {}}]])
def test_other_shape(broken: object) -> None:
    with pytest.raises(LabError, match="another shape"):
        parse_node(broken, "Seq Scan")


@pytest.mark.parametrize(
    ("group", "arm", "words"),
    [
        (None, ARMS[2], "reports nothing for the Bitmap Heap Scan"),
        ({"Status": "stock", "Reason": "snapshot"}, ARMS[2], r"left to stock \(snapshot\)"),
        ({"Status": "prefetch"}, ARMS[0], "look-ahead ran in arm"),
    ],
)
def test_sample_of_other_code_is_refused(
    group: dict[str, Any] | None, arm: Any, words: str
) -> None:
    document = copy.deepcopy(_DOCUMENT)
    scan = document[0]["Plan"]["Plans"][0]["Plans"][0]
    scan.pop("Lookahead")
    if group is not None:
        scan["Lookahead"] = group
    _, evidence = parse_node(document, "Bitmap Heap Scan")
    with pytest.raises(LabError, match=words):
        check_node(evidence, arm)


def test_sample_of_the_arms_own_code() -> None:
    _, evidence = parse_node(_DOCUMENT, "Bitmap Heap Scan")
    check_node(evidence, ARMS[2])
    stock = replace(evidence, lookahead=replace(evidence.lookahead, status="stock"))
    check_node(stock, ARMS[0])


def test_sample_that_asked_for_few_of_its_pages_is_refused() -> None:
    _, evidence = parse_node(_DOCUMENT, "Bitmap Heap Scan")
    trial = make_scan_trial(100, "worker")
    stock, ours, _ = trial.arms
    asked = replace(evidence, lookahead=replace(evidence.lookahead, prefetched_blocks=90))
    check_counts(trial, ours, asked)
    few = replace(evidence, lookahead=replace(evidence.lookahead, prefetched_blocks=89))
    check_counts(trial, stock, few)
    with pytest.raises(LabError, match="did not run: only 89 of 100 pages came through"):
        check_counts(trial, ours, few)
    # The first pages are stock's to read.
    for pages, least in ((10, 6), (4, 0), (1, 0)):
        some = replace(evidence, lookahead=replace(evidence.lookahead, prefetched_blocks=least))
        check_counts(replace(trial, prefetched=pages), ours, some)
    with pytest.raises(LabError, match="only 6 of 11 pages came through"):
        some = replace(evidence, lookahead=replace(evidence.lookahead, prefetched_blocks=6))
        check_counts(replace(trial, prefetched=11), ours, some)
    with pytest.raises(LabError, match='arm "ours" had 100 rows instead of 101'):
        check_counts(replace(trial, rows=101), ours, asked)


def test_second_sample_of_a_round_is_refused(document: ResultDocument) -> None:
    data = make_trials()
    twice = (*data.samples, replace(data.samples[0], time_ms=1.0))
    run = SimpleNamespace(device=None, document=replace(document, measurements=data))
    with pytest.raises(LabError, match="an arm was measured twice in a round of 10 %, worker"):
        Trials[Trial](cast(Run, run)).add_samples(twice[-1:])
    with pytest.raises(ValueError, match='two samples of arm "bitmap, default" in round 0 of 10 %'):
        compare(replace(data, samples=twice), seed=1)
