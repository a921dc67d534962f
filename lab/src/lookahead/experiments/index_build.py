"""The experiment "index-build": the same index built by stock and by pg_lookahead.

The table lies in the cache of the operating system and does not change. Each sample has a session
of its own; before it the index of the last one is dropped and a checkpoint is made, so that no
sample pays for another's writes. The pages of the first round are compared, outside of LSN and
checksum: a build that is faster and different is no success.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import monotonic

from lookahead.account import acting_as_owner
from lookahead.errors import LabError, UnavailableError
from lookahead.experiments.arms import arm_of, connect_arm
from lookahead.experiments.conditions import MADE_BY_STOCK, fetch_row, relation_path
from lookahead.experiments.experiment import (
    REPETITIONS,
    Choice,
    Count,
    Experiment,
    MemorySize,
    Option,
    memory_label,
    refuse_unused,
)
from lookahead.experiments.index_build_keys import (
    INDEX_ROW_BYTES,
    KEYS,
    PGBENCH_TABLE,
    ROW_BYTES,
    TABLE,
    BuildKey,
    Conditions,
    make_pgbench_table,
    make_table,
    vacuum,
)
from lookahead.experiments.index_build_watch import (
    BuildWatch,
    builds_so_far,
    check_builder,
    pages_sha256,
)
from lookahead.experiments.runner import Run
from lookahead.experiments.trials import Trial, Trials, alternate
from lookahead.measurements import Arm, Question, Sample
from lookahead.server import Session
from lookahead.terminal import ProgressBar

STOCK, OURS = "stock", "ours"
ARMS = (arm_of(STOCK, ""), arm_of(OURS, "", "on"))
DEFAULT_EXTEND_KB = 4096
# Steps of extension are varied on these; elsewhere they would tell nothing new.
_EXTEND_KEYS = ("bigint-random", "pgbench")
_SETTINGS = {
    **MADE_BY_STOCK,
    "shared_buffers": "512MB",
    "wal_level": "replica",
    "autovacuum": "off",
    "jit": "off",
    # No checkpoint but those between the samples.
    "checkpoint_timeout": "1h",
    "max_wal_size": "32GB",
}
# Tables so small that a build is over in a few milliseconds are indexed so often for a sample, of
# which the build of median time counts. Others have parallel workers whatever their size, where
# workers are allowed at all.
_SMALL_ROWS = 10_000
_SMALL_BUILDS = 50
_MAX_ROWS = 1_000_000_000
_MAX_WORKERS = 8  # of the default max_worker_processes
_MAX_MEMORY_KB = 1024 * 1024 * 1024
_MAX_EXTEND_KB = 64 * 1024  # the setting's own bound
# What estimates of a run's time go by: a row of a table, a row of an index by stock and by ours, on
# average over the keys; measured on a virtual machine with two processors.
_TABLE_SECONDS_PER_ROW, _BUILD_SECONDS_PER_ROW = 4e-6, 1.5e-6
_SECONDS_PER_BUILD = 0.15


_DEMO_KEYS = ("int-sorted", "bigint-random", "int-few", "text-c")
_FULL_ONLY_KEYS = (
    "text-icu",
    "text-libc",
    "int-reverse",
    "reindex",
    "concurrent-bigint",
    "concurrent-text",
)
_QUICK_KEYS = tuple(name for name in KEYS if name not in _FULL_ONLY_KEYS)
_LARGE_MEMORY_KB, _SMALL_MEMORY_KB = 512 * 1024, 64 * 1024


@dataclass(frozen=True)
class IndexBuilds:
    """What is wanted, sizes in kB; of each setting the first value is the one for all keys."""

    repetitions: int = REPETITIONS.sized(6)
    key: tuple[str, ...] = Option(
        Choice(tuple(KEYS)),
        "What is indexed, such as bigint-random; a wrong name lists all.",
        default="all, with --demo and --quick the quicker ones",
    ).sized(_QUICK_KEYS, demo=_DEMO_KEYS, full=tuple(KEYS))
    rows: int = Option(Count(1, _MAX_ROWS), "Rows of the table.").sized(
        2_000_000, demo=500_000, full=30_000_000
    )
    workers: tuple[int, ...] = Option(
        Count(0, _MAX_WORKERS), "max_parallel_maintenance_workers."
    ).sized((0,), full=(0, 2))
    memory: tuple[int, ...] = Option(
        MemorySize(1024, _MAX_MEMORY_KB), "maintenance_work_mem."
    ).sized((_LARGE_MEMORY_KB,), full=(_LARGE_MEMORY_KB, _SMALL_MEMORY_KB))
    extend_size: tuple[int, ...] = Option(
        MemorySize(0, _MAX_EXTEND_KB), "pg_lookahead.index_build_extend_size."
    ).sized(
        (DEFAULT_EXTEND_KB, 0),
        demo=(DEFAULT_EXTEND_KB,),
        full=(DEFAULT_EXTEND_KB, 0, 64, 1024, 16384),
    )


def conditions_for(key: BuildKey, wanted: IndexBuilds) -> Iterator[Conditions]:
    """The first value of every setting, then the further values of one setting at a time."""
    first = Conditions(key, wanted.rows, wanted.workers[0], wanted.memory[0], wanted.extend_size[0])
    yield first
    yield from (replace(first, workers=workers) for workers in wanted.workers[1:])
    yield from (replace(first, memory_kb=memory) for memory in wanted.memory[1:])
    if key.name in _EXTEND_KEYS:
        yield from (replace(first, extend_kb=extend) for extend in wanted.extend_size[1:])


def trial_of(conditions: Conditions) -> Trial:
    """One index by stock and by us; the server runs already."""
    scenario = conditions.scenario
    return Trial(
        scenario=scenario,
        statement=conditions.key.build,
        arms=ARMS,
        questions=(Question(scenario, STOCK, (STOCK,), (OURS,)),),
        server={},
        cold=False,
    )


@dataclass(frozen=True)
class _Build:
    """One build of an index: its time, and what was counted and seen of it alone."""

    time_ms: float
    counts: dict[str, float]


class _IndexBuild:
    """One run of the experiment."""

    def __init__(self, run: Run, wanted: IndexBuilds) -> None:
        self._run = run
        self._server = run.server
        self._wanted = wanted
        self._trials = Trials(run)

    def measure(self) -> None:
        """Make the tables, then take all samples."""
        self._server.start()
        with self._server.connect() as connection:
            self._run.record_settings(connection)
            connection.execute("CREATE EXTENSION pg_lookahead")
            keys = self._available(connection)
            conditions = {key: list(conditions_for(key, self._wanted)) for key in keys}
            total = sum(map(len, conditions.values())) * self._wanted.repetitions * len(ARMS)
            with self._run.terminal.progress(total) as bar:
                self._measure_tables(connection, conditions, bar)

    def _measure_tables(
        self, connection: Session, conditions: dict[BuildKey, list[Conditions]], bar: ProgressBar
    ) -> None:
        """Fresh keys come before the vacuum, pgbench's table last and alone on the disk."""
        seed = self._run.document.parameters.seed
        own = [key for key in conditions if key.table == TABLE]
        if own:
            bar.describe(f"making a table of {self._wanted.rows:,} rows")
            self._trials.add_table(make_table(connection, self._wanted.rows, seed))
            for fresh in (True, False):
                if not fresh:
                    vacuum(connection, TABLE)
                for key in own:
                    if key.fresh is fresh:
                        self._measure_key(connection, conditions[key], bar)
            connection.execute(f"DROP TABLE {TABLE}")
        for key in conditions.keys() - set(own):
            bar.describe(f"pgbench makes {self._wanted.rows:,} accounts")
            self._trials.add_table(make_pgbench_table(self._server, connection, self._wanted.rows))
            self._measure_key(connection, conditions[key], bar)
            connection.execute(f"DROP TABLE {PGBENCH_TABLE}")

    def _measure_key(
        self, connection: Session, conditions: list[Conditions], bar: ProgressBar
    ) -> None:
        for one in conditions:
            self._trials.begin(trial_of(one))
            for number, arm in alternate(ARMS, self._wanted.repetitions):
                bar.describe(f"{describe(one)}, {arm.name}")
                self._add(self._sample(connection, one, number, arm))
                bar.advance()

    def _sample(self, connection: Session, conditions: Conditions, number: int, arm: Arm) -> Sample:
        """One build, of a small table the median one of several; the index is gone afterwards.

        `connection` watches it.
        """
        key = conditions.key
        if key.command == "reindex":
            connection.execute(key.create)
        connection.execute("CHECKPOINT")
        with connect_arm(self._server, arm) as builder:
            _configure(builder, conditions)
            builds = list(_builds(builder, connection, conditions, arm))
            chosen = sorted(builds, key=lambda one: one.time_ms)[(len(builds) - 1) // 2]
            sample = Sample(
                scenario=conditions.scenario,
                round=number,
                sequence=0,
                arm=arm.name,
                time_ms=chosen.time_ms,
                session_ms=(chosen.time_ms,),
                executions=len(builds),
                counts=chosen.counts,
                sha256=self._pages_sha256(builder, key.index) if number == 0 else None,
            )
            builder.execute(key.drop)
        return sample

    def _pages_sha256(self, connection: Session, relation: str) -> str:
        path = relation_path(connection, self._server.data_directory, relation)
        with acting_as_owner(self._server.data_directory):
            return pages_sha256(path)

    def _available(self, connection: Session) -> list[BuildKey]:
        """The keys to measure, without those that need what the server lacks."""
        keys = []
        for key in (KEYS[name] for name in self._wanted.key):
            if key.collation is None or key.collation.is_there(connection):
                keys.append(key)
            elif "key" in self._run.explicit:
                raise UnavailableError(key.collation.missing, key.collation.hint)
            else:
                self._run.find("note", f"{key.name} is left out: {key.collation.missing}")
        return keys

    def _add(self, sample: Sample) -> None:
        """Keep a sample; LabError when its pages are not those of the round's other arm."""
        for other in self._trials.data.samples:
            same_round = (other.scenario, other.round) == (sample.scenario, sample.round)
            if same_round and other.sha256 != sample.sha256:
                raise LabError(
                    f"pg_lookahead built other pages than stock: {sample.scenario.label}",
                    "This is a bug of pg_lookahead, report it.",
                )
        self._trials.add_samples([sample])


def _builds(
    builder: Session, watcher: Session, conditions: Conditions, arm: Arm
) -> Iterator[_Build]:
    """Build the index, over a small table several times; the last one is kept."""
    key = conditions.key
    for number in range(_SMALL_BUILDS if conditions.rows <= _SMALL_ROWS else 1):
        if number > 0 and key.command != "reindex":
            builder.execute(key.drop)
        before = builds_so_far(builder)
        (position,) = fetch_row(builder, "SELECT pg_current_wal_insert_lsn()")
        with BuildWatch(watcher, builder.info.backend_pid) as watch:
            started = monotonic()
            builder.execute(key.build)
            time_ms = round((monotonic() - started) * 1000, 3)
        counts = _counts(builder, conditions, watch, position)
        built = builds_so_far(builder) - before
        check_builder(builder, key, arm, built)
        yield _Build(time_ms, {"built_by_us": built, **counts})


def _configure(connection: Session, conditions: Conditions) -> None:
    for name, value in (
        ("maintenance_work_mem", f"{conditions.memory_kb}kB"),
        ("max_parallel_maintenance_workers", str(conditions.workers)),
        ("min_parallel_table_scan_size", "8MB" if conditions.rows <= _SMALL_ROWS else "0"),
        ("pg_lookahead.index_build_extend_size", f"{conditions.extend_kb}kB"),
    ):
        connection.execute(f"SET {name} = '{value}'")


def _counts(
    connection: Session, conditions: Conditions, watch: BuildWatch, position: str
) -> dict[str, float]:
    """What is known of a build beside its time; the WAL since `position` is its own."""
    key = conditions.key
    wal_bytes, index_bytes = fetch_row(
        connection,
        f"SELECT pg_current_wal_insert_lsn() - '{position}'::pg_lsn, "
        f"pg_relation_size('{key.index}')",
    )
    counts = {
        "wal_bytes": float(wal_bytes),
        "index_bytes": index_bytes,
        "allowed_memory_bytes": conditions.memory_kb * 1024,
        "workers_seen": watch.workers_seen,
    }
    if watch.peak_memory_bytes is not None:
        counts["peak_memory_bytes"] = watch.peak_memory_bytes
    return counts | watch.phases


def describe(conditions: Conditions) -> str:
    """Such as "bigint, random: 0 workers, 512 MB, extended by 4096 kB"."""
    memory = memory_label(conditions.memory_kb)
    return (
        f"{conditions.key.title}: {conditions.workers} workers, {memory}, "
        f"extended by {conditions.extend_kb} kB"
    )


def _settle(wanted: IndexBuilds, explicit: frozenset[str]) -> IndexBuilds:
    """As it is; LabError for steps of extension that no key is built with."""
    if len(wanted.extend_size) > 1 and not set(wanted.key) & set(_EXTEND_KEYS):
        refuse_unused(explicit, ("extend_size",), f"--key {' or '.join(_EXTEND_KEYS)}")
    return wanted


def _needed_bytes(wanted: IndexBuilds) -> int:
    """The tables, the largest index, and both once more in the WAL."""
    tables = len({KEYS[name].table for name in wanted.key})
    return wanted.rows * 2 * (tables * ROW_BYTES + INDEX_ROW_BYTES)


def _estimated_seconds(wanted: IndexBuilds) -> float:
    tables = len({KEYS[name].table for name in wanted.key})
    scenarios = sum(1 for name in wanted.key for _ in conditions_for(KEYS[name], wanted))
    build = _SECONDS_PER_BUILD + wanted.rows * _BUILD_SECONDS_PER_ROW
    builds = scenarios * wanted.repetitions * len(ARMS)
    return tables * wanted.rows * _TABLE_SECONDS_PER_ROW + builds * build


EXPERIMENT = Experiment(
    name="index-build",
    summary="CREATE INDEX over a table in the cache, of many kinds of keys.",
    description="Of a setting with several values the first one is measured with every key, the "
    "others one at a time.",
    cold=False,
    asked=IndexBuilds,
    settings=lambda wanted: _SETTINGS,
    needed_bytes=_needed_bytes,
    estimated_seconds=_estimated_seconds,
    measure=lambda run, wanted: _IndexBuild(run, wanted).measure(),
    settle=_settle,
)
