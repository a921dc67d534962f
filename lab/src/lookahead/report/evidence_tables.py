"""The tables of what proves the results: what scans and device did, arms, machine, settings."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from lookahead.comparisons import scenarios_of
from lookahead.device.counters import Rates
from lookahead.formats import NOTHING, milliseconds, size_text
from lookahead.machine import MachineFacts, SourceFacts
from lookahead.measurements import Arm, Check, Digest, NodeEvidence, Sample, Scenario
from lookahead.measurements import Table as DataTable
from lookahead.report.sentences import labelling, scenario_label, varying_names
from lookahead.report.tables import Cells, Table, columns_of, table_of, without_columns
from lookahead.results import ResultDocument

ALL_SETTINGS = "Settings that differ from the defaults"
_ZEROS = (NOTHING, "0", "0.0", "0.00", "0.000")
_Samples = Sequence[Sample]
_Cell = Callable[[_Samples], str]


def evidence_tables(document: ResultDocument) -> list[Table]:
    """What proves that each arm's own code ran, on what, and where; without empty tables."""
    data = document.measurements
    tables = (
        *_sample_tables(data.samples),
        _cold_table(data.samples),
        _check_table(data.checks),
        _digest_table(data.digests),
        _arm_table(data.arms),
        _data_table(data.tables),
        _machine_table(document),
        Table(ALL_SETTINGS, columns_of(("setting", "value")), tuple(document.settings.items())),
    )
    return [table for table in tables if table.rows]


def _median(value: Callable[[Sample], float | None], text: Callable[[float], str]) -> _Cell:
    """A cell: the median over samples of what `value` finds, as text."""

    def cell(samples: _Samples) -> str:
        known = [number for number in map(value, samples) if number is not None]
        return text(median(known)) if known else NOTHING

    return cell


def _number(decimals: int) -> Callable[[float], str]:
    return lambda value: f"{value:,.{decimals}f}"


def _of_node(value: Callable[[NodeEvidence], float]) -> _Cell:
    return _median(lambda one: value(one.evidence) if one.evidence else None, _number(0))


_SCAN: Cells[_Samples] = (
    ("rows", _of_node(lambda node: node.rows)),
    ("removed", _of_node(lambda node: node.removed_rows)),
    ("exact", _of_node(lambda node: node.exact_blocks)),
    ("lossy", _of_node(lambda node: node.lossy_blocks)),
    ("workers", _of_node(lambda node: node.workers)),
    ("blocks read", _of_node(lambda node: node.shared_read_blocks)),
    ("prefetched", _of_node(lambda node: node.lookahead.prefetched_blocks)),
    ("asked", _of_node(lambda node: node.lookahead.requests)),
    ("advised", _of_node(lambda node: node.lookahead.advised_blocks)),
    ("bridged", _of_node(lambda node: node.lookahead.bridged_blocks)),
    ("pauses", _of_node(lambda node: node.lookahead.pauses)),
    ("mean distance", _of_node(lambda node: node.lookahead.mean_distance)),
)


def _of_use(value: Callable[[Rates], float | None], decimals: int = 0) -> _Cell:
    return _median(lambda one: value(one.use) if one.use else None, _number(decimals))


_DEVICE: Cells[_Samples] = (
    ("requests", _of_use(lambda use: use.reads)),
    ("requests/s", _of_use(lambda use: use.reads_per_s)),
    ("MB", _of_use(lambda use: use.read_bytes / 1e6)),
    ("MB/s", _of_use(lambda use: use.read_mb_per_s, 1)),
    ("request kB", _of_use(lambda use: use.request_kb, 1)),
    ("queue depth", _of_use(lambda use: use.queue_depth, 2)),
    ("await ms", _of_use(lambda use: use.await_ms, 3)),
    ("busy %", _of_use(lambda use: use.util_percent)),
    ("backend CPU ms", _median(lambda one: one.backend_cpu_ms, _number(0))),
)


def _sample_tables(samples: _Samples) -> tuple[Table, ...]:
    """What EXPLAIN, the device, the experiment and polling saw of the samples."""
    # Not the keys that an experiment has looked for.
    counts = [name for name in _names(one.counts for one in samples) if not name.endswith("_key")]
    return (
        _sample_table(
            "What the scans did, in blocks of 8 kB",
            [one for one in samples if one.evidence],
            _SCAN,
            "Medians over samples of what EXPLAIN (ANALYZE, BUFFERS, LOOKAHEAD) reports",
            [("look-ahead", _states)],
        ),
        _sample_table(
            "What the device and the sessions did",
            [one for one in samples if one.use],
            _DEVICE,
            "Medians over samples; counters of the whole machine; backend CPU is that of the "
            "sessions, where no other process had a part",
        ),
        _sample_table(
            "What was counted",
            [one for one in samples if one.counts and counts],
            [_of_counts(name) for name in counts],
            "Medians over samples",
        ),
    )


