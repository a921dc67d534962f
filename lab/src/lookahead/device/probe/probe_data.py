"""What a probe writes to its result file: every raw sample, and what was made of them.

Every field is written under its own name; a change of meaning or name is a change of
`SCHEMA_VERSION`.
"""

import dataclasses
from dataclasses import dataclass
from typing import Literal

from lookahead.decoding import DecodingError, decode
from lookahead.device.probe.fio import Pattern, Reading
from lookahead.device.profile import DeviceProfile
from lookahead.errors import BadFileError
from lookahead.guarded_connection import shown_arguments
from lookahead.machine import MachineFacts, SourceFacts
from lookahead.results import COPY_AGAIN, Content, Finding, require_schema

SCHEMA = "lookahead-probe"
SCHEMA_VERSION = 2

Curve = Literal["random reads", "sequential reads"]


@dataclass(frozen=True)
class ProbeParameters:
    """What was asked for; `rate_mb_per_s` (10^6 bytes) is 0 without a limit."""

    size_bytes: int
    time_s: float
    rate_mb_per_s: float
    slice_s: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class ProbeSample(Pattern, Reading):
    """One slice of one pattern."""

    round: int
    sequence: int
    engine: str

    @property
    def request_kb(self) -> int:
        """The size of a request in 1024 bytes."""
        return self.request_bytes // 1024

    @property
    def mb_per_s(self) -> float:
        """In 10^6 bytes."""
        return self.requests_per_s * self.request_bytes / 1e6


@dataclass(frozen=True)
class Interval:
    """A figure with its bootstrap interval of 95 %."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class CurvePoint:
    """The median of a figure at `x` with its interval."""

    x: int
    figure: Interval


@dataclass(frozen=True)
class ProbeCurve:
    """A figure against what it depends on, and the smallest x that reaches 95 % of the best.

    `unit` is that of the figures, `x_name` says what x is.
    """

    name: Curve
    x_name: str
    unit: str
    points: tuple[CurvePoint, ...]
    knee: Interval

    def __post_init__(self) -> None:
        if not self.points:
            raise ValueError("it has no points")
        if self.knee.value not in {point.x for point in self.points}:
            raise ValueError("its knee is none of its points")


@dataclass(frozen=True)
class ProbeSummary:
    """What the samples of all complete rounds say."""

    rounds: int
    latency_us: Interval
    bandwidth_mb: Interval
    curves: tuple[ProbeCurve, ...]
    gap_limit: Interval


@dataclass(frozen=True)
class ProbeDocument:
    """One result file of `lookahead probe`; times are UTC in ISO 8601.

    `profile` is None when the run is incomplete or its figures are not to be trusted.
    """

    schema: str
    schema_version: int
    status: Literal["incomplete", "complete"]
    ending: str
    started_at: str
    finished_at: str | None
    command: tuple[str, ...]
    lab_version: str
    source: SourceFacts
    machine: MachineFacts
    parameters: ProbeParameters
    findings: tuple[Finding, ...]
    samples: tuple[ProbeSample, ...]
    summary: ProbeSummary | None
    profile: DeviceProfile | None


def probe_in(content: Content, name: str) -> ProbeDocument:
    """The probe that a file has; BadFileError for none, also for one of another version."""
    require_schema(content, SCHEMA, name)
    if content.get("schema_version") != SCHEMA_VERSION:
        raise BadFileError(
            f'"{name}" has schema version {content.get("schema_version")}; '
            f"this lookahead reads version {SCHEMA_VERSION}",
            "Read it with the lookahead that wrote it, or repeat the run.",
        )
    try:
        document = decode(ProbeDocument, content)
    except DecodingError as error:
        raise BadFileError(f'"{name}" is damaged: {error}', COPY_AGAIN) from None
    # Also from a file of a lab that kept connection strings as they were.
    return dataclasses.replace(document, command=shown_arguments(document.command))
