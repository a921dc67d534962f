"""What experiments with any number of arms measure; see measurements.py for the rules.

A *trial* is a scenario whose arms (plans, settings, stock's code or ours) are all run once in each
round; questions say which arms are compared, and what is aimed at.
"""

from dataclasses import dataclass
from typing import Literal

from lookahead.device.counters import Rates
from lookahead.measurements import ColdRecord, LookaheadEvidence
from lookahead.stats import Outcome, RatioEstimate

Library = Literal["not loaded", "off", "on"]
"""pg_lookahead in the sessions of an arm; "off" is loaded and switched off."""


@dataclass(frozen=True)
class Factor:
    """One condition of a scenario and its value, such as "pages" and "42 %"."""

    name: str
    value: str


@dataclass(frozen=True)
class TrialScenario:
    """What all arms of a trial have in common, in the order in which it is shown."""

    factors: tuple[Factor, ...]

    def value(self, name: str) -> str | None:
        """The value of a factor, None when the scenario has none of that name."""
        return next((factor.value for factor in self.factors if factor.name == name), None)

    @property
    def label(self) -> str:
        """All values, such as "42 %, uniform, 4 MB, worker"."""
        return ", ".join(factor.value for factor in self.factors)


@dataclass(frozen=True)
class TrialArm:
    """A way to run the statement of a scenario: what is set in its sessions.

    `plan` is a node type that EXPLAIN must show ("" where there is no plan to look at).
    """

    name: str
    library: Library
    plan: str
    settings: dict[str, str]


@dataclass(frozen=True)
class Question:
    """Which arms of a scenario are compared; `aim` is a ratio (aims.py), None where there is none.

    Of several baselines, and of several challengers, the fastest by its median counts. The name of
    a reference of the scenario stands for its time, as baseline of each round.
    """

    scenario: TrialScenario
    name: str
    baselines: tuple[str, ...]
    challengers: tuple[str, ...]
    aim: float | None


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
class TrialSample:
    """One execution of the statement in one arm; samples of a round form a pair.

    `time_ms` is what arms are compared by, of several sessions the mean; `session_ms` has one for
    each. `evidence` is None of a statement without a plan, `cold` of one that found its data
    cached. `backend_cpu_ms` is summed over the sessions. `use` is of the whole machine.
    """

    scenario: TrialScenario
    round: int
    sequence: int
    arm: str
    time_ms: float
    session_ms: tuple[float, ...]
    evidence: NodeEvidence | None
    backend_cpu_ms: float | None
    cold: ColdRecord | None
    use: Rates


@dataclass(frozen=True)
class LookupSample:
    """Random lookups of single rows by several sessions at once: their times, and how many."""

    scenario: TrialScenario
    round: int
    sequence: int
    arm: str
    sessions: int
    lookups: int
    lookups_per_s: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class Reference:
    """A figure to see the measured ones beside: published elsewhere, computed, or of the device."""

    scenario: TrialScenario
    name: str
    time_ms: float
    source: str


@dataclass(frozen=True)
class TrialTable:
    """A table that was read."""

    name: str
    rows: int
    pages: int
    table_bytes: int
    index_bytes: int
    build_seconds: float


@dataclass(frozen=True)
class TrialDigest:
    """SHA-256 over the rows of a scenario's statement, equal in all of `arms`.

    `ordered`: the rows in the order in which they came; else whatever order, sorted.
    """

    scenario: TrialScenario
    arms: tuple[str, ...]
    ordered: bool
    rows: int
    sha256: str


@dataclass(frozen=True)
class TrialComparison:
    """The answer to a question: medians and the ratio baseline / challenger (above 1: faster)."""

    question: Question
    baseline: str
    challenger: str
    baseline_median_ms: float
    challenger_median_ms: float
    estimate: RatioEstimate
    outcome: Outcome


@dataclass(frozen=True)
class TrialData:
    """The data of an experiment made of trials; grows until the run ends.

    `comparisons` are worked out from the samples at the end.
    """

    tables: tuple[TrialTable, ...]
    arms: tuple[TrialArm, ...]
    questions: tuple[Question, ...]
    references: tuple[Reference, ...]
    digests: tuple[TrialDigest, ...]
    samples: tuple[TrialSample, ...]
    lookups: tuple[LookupSample, ...]
    comparisons: tuple[TrialComparison, ...]


EMPTY_TRIALS = TrialData((), (), (), (), (), (), (), ())
