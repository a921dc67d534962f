"""Samples of a probe whose answers are known."""

from collections.abc import Callable

from lookahead.device.probe.analysis import STREAM_DEPTH
from lookahead.device.probe.fio import Pattern, random_reads, sequential_reads
from lookahead.device.probe.probe import REQUEST_SIZES_KB
from lookahead.device.probe.probe_data import ProbeSample
from lookahead.device.profile import DEPTHS


def made_sample(pattern: Pattern, round_number: int, rate: float) -> ProbeSample:
    """A second of a pattern at a rate in requests per second."""
    return ProbeSample(
        round=round_number,
        sequence=0,
        engine="made",
        kind=pattern.kind,
        depth=pattern.depth,
        request_bytes=pattern.request_bytes,
        requests=round(rate * 1000),
        seconds=1000.0,
        median_latency_us=1e6 / rate if pattern.depth == 1 else None,
    )


def made_round(number: int, noise: Callable[[int], float]) -> list[ProbeSample]:
    """A device of 10,000 reads/s alone, 80,000 at most, and 1,000 MB/s."""
    factor = noise(number)
    samples = [
        made_sample(random_reads(depth), number, factor * min(10_000 * depth, 80_000))
        for depth in DEPTHS
    ]
    for size in REQUEST_SIZES_KB:
        rate = min(80_000, 1e9 / (size * 1024))
        samples.append(made_sample(sequential_reads(STREAM_DEPTH, size), number, factor * rate))
    return samples
