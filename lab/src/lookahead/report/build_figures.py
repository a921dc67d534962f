"""The part of the page about index builds: plots and tables from the raw samples."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

from lookahead.build_comparisons import (
    PUBLISHED_WORKER_GAIN,
    build_scenarios_of,
    builds_of,
    compare_workers,
)
from lookahead.build_measurements import (
    BuildComparison,
    BuildSample,
    BuildScenario,
    IndexBuildData,
)
from lookahead.render import milliseconds, ratio_text
from lookahead.report.ratio_plot import RatioRow, ratio_plot
from lookahead.report.svg import Canvas, Scale, nice_ceiling, time_text
from lookahead.report.tables import TextTable
from lookahead.scan_measurements import ARMS

_WIDTH, _LABEL_WIDTH, _ROW_HEIGHT, _TOP = 760, 290, 26, 22
# In the order of a build; a phase that is not listed is drawn like the first.
PHASES = ("initializing", "scanning table", "sorting live tuples", "loading tuples in tree")


@dataclass(frozen=True)
class BuildFigures:
    """What the section of an index build shows beside what all sections show."""

    times: Markup
    phases: Markup
    worker_gains: TextTable
    published_worker_gain: str
    evidence: TextTable
    indexes_compared: int


def build_figures(data: IndexBuildData) -> BuildFigures | None:
    """The figures; None without samples."""
    if not data.samples:
        return None
    hashed = {sample.scenario for sample in data.samples if sample.pages_sha256 is not None}
    return BuildFigures(
        _time_plot(data.samples),
        _phase_plot(data.samples),
        _worker_gain_table(data.samples),
        PUBLISHED_WORKER_GAIN,
        _evidence(data.samples),
        len(hashed),
    )


def scenario_label(scenario: BuildScenario) -> str:
    """Such as "uuid, 2 workers, 512 MB, step 4096 kB"."""
    return (
        f"{scenario.key}, {scenario.workers} workers, {scenario.memory_mb} MB, "
        f"step {scenario.extend_kb} kB"
    )


def build_comparison_table(comparisons: Sequence[BuildComparison]) -> TextTable:
    """Medians, ratio with interval, verdict."""
    heads = ("index", "rows", "stock", "pg_lookahead", "ratio [interval]", "verdict")
    rows = tuple(
        (
            scenario_label(item.scenario),
            f"{item.scenario.rows:,}",
            milliseconds(item.stock_median_ms),
            milliseconds(item.lookahead_median_ms),
            ratio_text(item.estimate),
            item.estimate.verdict,
        )
        for item in comparisons
    )
    return TextTable(heads, rows, 1)


def build_ratio_plot(comparisons: Sequence[BuildComparison]) -> Markup:
    """Ratio with interval of every scenario."""
    rows = [
        RatioRow(_short_label(item.scenario), item.estimate, ratio_text(item.estimate))
        for item in comparisons
    ]
    return ratio_plot(rows, "time of stock / time of pg_lookahead (right of 1: faster)")


def _short_label(scenario: BuildScenario) -> str:
    return f"{scenario.key}, {scenario.workers} w, {scenario.memory_mb} MB, {scenario.extend_kb} kB"


def _time_plot(samples: Sequence[BuildSample]) -> Markup:
    """All raw samples, one row per scenario, both arms on it."""
    scenarios = build_scenarios_of(samples)
    times = [sample.time_ms for sample in samples]
    scale = Scale(min(times) / 1.3, max(times) * 1.3, _LABEL_WIDTH, _WIDTH - 12, True)
    canvas = _rows_canvas(len(scenarios), "build times", scale)
    for position, scenario in enumerate(scenarios):
        y = _TOP + position * _ROW_HEIGHT
        canvas.text((_LABEL_WIDTH - 10, y + 4), _short_label(scenario), "label", "end")
        for arm in ARMS:
            chosen = builds_of(samples, scenario, arm)
            if chosen:
                middle = scale(median(sample.time_ms for sample in chosen))
                canvas.line((middle, y - 8), (middle, y + 8), f"median {arm}")
            for sample in chosen:
                tip = f"{arm}, pair {sample.pair + 1}: {milliseconds(sample.time_ms)}"
                draw = canvas.circle if arm == "stock" else canvas.diamond
                draw((scale(sample.time_ms), y), 3.5, f"dot {arm}", tip)
    return canvas.render()


def _phase_plot(samples: Sequence[BuildSample]) -> Markup:
    """Where the time of the median build went: a bar for each arm of each scenario."""
    shown = [
        sorted(chosen, key=lambda sample: sample.time_ms)[len(chosen) // 2]
        for scenario in build_scenarios_of(samples)
        for arm in ARMS
        if (chosen := builds_of(samples, scenario, arm))
    ]
    high = nice_ceiling(max(sample.time_ms for sample in shown))
    scale = Scale(0, high, _LABEL_WIDTH, _WIDTH - 12)
    canvas = _rows_canvas(len(shown), "phases of the builds", scale)
    for position, sample in enumerate(shown):
        y = _TOP + position * _ROW_HEIGHT
        label = f"{_short_label(sample.scenario)}: {'stock' if sample.arm == 'stock' else 'ours'}"
        canvas.text((_LABEL_WIDTH - 10, y + 4), label, "label", "end")
        _bar(canvas, scale, y, sample)
    return canvas.render()


def _bar(canvas: Canvas, scale: Scale, y: float, sample: BuildSample) -> None:
    """The phases one after the other; what polling did not see stays empty, up to the tick."""
    start = 0.0
    for phase in sample.phases:
        number = PHASES.index(phase.name) if phase.name in PHASES else 0
        left, right = scale(start), scale(min(start + phase.time_ms, sample.time_ms))
        canvas.rectangle((left, y - 7), max(right - left, 0.0), 14, f"phase-{number}")
        start += phase.time_ms
    end = scale(sample.time_ms)
    canvas.line((end, y - 9), (end, y + 9), f"median {sample.arm}")


def _rows_canvas(rows: int, title: str, scale: Scale) -> Canvas:
    """A canvas with a time axis below so many rows."""
    bottom = _TOP + rows * _ROW_HEIGHT - 8
    canvas = Canvas(_WIDTH, bottom + 24, title)
    for tick in scale.ticks():
        canvas.line((scale(tick), 6), (scale(tick), bottom), "grid")
        canvas.text((scale(tick), bottom + 14), time_text(tick), "tick", "middle")
    return canvas


def _worker_gain_table(samples: Sequence[BuildSample]) -> TextTable:
    """What parallel workers gain in each arm; without rows where nothing tells."""
    rows = tuple(
        (scenario_label(item.scenario), *(f"{item.gains[arm]:.2f}" for arm in ARMS))
        for item in compare_workers(samples)
    )
    return TextTable(("index", *ARMS), rows, 1)


def _evidence(samples: Sequence[BuildSample]) -> TextTable:
    """What proves that each arm's own code ran, and what it took: medians over samples."""
    columns: tuple[tuple[str, Callable[[BuildSample], float | None]], ...] = (
        ("built by us", lambda sample: sample.built_by_us),
        ("index, MB", lambda sample: sample.index_bytes / 1e6),
        ("WAL, MB", lambda sample: sample.wal_bytes / 1e6),
        ("peak memory, MB", _peak_mb),
        ("workers seen", lambda sample: sample.workers_seen),
    )
    rows = []
    for scenario in build_scenarios_of(samples):
        for arm in ARMS:
            chosen = builds_of(samples, scenario, arm)
            cells = [_median_text(chosen, get) for _, get in columns]
            cells += [_phase_text(chosen, name) for name in PHASES]
            rows.append((scenario_label(scenario), arm, *cells))
    heads = ("index", "arm", *(name for name, _ in columns), *PHASES)
    return TextTable(heads, tuple(rows), 2)


def _peak_mb(sample: BuildSample) -> float | None:
    return None if sample.peak_memory_bytes is None else sample.peak_memory_bytes / 1e6


def _median_text(
    samples: Sequence[BuildSample], value: Callable[[BuildSample], float | None]
) -> str:
    known = [number for number in map(value, samples) if number is not None]
    return f"{median(known):,.1f}" if known else "-"


def _phase_text(samples: Sequence[BuildSample], name: str) -> str:
    """The median time in a phase, over the builds in which it was seen."""
    times = [phase.time_ms for one in samples for phase in one.phases if phase.name == name]
    return milliseconds(median(times)) if times else "-"
