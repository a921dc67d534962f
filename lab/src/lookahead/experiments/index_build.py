"""The experiment "index-build": the same index built by stock and by pg_lookahead.

The table lies in the cache of the operating system and does not change. Each sample has a session
of its own; before it the index of the last one is dropped and a checkpoint is made, so that no
sample pays for another's writes. The pages of the first pair are compared, outside of LSN and
checksum: a build that is faster and different is no success.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

import psycopg

from lookahead.account import acting_as_owner
from lookahead.build_comparisons import (
    build_scenarios_of,
    compare_validated_builds,
    compare_workers,
    peak_memory_share,
)
from lookahead.build_measurements import BuildSample, BuildScenario, IndexBuildData
from lookahead.errors import ExitStatus, LabError
from lookahead.experiments.index_build_keys import (
    INDEX_ROW_BYTES,
    KEYS,
    PGBENCH_TABLE,
    ROW_BYTES,
    TABLE,
    BuildKey,
    make_pgbench_table,
    make_table,
    vacuum,
)
from lookahead.experiments.index_build_pages import pages_sha256
from lookahead.experiments.index_build_watch import BuildWatch
from lookahead.experiments.request import IndexBuildRequest, Size
from lookahead.experiments.runner import Run, open_run
from lookahead.experiments.trials import alternate
from lookahead.render import ProgressBar, Terminal
from lookahead.results import Parameters
from lookahead.scan_measurements import ARMS, Arm

DEFAULT_EXTEND_KB = 4096
# Steps of extension are varied on these; elsewhere they would tell nothing new.
_EXTEND_KEYS = ("bigint-random", "pgbench")
_SETTINGS = {
    "shared_buffers": "512MB",
    "wal_level": "replica",
    "autovacuum": "off",
    "jit": "off",
    # No checkpoint but those between the samples.
    "checkpoint_timeout": "1h",
    "max_wal_size": "32GB",
}
# Tables so small that a build is over in a few milliseconds are indexed so often for a sample.
# Others have parallel workers whatever their size, where workers are allowed at all.
_SMALL_ROWS = 10_000
_SMALL_BUILDS = 50
_BUILT = "SELECT scans, fallbacks FROM pg_stat_lookahead WHERE feature = 'index_build'"


@dataclass(frozen=True)
class SizeDefaults:
    """What a size measures; of each setting the first value is the one for all keys."""

    rows: int
    keys: tuple[str, ...]
    workers: tuple[int, ...]
    memories_mb: tuple[int, ...]
    extends_kb: tuple[int, ...]
    pairs: int


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
DEFAULTS: dict[Size, SizeDefaults] = {
    "demo": SizeDefaults(500_000, _DEMO_KEYS, (0,), (512,), (DEFAULT_EXTEND_KB,), 6),
    "quick": SizeDefaults(2_000_000, _QUICK_KEYS, (0,), (512,), (DEFAULT_EXTEND_KB, 0), 4),
    "full": SizeDefaults(
        30_000_000, tuple(KEYS), (0, 2), (512, 64), (DEFAULT_EXTEND_KB, 0, 64, 1024, 16384), 4
    ),
}


def run_index_build(
    request: IndexBuildRequest, terminal: Terminal, defaults: SizeDefaults | None = None
) -> Path:
    """Measure and write the result; returns its path. Raises LabError.

    `defaults` replace those of the size.
    """
    wanted = _wanted(request, defaults or DEFAULTS[request.run.size])
    parameters = Parameters(
        size=request.run.size,
        seed=request.run.seed,
        repetitions=wanted.pairs,
        pages=(),
        limits=(),
        heap_shares_percent=(),
        io_methods=(),
        read_aheads_kb=(),
    )
    tables = len({KEYS[name].table for name in wanted.keys})
    # The tables, the largest index, and both once more in the WAL.
    needed = wanted.rows * 2 * (tables * ROW_BYTES + INDEX_ROW_BYTES)
    with open_run(
        request.run, "index-build", parameters, terminal, settings=_SETTINGS, needed_bytes=needed
    ) as run:
        _IndexBuild(run, wanted, explicit=request.keys is not None).measure()
        path = run.path
    if run.document.index_build:
        _show(run.document.index_build, terminal)
    return path


def _wanted(request: IndexBuildRequest, defaults: SizeDefaults) -> SizeDefaults:
    """The defaults with what was asked for in their place."""
    return SizeDefaults(
        rows=request.rows or defaults.rows,
        keys=request.keys or defaults.keys,
        workers=request.workers or defaults.workers,
        memories_mb=request.memories_mb or defaults.memories_mb,
        extends_kb=request.extends_kb or defaults.extends_kb,
        pairs=request.repetitions or defaults.pairs,
    )


def scenarios_for(key: BuildKey, wanted: SizeDefaults) -> Iterator[BuildScenario]:
    """The first value of every setting, then the further values of one setting at a time."""
    first = BuildScenario(
        key.name, wanted.rows, wanted.workers[0], wanted.memories_mb[0], wanted.extends_kb[0]
    )
    yield first
    yield from (replace(first, workers=workers) for workers in wanted.workers[1:])
    yield from (replace(first, memory_mb=memory) for memory in wanted.memories_mb[1:])
    if key.name in _EXTEND_KEYS:
        yield from (replace(first, extend_kb=extend) for extend in wanted.extends_kb[1:])


class _IndexBuild:
    """One run of the experiment."""

    def __init__(self, run: Run, wanted: SizeDefaults, *, explicit: bool) -> None:
        self._run = run
        self._server = run.server
        self._wanted = wanted
        self._explicit = explicit

    def measure(self) -> None:
        """Make the tables, then take all samples."""
        self._server.start()
        with self._server.connect() as connection:
            self._run.record_settings(connection)
            connection.execute("CREATE EXTENSION pg_lookahead")
            keys = self._available(connection)
            self._run.record(index_build=IndexBuildData((), (), ()))
            scenarios = {key: list(scenarios_for(key, self._wanted)) for key in keys}
            total = sum(map(len, scenarios.values())) * self._wanted.pairs * len(ARMS)
            with self._run.terminal.progress(total) as bar:
                self._measure_tables(connection, scenarios, bar)

    def _measure_tables(
        self,
        connection: psycopg.Connection[Any],
        scenarios: dict[BuildKey, list[BuildScenario]],
        bar: ProgressBar,
    ) -> None:
        """Fresh keys come before the vacuum, pgbench's table last and alone on the disk."""
        seed = self._run.document.parameters.seed
        own = {key: found for key, found in scenarios.items() if key.table == TABLE}
        if own:
            bar.describe(f"making a table of {self._wanted.rows:,} rows")
            table = make_table(connection, self._wanted.rows, seed)
            self._run.record(index_build=replace(self._data, tables=(table,)))
            for fresh in (True, False):
                if not fresh:
                    vacuum(connection, TABLE)
                for key in own:
                    if key.fresh is fresh:
                        self._measure_key(connection, key, own[key], bar)
            connection.execute(f"DROP TABLE {TABLE}")
        for key in scenarios.keys() - own.keys():
            bar.describe(f"pgbench makes {self._wanted.rows:,} accounts")
            table = make_pgbench_table(self._server, connection, self._wanted.rows)
            self._run.record(index_build=replace(self._data, tables=(*self._data.tables, table)))
            self._measure_key(connection, key, scenarios[key], bar)
            connection.execute(f"DROP TABLE {PGBENCH_TABLE}")

    def _measure_key(
        self,
        connection: psycopg.Connection[Any],
        key: BuildKey,
        scenarios: list[BuildScenario],
        bar: ProgressBar,
    ) -> None:
        for scenario in scenarios:
            self._run.terminal.log_only(describe(scenario))
            for pair, arm in alternate(ARMS, self._wanted.pairs):
                bar.describe(f"{describe(scenario)}, {arm}")
                self._add(self._sample(connection, key, scenario, pair, arm))
                bar.advance()

    def _sample(
        self,
        connection: psycopg.Connection[Any],
        key: BuildKey,
        scenario: BuildScenario,
        pair: int,
        arm: Arm,
    ) -> BuildSample:
        """One build; the index is gone afterwards. `connection` watches it."""
        if key.command == "reindex":
            connection.execute(key.create)
        connection.execute("CHECKPOINT")
        with self._server.connect() as builder:
            _configure(builder, scenario, arm)
            position = _value(builder, "SELECT pg_current_wal_insert_lsn()")
            with BuildWatch(connection, builder.info.backend_pid) as watch:
                time_ms = _time(builder, key, scenario)
            wal = f"SELECT pg_current_wal_insert_lsn() - '{position}'::pg_lsn"
            wal_bytes = int(_value(builder, wal))
            built = _count_builds(builder, key, arm)
            sample = BuildSample(
                scenario=scenario,
                pair=pair,
                sequence=len(self._data.samples),
                arm=arm,
                time_ms=round(time_ms, 3),
                built_by_us=built,
                wal_bytes=wal_bytes,
                index_bytes=int(_value(builder, f"SELECT pg_relation_size('{key.index}')")),
                peak_memory_bytes=watch.peak_memory_bytes,
                workers_seen=watch.workers_seen,
                phases=watch.phases,
                pages_sha256=self._pages_sha256(builder, key.index) if pair == 0 else None,
            )
            builder.execute(key.drop)
        return sample

    def _pages_sha256(self, connection: psycopg.Connection[Any], relation: str) -> str:
        path = str(_value(connection, f"SELECT pg_relation_filepath('{relation}')"))
        with acting_as_owner(self._server.data_directory):
            return pages_sha256(self._server.data_directory / path)

    def _available(self, connection: psycopg.Connection[Any]) -> list[BuildKey]:
        """The keys to measure, without those that need what the server lacks."""
        keys = []
        for key in (KEYS[name] for name in self._wanted.keys):
            if key.collation is None or key.collation.is_there(connection):
                keys.append(key)
            elif self._explicit:
                raise LabError(
                    key.collation.missing, key.collation.hint, status=ExitStatus.ENVIRONMENT
                )
            else:
                self._run.find("note", f"{key.name} is left out: {key.collation.missing}")
        return keys

    @property
    def _data(self) -> IndexBuildData:
        data = self._run.document.index_build
        assert data is not None
        return data

    def _add(self, sample: BuildSample) -> None:
        """Keep a sample; LabError when its pages are not those of the pair's other arm."""
        for other in self._data.samples:
            same_pair = (other.scenario, other.pair) == (sample.scenario, sample.pair)
            if same_pair and other.pages_sha256 != sample.pages_sha256:
                raise LabError(
                    f"pg_lookahead built other pages than stock: {describe(sample.scenario)}",
                    "This is a bug of pg_lookahead, report it.",
                )
        samples = (*self._data.samples, sample)
        self._run.record(index_build=replace(self._data, samples=samples))


