"""The page of a probe: its curves with their knees, the profile."""

from collections.abc import Sequence
from functools import partial

from markupsafe import Markup

from lookahead.device.probe.probe_data import Interval, ProbeCurve, ProbeDocument, ProbeSummary
from lookahead.device.profile import format_profiles
from lookahead.formats import number_text, rate_text
from lookahead.report.evidence_tables import machine_rows, source_text
from lookahead.report.line_plot import Axes, Line, Spot, line_plot
from lookahead.report.page import render_sections
from lookahead.report.svg import Scale, nice_ceiling
from lookahead.report.tables import Table, columns_of, table_of
from lookahead.results import Content


def render_probe_page(
    documents: Sequence[tuple[str, ProbeDocument]], contents: Sequence[Content] | None = None
) -> str:
    return render_sections("probe.html", _section, documents, contents)


def _section(document: ProbeDocument) -> dict[str, object]:
    summary, device = document.summary, document.machine.device
    tables = probe_tables(summary) if summary else []
    plots = map(_plot, summary.curves) if summary else ()
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
    ]


def _summary_table(summary: ProbeSummary) -> Table:
    rows = (
        ("random read of 8 kB, alone", f"{interval_text(summary.latency_us)} us"),
        ("bandwidth", f"{interval_text(summary.bandwidth_mb)} MB/s"),
        *(
            (f"knee of {curve.name}", f"{curve.x_name} {interval_text(curve.knee)}")
            for curve in summary.curves
        ),
        ("gap limit, by IOPS and bandwidth", f"{interval_text(summary.gap_limit)} blocks"),
    )
    several = f"Medians over {summary.rounds} rounds with bootstrap intervals of 95 %"
    rests_on = several if summary.rounds > 1 else "One round: no intervals"
    caption = f"{rests_on}. A knee is the smallest value that reaches 95 % of the best"
    return Table(
        "What was worked out", columns_of(("figure",), ("value [interval]",)), rows, caption
    )


def _plot(curve: ProbeCurve) -> Markup:
    xs = [point.x for point in curve.points]
    axes = Axes(
        title=f"{curve.unit} by {curve.x_name}",
        x_name=curve.x_name,
        labels=[f"{x:,}" for x in xs],
        y_scale=partial(Scale, 0, nice_ceiling(max(point.figure.high for point in curve.points))),
        y_text=number_text,
        knee=xs.index(int(curve.knee.value)),
    )
    spots = []
    for at, (x, figure) in enumerate((point.x, point.figure) for point in curve.points):
        tip = f"{curve.name}, {x:,}: {interval_text(figure)} {curve.unit}"
        spots.append(Spot(at, ((figure.value, tip),), (figure.low, figure.high)))
    return line_plot(axes, [Line(curve.name, "ours", tuple(spots))])


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
