"""Ratios with their intervals, one row each, against the line at 1."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from lookahead.render import number_text
from lookahead.report.svg import Canvas, Scale, nice_ceiling
from lookahead.stats import RatioEstimate

_WIDTH, _ROW_HEIGHT = 760, 24
_LABEL_WIDTH, _VALUE_WIDTH = 280, 140
# A ratio close to 1 is read on a scale that shows percents, a large one on a scale from 0.
_CLOSE = 0.25


@dataclass(frozen=True)
class RatioRow:
    """A row's label on the left, its estimate, and the text on the right."""

    label: str
    estimate: RatioEstimate
    value: str


def ratio_plot(rows: Sequence[RatioRow], caption: str) -> Markup:
    """The plot; an empty one for no rows."""
    height = len(rows) * _ROW_HEIGHT + 44
    canvas = Canvas(_WIDTH, height, caption)
    low, high = _range(rows)
    scale = Scale(low, high, _LABEL_WIDTH, _WIDTH - _VALUE_WIDTH)
    bottom = len(rows) * _ROW_HEIGHT + 8
    for tick in scale.ticks():
        canvas.line((scale(tick), 4), (scale(tick), bottom), "grid")
        canvas.text((scale(tick), bottom + 14), number_text(round(tick, 6)), "tick", "middle")
    canvas.line((scale(1), 4), (scale(1), bottom), "reference")
    for position, row in enumerate(rows):
        y = position * _ROW_HEIGHT + 18
        estimate = row.estimate
        kind = estimate.verdict.replace(" ", "-")
        canvas.text((_LABEL_WIDTH - 10, y + 4), row.label, "label", "end")
        canvas.line((scale(estimate.low), y), (scale(estimate.high), y), f"interval {kind}")
        canvas.circle((scale(estimate.ratio), y), 4, f"dot {kind}", row.value)
        canvas.text((_WIDTH - _VALUE_WIDTH + 12, y + 4), row.value, "label")
    middle = (_LABEL_WIDTH + _WIDTH - _VALUE_WIDTH) / 2
    canvas.text((middle, bottom + 32), caption, "caption", "middle")
    return canvas.render()


def _range(rows: Sequence[RatioRow]) -> tuple[float, float]:
    lows = [row.estimate.low for row in rows] or [1.0]
    highs = [row.estimate.high for row in rows] or [1.0]
    farthest = max(max(highs) - 1, 1 - min(lows))
    if farthest <= _CLOSE:
        margin = nice_ceiling(max(farthest, 0.01) * 1.1)
        return 1 - margin, 1 + margin
    return 0.0, max(nice_ceiling(max(highs)), 1.5)