def _time(connection: psycopg.Connection[Any], key: BuildKey, scenario: BuildScenario) -> float:
    """Build the index; the time in ms. Of a small table the median of several, the last is kept."""
    times = []
    for number in range(_SMALL_BUILDS if scenario.rows <= _SMALL_ROWS else 1):
        if number > 0 and key.command != "reindex":
            connection.execute(key.drop)
        started = monotonic()
        connection.execute(key.build)
        times.append((monotonic() - started) * 1000)
    return median(times)


def _configure(connection: psycopg.Connection[Any], scenario: BuildScenario, arm: Arm) -> None:
    for name, value in (
        ("maintenance_work_mem", f"{scenario.memory_mb}MB"),
        ("max_parallel_maintenance_workers", str(scenario.workers)),
        ("min_parallel_table_scan_size", "8MB" if scenario.rows <= _SMALL_ROWS else "0"),
        ("pg_lookahead.index_build_extend_size", f"{scenario.extend_kb}kB"),
        ("pg_lookahead.enable_index_build", "on" if arm == "lookahead" else "off"),
    ):
        connection.execute(f"SET {name} = '{value}'")


def _count_builds(connection: psycopg.Connection[Any], key: BuildKey, arm: Arm) -> int:
    """How many indexes the session's pg_lookahead has built; LabError unless the arm's own did."""
    row = connection.execute(_BUILT).fetchone()
    built, fallbacks = (int(row[0]), row[1]) if row else (0, {})
    if arm == "lookahead" and built == 0:
        reasons = ", ".join(fallbacks) or "it was not asked"
        raise LabError(
            f"our path did not run: the index on {key.title} was left to stock ({reasons})",
            "docs/limitations.md says which indexes are; leave the key out.",
        )
    if arm == "stock" and built:
        raise LabError(
            "pg_lookahead built the index of the stock arm although it is switched off",
            "This is a bug of pg_lookahead, report it.",
        )
    return built


