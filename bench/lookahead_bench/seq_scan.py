"""The experiment "seq-scan": scans by the read-ahead, bulk reads, VACUUM.

    scan       cold sequential scan and COPY to standard output at each read-ahead of the disk
    lookups    random lookups of single rows by several sessions at each read-ahead
    bulk-read  cold sequential scan of pgbench's table by the size of our requests
    vacuum     VACUUM of the same table by io_combine_limit and maintenance_io_concurrency

The first two are measured at the read-ahead that the machine has, or on a loop device of our own at
several, whose reads may be made to take longer.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from time import monotonic
from typing import Literal

from lookahead.comparisons import samples_of
from lookahead.experiments.conditions import (
    COLD_RESTART_SECONDS,
    table_facts,
    touch_device,
)
from lookahead.experiments.experiment import (
    REPETITIONS,
    Choice,
    Count,
    Experiment,
    Flag,
    MemorySize,
    Option,
    memory_text,
    refuse_unused,
    sized,
)
from lookahead.experiments.runner import Run, RunRequest
from lookahead.experiments.trials import alternate
from lookahead.measurements import Table
from lookahead.terminal import Terminal
from lookahead_bench.latency import MAX_LATENCY_US, latency_factor, on_delay_device
from lookahead_bench.loop_disk import LoopDisk, disk_bytes
from lookahead_bench.read_ahead import MAX_READ_AHEAD_KB, ReadAheads
from lookahead_bench.seq_parts import (
    ACCOUNTS,
    BULK_SIZE,
    COPY_TABLE,
    CORE_SIZE,
    LOOKUP_ARMS,
    NO_LIMITS,
    OURS,
    STOCK,
    WIDE,
    WIDE_KEY,
    build_wide_table,
    bulk_trial,
    knee_of,
    lookup_trial,
    measure_lookups,
    scan_limits,
    scan_or_copy,
    scan_trial,
    vacuum_trial,
)
from lookahead_bench.trials import Trial, Trials

SeqPart = Literal["scan", "lookups", "bulk-read", "vacuum"]
PARTS: tuple[SeqPart, ...] = ("scan", "lookups", "bulk-read", "vacuum")
_ON_READ_AHEAD: tuple[SeqPart, ...] = ("scan", "lookups")
_ACCOUNT_BYTES = 135  # a row of pgbench_accounts, with its page's rest
_ROWS_PER_SCALE = 100_000
# The tables, the WAL of loading and freezing them.
_SPACE_FACTOR = 2.5
_MAX_TABLE_KB = 1024**3
_MAX_SCALE = 100_000
_MAX_SESSIONS = 64
_MAX_SECONDS = 3600
# What estimates of a run's time go by; measured on a virtual machine with two processors.
_ARMS_OF_SCAN = 6
_BUILD_BYTES_PER_SECOND = 50e6
_SCAN_BYTES_PER_SECOND = 500e6


_SIZE_NAMES = ("8kB", "16kB", "32kB", "64kB", "128kB", "256kB", "512kB", "1MB")
_FEW_SIZE_NAMES = ("16kB", "128kB", "1MB")


@dataclass(frozen=True)
class SeqScans:
    """What is wanted: sizes and read-aheads in kB, `scale` is pgbench's.

    Without a read-ahead that of the disk is left as it is; `own_read_ahead` are those of a disk of
    our own. `bulk_sizes` and `combine_limits` are sizes of requests as PostgreSQL writes them,
    `depths` values of maintenance_io_concurrency.
    """

    repetitions: int = REPETITIONS.sized(6)
    part: tuple[SeqPart, ...] = Option(
        Choice(PARTS), f"What is measured: {', '.join(PARTS)}."
    ).sized(PARTS, demo=("scan",))
    own_disk: bool = Option(
        Flag(),
        "Measure on a loop device, made for the run, at several read-aheads; needs root.",
    ).sized(False)
    read_ahead: tuple[int, ...] = Option(
        MemorySize(0, MAX_READ_AHEAD_KB),
        "Read-aheads of that disk.",
        default="128kB,1MB,8MB; with --demo the first and the last; with --full 128kB to 160MB",
    ).sized(())
    latency: int = Option(
        Count(0, MAX_LATENCY_US, "US"), "Microseconds that each read of that disk takes longer."
    ).sized(0)
    own_read_ahead: tuple[int, ...] = sized(
        (128, 1024, 8192),
        demo=(128, 8192),
        full=(128, 256, 512, 1024, 2048, 4096, 8192, 16384, 163840),
    )
    table_size: int = Option(
        MemorySize(1024, _MAX_TABLE_KB), "Size of the table of scan and lookups."
    ).sized(400 * 1024, demo=150 * 1024, full=3000 * 1024)
    scale: int = Option(
        Count(1, _MAX_SCALE), "pgbench's scale of the table of bulk-read and vacuum."
    ).sized(20, demo=5, full=200)
    bulk_sizes: tuple[str, ...] = sized(
        (CORE_SIZE, *_FEW_SIZE_NAMES), demo=("16kB",), full=(CORE_SIZE, *_SIZE_NAMES)
    )
    combine_limits: tuple[str, ...] = sized(_FEW_SIZE_NAMES, demo=("128kB",), full=_SIZE_NAMES)
    depths: tuple[int, ...] = sized((0, 16, 64), demo=(16,), full=(0, 1, 16, 64, 256))
    sessions: int = Option(Count(1, _MAX_SESSIONS), "Sessions that look rows up at once.").sized(8)
    seconds: int = Option(Count(1, _MAX_SECONDS), "How long they do.").sized(2, demo=1, full=5)


def _settle(wanted: SeqScans, explicit: frozenset[str]) -> SeqScans:
    """On a disk of our own several read-aheads are measured, unless others were named.

    Raises LabError for options of parts that are not measured.
    """
    parts = set(wanted.part)
    on_read_ahead = parts & set(_ON_READ_AHEAD)
    if not on_read_ahead:
        refuse_unused(explicit, ("read_ahead", "table_size"), "--part scan or lookups")
    if "lookups" not in parts:
        refuse_unused(explicit, ("sessions", "seconds"), "--part lookups")
    if parts == on_read_ahead:
        refuse_unused(explicit, ("scale",), "--part bulk-read or vacuum")
    if not wanted.own_disk:
        refuse_unused(explicit, ("latency", "read_ahead"), "--own-disk")
    if wanted.own_disk and on_read_ahead and "read_ahead" not in explicit:
        return replace(wanted, read_ahead=wanted.own_read_ahead)
    return wanted


def _needed_bytes(wanted: SeqScans) -> int:
    wide = wanted.table_size * 1024 if set(wanted.part) & set(_ON_READ_AHEAD) else 0
    others = set(wanted.part) - set(_ON_READ_AHEAD)
    accounts = wanted.scale * _ROWS_PER_SCALE * _ACCOUNT_BYTES if others else 0
    return int(_SPACE_FACTOR * (wide + accounts))


@contextmanager
def _disk(request: RunRequest, wanted: SeqScans, terminal: Terminal) -> Iterator[RunRequest]:
    """The request, with a folder on a disk of our own if that was asked for."""
    if not wanted.own_disk:
        yield request
        return
    if wanted.latency:
        with on_delay_device(request, _needed_bytes(wanted), wanted.latency, terminal) as slow:
            yield slow
        return
    with LoopDisk(disk_bytes(_needed_bytes(wanted)), request.directory) as disk:
        disk.make_file_system()
        yield replace(request, directory=disk.disk)


class _SeqScan:
    """One run of the experiment."""

    def __init__(self, run: Run, wanted: SeqScans) -> None:
        self._run = run
        self._server = run.server
        self._wanted = wanted
        self._trials = Trials(run)

    def measure(self) -> None:
        """One part after the other; the table of one is gone before the next is made."""
        parts = set(self._wanted.part)
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
        wanted = self._wanted
        if not wanted.read_ahead:
            self._run.find(
                "note",
                "measured at the machine's own read-ahead only",
                "As root, --own-disk measures several on a disk of its own.",
            )
        read_aheads = ReadAheads(self._run, wanted.read_ahead)
        self._run.terminal.step(f"making a table of {memory_text(wanted.table_size)}")
        with self._server.connect() as connection:
            table = build_wide_table(connection, wanted.table_size)
            self._trials.add_table(table)
            touch_device(connection, self._server.data_directory, (WIDE, WIDE_KEY))
        limits = scan_limits(self._run) if "scan" in parts else NO_LIMITS
        factors = (latency_factor(wanted.latency),) if wanted.latency else ()
        trials = [
            replace(
                scan_trial(size, wanted.table_size, limits, factors),
                execute=scan_or_copy(self._server, limits.files),
                surroundings=partial(read_aheads.with_size, size),
            )
            for size in read_aheads.sizes_kb
        ]
        if "scan" in parts:
            self._trials.measure_all(trials, wanted.repetitions)
            if len(trials) > 1:
                self._find_knees(read_aheads.sizes_kb, trials)
        if "lookups" in parts:
            self._measure_lookups(trials, table)

    def _measure_lookups(self, trials: Sequence[Trial], table: Table) -> None:
        wanted = self._wanted
        samples = len(trials) * len(LOOKUP_ARMS) * wanted.repetitions
        with self._run.terminal.progress(samples) as bar:
            for trial in (lookup_trial(one, wanted.sessions) for one in trials):
                self._trials.begin(trial)
                with trial.surroundings():
                    for number, arm in alternate(trial.arms, wanted.repetitions):
                        bar.describe(f"{trial.scenario.label}: {arm.name}")
                        self._trials.cool(trial.server)
                        sample = measure_lookups(
                            self._server,
                            trial,
                            arm,
                            number,
                            rows=table.rows,
                            sessions=wanted.sessions,
                            seconds=wanted.seconds,
                        )
                        self._trials.add_samples([sample])
                        bar.advance()

    def _median_ms(self, trial: Trial, arm: str) -> float:
        chosen = samples_of(self._trials.data.samples, trial.scenario, arm)
        return median(one.time_ms for one in chosen)

    def _find_knees(self, sizes_kb: Sequence[int | None], trials: Sequence[Trial]) -> None:
        """Say from which read-ahead on nothing more is gained."""
        for arm in (STOCK, OURS, COPY_TABLE):
            points = [
                (float(size), self._median_ms(trial, arm))
                for size, trial in zip(sizes_kb, trials, strict=True)
                if size is not None
            ]
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
        self._trials.measure_all(chosen, wanted.repetitions)
        if "bulk-read" in parts:
            self._find_bulk_knee(bulk)
        if "vacuum" in parts:
            self._find_vacuum_knee(vacuums)

    def _find_bulk_knee(self, trial: Trial) -> None:
        sizes = {arm.name: arm.settings.get(BULK_SIZE, CORE_SIZE) for arm in trial.arms}
        points = [
            (_kilobytes(size), self._median_ms(trial, arm))
            for arm, size in sizes.items()
            if size != CORE_SIZE
        ]
        self._find_size_knee(BULK_SIZE, points)

    def _find_vacuum_knee(self, trials: Sequence[Trial]) -> None:
        """Each io_combine_limit with the maintenance_io_concurrency that is best there."""
        points = [
            (_kilobytes(limit), min(self._median_ms(trial, arm.name) for arm in trial.arms))
            for limit, trial in zip(self._wanted.combine_limits, trials, strict=True)
        ]
        self._find_size_knee("io_combine_limit for VACUUM", points)

    def _find_size_knee(self, what: str, points: Sequence[tuple[float, float]]) -> None:
        if len(points) > 1:
            self._run.find("note", f"knee of {what}: {knee_of(points):.0f} kB")


def _kilobytes(size: str) -> float:
    return float(MemorySize().parse(size))


def _estimated_seconds(wanted: SeqScans) -> float:
    parts = set(wanted.part)
    rounds, places = wanted.repetitions, len(wanted.read_ahead) or 1
    wide_bytes, read_aheads = wanted.table_size * 1024, parts & set(_ON_READ_AHEAD)
    accounts_bytes = wanted.scale * _ROWS_PER_SCALE * _ACCOUNT_BYTES
    scans = _ARMS_OF_SCAN * rounds * places if "scan" in parts else 0
    lookups = len(LOOKUP_ARMS) * rounds * places if "lookups" in parts else 0
    bulk = (2 + len(wanted.bulk_sizes)) * rounds if "bulk-read" in parts else 0
    vacuums = len(wanted.combine_limits) * len(wanted.depths) * rounds if "vacuum" in parts else 0
    return (
        (scans + lookups + bulk + vacuums) * COLD_RESTART_SECONDS
        + bool(read_aheads) * wide_bytes / _BUILD_BYTES_PER_SECOND
        + bool(parts - read_aheads) * accounts_bytes / _BUILD_BYTES_PER_SECOND
        + scans * wide_bytes / _SCAN_BYTES_PER_SECOND
        + (bulk + vacuums) * accounts_bytes / _SCAN_BYTES_PER_SECOND
        + lookups * wanted.seconds
    )


EXPERIMENT = Experiment(
    name="seq-scan",
    summary="Cold sequential scans and COPY by the disk's read-ahead; bulk reads; VACUUM.",
    description="Also random lookups of single rows at each "
    "read-ahead. And the size of bulk reads on pgbench's table, and its VACUUM.",
    asked=SeqScans,
    needed_bytes=_needed_bytes,
    estimated_seconds=_estimated_seconds,
    measure=lambda run, wanted: _SeqScan(run, wanted).measure(),
    settle=_settle,
    surround=_disk,
)
