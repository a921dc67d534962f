"""Curves of a probe: figures with their intervals, the values of the axis at even distances."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from lookahead.device.probe.analysis import interval_text
from lookahead.device.probe.probe_data import CurvePoint, Interval
from lookahead.formats import number_text
from lookahead.report.svg import NARROW, Canvas, Scale, label_step, nice_ceiling, text_width

_HEIGHT, _LEFT, _TOP, _BOTTOM, _LINE_HEIGHT = 280, 62, 16, 46, 15


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
