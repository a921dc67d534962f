"""The part of the page about trials: plots and tables from the raw samples."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

from lookahead.comparisons import (
    Panel,
    arms_of,
    panels_of,
    samples_of,
    scenarios_of,
)
from lookahead.measurements import (
    Comparison,
    LookupSample,
    Measurements,
    Sample,
)
from lookahead.render import milliseconds, ratio_text
from lookahead.report.ratio_plot import RatioRow, ratio_plot
from lookahead.report.tables import TextTable
from lookahead.report.trial_plot import trial_plot


@dataclass(frozen=True)
class TrialFigure:
    """A panel: its plot of all samples, its medians as a table, and its ratios."""

    title: str
    plot: Markup
    medians: TextTable
    ratios: Markup


@dataclass(frozen=True)
class TrialFigures:
    """What the section of an experiment made of trials shows beside what all sections show."""

    panels: tuple[TrialFigure, ...]
    lookups: TextTable | None
    references: TextTable | None
    evidence: TextTable
    checks: TextTable | None
    arms: TextTable
    rows_compared: int


def trial_figures(data: Measurements, comparisons: Sequence[Comparison]) -> TrialFigures | None:
    """The figures; None without samples."""
    if not data.samples and not data.lookups:
        return None
    panels = panels_of(scenarios_of(data.samples))
    return TrialFigures(
        panels=tuple(
            TrialFigure(
                panel.title,
                trial_plot(data, panel),
                _medians(data, panel),
                _ratio_plot(
                    [one for one in comparisons if one.question.scenario in panel.scenarios]
                ),
            )
            for panel in panels
        ),
        lookups=_lookups(data.lookups) if data.lookups else None,
        references=_references(data) if data.references else None,
        evidence=_evidence(data.samples),
        checks=_checks(data) if data.checks else None,
        arms=_arms(data),
        rows_compared=sum(digest.rows for digest in data.digests),
    )


def trial_comparison_table(comparisons: Sequence[Comparison]) -> TextTable:
    """Medians, ratio with interval, verdict."""
    rows = tuple(
        (
            item.question.scenario.label,
            item.question.name,
            item.baseline,
            milliseconds(item.baseline_median_ms),
            item.challenger,
            milliseconds(item.challenger_median_ms),
            ratio_text(item.estimate),
            item.estimate.verdict,
        )
        for item in comparisons
    )
    names = ("scenario", "question", "other", "its time", "ours", "our time", "ratio [interval]")
    return TextTable((*names, "verdict"), rows, 3)


def _ratio_plot(comparisons: Sequence[Comparison]) -> Markup:
    """Ratio with interval of every question of a panel; nothing where none was asked."""
    if not comparisons:
        return Markup("")
    rows = [
        RatioRow(
            f"{item.question.scenario.factors[0].value}: {item.question.name}",
            item.estimate,
            ratio_text(item.estimate),
        )
        for item in comparisons
    ]
    return ratio_plot(rows, "time of the other / time of ours (right of 1: faster)")


def _medians(data: Measurements, panel: Panel) -> TextTable:
    """A row for each arm, a column for each value of the axis."""
    chosen = [one for one in data.samples if one.scenario in panel.scenarios]
    rows = []
    for arm in arms_of(chosen):
        found = [samples_of(chosen, scenario, arm) for scenario in panel.scenarios]
        cells = (
            milliseconds(median(one.time_ms for one in some)) if some else "-" for some in found
        )
        rows.append((arm, *cells))
    heads = (panel.axis, *(scenario.factors[0].value for scenario in panel.scenarios))
    return TextTable(heads, tuple(rows), 1)


def _references(data: Measurements) -> TextTable:
    """Figures that were not measured in this run, and where they come from."""
    rows = tuple(
        (item.scenario.label, item.name, milliseconds(item.time_ms), item.source)
        for item in data.references
    )
    return TextTable(("scenario", "what", "time", "source"), rows, 2)


def _lookups(samples: Sequence[LookupSample]) -> TextTable:
    """Medians over rounds."""
    rows = []
    for scenario in scenarios_of(samples):
        for arm in dict.fromkeys(one.arm for one in samples if one.scenario == scenario):
            chosen = [one for one in samples if (one.scenario, one.arm) == (scenario, arm)]
            rows.append(
                (
                    scenario.label,
                    arm,
                    str(chosen[0].sessions),
                    f"{median(one.lookups_per_s for one in chosen):,.0f}",
                    milliseconds(median(one.p50_ms for one in chosen)),
                    milliseconds(median(one.p99_ms for one in chosen)),
                )
            )
    heads = ("scenario", "arm", "sessions", "lookups/s", "p50", "p99")
    return TextTable(heads, tuple(rows), 2)


def _checks(data: Measurements) -> TextTable:
    """What was verified of each scenario before it was measured."""
    names = tuple(dict.fromkeys(name for check in data.checks for name in check.facts))
    rows = tuple(
        (check.scenario.label, *(check.facts.get(name, "-") for name in names))
        for check in data.checks
    )
    return TextTable(("scenario", *names), rows, 1 + len(names))


def _arms(data: Measurements) -> TextTable:
    """What each arm's sessions had set."""
    rows = tuple(
        (
            arm.name,
            arm.library,
            arm.plan or "-",
            ", ".join(f"{name} = {value}" for name, value in arm.settings.items()) or "-",
        )
        for arm in data.arms
    )
    return TextTable(("arm", "pg_lookahead", "plan", "settings"), rows, 4)


