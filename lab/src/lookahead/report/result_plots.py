"""The plots of what was found out: ratios with their intervals, and all samples."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from textwrap import wrap

from markupsafe import Markup

from lookahead.comparisons import Panel, arms_of, samples_of
from lookahead.formats import milliseconds, number_text, ratio_text
from lookahead.measurements import Arm, Measurements, Sample
from lookahead.report.svg import (
    COLOURS,
    NARROW,
    Canvas,
    Scale,
    label_step,
    nice_ceiling,
    text_width,
    time_text,
)
from lookahead.stats import RatioEstimate

_LINE_HEIGHT, _ROW_HEIGHT = 15, 24
_VALUE_WIDTH = 150
# Labels that would take more of the width than this share stand above their rows.
_LABEL_SHARE = 0.5
# A ratio close to 1 is read on a scale that shows percents, a large one on a scale from 0.
_CLOSE = 0.25


@dataclass(frozen=True)
class RatioRow:
    """A row's label and its estimate."""

    label: str
    estimate: RatioEstimate


def ratio_plot(rows: Sequence[RatioRow], caption: str, width: float) -> Markup:
    """The plot of at least one row; without an interval a ratio is a dot."""
    label_width = max(text_width(row.label) for row in rows) + 12
    is_stacked = label_width > _LABEL_SHARE * width
    left = 12.0 if is_stacked else label_width
    lines = [_lines(row.label, width - left) if is_stacked else [row.label] for row in rows]
    height = max(map(len, lines)) * _LINE_HEIGHT + (22 if is_stacked else 11)
    bottom = len(rows) * height + 8
    canvas = Canvas(width, bottom + 40, caption)
    scale = Scale(*_range(rows), left, width - _VALUE_WIDTH)
    for tick in scale.ticks():
        canvas.line((scale(tick), 4), (scale(tick), bottom), "grid")
        canvas.text((scale(tick), bottom + 14), number_text(round(tick, 6)), "tick", "middle")
    canvas.line((scale(1), 4), (scale(1), bottom), "reference")
    for position, row in enumerate(rows):
        y = (position + 1) * height - 8
        if is_stacked:
            for above, line in enumerate(reversed(lines[position])):
                canvas.text((left, y - 14 - above * _LINE_HEIGHT), line, "label")
        else:
            canvas.text((left - 10, y + 4), row.label, "label", "end")
        _mark(canvas, scale, y, row.estimate)
        canvas.text((width - _VALUE_WIDTH + 10, y + 4), ratio_text(row.estimate), "label")
    start = min(scale.start, width - text_width(caption))
    canvas.text((start, bottom + 32), caption, "caption")
    return canvas.render()


def _lines(label: str, width: float) -> list[str]:
    return wrap(label, int(width / text_width("x")))


def _mark(canvas: Canvas, scale: Scale, y: float, estimate: RatioEstimate) -> None:
    kind = estimate.verdict.replace(" ", "-")
    if estimate.has_interval:
        canvas.line((scale(estimate.low), y), (scale(estimate.high), y), f"interval {kind}")
    canvas.circle((scale(estimate.ratio), y), 4.5, f"dot {kind}", ratio_text(estimate))


def _range(rows: Sequence[RatioRow]) -> tuple[float, float]:
    shown = [row.estimate for row in rows]
    lows = [one.low if one.has_interval else one.ratio for one in shown]
    highs = [one.high if one.has_interval else one.ratio for one in shown]
    farthest = max(max(highs) - 1, 1 - min(lows))
    if farthest <= _CLOSE:
        margin = nice_ceiling(max(farthest, 0.01) * 1.1)
        return 1 - margin, 1 + margin
    return 0.0, max(nice_ceiling(max(highs)), 1.5)


_HEIGHT, _LEFT, _TOP, _BOTTOM = 330, 62, 16, 46


@dataclass(frozen=True)
class _Row:
    """A row of dots: arms of one scenario."""

    label: str
    samples: tuple[Sample, ...]


def sample_plot(data: Measurements, panel: Panel, width: float) -> Markup:
    """All samples of the panel, with their medians. Time is logarithmic."""
    samples = [one for one in data.samples if one.scenario in panel.scenarios]
    kinds = _kinds(data.arms, arms_of(samples))
    values = [scenario.factors[0].value for scenario in panel.scenarios]
    if len(values) > 1 and all(value[:1].isdigit() for value in values):
        return _line_plot(panel, samples, kinds, width)
    return _row_plot(panel, samples, kinds, width)


def _kinds(known: Sequence[Arm], names: Sequence[str]) -> dict[str, str]:
    """A style class for each arm: ours have theirs, stock's others a colour each."""
    ours = {arm.name for arm in known if arm.library == "on"}
    stock = [name for name in names if name not in ours]
    return {
        name: "ours" if name in ours else f"arm-{stock.index(name) % COLOURS}" for name in names
    }


def _title(panel: Panel) -> str:
    return f"time by {panel.axis}{f': {panel.title}' if panel.title else ''}"


