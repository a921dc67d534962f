"""The bars of the demo: of which length, and what stands behind them."""

import re

import pytest

from lookahead.measurements import Comparison, Factor, Question, Scenario
from lookahead.report.bars import BarPair, bar_lines, bar_pair, bar_plot
from lookahead.report.svg import WIDTH
from lookahead.stats import ratio_of_medians

_QUESTION = Question(Scenario((Factor("scan", "all"),)), "stock", ("stock",), ("ours",))
_CELLS = 36


def _pair(stock_ms: float, our_ms: float, pairs: int = 6) -> BarPair:
    estimate = ratio_of_medians([stock_ms] * pairs, [our_ms] * pairs, seed=1)
    answer = Comparison(_QUESTION, "stock", "ours", stock_ms, our_ms, 1.0, estimate)
    return bar_pair("Index scan", answer)


@pytest.mark.parametrize(
    ("stock_ms", "our_ms", "cells", "text"),
    [
        (400.0, 100.0, (36, 9), ("400 ms", "100 ms, 4.0 times faster")),
        (100.0, 400.0, (9, 36), ("100 ms", "400 ms, 4.0 times slower")),
        (9_000.0, 1.0, (36, 1), ("9.00 s", "1.00 ms, 9000 times faster")),
        (100.0, 100.0, (36, 36), ("100 ms", "100 ms, no difference seen")),
    ],
)
def test_the_longer_bar_is_full(
    stock_ms: float, our_ms: float, cells: tuple[int, int], text: tuple[str, str]
) -> None:
    label, *lines = bar_lines([_pair(stock_ms, our_ms)])
    assert label == "Index scan"
    for line, who, length, behind in zip(lines, ("stock", "ours"), cells, text, strict=True):
        match = re.fullmatch(r"  (\w+) +([█▏▎▍▌▋▊▉]+) +(.*)", line)
        assert match is not None
        assert (match[1], len(match[2]), match[3]) == (who, length, behind)
        assert len(line) <= 80


def test_few_pairs_claim_nothing() -> None:
    *_, ours = bar_lines([_pair(400.0, 100.0, pairs=5)])
    assert ours.endswith("100 ms, too few pairs to tell")


@pytest.mark.parametrize("width", [WIDTH, 760.0])
def test_the_plot_has_both_bars_in_proportion_and_room_for_the_times(width: float) -> None:
    plot = bar_plot([_pair(400.0, 100.0), _pair(8.0, 2.0)], width)
    lengths = [float(found) for found in re.findall(r'<rect [^>]*width="([\d.]+)"', plot)]
    assert lengths == pytest.approx([lengths[0], lengths[0] / 4] * 2, abs=0.1)
    assert lengths[0] + 180 <= width
    assert plot.count("400 ms, stock") == 1
