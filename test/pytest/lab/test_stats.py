"""Medians, quantiles and the bootstrap against values known otherwise."""

import itertools
import random
from statistics import median

import pytest

from lookahead.stats import quantile, ratio_of_medians, verdict_of


def test_quantile_interpolates() -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.0) == 1.0
    assert quantile([1.0, 2.0, 3.0, 4.0], 1.0) == 4.0
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert quantile([5.0], 0.3) == 5.0


@pytest.mark.parametrize(("values", "share"), [([], 0.5), ([1.0], -0.1), ([1.0], 1.1)])
def test_quantile_refuses(values: list[float], share: float) -> None:
    with pytest.raises(ValueError):
        quantile(values, share)


def test_constant_ratio_has_an_interval_of_no_width() -> None:
    estimate = ratio_of_medians([4.0] * 6, [1.0] * 6, seed=1)
    assert (estimate.ratio, estimate.low, estimate.high) == (4.0, 4.0, 4.0)
    assert (estimate.pairs, estimate.verdict, estimate.is_rough) == (6, "faster", False)


def test_interval_agrees_with_the_enumeration_of_all_resamples() -> None:
    # Four pairs have 4**4 resamples: the exact bootstrap distribution can be written down.
    numerators, denominators = [10.0, 12.0, 15.0, 11.0], [5.0, 4.0, 6.0, 5.5]
    pairs = list(zip(numerators, denominators, strict=True))
    exact = sorted(
        median(pair[0] for pair in drawn) / median(pair[1] for pair in drawn)
        for drawn in itertools.product(pairs, repeat=4)
    )
    estimate = ratio_of_medians(numerators, denominators, seed=3, resamples=20_000)
    assert estimate.ratio == 11.5 / 5.25
    assert estimate.low == pytest.approx(quantile(exact, 0.025), rel=0.02)
    assert estimate.high == pytest.approx(quantile(exact, 0.975), rel=0.02)
    assert estimate.is_rough


def test_same_seed_same_interval() -> None:
    generator = random.Random(5)
    numerators = [generator.uniform(1, 2) for _ in range(9)]
    denominators = [generator.uniform(1, 2) for _ in range(9)]
    first, again, other = (
        ratio_of_medians(numerators, denominators, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert (first.low, first.high) != (other.low, other.high)
    assert first.ratio == other.ratio


def test_pairs_are_resampled_whole() -> None:
    # The machine's drift moves both members of a pair by the same factor: the ratio is unmoved.
    drift = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
    estimate = ratio_of_medians([3 * value for value in drift], drift, seed=1)
    assert estimate.low == pytest.approx(3.0)
    assert estimate.high == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.01, 2.0, "faster"),
        (0.5, 0.99, "slower"),
        (0.95, 1.05, "no difference"),
        (1.0, 1.01, "no difference"),
        (0.949, 1.01, "inconclusive"),
        (0.99, 1.051, "inconclusive"),
        (0.49, 2.33, "inconclusive"),
        (1.0, 2.0, "inconclusive"),
    ],
)
def test_verdict(low: float, high: float, verdict: str) -> None:
    assert verdict_of(low, high) == verdict


@pytest.mark.parametrize(
    ("numerators", "denominators"),
    [([], []), ([1.0], [1.0, 2.0]), ([0.0], [1.0]), ([1.0], [-1.0])],
)
def test_ratio_refuses(numerators: list[float], denominators: list[float]) -> None:
    with pytest.raises(ValueError):
        ratio_of_medians(numerators, denominators, seed=1)


@pytest.mark.parametrize(
    ("pairs", "verdict", "has_interval"),
    [
        (1, "too few pairs", False),
        (2, "too few pairs", False),
        (3, "too few pairs", True),
        (5, "too few pairs", True),
        (6, "faster", True),
    ],
)
def test_few_pairs_prove_nothing(pairs: int, verdict: str, has_interval: bool) -> None:
    estimate = ratio_of_medians([4.0] * pairs, [1.0] * pairs, seed=1)
    assert (estimate.verdict, estimate.has_interval) == (verdict, has_interval)
    assert estimate.is_rough == (verdict == "too few pairs")


@pytest.mark.parametrize("pairs", [3, 4, 5, 6, 10])
def test_arms_that_do_not_differ_are_rarely_told_apart(pairs: int) -> None:
    # Log-normal times, as a disturbed machine has them. The interval promises 5 %; the seed is
    # fixed, so that the share is the same in every run.
    generator = random.Random(11)
    runs, wrong = 300, 0
    for _ in range(runs):
        first, second = ([generator.lognormvariate(0, 0.1) for _ in range(pairs)] for _ in range(2))
        estimate = ratio_of_medians(first, second, seed=1, resamples=200)
        wrong += estimate.verdict in ("faster", "slower")
    assert wrong <= runs * 0.1
