"""Where the time of an execution went: counters of the machine over time, and phases."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from lookahead.comparisons import arms_of, median_sample, samples_of, scenarios_of
from lookahead.device.counters import Rates, Timeline
from lookahead.formats import milliseconds, number_text
from lookahead.measurements import Sample
from lookahead.report.sentences import labelling
from lookahead.report.svg import (
    COLOURS,
    LINE_HEIGHT,
    NARROW,
    Canvas,
    Point,
    Scale,
    nice_ceiling,
    text_width,
    time_text,
)

_LEFT, _GAP, _RIGHT = 52, 26, 12
_ROW_HEIGHT, _ROW_GAP, _TOP = 84, 36, 54
_MAX_SLICES = 60
# Processor ticks come every 10 ms: in shorter slices a share is mostly rounding.
_MIN_SLICE_MS = 50.0
_CPU_KINDS = ("user", "system", "iowait")


@dataclass(frozen=True)
class Track:
    """An execution: its arm, time and counters; `kind` is its style class."""

    arm: str
    time_ms: float
    timeline: Timeline
    kind: str


@dataclass(frozen=True)
class Slice:
    """The rates between two times, in ms since the start of the statement."""

    start_ms: float
    end_ms: float
    rates: Rates


def slices_of(timeline: Timeline) -> list[Slice]:
    """The timeline in at most `_MAX_SLICES` slices of about equal length."""
    total_ms = timeline.at_ms[-1]
    length = max(_MIN_SLICE_MS, total_ms / _MAX_SLICES)
    cuts = [0]
    for index, at_ms in enumerate(timeline.at_ms):
        if at_ms - timeline.at_ms[cuts[-1]] >= length:
            cuts.append(index)
    last = len(timeline.at_ms) - 1
    if cuts[-1] != last:
        # A short rest joins the slice before it, if there is one.
        if len(cuts) > 1 and total_ms - timeline.at_ms[cuts[-1]] < length / 2:
            cuts.pop()
        cuts.append(last)
    return [
        Slice(timeline.at_ms[first], timeline.at_ms[end], timeline.rates_between(first, end))
        for first, end in pairwise(cuts)
    ]


def timeline_plot(tracks: Sequence[Track], title: str, width: float) -> Markup:
    """The plot of at least one track, each in a column of its own."""
    plot = _Plot(tracks, title, width)
    for column, track in enumerate(tracks):
        text = f"{track.arm}, {milliseconds(track.time_ms)}"
        plot.canvas.text((plot.x_scale(column)(0), 16), text, "heading")
    plot.line_row(0, "read requests / s", lambda rates: rates.reads_per_s)
    plot.line_row(1, "mean queue depth", lambda rates: rates.queue_depth)
    plot.cpu_row(2)
    return plot.canvas.render()


class _Plot:
    """Rows of quantities, a column for each track."""

    def __init__(self, tracks: Sequence[Track], title: str, width: float) -> None:
        self._tracks = tracks
        self._slices = [slices_of(track.timeline) for track in tracks]
        self._end_ms = max(pieces[-1].end_ms for pieces in self._slices)
        gaps = _GAP * (len(tracks) - 1)
        self._column_width = (width - _LEFT - _RIGHT - gaps) / len(tracks)
        height = _TOP + 3 * (_ROW_HEIGHT + _ROW_GAP) + 6
        self.canvas = Canvas(width, height, f"{title}: over time")

    def x_scale(self, column: int) -> Scale:
        start = _LEFT + column * (self._column_width + _GAP)
        return Scale(0, self._end_ms, start, start + self._column_width)

    def line_row(self, row: int, title: str, value: Callable[[Rates], float]) -> None:
        """One quantity as steps: a rate holds for the whole of its slice."""
        high = nice_ceiling(max(value(one.rates) for pieces in self._slices for one in pieces))
        y_scale = _y_scale(row, high)
        self._frame(title, y_scale)
        for column, pieces in enumerate(self._slices):
            values = [value(piece.rates) for piece in pieces]
            points = _steps(pieces, values, self.x_scale(column), y_scale)
            self.canvas.polyline(points, f"series {self._tracks[column].kind}")

    def cpu_row(self, row: int) -> None:
        """User, system and iowait on top of each other, in percent of all processors."""
        y_scale = _y_scale(row, 100)
        self._frame("processors, %", y_scale)
        for column, pieces in enumerate(self._slices):
            x_scale = self.x_scale(column)
            base = [0.0] * len(pieces)
            for kind in _CPU_KINDS:
                top = [
                    min(100.0, below + (getattr(piece.rates, f"cpu_{kind}_percent") or 0.0))
                    for below, piece in zip(base, pieces, strict=True)
                ]
                lower = _steps(pieces, base, x_scale, y_scale)
                self.canvas.area(_steps(pieces, top, x_scale, y_scale), lower, f"cpu-{kind}")
                base = top
            # What a narrow column has room for.
            first, *_, last = x_scale.ticks()
            below = y_scale.start + 16
            self.canvas.text((x_scale(first), below), time_text(first), "tick")
            self.canvas.text((x_scale(last), below), time_text(last), "tick", "end")

    def _frame(self, title: str, y_scale: Scale) -> None:
        """The title of a row, and its grid in each column."""
        self.canvas.text((6, y_scale(y_scale.high) - 14), title, "label")
        for tick in (0.0, y_scale.high / 2, y_scale.high):
            self.canvas.text((_LEFT - 6, y_scale(tick) + 4), number_text(tick), "tick", "end")
            for column in range(len(self._tracks)):
                x_scale = self.x_scale(column)
                start, end = (x_scale.start, y_scale(tick)), (x_scale.end, y_scale(tick))
                self.canvas.line(start, end, "grid")


def _y_scale(row: int, high: float) -> Scale:
    bottom = _TOP + row * (_ROW_HEIGHT + _ROW_GAP) + _ROW_HEIGHT
    return Scale(0, high, bottom, bottom - _ROW_HEIGHT)


def _steps(
    pieces: Sequence[Slice], values: Sequence[float], x_scale: Scale, y_scale: Scale
) -> list[Point]:
    points: list[Point] = []
    for piece, value in zip(pieces, values, strict=True):
        y = y_scale(value)
        points += [(x_scale(piece.start_ms), y), (x_scale(piece.end_ms), y)]
    return points


_PHASE_HEIGHT, _BAR_HEIGHT = 24, 14


def phase_plot(samples: Sequence[Sample], width: float) -> Markup:
    """The execution nearest to the median of each arm; at least one sample has phases.

    What polling did not see stays empty, up to the tick at the end.
    """
    bars = list(_bars([one for one in samples if one.phases_ms]))
    names = list(dict.fromkeys(name for _, sample in bars for name in sample.phases_ms))
    kinds = {name: f"arm-{number % COLOURS}" for number, name in enumerate(names)}
    is_stacked = width <= NARROW
    left = 10.0 if is_stacked else max(text_width(label) for label, _ in bars) + 16
    height = _PHASE_HEIGHT + (16 if is_stacked else 0)
    bottom = len(bars) * height + 6
    canvas = Canvas(width, bottom + 30 + len(names) * LINE_HEIGHT, "where the time went")
    scale = Scale(0, nice_ceiling(max(sample.time_ms for _, sample in bars)), left, width - 26)
    canvas.upright_grid(scale, bottom, time_text)
    for position, (label, sample) in enumerate(bars):
        y = (position + 1) * height - 10
        canvas.row_label(left, y, [label], is_stacked=is_stacked)
        _draw(canvas, scale, y, sample, kinds)
    for position, (name, kind) in enumerate(kinds.items()):
        y = bottom + 36 + position * LINE_HEIGHT
        canvas.circle((left, y), 4, kind, name)
        canvas.text((left + 10, y + 4), name, "label")
    return canvas.render()


def _bars(samples: Sequence[Sample]) -> Iterator[tuple[str, Sample]]:
    """The execution nearest to the median of each arm, with its label."""
    scenarios = scenarios_of(samples)
    label = labelling(scenarios)
    for scenario in scenarios:
        for arm in arms_of(samples):
            chosen = samples_of(samples, scenario, arm)
            if chosen:
                yield f"{label(scenario)}: {arm}", median_sample(chosen)


def _draw(canvas: Canvas, scale: Scale, y: float, sample: Sample, kinds: dict[str, str]) -> None:
    """The phases one after the other, as far as the time goes that they are parts of."""
    start = 0.0
    top = y - _BAR_HEIGHT / 2
    for name, time_ms in sample.phases_ms.items():
        end = min(start + time_ms, sample.time_ms)
        canvas.rectangle((scale(start), top), scale(end) - scale(start), _BAR_HEIGHT, kinds[name])
        start = end
    end_x = scale(sample.time_ms)
    canvas.line((end_x, y - 9), (end_x, y + 9), "reference")
