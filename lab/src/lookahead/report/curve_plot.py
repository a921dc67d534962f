"""Curves of a probe: figures with their intervals, the values of the axis at even distances."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from lookahead.device.probe.analysis import interval_text
from lookahead.device.probe.probe_data import CurvePoint, Interval
from lookahead.render import number_text
from lookahead.report.svg import Canvas, Scale, nice_ceiling

_WIDTH, _HEIGHT = 760, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 180, 16, 44


@dataclass(frozen=True)
class Series:
    """A line of the plot; `kind` is its style class."""

    name: str
    kind: str
    points: tuple[CurvePoint, ...]


def curve_plot(
    series: Sequence[Series], x_name: str, unit: str, knee: Interval | None = None
) -> Markup:
    """All series, each with at least one point; the knee is a line upright."""
    xs = sorted({point.x for one in series for point in one.points})
    high = max(point.figure.high for one in series for point in one.points)
    step = (_WIDTH - _RIGHT - _LEFT) / len(xs)
    places = {x: _LEFT + (number + 0.5) * step for number, x in enumerate(xs)}
    y_scale = Scale(0, nice_ceiling(high), _HEIGHT - _BOTTOM, _TOP)
    canvas = Canvas(_WIDTH, _HEIGHT, f"{unit} by {x_name}")
    for tick in y_scale.ticks():
        canvas.line((_LEFT, y_scale(tick)), (_WIDTH - _RIGHT, y_scale(tick)), "grid")
        canvas.text((_LEFT - 6, y_scale(tick) + 4), number_text(tick), "tick", "end")
    for x, place in places.items():
        canvas.text((place, _HEIGHT - _BOTTOM + 16), f"{x:,}", "tick", "middle")
    canvas.text(((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8), x_name, "caption", "middle")
    if knee is not None:
        place = places[int(knee.value)]
        canvas.line((place, _TOP), (place, _HEIGHT - _BOTTOM), "reference")
        canvas.text((place + 5, _HEIGHT - _BOTTOM - 6), "knee", "caption")
    for one in series:
        _draw(canvas, one, unit, places, y_scale)
    return canvas.render()


def _draw(
    canvas: Canvas, series: Series, unit: str, places: Mapping[int, float], y_scale: Scale
) -> None:
    line = []
    for point in series.points:
        x, figure = places[point.x], point.figure
        line.append((x, y_scale(figure.value)))
        canvas.line((x, y_scale(figure.low)), (x, y_scale(figure.high)), "interval")
        tip = f"{series.name}, {point.x:,}: {interval_text(figure)} {unit}"
        canvas.circle(line[-1], 3.4, f"dot {series.kind}", tip)
    canvas.polyline(line, f"series {series.kind}")
    canvas.text((_WIDTH - _RIGHT + 10, line[-1][1] + 4), series.name, f"arm-label {series.kind}")
