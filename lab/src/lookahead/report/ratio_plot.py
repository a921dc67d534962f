"""Ratios with their intervals, one row each, against the line at 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap

from markupsafe import Markup

from lookahead.formats import number_text, ratio_text
from lookahead.report.svg import Canvas, Scale, nice_ceiling, text_width
from lookahead.stats import RatioEstimate

_VALUE_WIDTH, _LINE_HEIGHT = 150, 15
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
