"""What is read: request size, how many at once, and where.

A pattern is a list of offsets that is used over and over, so that nothing has to be drawn while the
device is being timed.
"""

import random
from dataclasses import dataclass
from typing import Literal

BLOCK_BYTES = 8192
KIB = 1024
# Of one slice, after which they are used again; more than a fast device serves in it would only
# take time to make.
_MAX_OFFSETS = 16_384

Kind = Literal["random", "sequential", "through", "skip"]


@dataclass(frozen=True)
class Pattern:
    """`kind` of reads of `request_bytes` each, `depth` in flight.

    "through" and "skip" read two blocks that lie `gap_blocks` apart: with one request over all of
    it, or with one request each. A unit is what the rate counts: both blocks.
    """

    kind: Kind
    depth: int
    request_bytes: int
    gap_blocks: int = 0

    @property
    def requests_per_unit(self) -> int:
        """Two blocks without what lies between them are two requests."""
        return 2 if self.kind == "skip" else 1

    def offsets(self, file_bytes: int, seed: int) -> list[int]:
        """Where to read, in the order of the requests; every request lies within the file."""
        generator = random.Random(seed)
        if self.kind == "sequential":
            return self._ascending(file_bytes, generator)
        span = self.request_bytes
        if self.kind == "skip":
            span = (self.gap_blocks + 2) * BLOCK_BYTES
        places = (file_bytes - span) // BLOCK_BYTES + 1
        starts = [int(generator.random() * places) * BLOCK_BYTES for _ in range(_MAX_OFFSETS)]
        if self.kind != "skip":
            return starts
        distance = (self.gap_blocks + 1) * BLOCK_BYTES
        return [offset for start in starts for offset in (start, start + distance)]

    def _ascending(self, file_bytes: int, generator: random.Random) -> list[int]:
        """From a random place on and round the end of the file, at most once through it."""
        places = file_bytes // self.request_bytes
        first = int(generator.random() * places)
        count = min(places, _MAX_OFFSETS)
        return [(first + i) % places * self.request_bytes for i in range(count)]


def random_reads(depth: int) -> Pattern:
    """Single blocks in random places."""
    return Pattern("random", depth, BLOCK_BYTES)


def sequential_reads(depth: int, request_kb: int) -> Pattern:
    """Ascending and without gaps."""
    return Pattern("sequential", depth, request_kb * KIB)


def gap_reads(depth: int, gap_blocks: int) -> tuple[Pattern, Pattern]:
    """Reading through a gap, and skipping it."""
    return (
        Pattern("through", depth, (gap_blocks + 2) * BLOCK_BYTES, gap_blocks),
        Pattern("skip", depth, BLOCK_BYTES, gap_blocks),
    )
