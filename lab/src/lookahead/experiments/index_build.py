"""The experiment "index-build": the same index built by stock and by pg_lookahead.

The table lies in the cache of the operating system and does not change. Each sample has a session
of its own; before it the index of the last one is dropped and a checkpoint is made, so that no
sample pays for another's writes. The pages of the first round are compared, outside of LSN and
checksum: a build that is faster and different is no success.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Generic, TypeVar

from lookahead.account import acting_as_owner
from lookahead.errors import LabError
from lookahead.experiments.arms import arm_of, connect_arm
from lookahead.experiments.built_index import builds_so_far, check_builder, pages_sha256
from lookahead.experiments.conditions import (
    MADE_BY_STOCK,
    check_visible,
    fetch_row,
    fill_table,
    relation_path,
    wal_bytes_since,
    wal_position,
)
from lookahead.experiments.experiment import (
    REPETITIONS,
    Choice,
    Count,
    Experiment,
    MemorySize,
    Option,
)
from lookahead.experiments.index_build_keys import (
    COLUMNS,
    INDEX,
    INDEX_ROW_BYTES,
    KEYS,
    ROW_BYTES,
    TABLE,
    Conditions,
    fill_statement,
)
from lookahead.experiments.runner import Run
from lookahead.experiments.trials import Trial, Trials, alternate
from lookahead.measurements import Arm, Question, Sample
from lookahead.report.sentences import labelling
from lookahead.server import Session
from lookahead.terminal import ProgressBar

ConditionsT = TypeVar("ConditionsT", bound=Conditions)
STOCK, OURS = "stock", "ours"
ARMS = (arm_of(STOCK, ""), arm_of(OURS, "", "on"))
BUILD_SETTINGS = {
    **MADE_BY_STOCK,
    "shared_buffers": "512MB",
    "wal_level": "replica",
    "autovacuum": "off",
    "jit": "off",
    # No checkpoint but those between the samples.
    "checkpoint_timeout": "1h",
    "max_wal_size": "32GB",
}
_MAX_ROWS = 1_000_000_000
_MAX_WORKERS = 8  # of the default max_worker_processes
_MAX_MEMORY_KB = 1024 * 1024 * 1024
LARGE_MEMORY_KB, SMALL_MEMORY_KB = 512 * 1024, 64 * 1024
# What estimates of a run's time go by: a row of a table, a row of an index by stock and by ours, on
# average over the keys; measured on a virtual machine with two processors.
_TABLE_SECONDS_PER_ROW, _BUILD_SECONDS_PER_ROW = 4e-6, 1.5e-6
_SECONDS_PER_BUILD = 0.15
_DEMO_KEYS = ("int-sorted", "bigint-random", "int-few", "text-c")
ROWS = Option(Count(1, _MAX_ROWS), "Rows of the table.")
WORKERS = Option(Count(0, _MAX_WORKERS), "Parallel workers of a build.")
MEMORY = Option(MemorySize(1024, _MAX_MEMORY_KB), "maintenance_work_mem.")


@dataclass(frozen=True)
class IndexBuilds:
    """What is wanted, sizes in kB; of each setting the first value is the one for all keys."""

    repetitions: int = REPETITIONS.sized(6)
    key: tuple[str, ...] = Option(
        Choice(tuple(KEYS)), "What is indexed, such as bigint-random; a wrong name lists all."
    ).sized(tuple(KEYS), demo=_DEMO_KEYS)
    rows: int = ROWS.sized(2_000_000, demo=500_000, full=30_000_000)
    workers: tuple[int, ...] = WORKERS.sized((0,), full=(0, 2))
    memory: tuple[int, ...] = MEMORY.sized(
        (LARGE_MEMORY_KB,), full=(LARGE_MEMORY_KB, SMALL_MEMORY_KB)
    )


def conditions_for(wanted: IndexBuilds) -> Iterator[Conditions]:
    """Of each key the first value of every setting, then the further values of one at a time."""
    for key in (KEYS[name] for name in wanted.key):
        first = Conditions(key, wanted.rows, wanted.workers[0], wanted.memory[0])
        yield first
        yield from (replace(first, workers=workers) for workers in wanted.workers[1:])
        yield from (replace(first, memory_kb=memory) for memory in wanted.memory[1:])


def trial_of(conditions: Conditions) -> Trial:
    """One index by stock and by us; the server runs already."""
    scenario = conditions.scenario
    return Trial(
        scenario=scenario,
        statement=conditions.key.build,
        arms=ARMS,
        questions=(Question(scenario, STOCK, (STOCK,), (OURS,)),),
        server={},
    )


class Builds(Generic[ConditionsT]):
    """The builds of a run."""

    def __init__(self, run: Run, repetitions: int) -> None:
        self.run = run
        self.server = run.server
        self._repetitions = repetitions
        self.trials = Trials[Trial](run)

    def measure(self, conditions: Sequence[ConditionsT]) -> None:
        self.trials.label = labelling(one.scenario for one in conditions)
        self.server.start()
        with self.server.connect() as connection:
            self.run.record_settings(connection)
            connection.execute("CREATE EXTENSION pg_lookahead")
            total = len(conditions) * self._repetitions * len(ARMS)
            with self.run.terminal.progress(total) as bar:
                self.measure_tables(connection, conditions, bar)

    def measure_tables(
        self, connection: Session, conditions: Sequence[ConditionsT], bar: ProgressBar
    ) -> None:
        """All builds on the table, every page of which is all-visible."""
        rows, seed = conditions[0].rows, self.run.document.parameters.seed
        bar.describe(f"making a table of {rows:,} rows")
        table = fill_table(connection, TABLE, COLUMNS, fill_statement(rows, seed))
        self.trials.add_table(check_visible(connection, table))
        for one in conditions:
            self.measure_one(connection, one, bar)

    def measure_one(self, connection: Session, conditions: ConditionsT, bar: ProgressBar) -> None:
        self.trials.begin(trial_of(conditions))
        for number, arm in alternate(ARMS, self._repetitions):
            bar.describe(f"{self.trials.label(conditions.scenario)}: {arm.name}")
            self._add(self._sample(connection, conditions, number, arm))
            bar.advance()

    def build(self, builder: Session, conditions: ConditionsT, arm: Arm) -> Sample:
        """One build; the index stays."""
        before, position = builds_so_far(builder), wal_position(builder)
        started = monotonic()
        builder.execute(conditions.key.build)
        time_ms = round((monotonic() - started) * 1000, 3)
        (index_bytes,) = fetch_row(builder, f"SELECT pg_relation_size('{INDEX}')")
        built = builds_so_far(builder) - before
        check_builder(builder, conditions.key, arm, built)
        counts = {
            "built_by_us": built,
            "wal_bytes": wal_bytes_since(builder, position),
            "index_bytes": index_bytes,
        }
        return Sample(conditions.scenario, 0, 0, arm.name, time_ms, (time_ms,), counts=counts)

    def _sample(
        self, connection: Session, conditions: ConditionsT, number: int, arm: Arm
    ) -> Sample:
        """One build; the index is gone afterwards."""
        connection.execute("CHECKPOINT")
        with connect_arm(self.server, arm) as builder:
            for name, value in conditions.settings().items():
                builder.execute(f"SET {name} = '{value}'")
            sample = self.build(builder, conditions, arm)
            sha256 = self._pages_sha256(builder) if number == 0 else None
            builder.execute(conditions.key.drop)
        return replace(sample, round=number, sha256=sha256)

    def _pages_sha256(self, connection: Session) -> str:
        path = relation_path(connection, self.server.data_directory, INDEX)
        with acting_as_owner(self.server.data_directory):
            return pages_sha256(path)

    def _add(self, sample: Sample) -> None:
        """Keep a sample; LabError when its pages are not those of the round's other arm."""
        for other in self.trials.data.samples:
            same_round = (other.scenario, other.round) == (sample.scenario, sample.round)
            if same_round and other.sha256 != sample.sha256:
                raise LabError(
                    f"pg_lookahead built other pages than stock: {sample.scenario.label}",
                    "This is a bug of pg_lookahead, report it.",
                )
        self.trials.add_samples([sample])


