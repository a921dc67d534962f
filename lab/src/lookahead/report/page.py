"""Puts the page together: sections of plots and tables, the style sheet, and the data itself."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from markupsafe import Markup

from lookahead.build_comparisons import compare_builds
from lookahead.comparisons import compare
from lookahead.measurements import Comparison
from lookahead.render import pattern_text, ratio_text
from lookahead.report.build_figures import (
    BuildFigures,
    build_comparison_table,
    build_figures,
    build_ratio_plot,
)
from lookahead.report.environment import embedded, render_sections
from lookahead.report.ratio_plot import RatioRow, ratio_plot
from lookahead.report.scan_plots import panels_of, scan_ratio_plot, time_plots
from lookahead.report.tables import (
    TextTable,
    control_comparison_table,
    control_evidence_table,
    evidence_table,
    facts_table,
    io_table,
    scan_comparison_table,
    settings_table,
)
from lookahead.report.timeline_plots import timeline_plot
from lookahead.report.trial_figures import (
    TrialFigures,
    trial_comparison_table,
    trial_figures,
)
from lookahead.results import Finding, ResultDocument, write_atomically
from lookahead.scan_comparisons import compare_controls, compare_scans
from lookahead.scan_measurements import ControlsData, IndexScanData

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
    ratio_plot: Markup
    time_plots: tuple[Markup, ...]
    timelines: tuple[TimelineFigure, ...]
    builds: BuildFigures | None
    trials: TrialFigures | None
    io: TextTable | None
    evidence: TextTable | None
    control_evidence: TextTable | None
    rows_compared: int
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
    scans = document.index_scan or IndexScanData(None, (), (), ())
    controls = document.controls or ControlsData((), (), ())
    seed = document.parameters.seed
    answers = compare(document.trials, seed) if document.trials else ()
    comparison, figure = _comparison(document, answers)
    return Section(
        name=name,
        experiment=document.experiment,
        title=_TITLES.get(document.experiment, document.experiment),
        ending=document.ending,
        is_complete=document.status == "complete",
        findings=document.findings,
        comparison=comparison,
        ratio_plot=figure,
        time_plots=tuple(time_plots(scans.samples)) if scans.samples else (),
        timelines=_timelines(scans),
        builds=build_figures(document.index_build) if document.index_build else None,
        trials=trial_figures(document.trials, answers) if document.trials else None,
        io=io_table(scans.samples) if scans.samples else None,
        evidence=evidence_table(scans.samples) if scans.samples else None,
        control_evidence=control_evidence_table(controls.evidence) if controls.evidence else None,
        rows_compared=sum(digest.rows for digest in scans.digests),
        facts=facts_table(document),
        settings=settings_table(document),
        data=embedded(asdict(document)),
    )


def _comparison(
    document: ResultDocument, answers: Sequence[Comparison]
) -> tuple[TextTable, Markup]:
    """Table and plot of the ratios; `answers` are those of trials, whose panels have the plots."""
    seed = document.parameters.seed
    if document.controls:
        ratios = compare_controls(document.controls.samples, seed)
        rows = [
            RatioRow(
                f"{item.workload}, {item.io_method}, against {item.baseline}",
                item.estimate,
                ratio_text(item.estimate),
            )
            for item in ratios
        ]
        plot = ratio_plot(rows, "time of the other arm / time with pg_lookahead on")
        return control_comparison_table(ratios), plot
    if document.index_build:
        built = compare_builds(document.index_build.samples, seed)
        return build_comparison_table(built), build_ratio_plot(built)
    if document.trials:
        return trial_comparison_table(answers), Markup("")
    compared = compare_scans(document.index_scan.samples if document.index_scan else (), seed)
    return scan_comparison_table(compared), scan_ratio_plot(compared)


def _timelines(scans: IndexScanData) -> tuple[TimelineFigure, ...]:
    """For each I/O method, read-ahead and order, the scenario with the most pages.

    A statement with LIMIT is over before there is anything to see.
    """
    figures = []
    for panel in panels_of(scans.samples):
        scenario = panel.scenarios[-1]
        if scenario.limit is not None:
            continue
        title = f"{pattern_text(scenario)}, {scenario.io_method}"
        if scenario.read_ahead_kb is not None:
            title += f", read-ahead {scenario.read_ahead_kb} kB"
        plot = timeline_plot(scans.samples, scenario, title)
        if plot is not None:
            figures.append(TimelineFigure(title, plot))
    return tuple(figures)
