"""The page of a probe: its curves with their knees, the gaps, the profile."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from markupsafe import Markup

from lookahead.device.probe.probe_data import (
    CurvePoint,
    Interval,
    ProbeDocument,
    ProbeSummary,
)
from lookahead.device.profile import format_profiles
from lookahead.formats import number_text, rate_text
from lookahead.report.evidence_tables import machine_rows, source_text
from lookahead.report.line_plot import Axes, Line, Spot, line_plot
from lookahead.report.page import render_sections
from lookahead.report.svg import Scale, in_both_widths, nice_ceiling
from lookahead.report.tables import Table, columns_of, table_of
from lookahead.results import Content


def render_probe_page(
    documents: Sequence[tuple[str, ProbeDocument]], contents: Sequence[Content] | None = None
) -> str:
    return render_sections("probe.html", _section, documents, contents)


def _section(document: ProbeDocument) -> dict[str, object]:
    summary, device = document.summary, document.machine.device
    tables = probe_tables(summary) if summary else []
    plots = list(_plots(summary)) if summary else []
    return {
        "title": device.model or device.disk or device.name or "unknown device",
        "summary": tables[0] if tables else None,
        "curves": list(zip(plots, tables[1:], strict=True)),
        "profile": format_profiles((document.profile,)) if document.profile else "",
        "facts": _facts(document),
    }


def probe_tables(summary: ProbeSummary) -> list[Table]:
    return [
        _summary_table(summary),
        *(
            table_of(
                curve.name,
                curve.points,
                [(curve.x_name, lambda point: str(point.x))],
                [(f"{curve.unit} [interval]", lambda point: interval_text(point.figure))],
            )
            for curve in summary.curves
        ),
        *([_gap_table(summary)] if summary.gaps else ()),
    ]


def _summary_table(summary: ProbeSummary) -> Table:
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
    several = f"Medians over {summary.rounds} rounds with bootstrap intervals of 95 %"
    rests_on = several if summary.rounds > 1 else "One round: no intervals"
    caption = f"{rests_on}. A knee is the smallest value that reaches 95 % of the best"
    return Table(
        "What was worked out", columns_of(("figure",), ("value [interval]",)), rows, caption
    )


def _gap_table(summary: ProbeSummary) -> Table:
    return table_of(
        f"two blocks with a gap, {summary.gap_depth} requests in flight",
        summary.gaps,
        [("gap blocks", lambda gap: str(gap.gap_blocks))],
        [
            ("read through, pairs/s [interval]", lambda gap: interval_text(gap.through)),
            ("skipped, pairs/s [interval]", lambda gap: interval_text(gap.skip)),
        ],
    )


def _plots(summary: ProbeSummary) -> Iterator[Markup]:
    for curve in summary.curves:
        yield _plot({curve.name: curve.points}, curve.x_name, curve.unit, curve.knee)
    if summary.gaps:
        curves = {
            "read through": [CurvePoint(gap.gap_blocks, gap.through) for gap in summary.gaps],
            "skipped": [CurvePoint(gap.gap_blocks, gap.skip) for gap in summary.gaps],
        }
        yield _plot(curves, "gap blocks", "pairs/s", None)


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


def interval_text(interval: Interval) -> str:
    """A figure and its interval, such as "512 [498, 530]"; alone where it had no spread.

    A single round has none.
    """
    if interval.low == interval.high:
        return rate_text(interval.value)
    low, high = rate_text(interval.low), rate_text(interval.high)
    return f"{rate_text(interval.value)} [{low}, {high}]"
