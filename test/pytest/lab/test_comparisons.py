"""From samples to ratios, also when a run was interrupted."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from lookahead.experiments.trials import alternate, rotate
from lookahead.results import ResultDocument
from lookahead.scan_comparisons import compare_controls, compare_scans
from lookahead.scan_measurements import ScanSample


def test_scans(scan_samples: tuple[ScanSample, ...]) -> None:
    fast, even = compare_scans(scan_samples, seed=7)
    assert (fast.scenario.pages, fast.baseline_median_ms, fast.lookahead_median_ms) == (
        10_000,
        425.0,
        106.25,
    )
    assert fast.estimate.ratio == 4.0
    assert fast.estimate.verdict == "faster"
    assert even.estimate.ratio == 1.0
    assert even.estimate.verdict == "no difference"


def test_a_third_arm_is_compared_apart(scan_samples: tuple[ScanSample, ...]) -> None:
    stock = [sample for sample in scan_samples if sample.arm == "stock"][::2]
    rivals = [replace(sample, arm="bitmap") for sample in stock[:4]]
    fast, rival, _ = compare_scans((*scan_samples, *rivals), seed=7)
    assert (fast.baseline, fast.estimate.pairs) == ("stock", 6)
    assert (rival.baseline, rival.estimate.pairs, rival.estimate.ratio) == ("bitmap", 4, 4.0)
    # A rival alone is compared with nothing.
    assert compare_scans(rivals, seed=7) == ()


def test_the_order_in_the_file_does_not_matter_within_a_pair(
    scan_samples: tuple[ScanSample, ...],
) -> None:
    swapped = [sample for pair in zip(*[iter(scan_samples)] * 2, strict=True) for sample in pair]
    turned = [scan_samples[at ^ 1] for at in range(len(scan_samples))]
    assert compare_scans(swapped, seed=7) == compare_scans(turned, seed=7)


def test_half_pairs_are_left_out(scan_samples: tuple[ScanSample, ...]) -> None:
    whole = compare_scans(scan_samples[:4], seed=7)
    assert compare_scans(scan_samples[:5], seed=7) == whole
    assert [item.estimate.pairs for item in whole] == [1, 1]
    assert compare_scans(scan_samples[:1], seed=7) == ()
    assert compare_scans((), seed=7) == ()


def test_controls(controls_document: ResultDocument) -> None:
    assert controls_document.controls is not None
    samples = controls_document.controls.samples
    found = compare_controls(samples, seed=7)
    assert [item.baseline for item in found] == ["not loaded", "off"]
    assert [item.estimate.ratio for item in found] == [pytest.approx(0.99)] * 2
    assert [item.least_ratio for item in found] == [pytest.approx(0.99)] * 2
    assert {item.estimate.verdict for item in found} == {"slower"}
    assert compare_controls(samples[:-1], seed=7)[0].estimate.pairs == 5
    assert compare_controls(samples[:2], seed=7) == ()


def test_controls_are_compared_for_each_io_method(controls_document: ResultDocument) -> None:
    assert controls_document.controls is not None
    samples = controls_document.controls.samples
    others = [replace(sample, io_method="sync", executions=500) for sample in samples]
    found = compare_controls((*samples, *others), seed=7)
    assert [(item.io_method, item.on_median_ms) for item in found] == [
        ("worker", 0.01),
        ("worker", 0.01),
        ("sync", 0.02),
        ("sync", 0.02),
    ]


def test_the_least_time_is_of_either_arm(controls_document: ResultDocument) -> None:
    assert controls_document.controls is not None
    first, *rest = controls_document.controls.samples
    assert first.arm == "not loaded"
    found = compare_controls((replace(first, elapsed_ms=5.0), *rest), seed=7)
    assert found[0].least_ratio == pytest.approx(0.5)


def test_recorded_comparisons_follow_from_the_samples(recorded: ResultDocument) -> None:
    scans = recorded.index_scan
    assert scans is not None
    assert compare_scans(scans.samples, recorded.parameters.seed) == scans.comparisons


def test_the_order_of_arms_is_turned_round() -> None:
    order = list(alternate(("a", "b"), 4))
    assert [arm for _, arm in order] == ["a", "b", "b", "a", "a", "b", "b", "a"]
    assert [number for number, _ in order] == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("rounds", [2, 4, 6, 40])
def test_even_drift_cancels_out(rounds: int) -> None:
    # A machine that slows down by the same step from sample to sample.
    places: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    for place, (_, arm) in enumerate(alternate(("a", "b", "c"), rounds)):
        places[arm].append(place)
    assert len({sum(values) for values in places.values()}) == 1


@pytest.mark.parametrize("rounds", [3, 6, 12, 60])
def test_rotation_gives_every_arm_every_place(rounds: int) -> None:
    order = [arm for _, arm in rotate(("a", "b", "c"), rounds)]
    assert all(arm != following for arm, following in pairwise(order))
    places = {arm: [n for n, other in enumerate(order) if other == arm] for arm in "abc"}
    assert len({sum(values) for values in places.values()}) == 1
    assert all(len({n % 3 for n in values}) == 3 for values in places.values())


def test_seeded_resampling_leaves_the_global_generator_alone(
    scan_samples: tuple[ScanSample, ...],
) -> None:
    state = random.getstate()
    compare_scans(scan_samples, seed=7)
    assert random.getstate() == state
