"""The least time that a volume limited by requests and by bytes needs for a set of pages.

Pages closer than a gap limit are read by one request, with the pages between them; requests end at
the device's largest size. The volume then needs the longer of two times: the requests at its rate
of requests, the bytes at its bandwidth.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lookahead.experiments.conditions import BLOCK_BYTES

# Beyond this many pages a gap costs more than a request on anything that is sold. Arbitrary.
MAX_GAP = 128


@dataclass(frozen=True)
class GapPlan:
    """What reading with a gap limit takes."""

    gap_limit: int
    requests: int
    read_bytes: int
    time_ms: float


def best_gap_plan(
    pages: Sequence[int], reads_per_s: float, bytes_per_s: float, max_request_bytes: int
) -> GapPlan:
    """The fastest plan over all gap limits, of several the one with the least limit.

    `pages` ascend. Raises ValueError for none.
    """
    if not pages:
        raise ValueError("no pages")
    plans = (
        gap_plan(pages, gap, reads_per_s, bytes_per_s, max_request_bytes)
        for gap in range(MAX_GAP + 1)
    )
    return min(plans, key=lambda plan: plan.time_ms)


def gap_plan(
    pages: Sequence[int],
    gap_limit: int,
    reads_per_s: float,
    bytes_per_s: float,
    max_request_bytes: int,
) -> GapPlan:
    """What one gap limit takes."""
    lengths = range_lengths(pages, gap_limit)
    per_request = max(max_request_bytes // BLOCK_BYTES, 1)
    requests = sum(-(-length // per_request) for length in lengths)
    read_bytes = sum(lengths) * BLOCK_BYTES
    seconds = max(requests / reads_per_s, read_bytes / bytes_per_s)
    return GapPlan(gap_limit, requests, read_bytes, seconds * 1000)


def range_lengths(pages: Sequence[int], gap_limit: int) -> list[int]:
    """The lengths in pages of the ranges that cover `pages`, gaps of up to the limit bridged."""
    lengths = []
    first = last = pages[0]
    for page in pages:
        if page - last - 1 > gap_limit:
            lengths.append(last - first + 1)
            first = page
        last = page
    return [*lengths, last - first + 1]
