"""A small SVG canvas and scales; colours come from the page's style sheet by class names."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]
WIDTH = 1050
"""Of a plot, in pixels: for screens and paper; on a telephone it is scrolled."""
LINE_HEIGHT = 15
_TIP = Markup("<title>{}</title>")
COLOURS = 8
"""How many style classes arm-0, arm-1, ... the page has."""


@dataclass(frozen=True)
class Scale:
    """Maps values low..high to positions start..end in pixels, linearly or by the logarithm."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        low, high = self._shape(self.low), self._shape(self.high)
        share = (self._shape(value) - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values within the range: 1-2-5 steps, or powers of ten with their 2 and 5."""
        return _log_ticks(self.low, self.high) if self.logarithmic else self._linear_ticks()

    def _shape(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value

    def _linear_ticks(self) -> list[float]:
        rough = (self.high - self.low) / 5
        magnitude = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= rough)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [number * step for number in range(first, last + 1)]


def nice_ceiling(value: float) -> float:
    """The smallest of 1, 1.5, 2, 3, 5, 8 times a power of ten that is not below `value`."""
    if value <= 0:
        return 1.0
    magnitude = 10.0 ** math.floor(math.log10(value))
    factors = (1, 1.5, 2, 3, 5, 8, 10)
    return next(factor * magnitude for factor in factors if factor * magnitude >= value)


def time_text(value_ms: float) -> str:
    """A tick's label on a time axis, in ms or s, without needless zeros."""
    if value_ms == 0:
        return "0"
    return f"{value_ms / 1000:g} s" if value_ms >= 1000 else f"{value_ms:g} ms"


def text_width(text: str) -> float:
    """Pixels that a label takes in the page's font, at most; for room to be left."""
    return 7.0 * len(text)


def label_step(labels: Sequence[str], step: float) -> int:
    """Every how-manieth label has room on an axis where they are `step` pixels apart."""
    return max(1, math.ceil((max(map(text_width, labels)) + 4) / step))


class Canvas:
    """Collects elements; `title` is what a screen reader says. Positions in pixels."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self._width = width
        self._height = height
        self._title = title
        self._elements: list[Markup] = []

    def line(self, start: Point, end: Point, kind: str) -> None:
        self._add("line", kind, x1=start[0], y1=start[1], x2=end[0], y2=end[1])

    def upright_grid(self, scale: "Scale", bottom: float, text: Callable[[float], str]) -> None:
        """A line for each tick of a scale along the bottom, with its label below."""
        for tick in scale.ticks():
            self.line((scale(tick), 4), (scale(tick), bottom), "grid")
            self.text((scale(tick), bottom + 14), text(tick), "tick", "middle")

    def mark(self, place: Point, kind: str, tip: str, *, is_key: bool = False) -> None:
        """What stands for a measurement, or in a legend; ours is told apart without colours."""
        draw = self.diamond if kind == "ours" else self.circle
        radius = 3.8 if is_key or kind == "ours" else 2.8
        draw(place, radius, f"{'key' if is_key else 'dot'} {kind}", tip)

    def legend(self, left: float, top: float, kinds: Mapping[str, str]) -> None:
        """The names of style classes below each other."""
        for position, (name, kind) in enumerate(kinds.items()):
            y = top + position * LINE_HEIGHT
            self.mark((left, y), kind, name, is_key=True)
            self.text((left + 10, y + 4), name, f"arm-label {kind}")

    def rectangle(self, corner: Point, width: float, height: float, kind: str) -> None:
        self._add("rect", kind, x=corner[0], y=corner[1], width=width, height=height)

    def circle(self, centre: Point, radius: float, kind: str, tip: str = "") -> None:
        self._add("circle", kind, _TIP.format(tip), cx=centre[0], cy=centre[1], r=radius)

    def diamond(self, centre: Point, radius: float, kind: str, tip: str = "") -> None:
        """A square on its corner, for the second arm: told apart without colours."""
        x, y = centre
        corners = [(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)]
        self._add("path", kind, _TIP.format(tip), d=f"{_path(corners)}Z")

    def polyline(self, points: Sequence[Point], kind: str) -> None:
        if points:
            self._add("path", kind, d=_path(points))

    def text(self, place: Point, text: str, kind: str = "", anchor: Anchor = "start") -> None:
        self._add("text", kind, text, x=place[0], y=place[1], **{"text-anchor": anchor})

    def render(self) -> Markup:
        """The SVG element; it shrinks with the page."""
        head = Markup(
            '<svg viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" aria-label="{2}">'
        ).format(*map(_number, (self._width, self._height)), self._title)
        return head + Markup("").join(self._elements) + Markup("</svg>")

    def _add(self, tag: str, kind: str, content: str = "", **attributes: float | str) -> None:
        pairs = [
            Markup('{}="{}" ').format(name, value if isinstance(value, str) else _number(value))
            for name, value in attributes.items()
        ]
        shape = Markup('<{0} {1}class="{2}">{3}</{0}>' if content else '<{0} {1}class="{2}"/>')
        self._elements.append(shape.format(tag, Markup("").join(pairs), kind, content))


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if high / low < 300 else (1,)
    ticks = [factor * 10.0**decade for decade in decades for factor in factors]
    return [tick for tick in ticks if low <= tick <= high]


def _path(points: Iterable[Point]) -> str:
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
