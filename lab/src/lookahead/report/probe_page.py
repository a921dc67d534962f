"""The page of a probe: its curves with their knees, the gaps, the profile."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from lookahead.report.page import render_sections
from lookahead.report.svg import (
    NARROW,
    Canvas,
    Scale,
    in_both_widths,
    label_step,
    nice_ceiling,
    text_width,
)
from lookahead.report.tables import Table, columns_of, table_of
from lookahead.results import Content, write_atomically

_HEIGHT, _LEFT, _TOP, _BOTTOM, _LINE_HEIGHT = 280, 62, 16, 46, 15
_Curve = tuple[Markup, Table]
"""Its plot, and its points as a table."""


@dataclass(frozen=True)
class Series:
    """A line of the plot; `kind` is its style class."""

    name: str
    kind: str
    points: tuple[CurvePoint, ...]


def curve_plot(
    series: Sequence[Series], x_name: str, unit: str, knee: Interval | None, width: float
) -> Markup:
    """All series, each with at least one point; the knee is a line upright.

    Names of several series stand at the right, or below where it is narrow.
    """
    xs = sorted({point.x for one in series for point in one.points})
    high = max(point.figure.high for one in series for point in one.points)
    has_legend = width <= NARROW
    right = 12 if has_legend else max(text_width(one.name) for one in series) + 20
    step = (width - right - _LEFT) / len(xs)
    places = {x: _LEFT + (number + 0.5) * step for number, x in enumerate(xs)}
    y_scale = Scale(0, nice_ceiling(high), _HEIGHT - _BOTTOM, _TOP)
    canvas = Canvas(
        width, _HEIGHT + (len(series) * _LINE_HEIGHT if has_legend else 0), f"{unit} by {x_name}"
    )
    for tick in y_scale.ticks():
        canvas.line((_LEFT, y_scale(tick)), (width - right, y_scale(tick)), "grid")
        canvas.text((_LEFT - 6, y_scale(tick) + 4), number_text(tick), "tick", "end")
    for x in xs[:: label_step([f"{x:,}" for x in xs], step)]:
        canvas.text((places[x], _HEIGHT - _BOTTOM + 16), f"{x:,}", "tick", "middle")
    canvas.text((_LEFT, _HEIGHT - 8), x_name, "caption")
    if knee is not None:
        place = places[int(knee.value)]
        canvas.line((place, _TOP), (place, _HEIGHT - _BOTTOM), "reference")
        canvas.text((place + 5, _HEIGHT - _BOTTOM - 6), "knee", "caption")
    for number, one in enumerate(series):
        end = _draw(canvas, one, unit, places, y_scale)
        below = (_LEFT, _HEIGHT + number * _LINE_HEIGHT + 8)
        label = below if has_legend else (width - right + 10, end + 4)
        canvas.text(label, one.name, f"arm-label {one.kind}")
    return canvas.render()


def _draw(
    canvas: Canvas, series: Series, unit: str, places: Mapping[int, float], y_scale: Scale
) -> float:
    """The points with their intervals and the line through them; returns where it ends."""
    line = []
    for point in series.points:
        x, figure = places[point.x], point.figure
        line.append((x, y_scale(figure.value)))
        canvas.line((x, y_scale(figure.low)), (x, y_scale(figure.high)), "interval")
        tip = f"{series.name}, {point.x:,}: {interval_text(figure)} {unit}"
        canvas.circle(line[-1], 3.4, f"dot {series.kind}", tip)
    canvas.polyline(line, f"series {series.kind}")
    return line[-1][1]


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
        line = Series(curve.name, "ours", curve.points)
        yield (
            in_both_widths(partial(curve_plot, [line], curve.x_name, curve.unit, curve.knee)),
            Table(curve.name, columns_of((curve.x_name,), (f"{curve.unit} [interval]",)), rows),
        )
    if summary.gaps:
        yield _gaps(summary.gaps, summary.gap_depth)


def _gaps(gaps: Sequence[GapPoint], depth: int) -> _Curve:
    """Two blocks with a gap between them: all as one request, or the two alone."""
    through = tuple(CurvePoint(gap.gap_blocks, gap.through) for gap in gaps)
    skip = tuple(CurvePoint(gap.gap_blocks, gap.skip) for gap in gaps)
    lines = [Series("read through", "ours", through), Series("skipped", "arm-0", skip)]
    table = table_of(
        f"two blocks with a gap, {depth} requests in flight",
        gaps,
        [("gap blocks", lambda gap: str(gap.gap_blocks))],
        [
            ("read through, pairs/s [interval]", lambda gap: interval_text(gap.through)),
            ("skipped, pairs/s [interval]", lambda gap: interval_text(gap.skip)),
        ],
    )
    return in_both_widths(partial(curve_plot, lines, "gap blocks", "pairs/s", None)), table


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
