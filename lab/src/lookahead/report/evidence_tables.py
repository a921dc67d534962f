"""The tables of what proves the results: what scans and device did, arms, machine, settings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from lookahead.comparisons import scenarios_of
from lookahead.device.counters import Rates
from lookahead.formats import NOTHING, milliseconds, size_text
from lookahead.machine import MachineFacts, SourceFacts
from lookahead.measurements import (
    Arm,
    Check,
    Digest,
    Measurements,
    NodeEvidence,
    Sample,
    Scenario,
)
from lookahead.measurements import Table as DataTable
from lookahead.report.sentences import scenario_label, varying_names
from lookahead.report.tables import Table, columns_of, without_columns
from lookahead.results import ResultDocument

T = TypeVar("T")
_TELLING_SETTINGS = (
    *("shared_buffers", "work_mem", "maintenance_work_mem", "effective_", "maintenance_io"),
    *("io_", "max_parallel", "enable_", "jit", "autovacuum", "wal_level", "pg_lookahead."),
)
_ZEROS = (NOTHING, "0", "0.0", "0.00", "0.000")
Value = Callable[[Sample], float | None]


@dataclass(frozen=True)
class _Quantity:
    """A column: the median over samples of what `value` finds, as text."""

    name: str
    value: Value
    text: Callable[[float], str]


def evidence_tables(document: ResultDocument) -> list[Table]:
    """What proves that each arm's own code ran, on what, and where; without empty tables."""
    tables = _measured_tables(document.measurements)
    tables += [machine_table(document), settings_table(document)]
    return [table for table in tables if table.rows]


def _measured_tables(data: Measurements) -> list[Table]:
    samples = data.samples
    return [
        scan_table(samples),
        device_table(samples),
        count_table(samples),
        phase_table(samples),
        cold_table(samples),
        check_table(data.checks),
        digest_table(data.digests),
        arm_table(data.arms),
        data_table(data.tables),
    ]


def _number(decimals: int) -> Callable[[float], str]:
    return lambda value: f"{value:,.{decimals}f}"


def _of_node(name: str, value: Callable[[NodeEvidence], float]) -> _Quantity:
    def found(sample: Sample) -> float | None:
        return None if sample.evidence is None else value(sample.evidence)

    return _Quantity(name, found, _number(0))


_SCAN = (
    _of_node("rows", lambda node: node.rows),
    _of_node("removed", lambda node: node.removed_rows),
    _of_node("exact", lambda node: node.exact_blocks),
    _of_node("lossy", lambda node: node.lossy_blocks),
    _of_node("workers", lambda node: node.workers),
    _of_node("blocks read", lambda node: node.shared_read_blocks),
    _of_node("prefetched", lambda node: node.lookahead.prefetched_blocks),
    _of_node("asked", lambda node: node.lookahead.requests),
    _of_node("advised", lambda node: node.lookahead.advised_blocks),
    _of_node("bridged", lambda node: node.lookahead.bridged_blocks),
    _of_node("pauses", lambda node: node.lookahead.pauses),
    _of_node("mean distance", lambda node: node.lookahead.mean_distance),
)


def scan_table(samples: Sequence[Sample]) -> Table:
    """What EXPLAIN reports of the scans."""
    chosen = [one for one in samples if one.evidence]
    caption = "Medians over samples of what EXPLAIN (ANALYZE, BUFFERS, LOOKAHEAD) reports"
    table = _sample_table("What the scans did, in blocks of 8 kB", chosen, _SCAN, caption)
    names = [one.name for one in table.columns]
    states = _by_arm(chosen, lambda some: ", ".join(sorted(_states(some))))
    rows = tuple((*row[:2], state, *row[2:]) for row, state in zip(table.rows, states, strict=True))
    return Table(table.title, columns_of((*names[:2], "look-ahead"), names[2:]), rows, caption)


def _states(samples: Sequence[Sample]) -> set[str]:
    return {one.evidence.lookahead.status for one in samples if one.evidence}


def _of_use(name: str, value: Callable[[Rates], float | None], decimals: int = 0) -> _Quantity:
    def found(sample: Sample) -> float | None:
        use = sample.use
        if use is None and sample.timeline is not None:
            use = sample.timeline.overall()
        return None if use is None else value(use)

    return _Quantity(name, found, _number(decimals))


