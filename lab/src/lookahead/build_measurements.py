"""What the experiment "index-build" measures; see measurements.py for the rules."""

from dataclasses import dataclass

from lookahead.scan_measurements import Arm
from lookahead.stats import RatioEstimate


@dataclass(frozen=True)
class BuildScenario:
    """What a comparison is made for.

    `key` is a name of `index_build_keys.KEYS`; `workers` is max_parallel_maintenance_workers,
    `memory_mb` maintenance_work_mem; `extend_kb` is the step by which our arm extends the new file.
    """

    key: str
    rows: int
    workers: int
    memory_mb: int
    extend_kb: int


@dataclass(frozen=True)
class BuildPhase:
    """Time in a phase of pg_stat_progress_create_index, as far as polling can tell."""

    name: str
    time_ms: float


@dataclass(frozen=True)
class BuildSample:
    """One build of the index over a table that is in the cache of the operating system.

    Of a table of at most 10,000 rows `time_ms` is the median of several builds in a row.

    `pair` joins it with the sample of the other arm. `built_by_us` counts the indexes that
    pg_lookahead says it built. `peak_memory_bytes` is the most private memory that the session and
    its workers had at once beyond what the session had before; None where the kernel does not
    tell. `pages_sha256` is that of the index outside of LSN and checksum, None where not taken.
    """

    scenario: BuildScenario
    pair: int
    sequence: int
    arm: Arm
    time_ms: float
    built_by_us: int
    wal_bytes: int
    index_bytes: int
    peak_memory_bytes: int | None
    workers_seen: int
    phases: tuple[BuildPhase, ...]
    pages_sha256: str | None


@dataclass(frozen=True)
class BuildComparison:
    """Both arms of a scenario: medians and the ratio stock / lookahead (above 1: faster)."""

    scenario: BuildScenario
    stock_median_ms: float
    lookahead_median_ms: float
    estimate: RatioEstimate


@dataclass(frozen=True)
class ValidatedBuild:
    """A scenario of CREATE INDEX CONCURRENTLY: median ms by arm, of the build and after it."""

    scenario: BuildScenario
    build_ms: dict[Arm, float]
    validation_ms: dict[Arm, float]


@dataclass(frozen=True)
class WorkerGain:
    """A scenario with parallel workers: by arm, median time without any / median time with them."""

    scenario: BuildScenario
    gains: dict[Arm, float]


@dataclass(frozen=True)
class BuildTable:
    """A table that was indexed."""

    name: str
    rows: int
    table_bytes: int
    build_seconds: float


@dataclass(frozen=True)
class IndexBuildData:
    """The data of the experiment "index-build"; grows until the run ends."""

    tables: tuple[BuildTable, ...]
    samples: tuple[BuildSample, ...]
    comparisons: tuple[BuildComparison, ...]
