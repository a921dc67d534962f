"""What a result says in a sentence."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from lookahead.formats import interval_text
from lookahead.measurements import Comparison, Factor, Question, Scenario
from lookahead.report.sentences import estimate_text, headline, title_of
from lookahead.stats import ratio_of_medians

_STOCK = "stock"


def _answer(
    ratio: float, factors: Sequence[tuple[str, str]] = (("scan", "LIMIT 100"),), name: str = _STOCK
) -> Comparison:
    """An answer whose six pairs have ratios of 0.9, 1 and 1.1 times `ratio`."""
    scenario = Scenario(tuple(Factor(*factor) for factor in factors))
    ours = [100.0] * 6
    stock = [100.0 * ratio * share for share in (0.9, 0.9, 1.0, 1.0, 1.1, 1.1)]
    estimate = ratio_of_medians(stock, ours, seed=1)
    question = Question(scenario, name, (_STOCK,), ("ours",))
    return Comparison(question, _STOCK, "ours", 100.0 * ratio, 100.0, ratio, estimate)


@pytest.mark.parametrize(
    ("ratio", "sentence"),
    [
        (3.3, "index scan 3.3 times faster (3.0 to 3.6)"),
        (20.0, "index scan 20 times faster (18 to 22)"),
        (1.2, "index scan 1.20 times faster (1.08 to 1.32)"),
        (1.0, "index scan inconclusive (0.90 to 1.10)"),
        (0.5, "index scan 2.0 times slower (1.8 to 2.2)"),
    ],
)
def test_single_scenario(ratio: float, sentence: str) -> None:
    assert headline("index-scan", [_answer(ratio)]) == [sentence]


@pytest.mark.parametrize(("pairs", "text"), [(1, "one pair"), (2, "2 pairs")])
def test_few_pairs_claim_nothing(pairs: int, text: str) -> None:
    estimate = ratio_of_medians([3.0] * pairs, [1.0] * pairs, seed=1)
    assert estimate_text(estimate) == f"3.0 times as fast in {text}, too few to tell"


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1234.5, "1,234 times as fast"),
        (120.0, "120 times as fast"),
        (9.96, "10.0 times as fast"),
        (1.04, "about as fast"),
        (0.996, "about as fast"),
        (0.25, "0.25 times as fast"),
        (0.000012, "0.000012 times as fast"),
    ],
)
def test_ratio_of_one_pair_is_plain(ratio: float, text: str) -> None:
    estimate = ratio_of_medians([ratio], [1.0], seed=1)
    assert estimate_text(estimate) == f"{text} in one pair, too few to tell"


@pytest.mark.parametrize(
    ("times", "text"),
    [
        ([2.0] * 5, "2.0 times as fast (2.00 to 2.00) in 5 pairs, too few to tell"),
        ([0.9, 1.0, 1.1], "about as fast (0.90 to 1.10) in 3 pairs, too few to tell"),
        ([2.0] * 6, "2.0 times faster (2.0 to 2.0)"),
        ([0.99, 1.01] * 3, "no difference seen (0.99 to 1.01)"),
        ([0.49, 2.33] * 3, "inconclusive (0.49 to 2.33)"),
    ],
)
def test_what_an_interval_says(times: list[float], text: str) -> None:
    assert estimate_text(ratio_of_medians(times, [1.0] * len(times), seed=1)) == text


def test_a_difference_is_not_shown_as_none() -> None:
    estimate = ratio_of_medians([1.0001] * 3 + [1.2] * 3, [1.0] * 6, seed=1)
    assert estimate_text(estimate) == "1.10 times faster (1.0001 to 1.20)"
    assert interval_text(estimate) == "1.0001 to 1.20"
    slower = ratio_of_medians([0.999] * 3 + [0.8] * 3, [1.0] * 6, seed=1)
    assert interval_text(slower) == "0.80 to 0.999"
    even = ratio_of_medians([0.9999, 1.0001] * 3, [1.0] * 6, seed=1)
    assert interval_text(even) == "1.00 to 1.00"


def test_digits_of_a_near_end_are_not_everybodys() -> None:
    estimate = replace(
        ratio_of_medians([2.0] * 6, [1.0] * 6, seed=1), ratio=1.148, low=1.006, high=1.892
    )
    assert estimate_text(estimate) == "1.15 times faster (1.01 to 1.89)"


def test_scenarios_are_told_apart_by_what_differs() -> None:
    answers = [
        _answer(ratio, (("pages", share), ("I/O method", "worker")), "stock's default")
        for ratio, share in ((4.0, "1 %"), (2.0, "42 %"))
    ]
    assert headline("bitmap-scan", answers) == [
        "bitmap scan, pages 1 %, against stock's default: 4.0 times faster (3.6 to 4.4)",
        "bitmap scan, pages 42 %, against stock's default: 2.0 times faster (1.8 to 2.2)",
    ]


def test_many_scenarios_are_summed_up_with_the_slower_ones() -> None:
    ratios = (3.0, 2.0, 1.0, 0.5, 4.0)
    answers = [_answer(ratio, (("key", f"key-{ratio}"),)) for ratio in ratios]
    assert headline("index-build", answers) == [
        "index build: faster in 3 of 5 cases (2.0 to 4.0 times); slower in 1 of 5 cases "
        "(2.0 times); inconclusive in 1 of 5 cases"
    ]


def test_headline_is_against_postgresql_as_it_is() -> None:
    first, main = _answer(9.0, name="setting 1"), _answer(2.0, name="stock's default")
    assert headline("range-query", [first, main]) == [
        "range query, against stock's default: 2.0 times faster (1.8 to 2.2)"
    ]
    assert headline("range-query", [first]) == [
        "range query, against setting 1: 9.0 times faster (8.1 to 9.9)"
    ]


def test_headline_is_about_our_default() -> None:
    default, other = _answer(2.0, name="stock's scan"), _answer(9.0, name="stock's scan")
    assert headline("seq-scan", [default, replace(other, challenger="ours, 1MB")]) == [
        "seq scan, against stock's scan: 2.0 times faster (1.8 to 2.2)"
    ]


def test_nothing_measured_says_nothing() -> None:
    assert headline("index-scan", []) == []


def test_title() -> None:
    assert title_of("index-scan") == "Index scan"