_DEVICE = (
    _of_use("requests", lambda use: use.reads),
    _of_use("requests/s", lambda use: use.reads_per_s),
    _of_use("MB", lambda use: use.read_bytes / 1e6),
    _of_use("MB/s", lambda use: use.read_mb_per_s, 1),
    _of_use("request kB", lambda use: use.request_kb, 1),
    _of_use("queue depth", lambda use: use.queue_depth, 2),
    _of_use("await ms", lambda use: use.await_ms, 3),
    _of_use("busy %", lambda use: use.util_percent),
    _of_use("user %", lambda use: use.cpu_user_percent),
    _of_use("system %", lambda use: use.cpu_system_percent),
    _of_use("iowait %", lambda use: use.cpu_iowait_percent),
    _Quantity("backend CPU ms", lambda one: one.backend_cpu_ms, _number(0)),
)


def device_table(samples: Sequence[Sample]) -> Table:
    """What the block device and the processors did during the statements."""
    chosen = [one for one in samples if one.use or one.timeline]
    caption = (
        "Medians over samples; counters of the whole machine, processors in percent of all; "
        "backend CPU is that of the sessions, where no other process had a part"
    )
    return _sample_table("What the device and the processors did", chosen, _DEVICE, caption)


def count_table(samples: Sequence[Sample]) -> Table:
    """What the experiment counted beside the time; not the keys that it looked for."""
    names = dict.fromkeys(name for one in samples for name in one.counts)
    quantities = [_of_counts(name) for name in names if not name.endswith("_key")]
    chosen = [one for one in samples if one.counts] if quantities else []
    return _sample_table("What was counted", chosen, quantities, "Medians over samples")


def _of_counts(name: str) -> _Quantity:
    text = size_text if name.endswith("_bytes") else _number(0)
    shown = name.removesuffix("_bytes").replace("_", " ").replace("wal", "WAL")
    return _Quantity(shown, lambda one: one.counts.get(name), text)


def phase_table(samples: Sequence[Sample]) -> Table:
    """Where the time went."""
    names = dict.fromkeys(name for one in samples for name in one.phases_ms)
    quantities = [_of_phases(name) for name in names]
    chosen = [one for one in samples if one.phases_ms]
    caption = "Medians over the samples in which a phase was seen by polling"
    return _sample_table("Where the time went", chosen, quantities, caption)


def _of_phases(name: str) -> _Quantity:
    return _Quantity(name, lambda one: one.phases_ms.get(name), milliseconds)


def _sample_table(
    title: str, samples: Sequence[Sample], quantities: Sequence[_Quantity], caption: str
) -> Table:
    """A row for each arm of each scenario; columns of nothing but zeros are left out."""
    scenarios = scenarios_of(samples)
    names = varying_names(scenarios)
    rows = tuple(
        (
            scenario_label(some[0].scenario, names),
            some[0].arm,
            *(_median_text(some, one) for one in quantities),
        )
        for some in _by_arm(samples, list)
    )
    columns = columns_of(("scenario", "arm"), [one.name for one in quantities])
    return without_columns(Table(title, columns, rows, caption), _ZEROS)


def _by_arm(samples: Sequence[Sample], found: Callable[[Sequence[Sample]], T]) -> list[T]:
    """What is found in the samples of each arm of each scenario, in the order measured."""
    groups: dict[tuple[Scenario, str], list[Sample]] = {}
    for one in samples:
        groups.setdefault((one.scenario, one.arm), []).append(one)
    order = {scenario: number for number, scenario in enumerate(scenarios_of(samples))}
    return [found(groups[key]) for key in sorted(groups, key=lambda key: order[key[0]])]


def _median_text(samples: Sequence[Sample], quantity: _Quantity) -> str:
    known = [number for number in map(quantity.value, samples) if number is not None]
    return quantity.text(median(known)) if known else NOTHING


def cold_table(samples: Sequence[Sample]) -> Table:
    """How data were made cold, and what was resident before and after."""
    methods = dict.fromkeys(one.cold.method for one in samples if one.cold)
    rows = []
    for method in methods:
        chosen = [one.cold for one in samples if one.cold and one.cold.method == method]
        rows.append(
            (
                method,
                f"{len(chosen):,}",
                size_text(median(one.total_bytes for one in chosen)),
                size_text(max(one.resident_bytes_before for one in chosen)),
                size_text(max(one.resident_bytes_after for one in chosen)),
            )
        )
    numbers = ("samples", "files", "most resident before", "most resident after")
    caption = "The server was stopped before each cold sample; resident is what mincore counts"
    return Table("Cold starts", columns_of(("made cold by",), numbers), tuple(rows), caption)


def check_table(checks: Sequence[Check]) -> Table:
    """What was verified before each scenario."""
    names = varying_names([one.scenario for one in checks])
    facts = list(dict.fromkeys(name for one in checks for name in one.facts))
    rows = tuple(
        (
            scenario_label(one.scenario, names),
            *(one.facts.get(name, NOTHING) for name in facts),
        )
        for one in checks
    )
    return Table("Verified before it was measured", columns_of(("scenario", *facts)), rows)