def space_for(rows: int, tables: int = 1) -> int:
    """Bytes of the tables, the largest index, and both once more in the WAL."""
    return rows * 2 * (tables * ROW_BYTES + INDEX_ROW_BYTES)


def seconds_of(rows: int, builds: int, tables: int = 1) -> float:
    """About how long so many builds and the tables take."""
    build = _SECONDS_PER_BUILD + rows * _BUILD_SECONDS_PER_ROW
    return tables * rows * _TABLE_SECONDS_PER_ROW + builds * build


def _estimated_seconds(wanted: IndexBuilds) -> float:
    builds = len(list(conditions_for(wanted))) * wanted.repetitions * len(ARMS)
    return seconds_of(wanted.rows, builds)


def _measure(run: Run, wanted: IndexBuilds) -> None:
    Builds[Conditions](run, wanted.repetitions).measure(list(conditions_for(wanted)))


EXPERIMENT = Experiment(
    name="index-build",
    summary="CREATE INDEX over a table in the cache, of many kinds of keys.",
    description="Of a setting with several values the first one is measured with every key, the "
    "others one at a time.",
    asked=IndexBuilds,
    settings=lambda wanted: BUILD_SETTINGS,
    needed_bytes=lambda wanted: space_for(wanted.rows),
    estimated_seconds=_estimated_seconds,
    measure=_measure,
)
