"""The tables of the page: rows of text, worked out from the raw samples."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from lookahead.machine import MachineFacts, SourceFacts
from lookahead.render import milliseconds, ratio_text, short_time
from lookahead.report.scan_plots import samples_of, scenario_text
from lookahead.results import ResultDocument
from lookahead.scan_comparisons import scenarios_of
from lookahead.scan_measurements import (
    ControlComparison,
    ControlEvidence,
    ScanComparison,
    ScanSample,
)
from lookahead.stats import RatioEstimate


@dataclass(frozen=True)
class TextTable:
    """Column heads and rows; the first `labels` columns are names, the others numbers."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int


def scan_comparison_table(comparisons: Sequence[ScanComparison]) -> TextTable:
    """Medians, ratio with interval, verdict."""
    rows = tuple(
        (
            scenario_text(item.scenario),
            item.baseline,
            milliseconds(item.baseline_median_ms),
            milliseconds(item.lookahead_median_ms),
            _ratio(item.estimate),
            item.estimate.verdict,
        )
        for item in comparisons
    )
    heads = ("scenario", "against", "time", "pg_lookahead", "ratio [interval]", "verdict")
    return TextTable(heads, rows, 2)


def control_comparison_table(comparisons: Sequence[ControlComparison]) -> TextTable:
    """Times of one execution, ratios of the least and of the medians with interval."""
    rows = tuple(
        (
            item.workload,
            item.io_method,
            item.baseline,
            short_time(item.baseline_median_ms),
            short_time(item.on_median_ms),
            f"{item.least_ratio:.2f}",
            _ratio(item.estimate),
            item.estimate.verdict,
        )
        for item in comparisons
    )
    names = ("workload", "I/O method", "against", "its time", "our time", "ratio of the least")
    return TextTable((*names, "ratio [interval]", "verdict"), rows, 3)


def control_evidence_table(evidence: Sequence[ControlEvidence]) -> TextTable:
    """What was verified before each workload."""
    rows = tuple(
        (
            item.workload,
            item.io_method,
            ", ".join(item.node_types) or "none",
            ", ".join(item.attached_arms) or "none",
            f"{item.shared_read_blocks:,}",
            "-" if item.resident_share is None else f"{item.resident_share:.1%}",
        )
        for item in evidence
    )
    names = ("workload", "I/O method", "plan", "attached in", "blocks read", "in the OS cache")
    return TextTable(names, rows, 4)


def io_table(samples: Sequence[ScanSample]) -> TextTable:
    """What the device and the processors did during the statements: medians over samples."""
    columns: tuple[tuple[str, Callable[[ScanSample], float | None], str], ...] = (
        ("requests", lambda sample: sample.timeline.overall().reads, ",.0f"),
        ("r/s", lambda sample: sample.timeline.overall().reads_per_s, ",.0f"),
        ("MB/s", lambda sample: sample.timeline.overall().read_mb_per_s, ".1f"),
        ("request kB", lambda sample: sample.timeline.overall().request_kb, ".1f"),
        ("queue depth", lambda sample: sample.timeline.overall().queue_depth, ".2f"),
        ("await ms", lambda sample: sample.timeline.overall().await_ms, ".3f"),
        ("util %", lambda sample: sample.timeline.overall().util_percent, ".0f"),
        ("user %", lambda sample: sample.timeline.overall().cpu_user_percent, ".0f"),
        ("system %", lambda sample: sample.timeline.overall().cpu_system_percent, ".0f"),
        ("iowait %", lambda sample: sample.timeline.overall().cpu_iowait_percent, ".0f"),
        ("backend, share of a core %", _backend_share, ".0f"),
    )
    rows = []
    for scenario in scenarios_of(samples):
        for arm in scenario.arms:
            chosen = samples_of(samples, scenario, arm)
            cells = (_median_text(chosen, value, form) for _, value, form in columns)
            rows.append((scenario_text(scenario), arm, *cells))
    heads = ("scenario", "arm", *(name for name, _, _ in columns))
    return TextTable(heads, tuple(rows), 2)