_COLUMNS: tuple[tuple[str, Callable[[Sample], float | None], str], ...] = (
    ("rows", lambda one: one.evidence.rows if one.evidence else None, ",.0f"),
    ("removed", lambda one: one.evidence.removed_rows if one.evidence else None, ",.0f"),
    ("exact", lambda one: one.evidence.exact_blocks if one.evidence else None, ",.0f"),
    ("lossy", lambda one: one.evidence.lossy_blocks if one.evidence else None, ",.0f"),
    ("workers", lambda one: one.evidence.workers if one.evidence else None, ".0f"),
    ("blocks read", lambda one: one.evidence.shared_read_blocks if one.evidence else None, ",.0f"),
    ("asked", lambda one: one.evidence.lookahead.requests if one.evidence else None, ",.0f"),
    (
        "advised",
        lambda one: one.evidence.lookahead.advised_blocks if one.evidence else None,
        ",.0f",
    ),
    (
        "bridged",
        lambda one: one.evidence.lookahead.bridged_blocks if one.evidence else None,
        ",.0f",
    ),
    ("requests", lambda one: one.use.reads if one.use else None, ",.0f"),
    ("request kB", lambda one: one.use.request_kb if one.use else None, ",.1f"),
    ("MB", lambda one: one.use.read_bytes / 1e6 if one.use else None, ",.0f"),
    ("depth", lambda one: one.use.queue_depth if one.use else None, ",.1f"),
    ("util %", lambda one: one.use.util_percent if one.use else None, ".0f"),
    ("CPU ms", lambda one: one.backend_cpu_ms, ",.0f"),
)


def _evidence(samples: Sequence[Sample]) -> TextTable:
    """What each arm did: medians over samples."""
    rows = []
    for scenario in scenarios_of(samples):
        for arm in arms_of(one for one in samples if one.scenario == scenario):
            chosen = samples_of(samples, scenario, arm)
            status = {one.evidence.lookahead.status for one in chosen if one.evidence}
            cold = {one.cold.method if one.cold else "not cold" for one in chosen}
            cells = [_median_text(chosen, value, form) for _, value, form in _COLUMNS]
            names = (scenario.label, arm, ", ".join(sorted(status)) or "-", ", ".join(sorted(cold)))
            rows.append((*names, *cells))
    heads = ("scenario", "arm", "look-ahead", "made cold by", *(name for name, _, _ in _COLUMNS))
    return TextTable(heads, tuple(rows), 4)


def _median_text(
    samples: Sequence[Sample], value: Callable[[Sample], float | None], form: str
) -> str:
    known = [number for number in map(value, samples) if number is not None]
    return format(median(known), form) if known else "-"
