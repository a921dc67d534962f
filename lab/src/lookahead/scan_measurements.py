"""What experiments measure: the raw samples of a result file and the evidence beside them.

Every field is written to the file under its own name; times are in the unit the name ends with.
A change of meaning or name is a change of `results.SCHEMA_VERSION`.
"""

from dataclasses import dataclass
from typing import Literal

from lookahead.device.io_sampler import Timeline
from lookahead.measurements import ColdRecord, LookaheadEvidence
from lookahead.stats import RatioEstimate

Arm = Literal["stock", "lookahead", "bitmap"]
"""An index scan by stock or by us, or stock's bitmap scan of the same rows and its sort."""
ARMS: tuple[Arm, Arm] = ("stock", "lookahead")
BASELINES: tuple[Arm, ...] = ("stock", "bitmap")

Order = Literal["random", "heap"]

ControlArm = Literal["not loaded", "off", "on"]
CONTROL_ARMS: tuple[ControlArm, ...] = ("not loaded", "off", "on")


@dataclass(frozen=True)
class ScanEvidence:
    """One execution as EXPLAIN (ANALYZE, BUFFERS) reports it; blocks are of 8 kB."""

    node_type: str
    index_name: str
    rows: int
    planning_ms: float
    execution_ms: float
    shared_hit_blocks: int
    shared_read_blocks: int
    lookahead: LookaheadEvidence


@dataclass(frozen=True)
class Scenario:
    """What a comparison is made for: distinct pages touched, I/O method, OS read-ahead in kB.

    `order` is that of the index in terms of the table. `limit` rows end the statement, if not
    None; `share_percent` of the table's pages are touched in heap order, None in random order.
    `read_ahead_kb` is None where no block device is known. `added_latency_us` is that of a delay
    device.
    """

    pages: int
    io_method: str
    read_ahead_kb: int | None
    order: Order = "random"
    limit: int | None = None
    share_percent: int | None = None
    added_latency_us: int = 0

    @property
    def arms(self) -> tuple[Arm, ...]:
        """A bitmap scan answers for whole ranges in random order only."""
        has_rival = self.order == "random" and self.limit is None
        return (*ARMS, "bitmap") if has_rival else ARMS


@dataclass(frozen=True)
class ScanSample:
    """One cold execution. `pair` joins it with the sample of the other arm on the same keys.

    `distinct_pages` was counted from ctid; `first_key` and `last_key` are of the column that
    orders the rows. `backend_cpu_ms` is what the backend's threads spent
    during the statement; it leaves out the server's I/O workers. None where the kernel does not
    tell.
    """

    scenario: Scenario
    pair: int
    sequence: int
    arm: Arm
    first_key: int
    last_key: int
    distinct_pages: int
    evidence: ScanEvidence
    backend_cpu_ms: float | None
    cold: ColdRecord
    timeline: Timeline


@dataclass(frozen=True)
class ScanComparison:
    """Two arms of a scenario: medians and the ratio `baseline` / lookahead (above 1: faster)."""

    scenario: Scenario
    baseline: Arm
    baseline_median_ms: float
    lookahead_median_ms: float
    estimate: RatioEstimate


@dataclass(frozen=True)
class RowDigest:
    """SHA-256 over the rows of one statement in the order returned, by both arms alike.

    `scenario` is the first one measured; the OS read-ahead makes no difference to rows.
    """

    scenario: Scenario
    first_key: int
    last_key: int
    rows: int
    sha256: str


@dataclass(frozen=True)
class DelayFacts:
    """The delay device below the server, and the rates of random direct reads measured on it.

    `engine` ("fio", "own (aio)" or "own (threads)") read 8 kB each, one at a time and `depth` at a
    time.
    """

    latency_us: int
    size_bytes: int
    engine: str
    depth: int
    single_reads_per_s: float
    deep_reads_per_s: float


@dataclass(frozen=True)
class TableFacts:
    """The table that was scanned."""

    rows: int
    pages: int
    rows_per_page: int
    row_bytes: int
    table_bytes: int
    index_bytes: int
    build_seconds: float


@dataclass(frozen=True)
class IndexScanData:
    """The data of the experiment "index-scan"; grows until the run ends.

    `comparisons` are worked out from the samples at the end.
    """

    table: TableFacts | None
    digests: tuple[RowDigest, ...]
    samples: tuple[ScanSample, ...]
    comparisons: tuple[ScanComparison, ...]


@dataclass(frozen=True)
class ControlSample:
    """Executions of a control one after the other, and how long they took together.

    `cold` is None of data that was cached.
    """

    workload: str
    io_method: str
    round: int
    sequence: int
    arm: ControlArm
    executions: int
    elapsed_ms: float
    cold: ColdRecord | None


@dataclass(frozen=True)
class ControlEvidence:
    """What was verified before a control: the nodes of its plans, and in which arms we were there.

    `shared_read_blocks` came from outside shared buffers in one execution; `resident_share` of the
    table (0..1) was in the OS cache, None where that is not where it is meant to be.
    """

    workload: str
    io_method: str
    node_types: tuple[str, ...]
    attached_arms: tuple[str, ...]
    shared_read_blocks: int
    resident_share: float | None


@dataclass(frozen=True)
class ControlComparison:
    """Ratio time of `baseline` / time with the library on (above 1: faster), of medians.

    Times are of one execution. `least_ratio` is that of the least times of both arms: with
    nothing to wait for, other work on the machine makes every other sample longer.
    """

    workload: str
    io_method: str
    baseline: ControlArm
    baseline_median_ms: float
    on_median_ms: float
    least_ratio: float
    estimate: RatioEstimate


@dataclass(frozen=True)
class ControlsData:
    """The data of the experiment "controls"; grows until the run ends, see `IndexScanData`."""

    evidence: tuple[ControlEvidence, ...]
    samples: tuple[ControlSample, ...]
    comparisons: tuple[ControlComparison, ...]