def _names(groups: Iterable[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(name for group in groups for name in group))


def _states(samples: _Samples) -> str:
    return ", ".join(sorted({one.evidence.lookahead.status for one in samples if one.evidence}))


def _of_counts(name: str) -> tuple[str, _Cell]:
    what, _, unit = name.rpartition("_")
    texts = {"bytes": size_text, "ms": milliseconds}
    shown = (what if unit in texts else name).replace("_", " ").replace("wal", "WAL")
    return shown, _median(lambda one: one.counts.get(name), texts.get(unit, _number(0)))


def _sample_table(
    title: str,
    samples: _Samples,
    numbers: Cells[_Samples],
    caption: str,
    labels: Cells[_Samples] = (),
) -> Table:
    """A row for each arm of each scenario; columns of nothing but zeros are left out.

    Without any other there is no row.
    """
    scenarios = scenarios_of(samples)
    names = varying_names(scenarios)
    groups: dict[tuple[Scenario, str], list[Sample]] = {}
    for one in samples:
        groups.setdefault((one.scenario, one.arm), []).append(one)
    order = {scenario: number for number, scenario in enumerate(scenarios)}
    ordered = [groups[key] for key in sorted(groups, key=lambda key: order[key[0]])]
    arm: Cells[_Samples] = (
        ("scenario", lambda some: scenario_label(some[0].scenario, names)),
        ("arm", lambda some: some[0].arm),
    )
    whole = table_of(title, ordered, (*arm, *labels), numbers, caption)
    table = without_columns(whole, _ZEROS)
    return table if table.labels < len(table.columns) else replace(table, rows=())


def _cold_table(samples: _Samples) -> Table:
    """How data were made cold, and what was resident before and after."""
    records = [one.cold for one in samples if one.cold]
    return table_of(
        "Cold starts",
        [records] if records else [],
        [("made cold by", lambda some: some[0].method)],
        [
            ("samples", lambda some: f"{len(some):,}"),
            ("files", lambda some: size_text(median(one.total_bytes for one in some))),
            (
                "most resident before",
                lambda some: size_text(max(one.resident_bytes_before for one in some)),
            ),
            (
                "most resident after",
                lambda some: size_text(max(one.resident_bytes_after for one in some)),
            ),
        ],
        "The server was stopped before each cold sample; resident is what mincore counts",
    )


def _check_table(checks: Sequence[Check]) -> Table:
    label = labelling(one.scenario for one in checks)
    facts = _names(one.facts for one in checks)
    rows = tuple(
        (label(one.scenario), *(one.facts.get(name, NOTHING) for name in facts)) for one in checks
    )
    return Table("Verified before it was measured", columns_of(("scenario", *facts)), rows)


def _digest_table(digests: Sequence[Digest]) -> Table:
    label = labelling(one.scenario for one in digests)
    return table_of(
        "The same rows",
        digests,
        [
            ("scenario", lambda one: label(one.scenario)),
            ("arms", lambda one: " = ".join(one.arms)),
            ("SHA-256", lambda one: one.sha256[:16]),
        ],
        [("rows", lambda one: f"{one.rows:,}")],
        "Received by the client in each of these arms and compared as they came: equal",
    )


def _arm_table(arms: Sequence[Arm]) -> Table:
    return table_of(
        "The arms",
        arms,
        [
            ("arm", lambda one: one.name),
            ("pg_lookahead", lambda one: one.library),
            ("plan", lambda one: one.plan or NOTHING),
            ("settings", _settings_text),
        ],
    )


def _settings_text(arm: Arm) -> str:
    return ", ".join(f"{name} = {value}" for name, value in arm.settings.items()) or NOTHING


def _data_table(tables: Sequence[DataTable]) -> Table:
    return table_of(
        "The tables",
        tables,
        [("table", lambda one: one.name)],
        [
            ("rows", lambda one: f"{one.rows:,}"),
            ("pages", lambda one: f"{one.pages:,}"),
            ("table", lambda one: size_text(one.table_bytes)),
            ("indexes", lambda one: size_text(one.index_bytes)),
            ("made in", lambda one: f"{one.build_seconds:,.1f} s"),
        ],
    )


def _machine_table(document: ResultDocument) -> Table:
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


def source_text(source: SourceFacts) -> str:
    commit = source.commit[:12] if source.commit else "not from a checkout"
    return f"{commit}{', with uncommitted changes' if source.dirty else ''}"


def machine_line(machine: MachineFacts) -> str:
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
