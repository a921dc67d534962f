"""Whether the library really worked during a run."""

import re
from collections import Counter
from pathlib import Path

from modes import Floor


def sum_counters(file: Path) -> Counter[str]:
    """The sums of the `key=value` counters that every backend appended at its exit."""
    sums: Counter[str] = Counter()
    if file.exists():
        for key, value in re.findall(r"(\w+)=(\d+)\b", file.read_text()):
            sums[key] += int(value)
    return sums


def missing_streams(sums: Counter[str], floor: Floor) -> list[str]:
    """A finding for each counter below its floor: a pass by declining is no pass."""
    return [
        f"{key}={sums[key]} is below the floor of {least}: the look-ahead hardly ran"
        for key, least in (("scans", floor.scans), ("prefetched", floor.prefetched))
        if sums[key] < least
    ]
