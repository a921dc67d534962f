"""The plots of what was found out: ratios with their intervals, and all samples."""

from collections.abc import Sequence
from functools import partial
from statistics import median
from textwrap import wrap

from markupsafe import Markup

from lookahead.comparisons import Panel, arms_of, samples_of
from lookahead.formats import milliseconds, number_text, ratio_text
from lookahead.measurements import Arm, Measurements, Sample
from lookahead.report.line_plot import Axes, Line, Spot, line_plot
from lookahead.report.svg import (
    COLOURS,
    LINE_HEIGHT,
    WIDTH,
    Canvas,
    Scale,
    nice_ceiling,
    text_width,
    time_text,
)
from lookahead.stats import RatioEstimate

_ROW_HEIGHT = 24
_VALUE_WIDTH = 150
# Longer labels have several lines.
_LABEL_WIDTH = WIDTH / 2
# A ratio close to 1 is read on a scale that shows percents, a large one on a scale from 0.
_CLOSE = 0.25
RatioRow = tuple[str, RatioEstimate]
"""A row's label and its estimate."""


def ratio_plot(rows: Sequence[RatioRow], caption: str) -> Markup:
    """The plot of at least one row; without an interval a ratio is a dot."""
    left = min(max(text_width(label) for label, _ in rows), _LABEL_WIDTH) + 12
    letters = max(1, int((left - 12) / text_width("x")))
    labels = [wrap(label, letters) or [""] for label, _ in rows]
    height = _ROW_HEIGHT + (max(map(len, labels)) - 1) * LINE_HEIGHT
    bottom = len(rows) * height + 8
    canvas = Canvas(WIDTH, bottom + 40, caption)
    scale = Scale(*_range(rows), left, WIDTH - _VALUE_WIDTH)
    canvas.upright_grid(scale, bottom, lambda tick: number_text(round(tick, 6)))
    canvas.line((scale(1), 4), (scale(1), bottom), "reference")
    for position, (lines, (_, estimate)) in enumerate(zip(labels, rows, strict=True)):
        y = (position + 0.5) * height + 4
        top = y + 4 - (len(lines) - 1) * LINE_HEIGHT / 2
        for number, line in enumerate(lines):
            canvas.text((left - 12, top + number * LINE_HEIGHT), line, "label", "end")
        _mark(canvas, scale, y, estimate)
        canvas.text((WIDTH - _VALUE_WIDTH + 10, y + 4), ratio_text(estimate), "label")
    start = min(scale.start, WIDTH - text_width(caption))
    canvas.text((start, bottom + 32), caption, "caption")
    return canvas.render()


def _mark(canvas: Canvas, scale: Scale, y: float, estimate: RatioEstimate) -> None:
    kind = estimate.verdict.replace(" ", "-")
    if estimate.has_interval:
        canvas.line((scale(estimate.low), y), (scale(estimate.high), y), f"interval {kind}")
    canvas.circle((scale(estimate.ratio), y), 4.5, f"dot {kind}", ratio_text(estimate))


def _range(rows: Sequence[RatioRow]) -> tuple[float, float]:
    shown = [estimate for _, estimate in rows]
    lows = [one.low if one.has_interval else one.ratio for one in shown]
    highs = [one.high if one.has_interval else one.ratio for one in shown]
    farthest = max(max(highs) - 1, 1 - min(lows))
    if farthest <= _CLOSE:
        margin = nice_ceiling(max(farthest, 0.01) * 1.1)
        return 1 - margin, 1 + margin
    return 0.0, max(nice_ceiling(max(highs)), 1.5)


def sample_plot(data: Measurements, panel: Panel) -> Markup:
    """All samples of the panel, with their medians. Time is logarithmic."""
    samples = [one for one in data.samples if one.scenario in panel.scenarios]
    kinds = _kinds(data.arms, arms_of(samples))
    values = [scenario.factors[0].value for scenario in panel.scenarios]
    if len(values) > 1 and all(value[:1].isdigit() for value in values):
        return _line_plot(panel, samples, kinds)
    return _row_plot(panel, samples, kinds)


def _kinds(known: Sequence[Arm], names: Sequence[str]) -> dict[str, str]:
    """A style class for each arm: ours have theirs, stock's others a colour each."""
    ours = {arm.name for arm in known if arm.library == "on"}
    stock = [name for name in names if name not in ours]
    return {
        name: "ours" if name in ours else f"arm-{stock.index(name) % COLOURS}" for name in names
    }


def _title(panel: Panel) -> str:
    return f"time by {panel.axis}{f': {panel.title}' if panel.title else ''}"


def _line_plot(panel: Panel, samples: Sequence[Sample], kinds: dict[str, str]) -> Markup:
    axes = Axes(
        title=_title(panel),
        x_name=panel.axis,
        labels=[scenario.factors[0].value for scenario in panel.scenarios],
        y_scale=partial(_time_scale, samples),
        y_text=time_text,
    )
    lines = []
    for arm, kind in kinds.items():
        found = [samples_of(samples, scenario, arm) for scenario in panel.scenarios]
        dots = [tuple((one.time_ms, _tip(one)) for one in some) for some in found]
        lines.append(Line(arm, kind, tuple(Spot(at, some) for at, some in enumerate(dots) if some)))
    return line_plot(axes, lines)


def _time_scale(samples: Sequence[Sample], start: float, end: float) -> Scale:
    times = [one.time_ms for one in samples]
    return Scale(min(times) / 1.15, max(times) * 1.15, start, end, logarithmic=True)


def _tip(sample: Sample) -> str:
    return f"{sample.arm}, round {sample.round + 1}: {milliseconds(sample.time_ms)}"


def _row_plot(panel: Panel, samples: Sequence[Sample], kinds: dict[str, str]) -> Markup:
    """Dots on a row for each scenario, or for each arm of a single one; medians are bars."""
    rows: dict[str, list[Sample]] = {}
    is_single = len(panel.scenarios) == 1
    for one in samples:
        rows.setdefault(one.arm if is_single else one.scenario.factors[0].value, []).append(one)
    left = max(map(text_width, rows)) + 16
    bottom = len(rows) * _ROW_HEIGHT + 6
    below = 0 if is_single else len(kinds) * LINE_HEIGHT + 14
    canvas = Canvas(WIDTH, bottom + 24 + below, _title(panel))
    scale = _time_scale(samples, left, WIDTH - 26)
    canvas.upright_grid(scale, bottom, time_text)
    for position, (label, row) in enumerate(rows.items(), start=1):
        y = position * _ROW_HEIGHT - 8
        canvas.text((left - 12, y + 4), label, "label", "end")
        for arm in arms_of(row):
            chosen = [one for one in row if one.arm == arm]
            middle = scale(median(one.time_ms for one in chosen))
            canvas.line((middle, y - 8), (middle, y + 8), f"median {kinds[arm]}")
            for one in chosen:
                canvas.mark((scale(one.time_ms), y), kinds[arm], _tip(one))
    if not is_single:
        canvas.legend(left, bottom + 36, kinds)
    return canvas.render()
