"""The page of a probe: its curves with their knees, the gaps, the profile."""

from collections.abc import Iterator, Mapping, Sequence
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
from lookahead.formats import number_text
from lookahead.report.evidence_tables import machine_rows, source_text
from lookahead.report.line_plot import Axes, Line, Spot, line_plot
from lookahead.report.page import render_sections
from lookahead.report.svg import Scale, in_both_widths, nice_ceiling
from lookahead.report.tables import Table, columns_of, table_of
from lookahead.results import Content, write_atomically

_Curve = tuple[Markup, Table]
"""Its plot, and its points as a table."""


def write_probe_page(
    documents: Sequence[tuple[str, ProbeDocument]],
    path: Path,
    contents: Sequence[Content] | None = None,
) -> Path:
    """Write the page of these (name, probe) pairs; returns its path. LabError: cannot write."""
    write_atomically(path, render_probe_page(documents, contents))
    return path


def render_probe_page(
    documents: Sequence[tuple[str, ProbeDocument]], contents: Sequence[Content] | None = None
) -> str:
    """The page as text; see `render_sections`."""
    return render_sections("probe.html", _section, documents, contents)


def _section(document: ProbeDocument) -> dict[str, object]:
    summary, device = document.summary, document.machine.device
    return {
        "title": device.model or device.disk or device.name or "unknown device",
        "summary": _summary(summary) if summary else None,
        "curves": list(_curves(summary)) if summary else (),
        "profile": format_profiles((document.profile,)) if document.profile else "",
        "facts": _facts(document),
    }


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


def _curves(summary: ProbeSummary) -> Iterator[_Curve]:
    for curve in summary.curves:
        rows = tuple((str(point.x), interval_text(point.figure)) for point in curve.points)
        yield (
            _plot({curve.name: curve.points}, curve.x_name, curve.unit, curve.knee),
            Table(curve.name, columns_of((curve.x_name,), (f"{curve.unit} [interval]",)), rows),
        )
    if summary.gaps:
        yield _gaps(summary.gaps, summary.gap_depth)


def _gaps(gaps: Sequence[GapPoint], depth: int) -> _Curve:
    """Two blocks with a gap between them: all as one request, or the two alone."""
    curves = {
        "read through": [CurvePoint(gap.gap_blocks, gap.through) for gap in gaps],
        "skipped": [CurvePoint(gap.gap_blocks, gap.skip) for gap in gaps],
    }
    table = table_of(
        f"two blocks with a gap, {depth} requests in flight",
        gaps,
        [("gap blocks", lambda gap: str(gap.gap_blocks))],
        [
            ("read through, pairs/s [interval]", lambda gap: interval_text(gap.through)),
            ("skipped, pairs/s [interval]", lambda gap: interval_text(gap.skip)),
        ],
    )
    return _plot(curves, "gap blocks", "pairs/s", None), table


def _plot(
    curves: Mapping[str, Sequence[CurvePoint]], x_name: str, unit: str, knee: Interval | None
) -> Markup:
    """The curves, each with at least one point; the first one is drawn as ours."""
    xs = sorted({point.x for points in curves.values() for point in points})
    high = max(point.figure.high for points in curves.values() for point in points)
    axes = Axes(
        title=f"{unit} by {x_name}",
        x_name=x_name,
        labels=[f"{x:,}" for x in xs],
        y_scale=partial(Scale, 0, nice_ceiling(high)),
        y_text=number_text,
        knee=None if knee is None else xs.index(int(knee.value)),
    )
    lines = []
    for (name, points), kind in zip(curves.items(), ("ours", "arm-0"), strict=False):
        spots = []
        for x, figure in ((point.x, point.figure) for point in points):
            tip = f"{name}, {x:,}: {interval_text(figure)} {unit}"
            spots.append(Spot(xs.index(x), ((figure.value, tip),), (figure.low, figure.high)))
        lines.append(Line(name, kind, tuple(spots)))
    return in_both_widths(partial(line_plot, axes, lines))


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
