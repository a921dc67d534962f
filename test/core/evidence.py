"""Whether the library really worked during a run."""

import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from modes import Floor


def sum_counters(file: Path) -> Counter[str]:
    """The sums of the `key=value` counters that every backend appended at its exit.

    `pages` are those that scans took from the ring, looked ahead at or not: in tables of a single
    page, which the isolation suite has, there is nothing ahead.
    """
    sums: Counter[str] = Counter()
    if file.exists():
        for key, value in re.findall(r"(\w+)=(\d+)\b", file.read_text()):
            sums[key] += int(value)
    sums["pages"] = sums["prefetched"] + sums["direct"]
    return sums


def missing_streams(sums: Counter[str], floor: Floor) -> list[str]:
    """A finding for each counter below its floor: a pass by declining is no pass."""
    return [
        f"{key}={sums[key]} is below the floor of {least}: the library hardly ran"
        for key, least in asdict(floor).items()
        if sums[key] < least
    ]
