"""How many random reads a block device serves at once, measured by fio.

Little's law would count requests that merely queue; what counts here is how many times as many
reads per second there are at depth as one after the other.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from lookahead.device.probe import fio
from lookahead.device.probe.fio import Target, random_reads


@dataclass(frozen=True)
class Overlap:
    """Random 8 kB direct reads per second, one at a time and `depth` at a time."""

    depth: int
    single_reads_per_s: float
    deep_reads_per_s: float

    @property
    def reads_at_once(self) -> float:
        """How many reads one at a time the device did the work of."""
        return self.deep_reads_per_s / self.single_reads_per_s


def probe_overlap(device: Path, depth: int, seconds: int) -> Overlap:
    """Measure both rates for `seconds` each; LabError when the device cannot be read."""
    fio.check_available()
    descriptor = os.open(device, os.O_RDONLY)
    try:
        target = Target(device, os.lseek(descriptor, 0, os.SEEK_END))
    finally:
        os.close(descriptor)
    single, deep = fio.measure(target, (random_reads(1), random_reads(depth)), seconds, seed=1)
    return Overlap(depth, single.requests_per_s, deep.requests_per_s)
