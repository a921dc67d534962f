"""Everything the lab shows on a terminal. The only module that prints.

Results go to standard output; progress, findings and errors to standard error, so that a pipe
receives results only.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from lookahead.build_measurements import BuildComparison
from lookahead.errors import LabError
from lookahead.measurements import ControlComparison, ScanComparison
from lookahead.stats import RatioEstimate

_VERDICT_STYLES = {
    "faster": "green",
    "slower": "red",
    "no difference": "yellow",
    "too few pairs": "dim",
}


class ProgressBar:
    """A bar that advances by samples; what is under way stands beside it."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total)

    def describe(self, text: str) -> None:
        """Say what is under way."""
        self._progress.update(self._task, description=escape(text))

    def advance(self) -> None:
        """One sample more is done."""
        self._progress.advance(self._task)


class Terminal:
    """Both consoles; tests give streams and a width in characters instead of the real ones."""

    def __init__(
        self, stdout: TextIO | None = None, stderr: TextIO | None = None, width: int | None = None
    ) -> None:
        self._out = Console(file=stdout or sys.stdout, width=width, highlight=False)
        self._err = Console(file=stderr or sys.stderr, width=width, highlight=False)

    def error(self, error: LabError) -> None:
        """The two lines of an expected failure, unwrapped so that they can be searched for."""
        self._plain(f"[bold red]error:[/] {escape(error.message)}")
        if error.hint:
            self._plain(f"[bold]hint:[/] {escape(error.hint)}")

    def step(self, text: str) -> None:
        """Something that was done or found on the way."""
        self._plain(f"[dim]{escape(text)}[/]")

    def finding(self, level: str, text: str, advice: str) -> None:
        """A finding and what to do about it."""
        style = "yellow" if level == "warning" else "dim"
        self._plain(f"[{style}]{level}: {escape(text)}[/]")
        if advice:
            self._plain(f"[dim]  {escape(advice)}[/]")

    def log_only(self, text: str) -> None:
        """What the progress bar would show, for a standard error that is no terminal."""
        if not self._err.is_terminal:
            self.step(text)

    def result(self, text: str) -> None:
        """A line on standard output."""
        self._out.print(escape(text), soft_wrap=True)

    @contextmanager
    def progress(self, total: int) -> Iterator[ProgressBar]:
        """A progress bar on standard error; on something that is no terminal it is not drawn."""
        columns = (
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.description}"),
        )
        drawn = self._err.is_terminal
        with Progress(*columns, console=self._err, transient=True, disable=not drawn) as progress:
            yield ProgressBar(progress, total)

    def scan_table(self, comparisons: tuple[ScanComparison, ...]) -> None:
        """The table of `run index-scan`: medians, ratio with interval, verdict."""
        table = _table("index scan, random order, cold: median execution time")
        for name in ("pages", "io_\nmethod", "read-\nahead", "stock", "pg_look-\nahead"):
            table.add_column(name, justify="left" if name.startswith("io") else "right")
        _add_ratio_columns(table, comparisons[0].estimate if comparisons else None)
        for item in comparisons:
            scenario = item.scenario
            read_ahead = "-" if scenario.read_ahead_kb is None else f"{scenario.read_ahead_kb} kB"
            table.add_row(
                f"{scenario.pages:,}",
                scenario.io_method,
                read_ahead,
                milliseconds(item.stock_median_ms),
                milliseconds(item.lookahead_median_ms),
                *_ratio_cells(item.estimate),
            )
        self._out.print(table)

    def build_table(self, comparisons: tuple[BuildComparison, ...]) -> None:
        """The table of `run index-build`: medians, ratio with interval, verdict."""
        table = _table("index builds, table cached: median time")
        for name in ("key", "work-\ners", "MB", "step\nkB", "stock", "pg_look-\nahead"):
            table.add_column(name, justify="left" if name == "key" else "right")
        _add_ratio_columns(table, comparisons[0].estimate if comparisons else None)
        for item in comparisons:
            scenario = item.scenario
            table.add_row(
                scenario.key,
                str(scenario.workers),
                str(scenario.memory_mb),
                str(scenario.extend_kb),
                milliseconds(item.stock_median_ms),
                milliseconds(item.lookahead_median_ms),
                *_ratio_cells(item.estimate),
            )
        self._out.print(table)

    def control_table(self, comparisons: tuple[ControlComparison, ...]) -> None:
        """The table of `run controls`: transactions per second and their ratio."""
        table = _table("cached, pgbench -M prepared: median transactions per second")
        for name in ("workload", "against", "tps", "tps on"):
            table.add_column(name, justify="right" if name.startswith("tps") else "left")
        _add_ratio_columns(table, comparisons[0].estimate if comparisons else None)
        for item in comparisons:
            table.add_row(
                item.workload,
                item.baseline,
                f"{item.baseline_median_tps:,.0f}",
                f"{item.on_median_tps:,.0f}",
                *_ratio_cells(item.estimate),
            )
        self._out.print(table)

    def _plain(self, text: str) -> None:
        self._err.print(text, soft_wrap=True)


def milliseconds(value: float) -> str:
    """A time with three significant digits, in ms or s."""
    if value >= 10_000:
        return f"{value / 1000:.1f} s"
    if value >= 1000:
        return f"{value / 1000:.2f} s"
    return f"{value:.0f} ms" if value >= 100 else f"{value:.1f} ms"


def ratio_text(estimate: RatioEstimate) -> str:
    """The ratio and its interval, such as "4.12 [3.90, 4.40]"."""
    return f"{estimate.ratio:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _table(title: str) -> Table:
    """A table that fits into 80 columns."""
    return Table(
        title=title, box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, title_justify="left"
    )


def _add_ratio_columns(table: Table, estimate: RatioEstimate | None) -> None:
    confidence = f"{estimate.confidence:.0%} " if estimate else ""
    table.add_column(f"ratio\n\\[{confidence}interval]", justify="right", no_wrap=True)
    table.add_column("verdict")
    if estimate:
        rough = "; rough: few pairs" if estimate.is_rough else ""
        table.caption_justify = "left"
        table.caption = f"pairs: {estimate.pairs}, bootstrap seed: {estimate.seed}{rough}"


def _ratio_cells(estimate: RatioEstimate) -> tuple[str, str]:
    style = _VERDICT_STYLES[estimate.verdict]
    return escape(ratio_text(estimate)), f"[{style}]{estimate.verdict}[/]"
