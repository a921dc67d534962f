"""What experiments measure: the raw samples of a result file and the evidence beside them.

Everything is a *trial*: a scenario whose arms (plans, settings, stock's code or ours) are all run
once in each round; questions say which arms are compared.

Every field is written to the file under its own name; times are in the unit the name ends with.
A change of meaning or name is a change of `results.SCHEMA_VERSION`; a new field has a default, so
that files without it can be read.
"""

from dataclasses import dataclass, field
from typing import Literal

from lookahead.device.counters import Rates
from lookahead.stats import RatioEstimate

Library = Literal["not loaded", "off", "on"]
"""pg_lookahead in the sessions of an arm; "off" is loaded and switched off."""


# A nanosecond and some thirty years.
_LEAST_MS, _MOST_MS = 1e-6, 1e12


@dataclass(frozen=True)
class Factor:
    """One condition of a scenario and its value, such as "pages" and "42 %"."""

    name: str
    value: str


@dataclass(frozen=True)
class Scenario:
    """What all arms of a trial have in common, in the order in which it is shown."""

    factors: tuple[Factor, ...]

    def __post_init__(self) -> None:
        if not self.factors:
            raise ValueError("it has no factors")

    def value(self, name: str) -> str | None:
        return next((factor.value for factor in self.factors if factor.name == name), None)

    @property
    def label(self) -> str:
        """All values, such as "42 %, uniform, 4 MB, worker"."""
        return ", ".join(factor.value for factor in self.factors)


@dataclass(frozen=True)
class Arm:
    """A way to run the statement of a scenario: what is set in its sessions.

    `plan` is a node type that EXPLAIN must show ("" where there is no plan to look at).
    """

    name: str
    library: Library
    plan: str
    settings: dict[str, str]


@dataclass(frozen=True)
class Question:
    """Which arms of a scenario are compared.

    Of several baselines, and of several challengers, the fastest by its median counts.
    """

    scenario: Scenario
    name: str
    baselines: tuple[str, ...]
    challengers: tuple[str, ...]


@dataclass(frozen=True)
class ColdRecord:
    """How files were made cold and what was resident, in bytes, just before and after.

    `method` is "dontneed", of earlier files also "drop_caches"; residency is what mincore(2)
    counts; `files` counts the files, `total_bytes` their size.
    """

    method: str
    resident_bytes_before: int
    resident_bytes_after: int
    files: int
    total_bytes: int
    is_cold: bool


@dataclass(frozen=True)
class LookaheadEvidence:
    """What EXPLAIN (LOOKAHEAD) said of the scan; "absent" when it said nothing (switched off).

    Counts are of table pages; distances in pages. Zero where the scan was left to stock.
    """

    status: Literal["absent", "stock", "eligible", "prefetch"]
    reason: str | None
    scans: int
    prefetched_blocks: int
    requests: int
    advised_blocks: int
    bridged_blocks: int
    pauses: int
    direct_blocks: int
    repeated_blocks: int
    mean_distance: float
    max_distance: int
    killed_items: int
    restarts: int


@dataclass(frozen=True)
class NodeEvidence:
    """One execution as EXPLAIN (ANALYZE, BUFFERS, LOOKAHEAD) reports it; blocks are of 8 kB.

    `rows` are the plan's, `removed_rows` those that the scan's recheck or filter removed. Exact and
    lossy blocks are a bitmap's; workers those that were launched for the scan.
    """

    node_type: str
    rows: int
    removed_rows: int
    exact_blocks: int
    lossy_blocks: int
    workers: int
    planning_ms: float
    shared_hit_blocks: int
    shared_read_blocks: int
    lookahead: LookaheadEvidence


@dataclass(frozen=True)
class Sample:
    """What one arm did in one round; samples of a round form a pair.

    `time_ms` is what arms are compared by: of one of the `executions`, and of several sessions the
    mean; `session_ms` has one for each session. `evidence` is None of a statement without a plan,
    `cold` of one that found its data cached. `backend_cpu_ms` is summed over the sessions, None
    where other processes had a part. `use` is of the whole machine, None where nobody looked. All
    of these are of the execution whose time is `time_ms`.

    `counts` is what the experiment counted beside it, by a name that says what is counted, with its
    unit. `sha256` is of what was made, None where none was taken.
    """

    scenario: Scenario
    round: int
    sequence: int
    arm: str
    time_ms: float
    session_ms: tuple[float, ...]
    executions: int = 1
    evidence: NodeEvidence | None = None
    backend_cpu_ms: float | None = None
    cold: ColdRecord | None = None
    use: Rates | None = None
    counts: dict[str, float] = field(default_factory=dict)
    sha256: str | None = None

    def __post_init__(self) -> None:
        # What no clock shows: ratios of such times have no meaning.
        if not _LEAST_MS <= self.time_ms <= _MOST_MS:
            raise ValueError(f"{self.time_ms:g} ms is no time")
        if any(time_ms < 0 for time_ms in self.session_ms):
            raise ValueError("it has a negative time")


@dataclass(frozen=True)
class Table:
    """A table that was read or indexed; `index_bytes` are of the indexes that it had before."""

    name: str
    rows: int
    pages: int
    table_bytes: int
    index_bytes: int
    build_seconds: float


@dataclass(frozen=True)
class Digest:
    """SHA-256 over the rows of a scenario's statement in their order, equal in all of `arms`."""

    scenario: Scenario
    arms: tuple[str, ...]
    rows: int
    sha256: str


@dataclass(frozen=True)
class Check:
    """What was verified of a scenario before it was measured: facts by name, as they are shown."""

    scenario: Scenario
    facts: dict[str, str]


@dataclass(frozen=True)
class Comparison:
    """The answer to a question: medians and the ratio baseline / challenger (above 1: faster).

    `least_ratio` is that of the least times of both: with nothing to wait for, other work on the
    machine makes every other sample longer.
    """

    question: Question
    baseline: str
    challenger: str
    baseline_median_ms: float
    challenger_median_ms: float
    least_ratio: float
    estimate: RatioEstimate


@dataclass(frozen=True)
class Measurements:
    """The data of an experiment; grows until the run ends.

    `statements` are the SQL of the scenarios by their labels, of several rounds the first's.
    `comparisons` are worked out from the samples at the end.
    """

    tables: tuple[Table, ...] = ()
    arms: tuple[Arm, ...] = ()
    questions: tuple[Question, ...] = ()
    statements: dict[str, str] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    digests: tuple[Digest, ...] = ()
    samples: tuple[Sample, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