def digest_table(digests: Sequence[Digest]) -> Table:
    """The rows that were received in several arms and found equal."""
    names = varying_names([one.scenario for one in digests])
    rows = tuple(
        (
            scenario_label(one.scenario, names),
            " = ".join(one.arms),
            "as they came" if one.ordered else "sorted",
            one.sha256[:16],
            f"{one.rows:,}",
        )
        for one in digests
    )
    columns = columns_of(("scenario", "arms", "order", "SHA-256"), ("rows",))
    caption = "Received by the client in each of these arms and compared: equal"
    return Table("The same rows", columns, rows, caption)


def arm_table(arms: Sequence[Arm]) -> Table:
    """What each arm's sessions had set."""
    rows = tuple(
        (arm.name, arm.library, arm.plan or NOTHING, _settings_text(arm.settings)) for arm in arms
    )
    return Table("The arms", columns_of(("arm", "pg_lookahead", "plan", "settings")), rows)


def _settings_text(settings: dict[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in settings.items()) or NOTHING


def data_table(tables: Sequence[DataTable]) -> Table:
    """The tables that were read."""
    rows = tuple(
        (
            one.name,
            f"{one.rows:,}",
            f"{one.pages:,}",
            size_text(one.table_bytes),
            size_text(one.index_bytes),
            f"{one.build_seconds:,.1f} s",
        )
        for one in tables
    )
    numbers = ("rows", "pages", "table", "indexes", "made in")
    return Table("The tables", columns_of(("table",), numbers), rows)


def machine_table(document: ResultDocument) -> Table:
    """Where and with what it was measured."""
    software = document.software
    rows = (
        ("measured", f"{document.started_at} to {document.finished_at or 'not finished'}"),
        ("command", " ".join(document.command)),
        ("server", f"PostgreSQL {software.server_version} ({software.server_source})"),
        ("pg_lookahead.so", f"SHA-256 {software.library_sha256[:16]}"),
        ("source", source_text(software.source)),
        *machine_rows(document.machine),
        *document.facts.items(),
        ("seed", str(document.parameters.seed)),
    )
    return Table("Machine and software", columns_of(("fact", "value")), rows)


def settings_table(document: ResultDocument) -> Table:
    """The server's settings that differ from their defaults."""
    rows = tuple(document.settings.items())
    return Table("Settings that differ from the defaults", columns_of(("setting", "value")), rows)


def settings_line(document: ResultDocument) -> str:
    """The settings that decide about speed, in a line; all of them are in `settings_table`."""
    return ", ".join(
        f"{name} = {value}"
        for name, value in document.settings.items()
        if name.startswith(_TELLING_SETTINGS)
    )


def source_text(source: SourceFacts) -> str:
    """From which commit."""
    commit = source.commit[:12] if source.commit else "not from a checkout"
    return f"{commit}{', with uncommitted changes' if source.dirty else ''}"


def machine_line(machine: MachineFacts) -> str:
    """The machine in a line."""
    return ", ".join(
        (
            f"{machine.cpus} x {machine.cpu_model}",
            f"{machine.memory_bytes / 2**30:.0f} GiB",
            _disk_text(machine),
            machine.system,
            f"kernel {machine.kernel}",
        )
    )


def machine_rows(machine: MachineFacts) -> tuple[tuple[str, str], ...]:
    """Processors, memory, system, disk."""
    device = machine.device
    return (
        ("processors", f"{machine.cpus} x {machine.cpu_model}"),
        ("memory", f"{machine.memory_bytes / 2**30:.1f} GiB"),
        ("system", f"{machine.system}, kernel {machine.kernel}, {machine.architecture}"),
        ("hypervisor", machine.hypervisor or "none"),
        ("load average", f"{machine.load_average} at the start"),
        ("file system", f"{device.filesystem or 'unknown'} on {device.name or 'no device'}"),
        ("disk", _disk_text(machine)),
        ("queue", f"scheduler {device.scheduler}, {device.queue_requests} requests"),
        ("read-ahead", "unknown" if device.read_ahead_kb is None else f"{device.read_ahead_kb} kB"),
    )


def _disk_text(machine: MachineFacts) -> str:
    """Its model and kind; the kernel calls virtual disks rotating, whatever is below them."""
    device = machine.device
    name = device.model or device.disk or "unknown disk"
    if device.rotational and (machine.hypervisor or (device.disk or "").startswith(("vd", "xvd"))):
        kind = "virtual disk"
    else:
        kind = {True: "rotating", False: "not rotating", None: "kind unknown"}[device.rotational]
    return f"{name} ({kind})"
