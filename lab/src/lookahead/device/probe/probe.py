"""A whole probe: refuse or begin, measure in rounds, keep every sample, make the profile.

A round measures everything once; then comes the next, in another order, until the time is over.
"""

import dataclasses
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import lookahead
from lookahead.device.block_device import device_of, machine_name
from lookahead.device.probe import fio
from lookahead.device.probe.analysis import STREAM_DEPTH, summarize
from lookahead.device.probe.fio import Target, random_reads, sequential_reads
from lookahead.device.probe.place import Place, busy_objection, choose_size, filled_file
from lookahead.device.probe.probe_data import (
    SCHEMA,
    SCHEMA_VERSION,
    ProbeDocument,
    ProbeParameters,
    ProbeSample,
    ProbeSummary,
)
from lookahead.device.profile import DEPTHS, DepthRate, DeviceProfile
from lookahead.errors import LabError, UnavailableError
from lookahead.machine import collect_machine_facts, collect_source_facts
from lookahead.results import Finding, ResultFile, now_text

# No device answers that fast; memory does. The fastest flash needs 8 us and more.
_MEMORY_LATENCY_US = 5.0
# Below that, an interval says little.
_FEW_ROUNDS = 3
REQUEST_SIZES_KB = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
_PATTERNS = len(DEPTHS) + len(REQUEST_SIZES_KB)
# Slices are cut so that this many rounds fit into the time, if that leaves them long enough.
_INTENDED_ROUNDS = 5
# What fio takes for a job beside its slice. It looks for ends ten times a second: slices shorter
# than the least would end with the same look.
_JOB_S = fio.RAMP_S + 0.26
_MIN_SLICE_S, _MAX_SLICE_S = 0.15, 0.5
# Jobs of one process of fio: between two of them the probe rests, and keeps what it has.
_JOBS_AT_ONCE = 8


def slice_for(time_s: float) -> float:
    """How long each pattern is measured at a time."""
    share_s = time_s / (_INTENDED_ROUNDS * _PATTERNS) - _JOB_S
    return min(_MAX_SLICE_S, max(_MIN_SLICE_S, share_s))


@dataclass
class Campaign:
    """One probe. `samples` are those of `complete_rounds` and, last, of a round cut short.

    `report` is told what is under way, `reach` for how many seconds it has measured.
    """

    target: Target
    parameters: ProbeParameters
    report: Callable[[str], None]
    reach: Callable[[float], None]
    samples: list[ProbeSample] = field(default_factory=list)
    complete_rounds: int = 0
    _started: float = 0.0
    _bytes: int = 0

    def run(self) -> None:
        """Measure: at least one round, no new one that would not fit into the time."""
        self._started = time.monotonic()
        longest = 0.0
        while True:
            began = time.monotonic()
            self._round(self.complete_rounds)
            self.complete_rounds += 1
            longest = max(longest, time.monotonic() - began)
            self.report(f"round {self.complete_rounds} took {time.monotonic() - began:.1f} s")
            if time.monotonic() - self._started + longest > self.parameters.time_s:
                return

    @property
    def rounds(self) -> list[list[ProbeSample]]:
        """The samples of each complete round."""
        return [
            [sample for sample in self.samples if sample.round == number]
            for number in range(self.complete_rounds)
        ]

    def _round(self, number: int) -> None:
        patterns = [
            *(random_reads(depth) for depth in DEPTHS),
            *(sequential_reads(STREAM_DEPTH, size) for size in REQUEST_SIZES_KB),
        ]
        random.Random(self.parameters.seed + number).shuffle(patterns)
        for first in range(0, len(patterns), _JOBS_AT_ONCE):
            batch = patterns[first : first + _JOBS_AT_ONCE]
            seed = self.parameters.seed + len(self.samples)
            readings = fio.measure(self.target, batch, self.parameters.slice_s, seed)
            for pattern, reading in zip(batch, readings, strict=True):
                self._bytes += reading.requests * pattern.request_bytes
                self.samples.append(
                    ProbeSample(
                        round=number,
                        sequence=len(self.samples),
                        engine=fio.PROGRAM,
                        **vars(pattern),
                        **vars(reading),
                    )
                )
            self._rest()
            self.reach(time.monotonic() - self._started)

    def _rest(self) -> None:
        """Slices run at full speed; the mean over the probe stays below the rate."""
        if self.parameters.rate_mb_per_s:
            due = self._started + self._bytes / (self.parameters.rate_mb_per_s * 1e6)
            time.sleep(max(0.0, due - time.monotonic()))


@dataclass(frozen=True)
class ProbeRequest:
    """The options; see their help. `size_bytes` is None for the default."""

    place: Place
    size_bytes: int | None
    time_s: float
    rate_mb_per_s: float
    output: Path
    seed: int
    forced: bool
    command: tuple[str, ...]


DEFAULT_SIZE_BYTES = 2**30


