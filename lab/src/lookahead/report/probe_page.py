"""The page of a probe: its curves with their knees, the gaps, the profile."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from markupsafe import Markup

from lookahead.device.probe.analysis import interval_text
from lookahead.device.probe.probe_data import (
    CurvePoint,
    GapPoint,
    Interval,
    ProbeDocument,
    ProbeSummary,
)
from lookahead.device.profile import format_profiles
from lookahead.report.curve_plot import Series, curve_plot
from lookahead.report.environment import embedded, render_sections
from lookahead.report.evidence_tables import machine_rows, source_text
from lookahead.report.svg import in_both_widths
from lookahead.report.tables import Table, columns_of
from lookahead.results import Finding, write_atomically


@dataclass(frozen=True)
class CurveFigure:
    """A curve as plot and as table."""

    title: str
    plot: Markup
    points: Table


@dataclass(frozen=True)
class ProbeSection:
    """One probe on the page; `data` is its result itself."""

    name: str
    title: str
    ending: str
    is_complete: bool
    findings: tuple[Finding, ...]
    rounds: int
    summary: Table | None
    curves: tuple[CurveFigure, ...]
    profile: str
    facts: Table
    data: Markup


def write_probe_page(documents: Sequence[tuple[str, ProbeDocument]], path: Path) -> Path:
    """Write the page of these (name, probe) pairs; returns its path. LabError: cannot write."""
    write_atomically(path, render_probe_page(documents))
    return path


def render_probe_page(documents: Sequence[tuple[str, ProbeDocument]]) -> str:
    """The page as text."""
    return render_sections("probe.html", [_section(name, document) for name, document in documents])


def _section(name: str, document: ProbeDocument) -> ProbeSection:
    summary, device = document.summary, document.machine.device
    return ProbeSection(
        name=name,
        title=device.model or device.disk or device.name or "unknown device",
        ending=document.ending,
        is_complete=document.status == "complete",
        findings=document.findings,
        rounds=summary.rounds if summary else 0,
        summary=_summary(summary) if summary else None,
        curves=tuple(_curves(summary)) if summary else (),
        profile=format_profiles((document.profile,)) if document.profile else "",
        facts=_facts(document),
        data=embedded(asdict(document)),
    )


def _summary(summary: ProbeSummary) -> Table:
    paid = "none" if summary.gap_break_even is None else f"{summary.gap_break_even} blocks"
    rows = (
        ("random read of 8 kB, alone", f"{interval_text(summary.latency_us)} us"),
        ("bandwidth", f"{interval_text(summary.bandwidth_mb)} MB/s"),
        *(
            (f"knee of {curve.name}", f"{curve.x_name} {interval_text(curve.knee)}")
            for curve in summary.curves
            if curve.knee
        ),
        ("gap limit, by IOPS and bandwidth", f"{interval_text(summary.gap_limit)} blocks"),
        ("longest gap measured that paid", paid),
    )
    return Table("", columns_of(("figure",), ("value [interval]",)), rows)


def _curves(summary: ProbeSummary) -> Iterator[CurveFigure]:
    for curve in summary.curves:
        rows = tuple((str(point.x), interval_text(point.figure)) for point in curve.points)
        line = Series(curve.name, "ours", curve.points)
        yield CurveFigure(
            curve.name,
            in_both_widths(partial(curve_plot, [line], curve.x_name, curve.unit, curve.knee)),
            Table("", columns_of((curve.x_name,), (f"{curve.unit} [interval]",)), rows),
        )
    if summary.gaps:
        yield _gaps(summary.gaps, summary.gap_depth)


def _gaps(gaps: Sequence[GapPoint], depth: int) -> CurveFigure:
    """Two blocks with a gap between them: all as one request, or the two alone."""

    def points(kind: str) -> tuple[CurvePoint, ...]:
        figures: list[Interval] = [getattr(gap, kind) for gap in gaps]
        return tuple(
            CurvePoint(gap.gap_blocks, figure) for gap, figure in zip(gaps, figures, strict=True)
        )

    lines = [
        Series("read through", "ours", points("through")),
        Series("skipped", "arm-0", points("skip")),
    ]
    rows = tuple(
        (str(gap.gap_blocks), interval_text(gap.through), interval_text(gap.skip)) for gap in gaps
    )
    numbers = ("read through, pairs/s [interval]", "skipped, pairs/s [interval]")
    return CurveFigure(
        f"two blocks with a gap, {depth} requests in flight",
        in_both_widths(partial(curve_plot, lines, "gap blocks", "pairs/s", None)),
        Table("", columns_of(("gap blocks",), numbers), rows),
    )


def _facts(document: ProbeDocument) -> Table:
    parameters = document.parameters
    engines = dict.fromkeys(sample.engine for sample in document.samples)
    rows = (
        ("measured", f"{document.started_at} to {document.finished_at or 'not finished'}"),
        ("command", " ".join(document.command)),
        ("engine", ", ".join(engines) or "none"),
        ("test file", f"{parameters.size_bytes / 2**20:,.0f} MB"),
        ("source", source_text(document.source)),
        *machine_rows(document.machine),
        ("seed", str(parameters.seed)),
    )
    return Table("Machine", columns_of(("fact", "value")), rows)
