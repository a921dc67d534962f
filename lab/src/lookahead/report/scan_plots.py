"""The plots of the index scan experiment."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

from lookahead.render import milliseconds, pattern_text, ratio_text
from lookahead.report.ratio_plot import RatioRow, ratio_plot
from lookahead.report.svg import Canvas, Scale, time_text
from lookahead.scan_comparisons import scenarios_of
from lookahead.scan_measurements import Arm, ScanComparison, ScanSample, Scenario

_PANEL_WIDTH, _PANEL_HEIGHT = 264, 250
_LEFT, _TOP, _BOTTOM = 56, 34, 40
_COLUMN_OFFSET: dict[Arm, float] = {"stock": -0.28, "lookahead": 0.0, "bitmap": 0.28}
_ARM_NAMES: dict[Arm, str] = {
    "stock": "stock",
    "lookahead": "lookahead",
    "bitmap": "stock's bitmap scan and sort",
}

_RIVAL_LABELS: dict[Arm, str] = {"bitmap": ", bitmap"}


@dataclass(frozen=True)
class Panel:
    """Scenarios that share I/O method, read-ahead and kind of pattern."""

    io_method: str
    read_ahead_kb: int | None
    pattern: str
    scenarios: tuple[Scenario, ...]

    @property
    def title(self) -> str:
        """Such as "worker, read-ahead 128 kB, heap order"."""
        size = "" if self.read_ahead_kb is None else f", read-ahead {self.read_ahead_kb} kB"
        return f"{self.io_method}{size}{self.pattern}"


def panels_of(samples: Sequence[ScanSample]) -> list[Panel]:
    """The panels in the order they were measured, scenarios by number of pages."""
    groups: dict[tuple[str, int | None, str], list[Scenario]] = {}
    for scenario in scenarios_of(samples):
        key = (scenario.io_method, scenario.read_ahead_kb, _pattern_of(scenario))
        groups.setdefault(key, []).append(scenario)
    return [
        Panel(*key, tuple(sorted(group, key=lambda scenario: scenario.pages)))
        for key, group in groups.items()
    ]


def _pattern_of(scenario: Scenario) -> str:
    if scenario.limit is not None:
        return ", LIMIT"
    return ", heap order" if scenario.order == "heap" else ""


def samples_of(samples: Sequence[ScanSample], scenario: Scenario, arm: Arm) -> list[ScanSample]:
    """The samples of one arm of one scenario."""
    return [sample for sample in samples if sample.scenario == scenario and sample.arm == arm]


def time_plots(samples: Sequence[ScanSample]) -> list[Markup]:
    """All raw samples with their medians, one plot per panel, the same time scale on all."""
    times = [sample.evidence.execution_ms for sample in samples]
    scale = Scale(min(times) / 1.4, max(times) * 1.4, _PANEL_HEIGHT - _BOTTOM, _TOP, True)
    return [_time_plot(panel, samples, scale) for panel in panels_of(samples)]


def _time_plot(panel: Panel, samples: Sequence[ScanSample], y_scale: Scale) -> Markup:
    canvas = Canvas(_PANEL_WIDTH, _PANEL_HEIGHT, f"execution times under {panel.title}")
    canvas.text((8, 16), panel.title, "heading")
    right = _PANEL_WIDTH - 8
    for tick in y_scale.ticks():
        canvas.line((_LEFT, y_scale(tick)), (right, y_scale(tick)), "grid")
        canvas.text((_LEFT - 6, y_scale(tick) + 4), time_text(tick), "tick", "end")
    width = (right - _LEFT) / len(panel.scenarios)
    for position, scenario in enumerate(panel.scenarios):
        middle = _LEFT + (position + 0.5) * width
        label = pattern_text(scenario, short=True)
        canvas.text((middle, _PANEL_HEIGHT - _BOTTOM + 18), label, "tick", "middle")
        for arm in scenario.arms:
            chosen = samples_of(samples, scenario, arm)
            _points(canvas, chosen, middle + _COLUMN_OFFSET[arm] * width, width, y_scale)
    return canvas.render()


def _points(
    canvas: Canvas, samples: Sequence[ScanSample], x: float, width: float, y_scale: Scale
) -> None:
    """The samples of one arm side by side in the order measured, and a bar at their median."""
    if not samples:
        return
    arm = samples[0].arm
    centre = median(sample.evidence.execution_ms for sample in samples)
    half = width * 0.12
    canvas.line((x - half, y_scale(centre)), (x + half, y_scale(centre)), f"median {arm}")
    for position, sample in enumerate(samples):
        spread = (position + 0.5) / len(samples) - 0.5
        time_ms = sample.evidence.execution_ms
        place = (x + spread * 2 * half, y_scale(time_ms))
        tip = f"{_ARM_NAMES[arm]}, pair {sample.pair + 1}: {milliseconds(time_ms)}"
        draw = canvas.diamond if arm == "lookahead" else canvas.circle
        draw(place, 3.8 if arm == "lookahead" else 3, f"dot {arm}", tip)


def scan_ratio_plot(comparisons: Sequence[ScanComparison]) -> Markup:
    """Ratio with interval of every scenario and baseline."""
    rows = [
        RatioRow(
            f"{scenario_text(item.scenario)}{_RIVAL_LABELS.get(item.baseline, '')}",
            item.estimate,
            ratio_text(item.estimate),
        )
        for item in comparisons
    ]
    return ratio_plot(rows, "time of stock / time of pg_lookahead (right of 1: faster)")


def scenario_text(scenario: Scenario) -> str:
    """Such as "10,000 pages, worker, 128 kB"."""
    read_ahead = "" if scenario.read_ahead_kb is None else f", {scenario.read_ahead_kb} kB"
    return f"{pattern_text(scenario)}, {scenario.io_method}{read_ahead}"
