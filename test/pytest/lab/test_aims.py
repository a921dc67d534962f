"""Which ratio is aimed at for which scan, and when an aim counts as reached."""

from dataclasses import replace

import pytest

from lookahead.aims import (
    IndexScan,
    bitmap_aim,
    build_aim,
    control_aim,
    parallel_aim,
    scan_aim,
    throttled_aim,
)
from lookahead.experiments.control_shape import Shape
from lookahead.experiments.control_shapes import SHAPES
from lookahead.stats import Outcome, judge, ratio_of_medians

_RANDOM = IndexScan(10_000)
_HEAP = replace(_RANDOM, order="heap")


@pytest.mark.parametrize(
    ("scenario", "baseline", "aim"),
    [
        (_RANDOM, "stock", 4.0),
        (replace(_RANDOM, pages=1_000), "stock", 2.5),
        (replace(_RANDOM, pages=999), "stock", None),
        (_RANDOM, "bitmap", 1 / 1.1),
        (replace(_RANDOM, limit=100), "stock", 2.0),
        (replace(_RANDOM, limit=7), "stock", None),
        (replace(_HEAP, share_percent=10), "stock", 2.5),
        (replace(_HEAP, share_percent=25), "stock", 0.95),
        (replace(_RANDOM, pages=1_000, added_latency_us=1000), "stock", 10.0),
        (replace(_RANDOM, pages=300, added_latency_us=1000), "stock", None),
        (replace(_RANDOM, added_latency_us=1000), "bitmap", 1 / 1.1),
        # 0.05 ms more than the baseline's 0.45 ms.
        (replace(_RANDOM, limit=1), "stock", 0.9),
    ],
)
def test_scan_aims(scenario: IndexScan, baseline: str, aim: float | None) -> None:
    assert scan_aim(scenario, baseline, 0.45) == (None if aim is None else pytest.approx(aim))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_control_aims(shape: Shape) -> None:
    expected = 0.98 if shape.state == "cached" else 0.95
    assert control_aim(shape.name) == expected


@pytest.mark.parametrize(
    ("ours", "outcome"),
    [
        ([10.0, 10.0, 10.0], "reached"),
        ([30.0, 30.0, 30.0], "missed"),
        ([10.0, 20.0, 30.0], "undecided"),
        ([10.0, 10.0], "undecided"),
    ],
)
def test_an_aim_is_judged_by_the_whole_interval(ours: list[float], outcome: Outcome) -> None:
    estimate = ratio_of_medians([40.0] * len(ours), ours, seed=1)
    assert judge(estimate, 2.0) == outcome
    assert judge(estimate, None) == "no aim"


@pytest.mark.parametrize(
    ("share", "aim"), [(0.001, None), (0.01, 1.6), (0.42, 1.6), (0.75, 1.2), (1.0, None)]
)
def test_aim_of_a_share(share: float, aim: float | None) -> None:
    assert bitmap_aim(share) == aim


def test_other_aims() -> None:
    assert (throttled_aim(0.01), throttled_aim(0.1), throttled_aim(0.42)) == (None, 1.5, 1.8)
    assert [parallel_aim(workers) for workers in range(4)] == [None, None, 1.3, None]


def test_aims_of_builds_go_by_rows_and_workers() -> None:
    assert build_aim("int-few", 30_000_000, 0) == 8.0
    assert build_aim("int-few", 30_000_000, 2) == 5.0
    assert build_aim("int-few", 30_000_000, 1) is None
    assert build_aim("int-sorted", 10, 0) == 0.98
    assert build_aim("int-sorted", 100_000, 0) is None
    assert build_aim("int-many", 30_000_000, 0) is None
