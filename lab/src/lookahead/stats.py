"""Medians and the bootstrap interval of their ratio.

Samples come in pairs: one of each arm, measured back to back. A slow minute of the machine hits
both members of a pair, so pairs are resampled whole. The interval is the percentile bootstrap: draw
as many pairs as there are, with replacement; take the ratio of the two medians; repeat; cut equal
tails off the sorted ratios. It assumes no distribution. With few pairs it is rough, and too narrow:
of two arms that do not differ (log-normal times), it left 1 out in 27 % of simulated runs of 3
pairs, in 6 % of those of `VERDICT_PAIRS`. So fewer pairs have no verdict.

That an interval contains 1 does not say that the arms are alike: it may be wide. So there are two
verdicts, "no difference" where the whole interval is close to 1, and "inconclusive".
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

Verdict = Literal["faster", "slower", "no difference", "inconclusive", "too few pairs"]

Pair = tuple[float, float]
"""Numerator and denominator."""
CONFIDENCE = 0.95
# Enough that the ends of the interval move by less than 1 % from seed to seed.
RESAMPLES = 4000
# No resample leaves the range of what was observed, and by the sign test even the whole range of
# 5 values covers their true median with a probability of 1 - 2 / 2**5 = 94 % only.
VERDICT_PAIRS = 6
# With one pair the interval has no width, with two it is the range of two ratios: none is shown.
_INTERVAL_PAIRS = 3
# An interval within that, around 1, says that the arms do not differ by anything that a user would
# notice. One that is beside 1 shows a difference, however small, and is told as one.
_ALIKE = (0.95, 1.05)


@dataclass(frozen=True)
class RatioEstimate:
    """Ratio of two medians with its interval; above 1 the arm in question is the better one.

    `confidence` is the interval's nominal coverage (0..1); `seed` repeats the very resampling.
    `verdict` follows from the interval, and of fewer than `VERDICT_PAIRS` pairs there is none.
    """

    ratio: float
    low: float
    high: float
    confidence: float
    resamples: int
    pairs: int
    seed: int
    verdict: Verdict

    @property
    def is_rough(self) -> bool:
        """Whether there are too few pairs for the interval to deserve its nominal coverage."""
        return self.pairs < VERDICT_PAIRS

    @property
    def has_interval(self) -> bool:
        """Whether there are enough pairs for an interval to be shown."""
        return self.pairs >= _INTERVAL_PAIRS


def ratio_of_medians(
    numerators: Sequence[float],
    denominators: Sequence[float],
    *,
    seed: int,
    resamples: int = RESAMPLES,
) -> RatioEstimate:
    """Estimate median(numerators) / median(denominators); the i-th of both form a pair.

    Raises ValueError when the lengths differ, nothing is given or a value is not positive.
    """
    pairs = _checked(zip(numerators, denominators, strict=True))
    generator = random.Random(seed)
    ratios = (_ratio(generator.choices(pairs, k=len(pairs))) for _ in range(resamples))
    return _estimate(_ratio(pairs), ratios, len(pairs), resamples, seed)


def ratio_between(first: Iterable[Pair], second: Iterable[Pair], *, seed: int) -> RatioEstimate:
    """Estimate the ratio of medians of the second pairs / that of the first.

    They are of two runs, so each is resampled for itself; the fewer pairs count. Raises ValueError
    as `ratio_of_medians`.
    """
    before, after = _checked(first), _checked(second)
    generator = random.Random(seed)

    def drawn(pairs: Sequence[Pair]) -> float:
        return _ratio(generator.choices(pairs, k=len(pairs)))

    ratios = (drawn(after) / drawn(before) for _ in range(RESAMPLES))
    ratio, pairs = _ratio(after) / _ratio(before), min(len(before), len(after))
    return _estimate(ratio, ratios, pairs, RESAMPLES, seed)


def _checked(pairs: Iterable[Pair]) -> list[Pair]:
    found = list(pairs)
    if not found:
        raise ValueError("no samples")
    if min(min(pair) for pair in found) <= 0:
        raise ValueError("a sample is not positive")
    return found


def _estimate(
    ratio: float, drawn: Iterable[float], pairs: int, resamples: int, seed: int
) -> RatioEstimate:
    low, high = middle_of(drawn)
    verdict = verdict_of(low, high) if pairs >= VERDICT_PAIRS else "too few pairs"
    return RatioEstimate(ratio, low, high, CONFIDENCE, resamples, pairs, seed, verdict)


def middle_of(drawn: Iterable[float]) -> tuple[float, float]:
    """The ends of the interval that has the middle `CONFIDENCE` of these figures."""
    ordered, tail = sorted(drawn), (1.0 - CONFIDENCE) / 2.0
    return quantile(ordered, tail), quantile(ordered, 1.0 - tail)


def verdict_of(low: float, high: float) -> Verdict:
    if low > 1.0:
        return "faster"
    if high < 1.0:
        return "slower"
    return "no difference" if _ALIKE[0] <= low and high <= _ALIKE[1] else "inconclusive"


def quantile(ordered: Sequence[float], share: float) -> float:
    """The `share` quantile (0..1) of ascending values, interpolated between neighbours.

    Raises ValueError when nothing is given or `share` is out of range.
    """
    if not ordered or not 0.0 <= share <= 1.0:
        raise ValueError("a quantile needs values and a share between 0 and 1")
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def _ratio(pairs: Sequence[Pair]) -> float:
    return median(pair[0] for pair in pairs) / median(pair[1] for pair in pairs)
