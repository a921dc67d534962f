"""What the samples of a probe say: curves, knees and the gap limit, with bootstrap intervals.

The rounds of a probe measure everything once each, in an order of their own, so a slow minute of
the machine falls on one round. Rounds are resampled whole, with replacement; a figure is worked out
anew from the medians of each resample, and the interval is the percentile bootstrap
(lookahead.stats says what that assumes).

The knee of a curve is its smallest x that reaches `KNEE_SHARE` of the best median.

The gap limit: bridging a gap of g blocks costs the time to transfer them, skipping it costs one
more request. With the queue of the device kept full, a request costs 1 / IOPS at that depth, so
bridging pays while g * 8 kB / bandwidth < 1 / IOPS: the limit is the largest such g.
"""

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from lookahead.device.probe.fio import BLOCK_BYTES, Kind
from lookahead.device.probe.probe_data import (
    Curve,
    CurvePoint,
    Interval,
    ProbeCurve,
    ProbeSample,
    ProbeSummary,
)
from lookahead.device.profile import MAX_GAP_BLOCKS
from lookahead.stats import middle_of

KNEE_SHARE = 0.95
# In flight while the size of sequential requests is varied: enough to keep a device busy, few
# enough that the largest requests do not wait for memory. Arbitrary.
STREAM_DEPTH = 8
# Each resample works out every curve; the ends of the intervals move little beyond this.
_RESAMPLES = 1000

Rounds = Sequence[Sequence[ProbeSample]]


@dataclass(frozen=True)
class _Shape:
    """A curve: which samples belong to it, and which of their attributes x and y are."""

    name: Curve
    x_name: str
    unit: str
    kind: Kind
    x: str
    y: str


_DEPTHS = _Shape("random reads", "depth", "reads/s", "random", "depth", "requests_per_s")
_SIZES = _Shape("sequential reads", "request kB", "MB/s", "sequential", "request_kb", "mb_per_s")


def summarize(rounds: Rounds, seed: int) -> ProbeSummary:
    """Curves, knees and limits of at least one complete round."""
    generator = random.Random(seed)
    resamples = [generator.choices(rounds, k=len(rounds)) for _ in range(_RESAMPLES)]
    return ProbeSummary(
        rounds=len(rounds),
        latency_us=_interval(_latency, rounds, resamples),
        bandwidth_mb=_interval(_bandwidth, rounds, resamples),
        curves=tuple(_curve(shape, rounds, resamples) for shape in (_DEPTHS, _SIZES)),
        gap_limit=_interval(_gap_limit, rounds, resamples),
    )


def gap_limit(iops: float, bandwidth_mb: float) -> int:
    """The largest g with g * 8 kB / bandwidth < 1 / IOPS; see the module."""
    worth = bandwidth_mb * 1e6 / (iops * BLOCK_BYTES)
    return max(0, min(MAX_GAP_BLOCKS, math.ceil(worth) - 1))


def _medians(shape: _Shape, rounds: Rounds) -> dict[int, float]:
    values: dict[int, list[float]] = {}
    for samples in rounds:
        for sample in samples:
            if sample.kind == shape.kind:
                values.setdefault(getattr(sample, shape.x), []).append(getattr(sample, shape.y))
    return {x: median(values[x]) for x in sorted(values)}


def _knee(curve: dict[int, float]) -> int:
    enough = KNEE_SHARE * max(curve.values())
    return next(x for x, value in curve.items() if value >= enough)


def _curve(shape: _Shape, rounds: Rounds, resamples: Sequence[Rounds]) -> ProbeCurve:
    curve = _medians(shape, rounds)
    again = [_medians(shape, resample) for resample in resamples]
    points = tuple(
        CurvePoint(x, _spread(value, [other[x] for other in again])) for x, value in curve.items()
    )
    knee = _spread(_knee(curve), [_knee(other) for other in again])
    return ProbeCurve(shape.name, shape.x_name, shape.unit, points, knee)


def _latency(rounds: Rounds) -> float:
    latencies = [
        sample.median_latency_us
        for samples in rounds
        for sample in samples
        if sample.median_latency_us is not None
    ]
    return median(latencies)


def _bandwidth(rounds: Rounds) -> float:
    return max(_medians(_SIZES, rounds).values())


def _gap_limit(rounds: Rounds) -> float:
    curve = _medians(_DEPTHS, rounds)
    return gap_limit(curve[_knee(curve)], _bandwidth(rounds))


def _interval(
    figure: Callable[[Rounds], float], rounds: Rounds, resamples: Sequence[Rounds]
) -> Interval:
    return _spread(figure(rounds), [figure(resample) for resample in resamples])


def _spread(value: float, others: Iterable[float]) -> Interval:
    return Interval(value, *middle_of(others))
