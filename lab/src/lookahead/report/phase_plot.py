"""Where the time went: a bar for each arm of each scenario, made of the phases that were seen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from lookahead.comparisons import arms_of, median_sample, samples_of, scenarios_of
from lookahead.measurements import Sample
from lookahead.report.labels import scenario_label, varying_names
from lookahead.report.svg import NARROW, Canvas, Scale, nice_ceiling, text_width, time_text

_ROW_HEIGHT, _LINE_HEIGHT, _BAR_HEIGHT = 24, 15, 14
_COLOURS = 8  # style classes arm-0 to arm-7 of the page


@dataclass(frozen=True)
class _Bar:
    """A label and the execution that it stands for."""

    label: str
    sample: Sample


def phase_plot(samples: Sequence[Sample], width: float) -> Markup:
    """The execution nearest to the median of each arm; at least one sample has phases.

    What polling did not see stays empty, up to the tick at the end.
    """
    bars = list(_bars([one for one in samples if one.phases_ms]))
    names = list(dict.fromkeys(name for bar in bars for name in bar.sample.phases_ms))
    kinds = {name: f"arm-{number % _COLOURS}" for number, name in enumerate(names)}
    is_stacked = width <= NARROW
    left = 10.0 if is_stacked else max(text_width(bar.label) for bar in bars) + 16
    height = _ROW_HEIGHT + (16 if is_stacked else 0)
    bottom = len(bars) * height + 6
    canvas = Canvas(width, bottom + 30 + len(names) * _LINE_HEIGHT, "where the time went")
    scale = Scale(0, nice_ceiling(max(bar.sample.time_ms for bar in bars)), left, width - 26)
    for tick in scale.ticks():
        canvas.line((scale(tick), 4), (scale(tick), bottom), "grid")
        canvas.text((scale(tick), bottom + 14), time_text(tick), "tick", "middle")
    for position, bar in enumerate(bars):
        y = (position + 1) * height - 10
        place = (left, y - 12) if is_stacked else (left - 12, y + 4)
        canvas.text(place, bar.label, "label", "start" if is_stacked else "end")
        _draw(canvas, scale, y, bar.sample, kinds)
    for position, (name, kind) in enumerate(kinds.items()):
        y = bottom + 36 + position * _LINE_HEIGHT
        canvas.circle((left, y), 4, kind, name)
        canvas.text((left + 10, y + 4), name, "label")
    return canvas.render()


def _bars(samples: Sequence[Sample]) -> Iterator[_Bar]:
    scenarios = scenarios_of(samples)
    names = varying_names(scenarios)
    for scenario in scenarios:
        for arm in arms_of(samples):
            chosen = samples_of(samples, scenario, arm)
            if chosen:
                label = f"{scenario_label(scenario, names)}: {arm}"
                yield _Bar(label, median_sample(chosen))


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
