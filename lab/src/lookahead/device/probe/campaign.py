"""The rounds of a probe: everything once, then again in another order, until the time is over."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lookahead.device.probe import fio
from lookahead.device.probe.analysis import STREAM_DEPTH, depth_knee
from lookahead.device.probe.fio import (
    Pattern,
    Reading,
    buffered_reads,
    gap_reads,
    random_reads,
    sequential_reads,
)
from lookahead.device.probe.probe_data import ProbeParameters, ProbeSample
from lookahead.device.probe.test_file import TestFile
from lookahead.device.profile import DEPTHS
from lookahead.device.read_ahead import ReadAhead

REQUEST_SIZES_KB = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
GAPS = (0, 1, 2, 4, 8, 16, 32, 64)
# Deeper than that, requests of 500 kB queue for most of a slice.
_MAX_GAP_DEPTH = 64
_PATTERNS = len(DEPTHS) + 2 * len(REQUEST_SIZES_KB) + 2 * len(GAPS) + 1
# Slices are cut so that this many rounds fit into the time, if that leaves them long enough.
_INTENDED_ROUNDS = 5
# What fio takes for a job beside its slice. It looks for ends ten times a second: slices shorter
# than the least would end with the same look.
_JOB_S = fio.RAMP_S + 0.26
_MIN_SLICE_S, _MAX_SLICE_S = 0.15, 0.5
# Jobs of one process of fio: between two of them the probe rests, and keeps what it has.
_JOBS_AT_ONCE = 8


def slice_for(time_s: float) -> float:
    """How long each pattern is measured at a time."""
    share_s = time_s / (_INTENDED_ROUNDS * _PATTERNS) - _JOB_S
    return min(_MAX_SLICE_S, max(_MIN_SLICE_S, share_s))


@dataclass
class Campaign:
    """One probe. `samples` are those of `complete_rounds` and, last, of a round cut short.

    `read_ahead` is None where it may not or need not be changed. `report` is told what is under
    way.
    """

    file: TestFile
    parameters: ProbeParameters
    read_ahead: ReadAhead | None
    current_read_ahead_kb: int | None
    report: Callable[[str], None]
    samples: list[ProbeSample] = field(default_factory=list)
    complete_rounds: int = 0
    gap_depth: int = 1
    _started: float = 0.0
    _bytes: int = 0

    def run(self) -> None:
        """Measure: at least one round, no new one that would not fit into the time."""
        self._started = time.monotonic()
        longest = 0.0
        while True:
            began = time.monotonic()
            self._round(self.complete_rounds)
            self.complete_rounds += 1
            longest = max(longest, time.monotonic() - began)
            self.report(f"round {self.complete_rounds} took {time.monotonic() - began:.1f} s")
            if time.monotonic() - self._started + longest > self.parameters.time_s:
                return

    @property
    def rounds(self) -> list[list[ProbeSample]]:
        """The samples of each complete round."""
        return [
            [sample for sample in self.samples if sample.round == number]
            for number in range(self.complete_rounds)
        ]

    def _round(self, number: int) -> None:
        """The first one begins with the depths: the gaps are measured at the knee that shows."""
        generator = random.Random(self.parameters.seed + number)
        depths = [random_reads(depth) for depth in DEPTHS]
        if number == 0:
            self._measure(number, _shuffled(depths, generator))
            first = [sample for sample in self.samples if sample.round == 0]
            self.gap_depth = min(depth_knee([first]), _MAX_GAP_DEPTH)
            depths = []
        sizes = [
            sequential_reads(depth, size)
            for depth in (1, STREAM_DEPTH)
            for size in REQUEST_SIZES_KB
        ]
        gaps = [pattern for gap in GAPS for pattern in gap_reads(self.gap_depth, gap)]
        self._measure(number, _shuffled([*depths, *sizes, *gaps], generator))
        self._measure_buffered(number)

    def _measure(self, number: int, patterns: Sequence[Pattern]) -> None:
        for first in range(0, len(patterns), _JOBS_AT_ONCE):
            batch = patterns[first : first + _JOBS_AT_ONCE]
            seed = self.parameters.seed + 1000 * number + first
            readings = fio.measure(self.file.target, batch, self.parameters.slice_s, seed)
            for pattern, reading in zip(batch, readings, strict=True):
                self._keep(number, pattern, reading, None)
            self._rest()

    def _measure_buffered(self, number: int) -> None:
        if self.read_ahead is None:
            self._keep_buffered(number, self.current_read_ahead_kb)
            return
        for size_kb in self.parameters.read_aheads_kb:
            with self.read_ahead.changed_to(size_kb):
                self._keep_buffered(number, size_kb)

    def _keep_buffered(self, number: int, size_kb: int | None) -> None:
        pattern = buffered_reads()
        seed = self.parameters.seed + len(self.samples)
        (reading,) = fio.measure(self.file.target, [pattern], self.parameters.slice_s, seed)
        self.file.evict()
        self._keep(number, pattern, reading, size_kb)
        self._rest()

    def _keep(
        self, number: int, pattern: Pattern, reading: Reading, read_ahead_kb: int | None
    ) -> None:
        self._bytes += reading.requests * pattern.request_bytes
        self.samples.append(
            ProbeSample(
                round=number,
                sequence=len(self.samples),
                engine=fio.PROGRAM,
                kind=pattern.kind,
                depth=pattern.depth,
                request_bytes=pattern.request_bytes,
                gap_blocks=pattern.gap_blocks,
                read_ahead_kb=read_ahead_kb,
                requests=reading.requests,
                seconds=reading.seconds,
                median_latency_us=reading.median_latency_us,
            )
        )

    def _rest(self) -> None:
        """Slices run at full speed; the mean over the probe stays below the rate."""
        if self.parameters.rate_mb_per_s:
            due = self._started + self._bytes / (self.parameters.rate_mb_per_s * 1e6)
            time.sleep(max(0.0, due - time.monotonic()))


def _shuffled(patterns: list[Pattern], generator: random.Random) -> list[Pattern]:
    generator.shuffle(patterns)
    return patterns
