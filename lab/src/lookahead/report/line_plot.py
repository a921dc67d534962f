"""A plot of lines over values in their order: medians of arms, curves of a device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

from lookahead.report.svg import LINE_HEIGHT, WIDTH, Canvas, Scale, label_step, text_width

_HEIGHT, _LEFT, _TOP, _BOTTOM = 330, 62, 16, 46


@dataclass(frozen=True)
class Spot:
    """The dots with their tips at the `at`-th value of the axis; the line takes their median."""

    at: int
    dots: tuple[tuple[float, str], ...]
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Line:
    """A line through at least one spot; `kind` is its style class."""

    name: str
    kind: str
    spots: tuple[Spot, ...]


@dataclass(frozen=True)
class Axes:
    """What the lines stand on. `y_scale` is given the positions of its ends.

    `knee` is the position of a value to be marked.
    """

    title: str
    x_name: str
    labels: Sequence[str]
    y_scale: Callable[[float, float], Scale]
    y_text: Callable[[float], str]
    knee: int | None = None


def line_plot(axes: Axes, lines: Sequence[Line]) -> Markup:
    """The plot; names of lines stand at the right."""
    kinds = {line.name: line.kind for line in lines}
    right = WIDTH - max(map(text_width, kinds)) - 20
    canvas = Canvas(WIDTH, _HEIGHT, axes.title)
    y_scale = axes.y_scale(_HEIGHT - _BOTTOM, _TOP)
    for tick in y_scale.ticks():
        canvas.line((_LEFT, y_scale(tick)), (right, y_scale(tick)), "grid")
        canvas.text((_LEFT - 6, y_scale(tick) + 4), axes.y_text(tick), "tick", "end")
    step = (right - _LEFT) / len(axes.labels)
    xs = [_LEFT + (position + 0.5) * step for position in range(len(axes.labels))]
    every = label_step(axes.labels, step)
    for x, label in list(zip(xs, axes.labels, strict=True))[::every]:
        canvas.text((x, _HEIGHT - _BOTTOM + 16), label, "tick", "middle")
    canvas.text((_LEFT, _HEIGHT - 8), axes.x_name, "caption")
    if axes.knee is not None:
        x = xs[axes.knee]
        canvas.line((x, _TOP), (x, _HEIGHT - _BOTTOM), "reference")
        canvas.text((x + 5, _HEIGHT - _BOTTOM - 6), "knee", "caption")
    ends = {line.name: _draw(canvas, xs, line, y_scale) for line in lines}
    for name, y in _spread(ends).items():
        canvas.text((right + 10, y + 4), name, f"arm-label {kinds[name]}")
    return canvas.render()


def _draw(canvas: Canvas, xs: Sequence[float], line: Line, y_scale: Scale) -> float:
    """The dots and the line through its spots; returns where the line ends."""
    points = []
    for spot in line.spots:
        x = xs[spot.at]
        points.append((x, y_scale(median(value for value, _ in spot.dots))))
        if spot.interval is not None:
            low, high = map(y_scale, spot.interval)
            canvas.line((x, low), (x, high), "interval")
        for value, tip in spot.dots:
            canvas.mark((x, y_scale(value)), line.kind, tip)
    canvas.polyline(points, f"series {line.kind}")
    return points[-1][1]


def _spread(ends: dict[str, float]) -> dict[str, float]:
    """Heights for the labels: those of the lines' ends, moved down until none covers another."""
    placed: dict[str, float] = {}
    last = -float(LINE_HEIGHT)
    for name, y in sorted(ends.items(), key=lambda item: item[1]):
        last = max(y, last + LINE_HEIGHT)
        placed[name] = last
    below = max(0.0, last - (_HEIGHT - _BOTTOM))
    return {name: y - below for name, y in placed.items()}
