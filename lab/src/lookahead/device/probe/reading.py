"""What one slice of time of one pattern gave, and the engines that can measure it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lookahead.device.probe.pattern import Pattern


@dataclass(frozen=True)
class Reading:
    """`requests` ended in `seconds`; `median_latency_us` is known of reads one at a time only."""

    requests: int
    seconds: float
    median_latency_us: float | None

    @property
    def requests_per_s(self) -> float:
        """The rate."""
        return self.requests / self.seconds


class ReadTarget(Protocol):
    """What is read: a file or a device, open for direct reads, and a name for other programs."""

    @property
    def path(self) -> Path:
        """What a child process may open."""

    @property
    def size_bytes(self) -> int:
        """No read goes beyond."""

    @property
    def direct(self) -> int:
        """A descriptor."""


class Engine(Protocol):
    """Reads a target by patterns, each for a slice of time."""

    @property
    def name(self) -> str:
        """As in result files."""

    def run(
        self, target: ReadTarget, patterns: Sequence[Pattern], slice_s: float, seed: int
    ) -> Iterator[tuple[Pattern, Reading]]:
        """Measure the patterns in this order; LabError when the device cannot be read."""
