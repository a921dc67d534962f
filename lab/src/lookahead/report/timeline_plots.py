"""Requests, queue depth and processors over time, stock and pg_lookahead side by side.

Shown is the sample whose time is nearest to the arm's median. Both arms have the same scales, so
the one that ends early is the faster one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from markupsafe import Markup

from lookahead.comparisons import samples_of
from lookahead.device.counters import Rates
from lookahead.device.io_sampler import Timeline
from lookahead.measurements import Sample, Scenario
from lookahead.render import milliseconds, number_text
from lookahead.report.svg import Canvas, Point, Scale, nice_ceiling, time_text

_WIDTH = 760
_LEFT, _GAP = 60, 30
_ARM_WIDTH = (_WIDTH - _LEFT - _GAP - 10) / 2
_ROW_HEIGHT, _ROW_GAP, _TOP = 84, 24, 42
_MAX_SLICES = 60
# Processor ticks come every 10 ms: in shorter slices a share is mostly rounding.
_MIN_SLICE_MS = 50.0
_CPU_KINDS = ("user", "system", "iowait")
_ARMS = {"stock": "stock", "ours": "pg_lookahead"}
_KINDS = ("stock", "lookahead")  # style classes


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


def median_sample(samples: Sequence[Sample]) -> Sample:
    """The sample whose time is nearest to the median; ValueError when there is none."""
    centre = median(sample.time_ms for sample in samples)
    return min(samples, key=lambda sample: abs(sample.time_ms - centre))


def timeline_plot(samples: Sequence[Sample], scenario: Scenario, title: str) -> Markup | None:
    """The plot of one scenario; None unless both arms were measured over time."""
    watched = [sample for sample in samples if sample.timeline is not None]
    arms = [samples_of(watched, scenario, arm) for arm in _ARMS]
    if not all(arms):
        return None
    shown = [median_sample(chosen) for chosen in arms]
    slices = [slices_of(sample.timeline) for sample in shown if sample.timeline is not None]
    canvas = Canvas(_WIDTH, _TOP + 3 * (_ROW_HEIGHT + _ROW_GAP) + 6, f"{title}: over time")
    end_ms = max(pieces[-1].end_ms for pieces in slices)
    for column, sample in enumerate(shown):
        name = _ARMS[sample.arm]
        time = milliseconds(sample.time_ms)
        canvas.text((_x_scale(column, end_ms)(0), 16), f"{name}, {time}", "heading")
    _line_row(canvas, 0, "read requests / s", slices, end_ms, lambda rates: rates.reads_per_s)
    _line_row(canvas, 1, "mean queue depth", slices, end_ms, lambda rates: rates.queue_depth)
    _cpu_row(canvas, 2, slices, end_ms)
    return canvas.render()


def _x_scale(column: int, end_ms: float) -> Scale:
    start = _LEFT + column * (_ARM_WIDTH + _GAP)
    return Scale(0, end_ms, start, start + _ARM_WIDTH)


def _y_scale(row: int, high: float) -> Scale:
    bottom = _TOP + row * (_ROW_HEIGHT + _ROW_GAP) + _ROW_HEIGHT
    return Scale(0, high, bottom, bottom - _ROW_HEIGHT)


def _line_row(
    canvas: Canvas,
    row: int,
    title: str,
    slices: Sequence[Sequence[Slice]],
    end_ms: float,
    value: Callable[[Rates], float],
) -> None:
    """One quantity as steps: a rate holds for the whole of its slice."""
    high = nice_ceiling(max(value(piece.rates) for pieces in slices for piece in pieces))
    y_scale = _y_scale(row, high)
    for column, pieces in enumerate(slices):
        x_scale = _x_scale(column, end_ms)
        _frame(canvas, title if column == 0 else "", x_scale, y_scale)
        points: list[Point] = []
        for piece in pieces:
            y = y_scale(value(piece.rates))
            points += [(x_scale(piece.start_ms), y), (x_scale(piece.end_ms), y)]
        canvas.polyline(points, f"series {_KINDS[column]}")


def _cpu_row(canvas: Canvas, row: int, slices: Sequence[Sequence[Slice]], end_ms: float) -> None:
    """User, system and iowait on top of each other, in percent of all processors."""
    y_scale = _y_scale(row, 100)
    for column, pieces in enumerate(slices):
        x_scale = _x_scale(column, end_ms)
        _frame(canvas, "processors, %" if column == 0 else "", x_scale, y_scale)
        base = [0.0] * len(pieces)
        for kind in _CPU_KINDS:
            top = [
                below + (getattr(piece.rates, f"cpu_{kind}_percent") or 0.0)
                for below, piece in zip(base, pieces, strict=True)
            ]
            upper = _steps(pieces, top, x_scale, y_scale)
            canvas.area(upper, _steps(pieces, base, x_scale, y_scale), f"cpu-{kind}")
            base = top
        for tick in x_scale.ticks():
            place = (x_scale(tick), y_scale.start + 14)
            canvas.text(place, time_text(tick), "tick", "middle")


def _steps(
    pieces: Sequence[Slice], values: Sequence[float], x_scale: Scale, y_scale: Scale
) -> list[Point]:
    points: list[Point] = []
    for piece, value in zip(pieces, values, strict=True):
        y = y_scale(min(value, 100.0))
        points += [(x_scale(piece.start_ms), y), (x_scale(piece.end_ms), y)]
    return points


def _frame(canvas: Canvas, title: str, x_scale: Scale, y_scale: Scale) -> None:
    if title:
        canvas.text((8, y_scale(y_scale.high) - 8), title, "label")
    for tick in (0.0, y_scale.high / 2, y_scale.high):
        canvas.line((x_scale.start, y_scale(tick)), (x_scale.end, y_scale(tick)), "grid")
        if title:
            canvas.text((_LEFT - 6, y_scale(tick) + 4), number_text(tick), "tick", "end")
