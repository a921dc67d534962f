"""The kernel's counters of a block device and of the processors: their rates, and a sampler.

Meaning of the fields: the kernel's Documentation/admin-guide/iostats.rst (field numbers below are
its own) and Documentation/filesystems/proc.rst (/proc/stat). A sector is always 512 bytes there,
whatever the device's own. Counters are cumulative since boot; times are in milliseconds; processor
times are in ticks of 1/USER_HZ s. All of them count the whole machine, not our server alone.

The sampler is a thread that reads them at fixed intervals while a query runs. Only raw counters are
kept, relative to the first reading; rates are worked out by whoever shows them. It costs well under
1 % of one processor at the default interval, in all arms alike.
"""

import threading
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from io import FileIO
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SECTOR_BYTES = 512
# Of /proc/diskstats, as `DiskCounters` has them: after the three columns that name the device.
_FIELD_NUMBERS = (1, 2, 3, 4, 5, 7, 9, 10, 11)
# Arbitrary; processor ticks come every 10 ms, so finer slices would only show their grid.
DEFAULT_INTERVAL_S = 0.025


@dataclass(frozen=True)
class DiskCounters:
    """One line of /proc/diskstats.

    `reads` (field 1) requests completed, after merging; `reads_merged` (2) requests that were
    added to another; `read_sectors` (3); `read_ms` (4) summed over requests from queueing to
    completion; `writes` (5) and `written_sectors` (7) likewise; `in_progress` (9) requests in the
    device now, a gauge; `busy_ms` (10) time with any request in progress; `weighted_ms` (11) the
    same weighted with the number of requests.
    """

    reads: int
    reads_merged: int
    read_sectors: int
    read_ms: int
    writes: int
    written_sectors: int
    in_progress: int
    busy_ms: int
    weighted_ms: int


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
        """All ticks of all processors."""
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


@dataclass(frozen=True)
class Timeline:
    """Counters over time, one list per counter, all of the same length.

    `at_ms` is the time since the first reading. `disk` and `cpu` are keyed by the field names of
    `DiskCounters` and `CpuCounters`; all but the gauge `in_progress` start at 0. `disk` is empty
    where no block device is known.
    """

    device: str | None
    at_ms: tuple[float, ...]
    disk: dict[str, tuple[int, ...]]
    cpu: dict[str, tuple[int, ...]]

    def __post_init__(self) -> None:
        if not self.at_ms:
            raise ValueError("it has no times")
        if any(later < earlier for earlier, later in pairwise(self.at_ms)):
            raise ValueError("its times run backwards")
        disk, cpu = _names(DiskCounters), _names(CpuCounters)
        if self.cpu.keys() != cpu or (self.disk and self.disk.keys() != disk):
            raise ValueError("it has not all counters")
        if {len(values) for values in (*self.disk.values(), *self.cpu.values())} != {
            len(self.at_ms)
        }:
            raise ValueError("its lists are not of one length")

    def rates_between(self, first: int, last: int) -> Rates:
        """The rates between two readings, by their positions; of no device all are zero."""
        disk = self.disk or dict.fromkeys(_names(DiskCounters), (0,) * len(self.at_ms))
        before, after = (
            (
                DiskCounters(**{name: values[index] for name, values in disk.items()}),
                CpuCounters(**{name: values[index] for name, values in self.cpu.items()}),
            )
            for index in (first, last)
        )
        seconds = (self.at_ms[last] - self.at_ms[first]) / 1000
        return rates((before[0], after[0]), (before[1], after[1]), seconds)

    def overall(self) -> Rates:
        """The rates over the whole time."""
        return self.rates_between(0, len(self.at_ms) - 1)


def _names(counters: "type[DataclassInstance]") -> set[str]:
    return {field.name for field in fields(counters)}


_GAUGES = ("in_progress",)


@dataclass(frozen=True)
class Reading:
    """All counters at one time; `at_s` is on the monotonic clock."""

    at_s: float
    disk: DiskCounters | None
    cpu: CpuCounters


class IoSampler:
    """Context manager: samples from entry to exit; `timeline` is complete after the exit.

    The first and the last reading are taken by the caller's thread, right at the two ends. The
    files of counters stay open, which halves the cost of a reading.
    """

    def __init__(self, device: str | None, interval_s: float = DEFAULT_INTERVAL_S) -> None:
        self._device = device
        self._interval_s = interval_s
        self._diskstats, self._stat = FileIO("/proc/diskstats"), FileIO("/proc/stat")
        self._readings: list[Reading] = []
        self._stop = threading.Event()
        self._failure: ValueError | None = None
        self._thread = threading.Thread(target=self._sample, name="io-sampler", daemon=True)

    def __enter__(self) -> "IoSampler":
        with ExitStack() as cleanup:
            for file in (self._diskstats, self._stat):
                cleanup.enter_context(file)
            self._read()
            self._thread.start()
            cleanup.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        self._stop.set()
        self._thread.join()
        with self._diskstats, self._stat:
            if kind is None:
                if self._failure is not None:
                    raise self._failure
                self._read()

    def timeline(self) -> Timeline:
        """What was sampled."""
        return to_timeline(self._device, self._readings)

    def _sample(self) -> None:
        try:
            while not self._stop.wait(self._interval_s):
                self._read()
        except ValueError as failure:  # raised again in the caller's thread
            self._failure = failure

    def _read(self) -> None:
        """The counters at this moment; ValueError when the device has gone from the list."""
        at_s = time.monotonic()
        disk = None
        if self._device is not None:
            disk = parse_diskstats(_content(self._diskstats), self._device)
            if disk is None:
                raise ValueError(f"/proc/diskstats does not list {self._device}")
        self._readings.append(Reading(at_s, disk, parse_cpu(_content(self._stat))))


def _content(file: FileIO) -> str:
    file.seek(0)
    return file.readall().decode("ascii")


def to_timeline(device: str | None, readings: list[Reading]) -> Timeline:
    """Turn readings into columns of counters relative to the first."""
    first = readings[0]
    disk: dict[str, tuple[int, ...]] = {}
    if first.disk is not None:
        rows = [asdict(reading.disk) for reading in readings if reading.disk is not None]
        disk = {name: _relative(name, [row[name] for row in rows]) for name in rows[0]}
    ticks = [asdict(reading.cpu) for reading in readings]
    return Timeline(
        device=device,
        at_ms=tuple(round((reading.at_s - first.at_s) * 1000, 3) for reading in readings),
        disk=disk,
        cpu={name: _relative(name, [row[name] for row in ticks]) for name in ticks[0]},
    )


def _relative(name: str, values: list[int]) -> tuple[int, ...]:
    base = 0 if name in _GAUGES else values[0]
    return tuple(value - base for value in values)


def _percent(ticks: int, total: int) -> float | None:
    # iowait may run backwards (proc.rst says so); less than nothing is not worth reporting.
    return max(0.0, 100.0 * ticks / total) if total > 0 else None
