"""The kernel's counters of a block device and of the processors, and their rates.

Meaning of the fields: the kernel's Documentation/admin-guide/iostats.rst (field numbers below are
its own) and Documentation/filesystems/proc.rst (/proc/stat). A sector is always 512 bytes there,
whatever the device's own. Counters are cumulative since boot; times are in milliseconds; processor
times are in ticks of 1/USER_HZ s. All of them count the whole machine, not our server alone.
"""

import time
from dataclasses import dataclass, fields
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
class CpuCounters:
    """The "cpu" line of /proc/stat in ticks, summed over all processors.

    `user` includes nice; `system` includes interrupts; `steal` was taken by the hypervisor.
    """

    user: int
    system: int
    idle: int
    iowait: int
    steal: int

    @property
    def total(self) -> int:
        return sum(getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True)
class Rates:
    """What happened between two reads of the counters.

    `read_mb_per_s` is in 10^6 bytes, `request_kb` in 1024 bytes, percentages of the machine's
    whole processor time. None where nothing was counted to divide by.
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
    cpu_user_percent: float | None
    cpu_system_percent: float | None
    cpu_iowait_percent: float | None
    cpu_steal_percent: float | None


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


def parse_cpu(text: str) -> CpuCounters:
    """The sum over all processors in the text of /proc/stat; ValueError when it is missing."""
    for line in text.splitlines():
        columns = line.split()
        if not columns or columns[0] != "cpu":
            continue
        # guest and guest_nice, if listed, are contained in user and nice already.
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, columns[1:9])
        return CpuCounters(user + nice, system + irq + softirq, idle, iowait, steal)
    raise ValueError('/proc/stat has no line "cpu"')


def rates(
    disk: tuple[DiskCounters, DiskCounters], cpu: tuple[CpuCounters, CpuCounters], seconds: float
) -> Rates:
    """The rates between an earlier and a later reading that lie `seconds` apart.

    r/s = d(reads) / s; MB/s = d(sectors) * 512 / s; mean request = d(sectors) * 512 / d(reads);
    mean queue depth = d(weighted ms) / d(ms); await = d(read ms) / d(reads); %util =
    d(busy ms) / d(ms): these are iostat's own definitions. Raises ValueError when no time passed.
    """
    if seconds <= 0:
        raise ValueError("no time passed between two readings")
    before, after = disk
    reads = after.reads - before.reads
    read_bytes = (after.read_sectors - before.read_sectors) * SECTOR_BYTES
    ticks = cpu[1].total - cpu[0].total
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
        cpu_user_percent=_percent(cpu[1].user - cpu[0].user, ticks),
        cpu_system_percent=_percent(cpu[1].system - cpu[0].system, ticks),
        cpu_iowait_percent=_percent(cpu[1].iowait - cpu[0].iowait, ticks),
        cpu_steal_percent=_percent(cpu[1].steal - cpu[0].steal, ticks),
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
            before, after = self._before, self._read()
            self.rates = rates((before[1], after[1]), (before[2], after[2]), after[0] - before[0])

    def _read(self) -> tuple[float, DiskCounters, CpuCounters]:
        at_s, disk = time.monotonic(), _NO_DISK
        if self._device is not None:
            found = parse_diskstats(Path("/proc/diskstats").read_text(), self._device)
            if found is None:
                raise ValueError(f"/proc/diskstats does not list {self._device}")
            disk = found
        return at_s, disk, parse_cpu(Path("/proc/stat").read_text())


def _percent(ticks: int, total: int) -> float | None:
    # iowait may run backwards (proc.rst says so); less than nothing is not worth reporting.
    return max(0.0, 100.0 * ticks / total) if total > 0 else None
