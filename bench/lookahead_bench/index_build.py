"""The experiment "index-build": the lab's keys, and further ones.

Texts in collations that not every server has; REINDEX and CREATE INDEX CONCURRENTLY; a table of
which no page is all-visible; the primary key of pgbench. Tables so small that a build is over in a
few milliseconds are indexed so often for a sample, of which the build of median time counts.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import psycopg

from lookahead.errors import UnavailableError
from lookahead.experiments.conditions import check_visible, table_facts
from lookahead.experiments.experiment import (
    REPETITIONS,
    Choice,
    Experiment,
    Option,
)
from lookahead.experiments.index_build import (
    ARMS,
    BUILD_SETTINGS,
    LARGE_MEMORY_KB,
    MEMORY,
    ROWS,
    SMALL_MEMORY_KB,
    WORKERS,
    Builds,
    seconds_of,
    space_for,
)
from lookahead.experiments.index_build_keys import (
    COLUMNS,
    INDEX,
    TABLE,
    BuildKey,
    Conditions,
    fill_statement,
)
from lookahead.experiments.index_build_keys import KEYS as LAB_KEYS
from lookahead.experiments.runner import Run
from lookahead.measurements import Arm, Sample, Table
from lookahead.server import PrivateServer, Session
from lookahead.terminal import ProgressBar
from lookahead_bench.build_watch import BuildWatch

PGBENCH_TABLE = "pgbench_accounts"
_ROWS_PER_SCALE = 100_000  # pgbench's
Command = Literal["create", "concurrently", "reindex"]
# Others have parallel workers whatever their size, where workers are allowed at all.
_SMALL_ROWS = 10_000
_SMALL_BUILDS = 50


@dataclass(frozen=True)
class Collation:
    """A collation that not every server has: what says that it is missing, and what to do."""

    name: str
    provider: Literal["icu", "libc"]
    locale: str
    missing: str
    hint: str

    def is_there(self, connection: Session) -> bool:
        """Whether it can be used, made if need be."""
        try:
            connection.execute(
                f"CREATE COLLATION IF NOT EXISTS {self.name} "
                f"(provider = {self.provider}, locale = '{self.locale}')"
            )
        except (psycopg.errors.InvalidParameterValue, psycopg.errors.FeatureNotSupported):
            return False
        return True


_ICU = Collation(
    "lookahead_icu",
    "icu",
    "und",
    "this server was built without ICU",
    "Leave text-icu out, or name another server with --pg-config.",
)
_LIBC = Collation(
    "lookahead_libc",
    "libc",
    "en_US.UTF-8",
    "the C library has no locale en_US.UTF-8",
    "Leave text-libc out, or make it: localedef -i en_US -f UTF-8 en_US.UTF-8 (as root).",
)


@dataclass(frozen=True)
class Key(BuildKey):
    """`collation` is what the definition needs.

    A `fresh` key is measured before the table is vacuumed: none of its pages is all-visible.
    `command` is what builds the index.
    """

    table: str = TABLE
    collation: Collation | None = None
    fresh: bool = False
    command: Command = "create"

    @property
    def build(self) -> str:
        return f"REINDEX INDEX {INDEX}" if self.command == "reindex" else self.create

    @property
    def create(self) -> str:
        if self.table == PGBENCH_TABLE:
            return (
                f"ALTER TABLE {self.table} ADD CONSTRAINT {INDEX} PRIMARY KEY ({self.definition})"
            )
        concurrently = "CONCURRENTLY " if self.command == "concurrently" else ""
        return super().create.replace(INDEX, f"{concurrently}{INDEX}", 1)

    @property
    def drop(self) -> str:
        if self.table == PGBENCH_TABLE:
            return f"ALTER TABLE {self.table} DROP CONSTRAINT {INDEX}"
        return super().drop


_OWN_KEYS = (
    Key("text-icu", f"name COLLATE {_ICU.name}", collation=_ICU),
    Key("text-libc", f"name COLLATE {_LIBC.name}", collation=_LIBC),
    Key("text-libc-sorted", f"lpad(id::text, 12, '0') COLLATE {_LIBC.name}", collation=_LIBC),
    Key("numeric", "(random::numeric)"),
    Key("reindex", "random", command="reindex"),
    Key("concurrent-bigint", "random", command="concurrently"),
    Key("concurrent-text", 'name COLLATE "C"', command="concurrently"),
    Key("not-vacuumed", "random", fresh=True),
    Key("concurrent-not-vacuumed", "random", fresh=True, command="concurrently"),
    Key("pgbench", "aid", unique=True, table=PGBENCH_TABLE),
)
KEYS = {
    **{name: Key(**vars(key)) for name, key in LAB_KEYS.items()},
    **{key.name: key for key in _OWN_KEYS},
}
_QUICK_KEYS = ("bigint-random", "not-vacuumed", "pgbench")
_DEMO_KEYS = ("bigint-random", "not-vacuumed")


@dataclass(frozen=True)
class BuildConditions(Conditions):
    """Small tables have parallel workers only where other tables have them."""

    key: Key

    def settings(self) -> dict[str, str]:
        settings = super().settings()
        if self.workers and self.rows <= _SMALL_ROWS:
            settings["min_parallel_table_scan_size"] = "8MB"
        return settings


@dataclass(frozen=True)
class IndexBuilds:
    """What is wanted, sizes in kB; of each setting the first value is the one for all keys."""

    repetitions: int = REPETITIONS.sized(6)
    key: tuple[str, ...] = Option(
        Choice(tuple(KEYS)), "What is indexed, such as bigint-random; a wrong name lists all."
    ).sized(_QUICK_KEYS, demo=_DEMO_KEYS, full=("bigint-random", *(key.name for key in _OWN_KEYS)))
    rows: int = ROWS.sized(2_000_000, demo=500_000, full=30_000_000)
    workers: tuple[int, ...] = WORKERS.sized((0,), full=(0, 2))
    memory: tuple[int, ...] = MEMORY.sized(
        (LARGE_MEMORY_KB,), full=(LARGE_MEMORY_KB, SMALL_MEMORY_KB)
    )


def conditions_for(key: Key, wanted: IndexBuilds) -> Iterator[BuildConditions]:
    """The first value of every setting, then the further values of one setting at a time."""
    first = BuildConditions(key, wanted.rows, wanted.workers[0], wanted.memory[0])
    yield first
    yield from (replace(first, workers=workers) for workers in wanted.workers[1:])
    yield from (replace(first, memory_kb=memory) for memory in wanted.memory[1:])


class _Builds(Builds[BuildConditions]):
    """Of several tables, by several commands, each build watched."""

    _watcher: Session

    def measure_tables(
        self, connection: Session, conditions: Sequence[BuildConditions], bar: ProgressBar
    ) -> None:
        """Fresh keys come before the vacuum, pgbench's table last and alone on the disk."""
        self._watcher = connection
        conditions = list(self._available(connection, conditions))
        own = [one for one in conditions if one.key.table == TABLE]
        if own:
            rows, seed = own[0].rows, self.run.document.parameters.seed
            bar.describe(f"making a table of {rows:,} rows")
            started = time.monotonic()
            connection.execute(f"CREATE TABLE {TABLE} ({COLUMNS})")
            connection.execute(fill_statement(rows, seed))
            made_s = time.monotonic() - started
            # Whoever reads rows first sets their hint bits: not a build.
            connection.execute(f"SELECT count(*) FROM {TABLE}")
            for one in own:
                if one.key.fresh:
                    self.measure_one(connection, one, bar)
            started = time.monotonic() - made_s
            self.trials.add_table(_vacuumed(connection, TABLE, started))
            for one in own:
                if not one.key.fresh:
                    self.measure_one(connection, one, bar)
            connection.execute(f"DROP TABLE {TABLE}")
        others = [one for one in conditions if one.key.table == PGBENCH_TABLE]
        if others:
            bar.describe(f"pgbench makes {others[0].rows:,} accounts")
            self.trials.add_table(make_pgbench_table(self.server, connection, others[0].rows))
            for one in others:
                self.measure_one(connection, one, bar)

    def build(self, builder: Session, conditions: BuildConditions, arm: Arm) -> Sample:
        """Over a small table the median of several builds; the last one stays."""
        key, builds = conditions.key, []
        if key.command == "reindex":
            builder.execute(key.create)
            builder.execute("CHECKPOINT")
        for number in range(_SMALL_BUILDS if conditions.rows <= _SMALL_ROWS else 1):
            if number > 0 and key.command != "reindex":
                builder.execute(key.drop)
            with BuildWatch(self._watcher, builder.info.backend_pid) as watch:
                built = super().build(builder, conditions, arm)
            allowed = {"allowed_memory_bytes": float(conditions.memory_kb * 1024)}
            builds.append(replace(built, counts={**built.counts, **allowed, **watch.counts}))
        chosen = sorted(builds, key=lambda one: one.time_ms)[(len(builds) - 1) // 2]
        return replace(chosen, executions=len(builds))

    def _available(
        self, connection: Session, conditions: Sequence[BuildConditions]
    ) -> Iterator[BuildConditions]:
        """Without keys that need what the server lacks; LabError for one that was named."""
        missing: dict[str, Collation] = {}
        for one in conditions:
            collation = one.key.collation
            if collation is None or collation.is_there(connection):
                yield one
            elif "key" in self.run.explicit:
                raise UnavailableError(collation.missing, collation.hint)
            else:
                missing[one.key.name] = collation
        for name, collation in missing.items():
            self.run.find("note", f"{name} is left out: {collation.missing}")


def _vacuumed(connection: Session, name: str, started: float) -> Table:
    """What is known of a table whose pages are all-visible now; LabError when some are not."""
    connection.execute(f"VACUUM (FREEZE, ANALYZE) {name}")
    return check_visible(connection, table_facts(connection, name, started))


def make_pgbench_table(server: PrivateServer, connection: Session, rows: int) -> Table:
    """Let pgbench make its tables without keys, of at least one of its units."""
    started = time.monotonic()
    scale = max(rows // _ROWS_PER_SCALE, 1)
    server.run_client("pgbench", "-i", "-I", "dtG", "-q", "-s", str(scale))
    return _vacuumed(connection, PGBENCH_TABLE, started)


def _conditions(wanted: IndexBuilds) -> list[BuildConditions]:
    return [one for name in wanted.key for one in conditions_for(KEYS[name], wanted)]


def _measure(run: Run, wanted: IndexBuilds) -> None:
    _Builds(run, wanted.repetitions).measure(_conditions(wanted))


def _tables(wanted: IndexBuilds) -> int:
    return len({KEYS[name].table for name in wanted.key})


EXPERIMENT = Experiment(
    name="index-build",
    summary="CREATE INDEX of further kinds.",
    description="Of a setting with several values the first one is measured with every key, the "
    "others one at a time.",
    asked=IndexBuilds,
    settings=lambda wanted: BUILD_SETTINGS,
    needed_bytes=lambda wanted: space_for(wanted.rows, _tables(wanted)),
    estimated_seconds=lambda wanted: seconds_of(
        wanted.rows,
        len(_conditions(wanted)) * wanted.repetitions * len(ARMS),
        _tables(wanted),
    ),
    measure=_measure,
)
