"""The plot of a panel of trials: time over the values of the axis, a line for each arm."""

from collections.abc import Sequence
from statistics import median

from markupsafe import Markup

from lookahead.comparisons import Panel, arms_of, samples_of
from lookahead.measurements import Arm, Measurements, Sample
from lookahead.render import milliseconds
from lookahead.report.svg import Canvas, Scale, time_text

_WIDTH, _HEIGHT = 760, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 170, 16, 44
_LABEL_HEIGHT = 13
_COLOURS = 8  # style classes arm-0 to arm-7 of the page


def trial_plot(data: Measurements, panel: Panel) -> Markup:
    """All samples of the panel; medians are joined. Time is logarithmic."""
    samples = [one for one in data.samples if one.scenario in panel.scenarios]
    times = [one.time_ms for one in samples]
    y_scale = Scale(min(times) / 1.15, max(times) * 1.15, _HEIGHT - _BOTTOM, _TOP, True)
    canvas = Canvas(_WIDTH, _HEIGHT, f"time by {panel.axis}: {panel.title}")
    for tick in y_scale.ticks():
        canvas.line((_LEFT, y_scale(tick)), (_WIDTH - _RIGHT, y_scale(tick)), "grid")
        canvas.text((_LEFT - 6, y_scale(tick) + 4), time_text(tick), "tick", "end")
    for position, scenario in enumerate(panel.scenarios):
        place = (_x(position, panel), _HEIGHT - _BOTTOM + 16)
        canvas.text(place, scenario.factors[0].value, "tick", "middle")
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    canvas.text((middle, _HEIGHT - 8), panel.axis, "caption", "middle")
    ends = {}
    kinds = _kinds(data.arms, arms_of(samples))
    for arm, kind in kinds.items():
        ends[arm] = _series(canvas, panel, samples, arm, kind, y_scale)
    for arm, y in _spread(ends).items():
        canvas.text((_WIDTH - _RIGHT + 10, y + 4), arm, f"arm-label {kinds[arm]}")
    return canvas.render()


def _x(position: int, panel: Panel) -> float:
    """The values stand at even distances, whatever they are."""
    step = (_WIDTH - _RIGHT - _LEFT) / len(panel.scenarios)
    return _LEFT + (position + 0.5) * step


def _kinds(known: Sequence[Arm], names: Sequence[str]) -> dict[str, str]:
    """A style class for each arm: ours have theirs, stock's others a colour each."""
    ours = {arm.name for arm in known if arm.library == "on"}
    stock = [name for name in names if name not in ours]
    return {
        name: "ours" if name in ours else f"arm-{stock.index(name) % _COLOURS}" for name in names
    }


def _series(
    canvas: Canvas,
    panel: Panel,
    samples: Sequence[Sample],
    arm: str,
    kind: str,
    y_scale: Scale,
) -> float:
    """An arm's samples and the line through its medians; returns where the line ends."""
    points = []
    for position, scenario in enumerate(panel.scenarios):
        chosen = samples_of(samples, scenario, arm)
        if not chosen:
            continue
        x = _x(position, panel)
        points.append((x, y_scale(median(one.time_ms for one in chosen))))
        draw = canvas.diamond if kind == "ours" else canvas.circle
        for one in chosen:
            tip = f"{arm}, round {one.round + 1}: {milliseconds(one.time_ms)}"
            draw((x, y_scale(one.time_ms)), 3.4 if kind == "ours" else 2.6, f"dot {kind}", tip)
    canvas.polyline(points, f"series {kind}")
    return points[-1][1]


def _spread(ends: dict[str, float]) -> dict[str, float]:
    """Heights for the labels: those of the lines' ends, moved down until none covers another."""
    placed: dict[str, float] = {}
    last = -float(_LABEL_HEIGHT)
    for arm, y in sorted(ends.items(), key=lambda item: item[1]):
        last = max(y, last + _LABEL_HEIGHT)
        placed[arm] = last
    below = max(0.0, last - (_HEIGHT - _BOTTOM))
    return {arm: y - below for arm, y in placed.items()}
