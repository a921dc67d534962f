"""What experiments measure: the raw samples of a result file and the evidence beside them.

Every field is written to the file under its own name; times are in the unit the name ends with.
A change of meaning or name is a change of `results.SCHEMA_VERSION`.
"""

from dataclasses import dataclass
from typing import Literal

from lookahead.device.io_sampler import Timeline
from lookahead.stats import RatioEstimate

Arm = Literal["stock", "lookahead"]
ARMS: tuple[Arm, Arm] = ("stock", "lookahead")

ControlArm = Literal["not loaded", "off", "on"]
CONTROL_ARMS: tuple[ControlArm, ...] = ("not loaded", "off", "on")


@dataclass(frozen=True)
class ColdRecord:
    """How the sample was made cold and what mincore(2) counted: see `cold.ColdEvidence`."""

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
    direct_blocks: int
    repeated_blocks: int
    mean_distance: float
    max_distance: int
    killed_items: int
    restarts: int


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
    """What a comparison is made for: nominal distinct pages, I/O method, OS read-ahead in kB.

    `read_ahead_kb` is None where no block device is known.
    """

    pages: int
    io_method: str
    read_ahead_kb: int | None


@dataclass(frozen=True)
class ScanSample:
    """One cold execution. `pair` joins it with the sample of the other arm on the same keys.

    `distinct_pages` was counted from ctid. `backend_cpu_ms` is what the backend's threads spent
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
    """Both arms of a scenario: medians and the ratio stock / lookahead (above 1: faster)."""

    scenario: Scenario
    stock_median_ms: float
    lookahead_median_ms: float
    estimate: RatioEstimate


@dataclass(frozen=True)
class RowDigest:
    """SHA-256 over the rows of one range in the order returned, by both arms alike."""

    pages: int
    io_method: str
    first_key: int
    last_key: int
    rows: int
    sha256: str


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
    """One pgbench run: transactions per second without the time to connect."""

    workload: str
    alternation: int
    sequence: int
    arm: ControlArm
    transactions: int
    tps: float


@dataclass(frozen=True)
class ControlEvidence:
    """What was verified once per workload: the plan's node, and in which arms we were attached."""

    workload: str
    node_type: str
    attached_arms: tuple[str, ...]


@dataclass(frozen=True)
class ControlComparison:
    """Ratio tps on / tps of `baseline` (above 1: faster) with both medians in tps."""

    workload: str
    baseline: ControlArm
    baseline_median_tps: float
    on_median_tps: float
    estimate: RatioEstimate


@dataclass(frozen=True)
class ControlsData:
    """The data of the experiment "controls"; grows until the run ends, see `IndexScanData`."""

    rows: int
    seconds_per_run: float
    evidence: tuple[ControlEvidence, ...]
    samples: tuple[ControlSample, ...]
    comparisons: tuple[ControlComparison, ...]
