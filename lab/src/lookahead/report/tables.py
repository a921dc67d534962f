"""The tables of the page: rows of text, worked out from the raw samples."""

from dataclasses import dataclass

from lookahead.machine import MachineFacts, SourceFacts
from lookahead.results import ResultDocument


@dataclass(frozen=True)
class TextTable:
    """Column heads and rows; the first `labels` columns are names, the others numbers."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int


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
        *document.facts.items(),
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


def settings_table(document: ResultDocument) -> TextTable:
    """The server's settings that differ from their defaults."""
    return TextTable(("setting", "value"), tuple(document.settings.items()), 2)
