"""Puts the page together: sections of plots and tables, the style sheet, and the data itself."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from markupsafe import Markup

from lookahead.comparisons import compare, panels_of, scenarios_of
from lookahead.measurements import Measurements
from lookahead.report.environment import embedded, render_sections
from lookahead.report.tables import TextTable, facts_table, settings_table
from lookahead.report.timeline_plots import timeline_plot
from lookahead.report.trial_figures import (
    TrialFigures,
    trial_comparison_table,
    trial_figures,
)
from lookahead.results import Finding, ResultDocument, write_atomically

_TITLES = {
    "index-scan": "Index scans, cold",
    "latency": "Index scans, cold, on a device with added latency",
    "index-build": "Index builds over a cached table",
    "controls": "Cached statements, which must not become slower",
    "bitmap-scan": "Bitmap heap scans, cold",
    "seq-scan": "Sequential scans and single rows, by read-ahead",
    "cached-scan": "Bitmap heap scans with everything cached, and in parallel",
    "range-query": "A sum over a range of dates, cold",
    "throttled": "Bitmap heap scans, cold, on a throttled volume",
    "concurrent-scans": "Bitmap heap scans of several sessions at once, cold",
}


@dataclass(frozen=True)
class TimelineFigure:
    """One plot over time and its heading."""

    title: str
    plot: Markup


@dataclass(frozen=True)
class Section:
    """One result on the page; `data` is the result itself, for those who want to compute."""

    name: str
    experiment: str
    title: str
    ending: str
    is_complete: bool
    findings: tuple[Finding, ...]
    comparison: TextTable
    timelines: tuple[TimelineFigure, ...]
    trials: TrialFigures | None
    facts: TextTable
    settings: TextTable
    data: Markup


def write_page(documents: Sequence[tuple[str, ResultDocument]], path: Path) -> Path:
    """Write the page of these (name, result) pairs; returns its path. LabError: cannot write."""
    write_atomically(path, render_page(documents))
    return path


def render_page(documents: Sequence[tuple[str, ResultDocument]]) -> str:
    """The page as text."""
    return render_sections("page.html", [_section(name, document) for name, document in documents])


def _section(name: str, document: ResultDocument) -> Section:
    data = document.measurements
    answers = compare(data, document.parameters.seed)
    return Section(
        name=name,
        experiment=document.experiment,
        title=_TITLES.get(document.experiment, document.experiment),
        ending=document.ending,
        is_complete=document.status == "complete",
        findings=document.findings,
        comparison=trial_comparison_table(answers),
        timelines=tuple(_timelines(data)),
        trials=trial_figures(data, answers),
        facts=facts_table(document),
        settings=settings_table(document),
        data=embedded(asdict(document)),
    )


def _timelines(data: Measurements) -> Iterator[TimelineFigure]:
    """Of each panel the last scenario that was watched."""
    watched = [sample for sample in data.samples if sample.timeline is not None]
    for panel in panels_of(scenarios_of(watched)):
        scenario = panel.scenarios[-1]
        plot = timeline_plot(watched, scenario, scenario.label)
        if plot is not None:
            yield TimelineFigure(scenario.label, plot)
