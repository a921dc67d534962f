"""How many random reads a block device serves at once: fio if it is there, else our own engine.

Little's law would count requests that merely queue; what counts here is how many times as many
reads per second there are at depth as one after the other.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from lookahead.device.probe import fio_engine
from lookahead.device.probe.fio_engine import FioEngine
from lookahead.device.probe.own_engine import make_own_engine
from lookahead.device.probe.pattern import random_reads
from lookahead.device.probe.reading import Engine


@dataclass(frozen=True)
class Overlap:
    """Random 8 kB direct reads per second, one at a time and `depth` at a time.

    `engine` is its name: "fio", "own (aio)" or "own (threads)".
    """

    engine: str
    depth: int
    single_reads_per_s: float
    deep_reads_per_s: float

    @property
    def reads_at_once(self) -> float:
        """How many reads one at a time the device did the work of."""
        return self.deep_reads_per_s / self.single_reads_per_s


@dataclass(frozen=True)
class _Device:
    """A block device as the engines take it."""

    path: Path
    size_bytes: int
    direct: int


def probe_overlap(device: Path, depth: int, seconds: int) -> Overlap:
    """Measure both rates for `seconds` each; LabError when the device cannot be read."""
    is_fio = fio_engine.is_available()
    engine: Engine = FioEngine() if is_fio else make_own_engine()
    descriptor = os.open(device, os.O_RDONLY | (0 if is_fio else os.O_DIRECT))
    try:
        target = _Device(device, os.lseek(descriptor, 0, os.SEEK_END), descriptor)
        patterns = (random_reads(1), random_reads(depth))
        single, deep = (
            reading.requests_per_s for _, reading in engine.run(target, patterns, seconds, seed=1)
        )
    finally:
        os.close(descriptor)
    return Overlap(engine.name, depth, single, deep)