def _line_plot(
    panel: Panel, samples: Sequence[Sample], kinds: dict[str, str], width: float
) -> Markup:
    """A line through the medians of each arm; names at the right, or below where it is narrow."""
    has_legend = width <= NARROW
    right = 10 if has_legend else max(map(text_width, kinds)) + 20
    below = len(kinds) * _LINE_HEIGHT + 10 if has_legend else 0
    canvas = Canvas(width, _HEIGHT + below, _title(panel))
    y_scale = _time_scale(samples, _HEIGHT - _BOTTOM, _TOP)
    for tick in y_scale.ticks():
        canvas.line((_LEFT, y_scale(tick)), (width - right, y_scale(tick)), "grid")
        canvas.text((_LEFT - 6, y_scale(tick) + 4), time_text(tick), "tick", "end")
    step = (width - right - _LEFT) / len(panel.scenarios)
    xs = [_LEFT + (position + 0.5) * step for position in range(len(panel.scenarios))]
    values = [scenario.factors[0].value for scenario in panel.scenarios]
    every = label_step(values, step)
    for x, value in list(zip(xs, values, strict=True))[::every]:
        canvas.text((x, _HEIGHT - _BOTTOM + 16), value, "tick", "middle")
    canvas.text((_LEFT, _HEIGHT - 8), panel.axis, "caption")
    ends = {}
    for arm, kind in kinds.items():
        chosen = [samples_of(samples, scenario, arm) for scenario in panel.scenarios]
        ends[arm] = _series(canvas, xs, chosen, kind, y_scale)
    if has_legend:
        _legend(canvas, kinds, _HEIGHT + 8)
    else:
        for arm, y in _spread(ends).items():
            canvas.text((width - right + 10, y + 4), arm, f"arm-label {kinds[arm]}")
    return canvas.render()


def _time_scale(samples: Sequence[Sample], start: float, end: float) -> Scale:
    times = [one.time_ms for one in samples]
    return Scale(min(times) / 1.15, max(times) * 1.15, start, end, logarithmic=True)


def _series(
    canvas: Canvas,
    xs: Sequence[float],
    chosen: Sequence[Sequence[Sample]],
    kind: str,
    y_scale: Scale,
) -> float:
    """An arm's samples and the line through its medians; returns where the line ends."""
    points = []
    for x, samples in zip(xs, chosen, strict=True):
        if samples:
            points.append((x, y_scale(median(one.time_ms for one in samples))))
        for one in samples:
            _dot(canvas, (x, y_scale(one.time_ms)), one, kind)
    canvas.polyline(points, f"series {kind}")
    return points[-1][1]


def _dot(canvas: Canvas, place: tuple[float, float], sample: Sample, kind: str) -> None:
    tip = f"{sample.arm}, round {sample.round + 1}: {milliseconds(sample.time_ms)}"
    draw = canvas.diamond if kind == "ours" else canvas.circle
    draw(place, 3.8 if kind == "ours" else 2.8, f"dot {kind}", tip)


def _legend(canvas: Canvas, kinds: dict[str, str], top: float) -> None:
    for position, (arm, kind) in enumerate(kinds.items()):
        y = top + position * _LINE_HEIGHT
        draw = canvas.diamond if kind == "ours" else canvas.circle
        draw((_LEFT, y), 3.8, f"key {kind}", arm)
        canvas.text((_LEFT + 10, y + 4), arm, f"arm-label {kind}")


def _spread(ends: dict[str, float]) -> dict[str, float]:
    """Heights for the labels: those of the lines' ends, moved down until none covers another."""
    placed: dict[str, float] = {}
    last = -float(_LINE_HEIGHT)
    for arm, y in sorted(ends.items(), key=lambda item: item[1]):
        last = max(y, last + _LINE_HEIGHT)
        placed[arm] = last
    below = max(0.0, last - (_HEIGHT - _BOTTOM))
    return {arm: y - below for arm, y in placed.items()}


def _row_plot(
    panel: Panel, samples: Sequence[Sample], kinds: dict[str, str], width: float
) -> Markup:
    """Dots on a row for each scenario, or for each arm of a single one; medians are bars."""
    rows = list(_rows(panel, samples))
    is_stacked = width <= NARROW
    label_width = max(text_width(row.label) for row in rows) + 16
    left, height = (10.0, _ROW_HEIGHT + 16) if is_stacked else (label_width, _ROW_HEIGHT)
    bottom = len(rows) * height + 6
    needs_legend = len(panel.scenarios) > 1
    below = len(kinds) * _LINE_HEIGHT + 14 if needs_legend else 0
    canvas = Canvas(width, bottom + 24 + below, _title(panel))
    scale = _time_scale(samples, left, width - 26)
    for tick in scale.ticks():
        canvas.line((scale(tick), 4), (scale(tick), bottom), "grid")
        canvas.text((scale(tick), bottom + 14), time_text(tick), "tick", "middle")
    for position, row in enumerate(rows):
        y = (position + 1) * height - 8
        place = (left, y - 14) if is_stacked else (left - 12, y + 4)
        canvas.text(place, row.label, "label", "start" if is_stacked else "end")
        _row_dots(canvas, row, kinds, scale, y)
    if needs_legend:
        _legend(canvas, kinds, bottom + 36)
    return canvas.render()


def _rows(panel: Panel, samples: Sequence[Sample]) -> Iterable[_Row]:
    if len(panel.scenarios) == 1:
        for arm in arms_of(samples):
            yield _Row(arm, tuple(one for one in samples if one.arm == arm))
        return
    for scenario in panel.scenarios:
        chosen = tuple(one for one in samples if one.scenario == scenario)
        yield _Row(scenario.factors[0].value, chosen)


def _row_dots(canvas: Canvas, row: _Row, kinds: dict[str, str], scale: Scale, y: float) -> None:
    for arm in arms_of(row.samples):
        chosen = [one for one in row.samples if one.arm == arm]
        middle = scale(median(one.time_ms for one in chosen))
        canvas.line((middle, y - 8), (middle, y + 8), f"median {kinds[arm]}")
        for one in chosen:
            _dot(canvas, (scale(one.time_ms), y), one, kinds[arm])
