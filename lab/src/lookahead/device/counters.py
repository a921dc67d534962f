"""The kernel's counters of a block device, and their rates.

Meaning of the fields: the kernel's Documentation/admin-guide/iostats.rst (field numbers below are
its own). A sector is always 512 bytes there, whatever the device's own. Counters are cumulative
since boot; times are in milliseconds. All of them count the whole machine, not our server alone.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

SECTOR_BYTES = 512
# Of /proc/diskstats, as `DiskCounters` has them: after the three columns that name the device.
_FIELD_NUMBERS = (1, 3, 4, 10, 11)


@dataclass(frozen=True)
class DiskCounters:
    """One line of /proc/diskstats.

    `reads` (field 1) requests completed, after merging; `read_sectors` (3); `read_ms` (4) summed
    over requests from queueing to completion; `busy_ms` (10) time with any request in progress;
    `weighted_ms` (11) the same weighted with the number of requests.
    """

    reads: int
    read_sectors: int
    read_ms: int
    busy_ms: int
    weighted_ms: int


_NO_DISK = DiskCounters(0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Rates:
    """What happened between two reads of the counters.

    `read_mb_per_s` is in 10^6 bytes, `request_kb` in 1024 bytes. None where nothing was counted to
    divide by.
    """

    seconds: float
    reads: int
    read_bytes: int
    reads_per_s: float
    read_mb_per_s: float
    request_kb: float | None
    queue_depth: float
    await_ms: float | None
    util_percent: float


def parse_diskstats(text: str, name: str) -> DiskCounters | None:
    """The counters of device `name` in the text of /proc/diskstats; None when it is not listed.

    Raises ValueError when its line has another shape.
    """
    for line in text.splitlines():
        columns = line.split()
        if len(columns) < 3 or columns[2] != name:
            continue
        if len(columns) < 14:
            raise ValueError(f"/proc/diskstats has too few fields for {name}")
        return DiskCounters(*(int(columns[2 + number]) for number in _FIELD_NUMBERS))
    return None


def rates(before: DiskCounters, after: DiskCounters, seconds: float) -> Rates:
    """The rates between an earlier and a later reading that lie `seconds` apart.

    r/s = d(reads) / s; MB/s = d(sectors) * 512 / s; mean request = d(sectors) * 512 / d(reads);
    mean queue depth = d(weighted ms) / d(ms); await = d(read ms) / d(reads); %util =
    d(busy ms) / d(ms): these are iostat's own definitions. Raises ValueError when no time passed.
    """
    if seconds <= 0:
        raise ValueError("no time passed between two readings")
    reads = after.reads - before.reads
    read_bytes = (after.read_sectors - before.read_sectors) * SECTOR_BYTES
    return Rates(
        seconds=seconds,
        reads=reads,
        read_bytes=read_bytes,
        reads_per_s=reads / seconds,
        read_mb_per_s=read_bytes / seconds / 1e6,
        request_kb=read_bytes / 1024 / reads if reads else None,
        queue_depth=(after.weighted_ms - before.weighted_ms) / (seconds * 1000),
        await_ms=(after.read_ms - before.read_ms) / reads if reads else None,
        # The kernel rounds to its clock ticks, so a short interval can seem more than full.
        util_percent=min(100.0, (after.busy_ms - before.busy_ms) / (seconds * 10)),
    )


class IoMeter:
    """Context manager: reads the counters at entry and at exit; then `rates` is what came between.

    Of no device there are no requests. Raises ValueError when the kernel does not list the device.
    """

    rates: Rates

    def __init__(self, device: str | None) -> None:
        self._device = device

    def __enter__(self) -> Self:
        self._before = self._read()
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        if kind is None:
            (started, before), (ended, after) = self._before, self._read()
            self.rates = rates(before, after, ended - started)

    def _read(self) -> tuple[float, DiskCounters]:
        at_s = time.monotonic()
        if self._device is None:
            return at_s, _NO_DISK
        found = parse_diskstats(Path("/proc/diskstats").read_text(), self._device)
        if found is None:
            raise ValueError(f"/proc/diskstats does not list {self._device}")
        return at_s, found
