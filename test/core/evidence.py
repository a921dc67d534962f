"""Whether the library really worked during a run."""

import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from modes import Floor

# The fields of a Floor, as sums of the counters in the file.
_SUMS = {
    "scans": ("index_scan.scans",),
    "pages": ("index_scan.prefetched", "index_scan.direct"),
    "bitmap_scans": ("bitmap_scan.scans",),
    "bitmap_pages": ("bitmap_scan.prefetched",),
    "seq_scans": ("seq_scan.scans",),
    "seq_requests": ("seq_scan.requests",),
    "builds": ("index_build.scans",),
    "rows": ("bulk_insert.rows",),
    "drawn": ("nested_loop.drawn",),
    "late_starts": ("late_start.scans",),
}


def sum_counters(file: Path) -> Counter[str]:
    """The sums of the `feature.counter=value` that every backend appended at its exit.

    By these names, and by those of the fields of a Floor. Of these `pages` are those that scans
    took from the ring, looked ahead at or not: in tables of a single page, which the isolation
    suite has, there is nothing ahead.
    """
    sums: Counter[str] = Counter()
    if file.exists():
        for key, value in re.findall(r"([\w.]+)=(\d+)\b", file.read_text()):
            sums[key] += int(value)
    for name, counters in _SUMS.items():
        sums[name] = sum(sums[counter] for counter in counters)
    return sums


def missing_streams(sums: Counter[str], floor: Floor) -> list[str]:
    """A finding for each counter below its floor: a pass by declining is no pass."""
    return [
        f"{key}={sums[key]} is below the floor of {least}: the library hardly ran"
        for key, least in asdict(floor).items()
        if sums[key] < least
    ]