def _value(connection: psycopg.Connection[Any], statement: str) -> Any:
    row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]


def describe(scenario: BuildScenario) -> str:
    """Such as "bigint, random: 0 workers, 512 MB, extended by 4096 kB"."""
    return (
        f"{KEYS[scenario.key].title}: {scenario.workers} workers, {scenario.memory_mb} MB, "
        f"extended by {scenario.extend_kb} kB"
    )


def _show(data: IndexBuildData, terminal: Terminal) -> None:
    """The tables, and what was proved beside them."""
    terminal.build_table(data.comparisons)
    phases = compare_validated_builds(data.samples)
    if phases:
        terminal.build_phase_table(phases)
    gains = compare_workers(data.samples)
    if gains:
        terminal.worker_gain_table(gains)
    ours = [sample for sample in data.samples if sample.arm == "lookahead"]
    indexes = len(build_scenarios_of(data.samples))
    terminal.result(f"same pages: {indexes} indexes of both arms compared byte by byte: equal")
    built = sum(sample.built_by_us for sample in ours)
    terminal.result(f"path taken: {built} indexes in {len(ours)} samples were pg_lookahead's own")
    share = peak_memory_share(ours)
    if share is not None:
        terminal.result(f"memory: at most {share:.1%} of maintenance_work_mem in our arm")
