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
        (0.9, 1.1, "no difference"),
        (1.0, 2.0, "no difference"),
        (0.5, 1.0, "no difference"),
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
    ("pairs", "verdict"), [(1, "too few pairs"), (2, "too few pairs"), (3, "faster")]
)
def test_one_or_two_pairs_prove_nothing(pairs: int, verdict: str) -> None:
    estimate = ratio_of_medians([4.0] * pairs, [1.0] * pairs, seed=1)
    assert estimate.verdict == verdict
    assert estimate.is_rough