def run_probe(
    request: ProbeRequest, report: Callable[[str], None], reach: Callable[[float], None]
) -> tuple[ResultFile, ProbeDocument]:
    """Measure, and write the result file; `report` and `reach` are those of `Campaign`.

    An interrupted probe keeps what it has, marked incomplete.
    """
    folder = request.place.folder
    objections = _objections(request)
    wanted = request.size_bytes or DEFAULT_SIZE_BYTES
    size = choose_size(folder, wanted, named=request.size_bytes is not None)
    fio.check_available()
    started = datetime.now(UTC)
    file = ResultFile.claim(request.output, "probe", started)
    findings = _first_findings(objections)
    document = _first_document(request, size, started, findings)
    campaign: Campaign | None = None
    try:
        report(f"writing a test file of {size // 2**20} MB")
        with filled_file(folder, size, request.rate_mb_per_s * 1e6) as (target, _):
            campaign = Campaign(target, document.parameters, report, reach)
            report(f"measuring with fio for {request.time_s:.0f} s, or one round")
            campaign.run()
        document = _finished(document, campaign, folder)
        file.write(document)
    except BaseException as error:
        _keep_partial(file, document, campaign, error)
        raise
    return file, document


def _objections(request: ProbeRequest) -> tuple[str, ...]:
    """Whose way the probe is in; LabError when it is in somebody's, unless it is forced."""
    busy = None if request.place.objections else busy_objection(request.place.folder)
    objections = request.place.objections or ((busy,) if busy else ())
    if objections and not request.forced:
        raise UnavailableError(
            f"the device is not to be disturbed: {'; '.join(objections)}",
            "Wait for a quiet hour, or insist with --force (the figures may be too low).",
        )
    return objections


def _first_findings(objections: Sequence[str]) -> tuple[Finding, ...]:
    text = f"forced although {'; '.join(objections)}"
    return (Finding("warning", text, "The figures may be too low."),) if objections else ()


def _first_document(
    request: ProbeRequest, size: int, started: datetime, findings: tuple[Finding, ...]
) -> ProbeDocument:
    return ProbeDocument(
        schema=SCHEMA,
        schema_version=SCHEMA_VERSION,
        status="incomplete",
        ending="under way, or killed",
        started_at=started.isoformat(timespec="seconds"),
        finished_at=None,
        command=request.command,
        lab_version=lookahead.__version__,
        source=collect_source_facts(),
        machine=collect_machine_facts(request.place.folder),
        parameters=ProbeParameters(
            size_bytes=size,
            time_s=request.time_s,
            rate_mb_per_s=request.rate_mb_per_s,
            slice_s=slice_for(request.time_s),
            seed=request.seed,
        ),
        findings=findings,
        samples=(),
        summary=None,
        profile=None,
    )


def _finished(document: ProbeDocument, campaign: Campaign, folder: Path) -> ProbeDocument:
    summary = summarize(campaign.rounds, document.parameters.seed)
    finished_at = now_text()
    findings = [*document.findings, *_findings(summary)]
    profile = None
    if summary.latency_us.value >= _MEMORY_LATENCY_US:
        try:
            profile = _profile(summary, folder, finished_at)
        except LabError as error:
            findings.append(Finding("warning", error.message, "No profile can be made."))
    return dataclasses.replace(
        document,
        status="complete",
        ending="done",
        finished_at=finished_at,
        findings=tuple(findings),
        samples=tuple(campaign.samples),
        summary=summary,
        profile=profile,
    )


def _findings(summary: ProbeSummary) -> list[Finding]:
    findings = []
    if summary.latency_us.value < _MEMORY_LATENCY_US:
        findings.append(
            Finding(
                "warning",
                f"a random read took {summary.latency_us.value:.1f} us: that is memory, no device",
                "No profile is made of it. Some file systems serve direct reads from their cache.",
            )
        )
    if summary.rounds < _FEW_ROUNDS:
        findings.append(
            Finding(
                "note",
                f"too few rounds for the time ({summary.rounds}): the intervals mean little",
                "Raise --time or --rate.",
            )
        )
    return findings


def _profile(summary: ProbeSummary, folder: Path, measured_at: str) -> DeviceProfile:
    depths, _ = summary.curves
    return DeviceProfile(
        device=device_of(folder),
        machine=machine_name(),
        measured_at=measured_at.replace("+00:00", "Z"),
        bandwidth_mb=summary.bandwidth_mb.value,
        depth=int(depths.knee.value),
        rates=tuple(DepthRate(point.x, point.figure.value) for point in depths.points),
    )


def _keep_partial(
    file: ResultFile, document: ProbeDocument, campaign: Campaign | None, error: BaseException
) -> None:
    """What was measured stays; an empty file does not."""
    if campaign is None or not campaign.samples:
        file.discard()
        return
    ending = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
    file.write(
        dataclasses.replace(
            document, ending=ending, finished_at=now_text(), samples=tuple(campaign.samples)
        )
    )
