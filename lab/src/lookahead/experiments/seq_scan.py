"""The experiment "seq-scan", the questions of the second source article and of the fifth's reads.

    scan       cold sequential scan and COPY to standard output at each read-ahead of the disk
    lookups    random lookups of single rows by several sessions at each read-ahead
    bulk-read  cold sequential scan of pgbench's table by the size of our requests
    vacuum     VACUUM of the same table by io_combine_limit and maintenance_io_concurrency

The first two are measured at the read-ahead that the machine has, at sizes that were named, or on a
loop device of our own at several.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import monotonic

from lookahead.account import acting_as_owner
from lookahead.comparisons import samples_of
from lookahead.device.loop_disk import LoopDisk, disk_bytes
from lookahead.device.raw_read import read_directly
from lookahead.errors import ExitStatus, LabError
from lookahead.experiments.arms import SEQ_SCAN, arm_of, connect_arm
from lookahead.experiments.knee import knee_of
from lookahead.experiments.lookups import measure_lookups
from lookahead.experiments.page_table_setup import SCAN_SETTINGS
from lookahead.experiments.read_aheads import ReadAheads
from lookahead.experiments.request import RunRequest, SeqPart, SeqScanRequest, Size
from lookahead.experiments.runner import Run
from lookahead.experiments.scan_table import touch_device
from lookahead.experiments.seq_parts import (
    ACCOUNTS,
    ARTICLE_KNEE,
    BULK_SIZE,
    COPY_TABLE,
    CORE_SIZE,
    COUNT_WIDE,
    NO_LIMITS,
    OURS,
    STOCK,
    ScanLimits,
    bulk_trial,
    explain_sized,
    scan_or_copy,
    scan_trial,
    timed,
    vacuum_trial,
)
from lookahead.experiments.trials import Trial, Trials, alternate, run_trials
from lookahead.experiments.wide_table import WIDE, WIDE_KEY, build_wide_table, table_facts
from lookahead.measurements import Library, Table
from lookahead.render import ProgressBar, Terminal, milliseconds

PARTS: tuple[SeqPart, ...] = ("scan", "lookups", "bulk-read", "vacuum")
_ON_READ_AHEAD: tuple[SeqPart, ...] = ("scan", "lookups")
_LIBRARIES: tuple[Library, ...] = ("off", "on")
_ACCOUNT_BYTES = 135  # a row of pgbench_accounts, with its page's rest
_ROWS_PER_SCALE = 100_000
# The tables, the WAL of loading and freezing them.
_SPACE_FACTOR = 2.5
_LIMIT_SAMPLES = 3


@dataclass(frozen=True)
class SizeDefaults:
    """What a size measures; the read-aheads on a disk of its own."""

    parts: tuple[SeqPart, ...]
    table_mb: int
    read_aheads_kb: tuple[int, ...]
    scale: int
    bulk_sizes: tuple[str, ...]
    combine_limits: tuple[str, ...]
    depths: tuple[int, ...]
    seconds: int
    rounds: int


_READ_AHEADS_KB = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 163840)
_SIZES = ("8kB", "16kB", "32kB", "64kB", "128kB", "256kB", "512kB", "1MB")
_FEW_SIZES = ("16kB", "128kB", "1MB")
DEFAULTS: dict[Size, SizeDefaults] = {
    "demo": SizeDefaults(("scan",), 150, (128, 8192), 5, ("16kB",), ("128kB",), (16,), 1, 4),
    "quick": SizeDefaults(
        PARTS, 400, (128, 1024, 8192), 20, (CORE_SIZE, *_FEW_SIZES), _FEW_SIZES, (0, 16, 64), 2, 4
    ),
    "full": SizeDefaults(
        PARTS, 3000, _READ_AHEADS_KB, 200, (CORE_SIZE, *_SIZES), _SIZES, (0, 1, 16, 64, 256), 5, 6
    ),
}


def run_seq_scan(request: SeqScanRequest, terminal: Terminal) -> Path:
    """Measure and write the result; returns its path. Raises LabError."""
    wanted = _wanted(request, DEFAULTS[request.run.size])
    needed = _needed_bytes(wanted)
    with _disk(request, needed) as run_request:
        return run_trials(
            run_request,
            "seq-scan",
            terminal,
            lambda run: _SeqScan(run, request, wanted).measure(),
            rounds=wanted.rounds,
            settings=SCAN_SETTINGS,
            needed_bytes=needed,
            read_aheads_kb=request.read_aheads_kb or (),
        )


def _wanted(request: SeqScanRequest, defaults: SizeDefaults) -> SizeDefaults:
    """The defaults with what was asked for in their place."""
    return replace(
        defaults,
        parts=request.parts or defaults.parts,
        table_mb=request.table_mb or defaults.table_mb,
        read_aheads_kb=request.read_aheads_kb or defaults.read_aheads_kb,
        scale=request.scale or defaults.scale,
        seconds=request.seconds or defaults.seconds,
        rounds=request.repetitions or defaults.rounds,
    )


def _needed_bytes(wanted: SizeDefaults) -> int:
    wide = wanted.table_mb * 1_000_000 if set(wanted.parts) & set(_ON_READ_AHEAD) else 0
    others = set(wanted.parts) - set(_ON_READ_AHEAD)
    accounts = wanted.scale * _ROWS_PER_SCALE * _ACCOUNT_BYTES if others else 0
    return int(_SPACE_FACTOR * (wide + accounts))


@contextmanager
def _disk(request: SeqScanRequest, needed_bytes: int) -> Iterator[RunRequest]:
    """The request, with a folder on a disk of our own if that was asked for."""
    if not request.own_disk:
        yield request.run
        return
    with LoopDisk(disk_bytes(needed_bytes), request.run.directory) as disk:
        disk.make_file_system()
        yield replace(request.run, directory=disk.disk)


class _SeqScan:
    """One run of the experiment."""

    def __init__(self, run: Run, request: SeqScanRequest, wanted: SizeDefaults) -> None:
        self._run = run
        self._server = run.server
        self._request = request
        self._wanted = wanted
        self._trials = Trials(run)

    def measure(self) -> None:
        """One part after the other; the table of one is gone before the next is made."""
        parts = set(self._wanted.parts)
        self._server.start({})
        with self._server.connect() as connection:
            self._run.record_settings(connection)
        if parts & set(_ON_READ_AHEAD):
            self._measure_read_aheads(parts)
            self._server.restart({})
            with self._server.connect() as connection:
                connection.execute(f"DROP TABLE {WIDE}")
        if parts - set(_ON_READ_AHEAD):
            self._measure_accounts(parts)

    def _measure_read_aheads(self, parts: set[SeqPart]) -> None:
        own_disk = self._request.own_disk
        read_aheads = ReadAheads(self._run, self._sizes_kb(), own_disk=own_disk)
        mb = self._wanted.table_mb
        self._run.terminal.step(f"making a table of {mb:,} MB")
        with self._server.connect() as connection:
            table = build_wide_table(connection, mb)
            self._trials.add_table(table)
            touch_device(connection, self._server.data_directory, (WIDE, WIDE_KEY))
        limits = self._scan_limits() if "scan" in parts else NO_LIMITS
        trials = [scan_trial(size, mb, limits) for size in read_aheads.sizes_kb]
        total = len(trials[0].arms) if "scan" in parts else 0
        total += len(_LIBRARIES) if "lookups" in parts else 0
        with self._run.terminal.progress(total * len(trials) * self._wanted.rounds) as bar:
            for size, trial in zip(read_aheads.sizes_kb, trials, strict=True):
                with read_aheads.with_size(size):
                    if "scan" in parts:
                        execute = scan_or_copy(self._server, limits.files)
                        self._trials.measure(trial, self._wanted.rounds, bar, execute)
                    if "lookups" in parts:
                        self._measure_lookups(trial, table, bar)
        if "scan" in parts and len(trials) > 1:
            self._find_knees(read_aheads.sizes_kb, trials)

    def _sizes_kb(self) -> tuple[int, ...]:
        """Those that were named, on a disk of our own those of the size, else none: what it is."""
        if self._request.own_disk or self._request.read_aheads_kb:
            return self._wanted.read_aheads_kb
        self._run.find(
            "note",
            "measured at the machine's own read-ahead only",
            "As root, --own-disk measures several on a disk of its own, and --read-ahead KB sets "
            "that of the machine's disk.",
        )
        return ()

    def _scan_limits(self) -> ScanLimits:
        """What the disk takes for the table alone, and a scan that finds it in memory."""
        with self._server.connect() as connection:
            row = connection.execute(f"SELECT pg_relation_filepath('{WIDE}')").fetchone()
        assert row is not None
        first = self._server.data_directory / str(row[0])
        with acting_as_owner(self._server.data_directory):
            files = (first, *sorted(first.parent.glob(f"{first.name}.*")))  # segments of 1 GB
        limits = ScanLimits(files, self._device_ms(files), self._in_memory_ms())
        if limits.device_ms is not None:
            self._run.find(
                "note",
                f"for the whole table the device alone takes {milliseconds(limits.device_ms)}, "
                f"a scan of pages in memory {milliseconds(limits.in_memory_ms)}",
                "" if limits.is_device else "The device is not the limit.",
            )
        return limits

    def _device_ms(self, files: Sequence[Path]) -> float | None:
        """The median of some reads past the page cache; None where that cannot be."""
        try:
            with acting_as_owner(self._server.data_directory):
                return median(read_directly(files) for _ in range(_LIMIT_SAMPLES))
        except LabError as error:
            self._run.find("note", error.message, error.hint)
            return None

    def _in_memory_ms(self) -> float:
        """The median of stock's scans that find all pages in the cache of the system."""
        arm = arm_of(STOCK, SEQ_SCAN)
        with connect_arm(self._server, arm) as connection:
            explain_sized(connection, COUNT_WIDE, arm)  # brings them there
            return median(
                explain_sized(connection, COUNT_WIDE, arm)[0] for _ in range(_LIMIT_SAMPLES)
            )

    def _measure_lookups(self, trial: Trial, table: Table, bar: ProgressBar) -> None:
        for number, library in alternate(_LIBRARIES, self._wanted.rounds):
            bar.describe(f"{trial.scenario.label}: lookups, {library}")
            self._trials.cool(trial.server)
            self._trials.add_lookups(
                measure_lookups(
                    self._server,
                    trial.scenario,
                    library,
                    number,
                    rows=table.rows,
                    sessions=self._request.sessions,
                    seconds=self._wanted.seconds,
                )
            )
            bar.advance()

    def _find_knees(self, sizes_kb: Sequence[int | None], trials: Sequence[Trial]) -> None:
        """Say from which read-ahead on nothing more is gained."""
        for arm in (STOCK, OURS, COPY_TABLE):
            points = [
                (float(size), median(one.time_ms for one in chosen))
                for size, trial in zip(sizes_kb, trials, strict=True)
                if size is not None
                and (chosen := samples_of(self._trials.data.samples, trial.scenario, arm))
            ]
            if points:
                self._run.find("note", f"knee of {arm}: a read-ahead of {knee_of(points):.0f} kB")

    def _measure_accounts(self, parts: set[SeqPart]) -> None:
        wanted = self._wanted
        self._run.terminal.step(f"pgbench makes accounts at scale {wanted.scale}")
        started = monotonic()
        self._server.run_client("pgbench", "-i", "-I", "dtg", "-q", "-s", str(wanted.scale))
        with self._server.connect() as connection:
            connection.execute(f"VACUUM (FREEZE, ANALYZE) {ACCOUNTS}")
            connection.execute("CHECKPOINT")
            self._trials.add_table(table_facts(connection, ACCOUNTS, started))
            touch_device(connection, self._server.data_directory, (ACCOUNTS,))
        bulk = bulk_trial(wanted.scale, wanted.bulk_sizes)
        vacuums = [
            vacuum_trial(wanted.scale, limit, wanted.depths) for limit in wanted.combine_limits
        ]
        chosen = [bulk] if "bulk-read" in parts else []
        chosen += vacuums if "vacuum" in parts else []
        total = sum(len(trial.arms) for trial in chosen) * wanted.rounds
        with self._run.terminal.progress(total) as bar:
            for trial in chosen:
                execute = explain_sized if trial is bulk else timed
                self._trials.measure(trial, wanted.rounds, bar, execute)
        if "bulk-read" in parts:
            self._find_bulk_knee(bulk)
        if "vacuum" in parts:
            self._find_vacuum_knee(vacuums)

    def _find_bulk_knee(self, trial: Trial) -> None:
        points = []
        for arm in trial.arms:
            size = arm.settings.get(BULK_SIZE, CORE_SIZE)
            chosen = samples_of(self._trials.data.samples, trial.scenario, arm.name)
            if size != CORE_SIZE and chosen:
                points.append((_kilobytes(size), median(one.time_ms for one in chosen)))
        self._find_size_knee(BULK_SIZE, points)

    def _find_vacuum_knee(self, trials: Sequence[Trial]) -> None:
        """Each io_combine_limit with the maintenance_io_concurrency that is best there."""
        samples = self._trials.data.samples
        points = []
        for limit, trial in zip(self._wanted.combine_limits, trials, strict=True):
            medians = [
                median(one.time_ms for one in samples_of(samples, trial.scenario, arm.name))
                for arm in trial.arms
            ]
            points.append((_kilobytes(limit), min(medians)))
        self._find_size_knee("io_combine_limit for VACUUM", points)

    def _find_size_knee(self, what: str, points: Sequence[tuple[float, float]]) -> None:
        if len(points) > 1:
            self._run.find("note", f"knee of {what}: {knee_of(points):.0f} kB", ARTICLE_KNEE)


def _kilobytes(size: str) -> float:
    number, unit = int(size[:-2]), size[-2:]
    if unit not in ("kB", "MB"):
        raise LabError(f"{size} is no size in kB or MB", status=ExitStatus.USAGE)
    return float(number * (1024 if unit == "MB" else 1))
