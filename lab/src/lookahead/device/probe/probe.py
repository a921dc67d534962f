"""A whole probe: refuse or begin, measure in rounds, keep every sample, make the profile."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import lookahead
from lookahead.device.block_device import device_of, find_block_device, machine_name
from lookahead.device.probe import fio
from lookahead.device.probe.analysis import summarize
from lookahead.device.probe.campaign import Campaign, slice_for
from lookahead.device.probe.place import Place, busy_objection
from lookahead.device.probe.probe_data import (
    SCHEMA,
    SCHEMA_VERSION,
    ProbeDocument,
    ProbeParameters,
    ProbeSummary,
)
from lookahead.device.probe.test_file import TestFile, choose_size
from lookahead.device.profile import BLOCK_BYTES, DepthRate, DeviceProfile
from lookahead.device.read_ahead import ReadAhead
from lookahead.errors import ExitStatus, LabError
from lookahead.machine import collect_machine_facts, collect_source_facts
from lookahead.results import Finding, ResultFile, now_text

# No device answers that fast; memory does. The fastest flash needs 8 us and more.
_MEMORY_LATENCY_US = 5.0
# Below that, an interval says little (lookahead.stats.MIN_PAIRS).
_FEW_ROUNDS = 3


@dataclass(frozen=True)
class ProbeRequest:
    """The options; see their help. `size_bytes` is None for the default."""

    place: Place
    size_bytes: int | None
    time_s: float
    rate_mb_per_s: float
    read_aheads_kb: tuple[int, ...]
    output: Path
    seed: int
    forced: bool
    command: tuple[str, ...]


DEFAULT_SIZE_BYTES = 2**30


def run_probe(
    request: ProbeRequest, report: Callable[[str], None]
) -> tuple[ResultFile, ProbeDocument]:
    """Measure, and write the result file; `report` is told what is under way.

    An interrupted probe keeps what it has, marked incomplete.
    """
    folder = request.place.folder
    _refuse(request)
    wanted = request.size_bytes or DEFAULT_SIZE_BYTES
    size = choose_size(folder, wanted, named=request.size_bytes is not None)
    read_ahead, objection = _read_ahead(folder, request)
    fio.check_available()
    started = datetime.now(UTC)
    file = ResultFile.claim(request.output, "probe", started)
    document = _first_document(request, size, started, objection)
    campaign: Campaign | None = None
    try:
        report(f"writing a test file of {size // 2**20} MB")
        with TestFile(folder, size, request.rate_mb_per_s * 1e6) as test_file:
            campaign = Campaign(
                file=test_file,
                parameters=document.parameters,
                read_ahead=read_ahead,
                current_read_ahead_kb=document.machine.device.read_ahead_kb,
                report=report,
            )
            report(f"measuring with fio for {request.time_s:.0f} s, or one round")
            campaign.run()
        document = _finished(document, campaign, folder)
        file.write(document)
    except BaseException as error:
        _keep_partial(file, document, campaign, error)
        raise
    return file, document


def _refuse(request: ProbeRequest) -> None:
    """LabError when the probe would be in somebody's way, unless it is forced."""
    if request.forced:
        return
    objections = [*request.place.objections]
    if not objections:
        busy = busy_objection(request.place.folder)
        objections += [busy] if busy else []
    if objections:
        raise LabError(
            f"the device is not to be disturbed: {'; '.join(objections)}",
            "Wait for a quiet hour, or insist with --force (the figures may be too low).",
            status=ExitStatus.ENVIRONMENT,
        )


def _read_ahead(folder: Path, request: ProbeRequest) -> tuple[ReadAhead | None, str | None]:
    """The setting, when it is to be changed, and what was said against that where it is forced.

    LabError when it may not be changed.
    """
    sizes_kb = request.read_aheads_kb
    if not sizes_kb:
        return None, None
    device = find_block_device(folder)
    if device is None:
        raise LabError(
            f'"{folder}" lies on no block device whose read-ahead could be changed',
            "Leave --read-ahead out.",
            status=ExitStatus.ENVIRONMENT,
        )
    read_ahead = ReadAhead.of(device)
    for size_kb in sizes_kb:
        read_ahead.check_permitted(size_kb)
    return read_ahead, read_ahead.check_undisturbed(sizes_kb, forced=request.forced)


def _first_document(
    request: ProbeRequest, size: int, started: datetime, objection: str | None
) -> ProbeDocument:
    findings = []
    if objection:
        findings.append(Finding("warning", objection, "Its reads are changed meanwhile."))
    if request.forced and request.place.objections:
        text = f"forced although {'; '.join(request.place.objections)}"
        findings.append(Finding("warning", text, "The figures may be too low."))
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
            read_aheads_kb=request.read_aheads_kb,
        ),
        findings=tuple(findings),
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
    rates = tuple(DepthRate(point.x, point.figure.value) for point in summary.curves[0].points)
    depth_knee, size_knee = summary.curves[0].knee, summary.curves[1].knee
    assert depth_knee is not None and size_knee is not None
    return DeviceProfile(
        device=device_of(folder),
        machine=machine_name(),
        measured_at=measured_at.replace("+00:00", "Z"),
        random_read_latency_us=summary.latency_us.value,
        bandwidth_mb=summary.bandwidth_mb.value,
        depth=int(depth_knee.value),
        request_blocks=max(1, int(size_knee.value) * 1024 // BLOCK_BYTES),
        gap_limit=int(summary.gap_limit.value),
        rates=rates,
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