def evidence_table(samples: Sequence[ScanSample]) -> TextTable:
    """What proves that each arm's own code ran, and that it ran cold: medians over samples."""
    columns: tuple[tuple[str, Callable[[ScanSample], float | None]], ...] = (
        ("rows", lambda sample: sample.evidence.rows),
        ("distinct pages", lambda sample: sample.distinct_pages),
        ("blocks read", lambda sample: sample.evidence.shared_read_blocks),
        ("prefetched", lambda sample: sample.evidence.lookahead.prefetched_blocks),
        ("requests", lambda sample: sample.evidence.lookahead.requests),
        ("advised", lambda sample: sample.evidence.lookahead.advised_blocks),
        ("bridged", lambda sample: sample.evidence.lookahead.bridged_blocks),
        ("pauses", lambda sample: sample.evidence.lookahead.pauses),
        ("mean distance", lambda sample: sample.evidence.lookahead.mean_distance),
        ("resident before, MB", lambda sample: sample.cold.resident_bytes_before / 1e6),
        ("resident after, MB", lambda sample: sample.cold.resident_bytes_after / 1e6),
    )
    rows = []
    for scenario in scenarios_of(samples):
        for arm in scenario.arms:
            chosen = samples_of(samples, scenario, arm)
            status = ", ".join(sorted({sample.evidence.lookahead.status for sample in chosen}))
            cold = ", ".join(sorted({sample.cold.method for sample in chosen}))
            cells = (_median_text(chosen, value, ",.0f") for _, value in columns)
            rows.append((scenario_text(scenario), arm, status, cold, *cells))
    heads = ("scenario", "arm", "look-ahead", "made cold by", *(name for name, _ in columns))
    return TextTable(heads, tuple(rows), 4)


def facts_table(document: ResultDocument) -> TextTable:
    """Where and with what it was measured."""
    software = document.software
    rows = (
        ("measured", f"{document.started_at} to {document.finished_at or 'not finished'}"),
        ("command", " ".join(document.command)),
        ("server", f"PostgreSQL {software.server_version} ({software.server_source})"),
        ("pg_lookahead.so", f"SHA-256 {software.library_sha256[:16]}"),
        ("source", source_text(software.source)),
        *machine_rows(document.machine),
        *_delay_facts(document),
        ("seed", str(document.parameters.seed)),
    )
    return TextTable(("fact", "value"), rows, 2)


def source_text(source: SourceFacts) -> str:
    """From which commit."""
    commit = source.commit[:12] if source.commit else "not from a checkout"
    return f"{commit}{', with uncommitted changes' if source.dirty else ''}"


def machine_rows(machine: MachineFacts) -> tuple[tuple[str, str], ...]:
    """Processors, memory, system, disk."""
    device = machine.device
    rotational = {True: "rotating", False: "not rotating", None: "unknown"}[device.rotational]
    return (
        ("processors", f"{machine.cpus} x {machine.cpu_model}"),
        ("memory", f"{machine.memory_bytes / 2**30:.1f} GiB"),
        ("system", f"{machine.system}, kernel {machine.kernel}, {machine.architecture}"),
        ("hypervisor", machine.hypervisor or "none"),
        ("load average", f"{machine.load_average} at the start"),
        ("file system", f"{device.filesystem or 'unknown'} on {device.name or 'no device'}"),
        ("disk", f"{device.model or device.disk or 'unknown'}, {rotational}"),
        ("queue", f"scheduler {device.scheduler}, {device.queue_requests} requests"),
        ("read-ahead", "unknown" if device.read_ahead_kb is None else f"{device.read_ahead_kb} kB"),
    )


def _delay_facts(document: ResultDocument) -> tuple[tuple[str, str], ...]:
    """What was measured of the delay device, if there was one."""
    delay = document.delay_device
    if delay is None:
        return ()
    return (
        ("added latency", f"{delay.latency_us} us on each read, content in memory"),
        (
            "reads at once",
            f"{delay.single_reads_per_s:,.0f} reads/s one at a time, {delay.deep_reads_per_s:,.0f} "
            f"with {delay.depth} in flight ({delay.engine})",
        ),
    )


def settings_table(document: ResultDocument) -> TextTable:
    """The server's settings that differ from their defaults."""
    return TextTable(("setting", "value"), tuple(document.settings.items()), 2)


def _backend_share(sample: ScanSample) -> float | None:
    if sample.backend_cpu_ms is None:
        return None
    return 100.0 * sample.backend_cpu_ms / sample.evidence.execution_ms


def _median_text(
    samples: Sequence[ScanSample], value: Callable[[ScanSample], float | None], form: str
) -> str:
    known = [number for number in map(value, samples) if number is not None]
    return format(median(known), form) if known else "-"


def _ratio(estimate: RatioEstimate) -> str:
    rough = " (few pairs: rough)" if estimate.is_rough else ""
    return f"{ratio_text(estimate)}{rough}"
