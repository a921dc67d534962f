"""From samples to ratios, also when a run was interrupted."""

import random
from dataclasses import replace

import pytest

from lab.made_results import make_builds, make_controls, make_scans
from lookahead.comparisons import compare, proofs
from lookahead.experiments.trials import alternate
from lookahead.measurements import Measurements
from lookahead.results import ResultDocument


def test_scans() -> None:
    fast, rival_of_fast, even = _with_rival().comparisons
    assert fast.question.scenario.value("scan") == "10,000 pages"
    assert (fast.baseline, fast.baseline_median_ms, fast.challenger_median_ms) == (
        *("stock", 425.0, 106.25),
    )
    assert (fast.estimate.ratio, fast.estimate.verdict, fast.estimate.pairs) == (4.0, "faster", 6)
    assert (even.estimate.ratio, even.estimate.verdict) == (1.0, "inconclusive")
    assert (rival_of_fast.baseline, rival_of_fast.estimate.pairs) == ("bitmap and sort", 4)
    assert rival_of_fast.estimate.ratio == 4.0


def _with_rival() -> Measurements:
    """Four rounds of a third arm, too, which is as fast as stock's first."""
    data = make_scans()
    stock = [one for one in data.samples if one.arm == "stock"][::2]
    rivals = tuple(replace(one, arm="bitmap and sort") for one in stock[:4])
    whole = replace(data, samples=(*data.samples, *rivals))
    return replace(whole, comparisons=compare(whole, seed=7))


def test_an_arm_alone_is_compared_with_nothing() -> None:
    data = make_scans()
    stock = tuple(one for one in data.samples if one.arm == "stock")
    assert compare(replace(data, samples=stock), seed=7) == ()


def test_the_order_in_the_file_does_not_matter() -> None:
    data = make_scans()
    turned = replace(data, samples=data.samples[::-1])
    assert compare(turned, seed=7) == compare(data, seed=7)


def test_half_pairs_are_left_out() -> None:
    data = make_scans()
    first, half, nothing = (
        compare(replace(data, samples=data.samples[:count]), seed=7) for count in (4, 5, 1)
    )
    assert half == first
    assert [item.estimate.pairs for item in first] == [1, 1]
    assert nothing == ()


def test_controls() -> None:
    data = make_controls()
    found = compare(data, seed=7)
    assert [item.baseline for item in found] == ["not loaded", "off"]
    assert [item.estimate.ratio for item in found] == [pytest.approx(0.99)] * 2
    assert [item.least_ratio for item in found] == [pytest.approx(0.99)] * 2
    assert {item.estimate.verdict for item in found} == {"slower"}
    short = compare(replace(data, samples=data.samples[:-1]), seed=7)
    assert [item.estimate.pairs for item in short] == [5, 5]


def test_the_least_time_is_of_either_arm() -> None:
    data = make_controls()
    first, *rest = data.samples
    assert first.arm == "not loaded"
    found = compare(replace(data, samples=(replace(first, time_ms=0.005), *rest)), seed=7)
    assert found[0].least_ratio == pytest.approx(0.5)


def test_recorded_comparisons_follow_from_the_samples(recorded: ResultDocument) -> None:
    data = recorded.measurements
    assert len(data.comparisons) == 4
    assert compare(data, recorded.parameters.seed) == data.comparisons


def test_what_is_proved_beside_the_figures() -> None:
    assert proofs(make_scans()) == (
        "same rows:  10,000 rows of several arms received and compared: equal",
        "path taken: 65,964 pages came through look-ahead in 12 samples",
    )
    assert proofs(make_controls()) == ()
    assert proofs(make_builds()) == (
        "same pages: SHA-256 over the pages of 1 index in several arms: equal",
        "path taken: 6 indexes in 6 samples were pg_lookahead's own",
    )


def test_what_one_arm_did_proves_nothing_equal() -> None:
    builds = make_builds()
    stock = tuple(one for one in builds.samples if one.arm == "stock")
    assert proofs(replace(builds, samples=stock)) == ()
    scans = make_scans()
    digests = tuple(replace(one, arms=("stock",)) for one in scans.digests)
    assert not any("same rows" in line for line in proofs(replace(scans, digests=digests)))


def test_pages_that_differ_are_not_called_equal() -> None:
    builds = make_builds()
    scenario = builds.samples[0].scenario
    samples = tuple(
        replace(one, sha256="0" * 64)
        if one.sha256 is not None and one.arm == "ours" and one.scenario == scenario
        else one
        for one in builds.samples
    )
    assert "same pages: SHA-256 over the pages of 1 index in several arms: NOT EQUAL" in proofs(
        replace(builds, samples=samples)
    )


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


def test_seeded_resampling_leaves_the_global_generator_alone() -> None:
    state = random.getstate()
    compare(make_scans(), seed=7)
    assert random.getstate() == state
