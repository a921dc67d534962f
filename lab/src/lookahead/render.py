"""Everything the lab shows on a terminal. The only module that prints.

Results go to standard output; progress, findings and errors to standard error, so that a pipe
receives results only.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from lookahead.build_comparisons import PUBLISHED_WORKER_GAIN
from lookahead.build_measurements import BuildComparison, ValidatedBuild, WorkerGain
from lookahead.errors import LabError
from lookahead.foreign_text import printable
from lookahead.output import checked, indifferent
from lookahead.scan_measurements import ARMS, Arm, ControlComparison, ScanComparison, Scenario
from lookahead.stats import RatioEstimate

_VERDICT_STYLES = {
    "faster": "green",
    "slower": "red",
    "no difference": "yellow",
    "too few pairs": "dim",
}

_SCAN_TITLES: dict[Arm, str] = {
    "stock": "index scan, cold: median execution time",
    "bitmap": "the same rows against stock's bitmap scan and sort",
}


class ProgressBar:
    """A bar that advances by samples; what is under way stands beside it."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total)

    def describe(self, text: str) -> None:
        """Say what is under way."""
        self._progress.update(self._task, description=_plain_text(text))

    def advance(self) -> None:
        """One sample more is done."""
        self._progress.advance(self._task)


class Terminal:
    """Both consoles; tests give streams and a width in characters instead of the real ones."""

    def __init__(
        self, stdout: TextIO | None = None, stderr: TextIO | None = None, width: int | None = None
    ) -> None:
        out, err = checked(stdout or sys.stdout), indifferent(stderr or sys.stderr)
        self._out = Console(file=out, width=width, highlight=False, emoji=False)
        self._err = Console(file=err, width=width, highlight=False, emoji=False)

    def error(self, error: LabError) -> None:
        """The two lines of an expected failure, unwrapped so that they can be searched for."""
        self._plain(f"[bold red]error:[/] {_plain_text(error.message)}")
        if error.hint:
            self._plain(f"[bold]hint:[/] {_plain_text(error.hint)}")

    def step(self, text: str) -> None:
        """Something that was done or found on the way."""
        self._plain(f"[dim]{_plain_text(text)}[/]")

    def finding(self, level: str, text: str, advice: str) -> None:
        """A finding and what to do about it."""
        style = "yellow" if level == "warning" else "dim"
        self._plain(f"[{style}]{level}: {_plain_text(text)}[/]")
        if advice:
            self._plain(f"[dim]  {_plain_text(advice)}[/]")

    def log_only(self, text: str) -> None:
        """What the progress bar would show, for a standard error that is no terminal."""
        if not self._err.is_terminal:
            self.step(text)

    def result(self, text: str) -> None:
        """A line on standard output."""
        self._out.print(_plain_text(text), soft_wrap=True)

    def raw(self, text: str) -> None:
        """A document on standard output, to the byte."""
        self._out.print(text, soft_wrap=True, markup=False)

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
        """The tables of `run index-scan`, one per baseline and read-ahead."""
        for baseline, title in _SCAN_TITLES.items():
            tables: dict[int | None, list[ScanComparison]] = {}
            for item in comparisons:
                if item.baseline == baseline:
                    tables.setdefault(item.scenario.read_ahead_kb, []).append(item)
            for size_kb, chosen in tables.items():
                suffix = "" if size_kb is None else f", read-ahead {size_kb} kB"
                self._out.print(_scan_table(f"{title}{suffix}", chosen))

    def build_table(self, comparisons: tuple[BuildComparison, ...]) -> None:
        """The table of `run index-build`: medians, ratio with interval, verdict."""
        names = ("work-\ners", "MB", "step\nkB", "stock", "pg_look-\nahead")
        table = _key_table("index builds, table cached: median time", names)
        add_ratio_columns(table, [item.estimate for item in comparisons])
        for item in comparisons:
            scenario = item.scenario
            table.add_row(
                scenario.key,
                str(scenario.workers),
                str(scenario.memory_mb),
                str(scenario.extend_kb),
                milliseconds(item.stock_median_ms),
                milliseconds(item.lookahead_median_ms),
                *ratio_cells(item.estimate),
            )
        self._out.print(table)

    def build_phase_table(self, builds: tuple[ValidatedBuild, ...]) -> None:
        """What of `CREATE INDEX CONCURRENTLY` is the build, and what PostgreSQL does after it."""
        names = ["work-\ners", "MB", "build,\nstock", "build,\nours", "ratio"]
        names += ["validation,\nstock", "validation,\nours"]
        table = _key_table("concurrent builds: median time by phase, as seen by polling", names)
        for item in builds:
            table.add_row(
                item.scenario.key,
                str(item.scenario.workers),
                str(item.scenario.memory_mb),
                milliseconds(item.build_ms["stock"]),
                milliseconds(item.build_ms["lookahead"]),
                f"{item.build_ms['stock'] / item.build_ms['lookahead']:.2f}",
                milliseconds(item.validation_ms["stock"]),
                milliseconds(item.validation_ms["lookahead"]),
            )
        self._out.print(table)

    def worker_gain_table(self, gains: tuple[WorkerGain, ...]) -> None:
        """What parallel workers gain in each arm, and the published figure below it."""
        names = ("MB", "work-\ners", "stock", "pg_look-\nahead")
        table = _key_table("median time without workers / with them", names)
        for item in gains:
            table.add_row(
                item.scenario.key,
                str(item.scenario.memory_mb),
                str(item.scenario.workers),
                *(f"{item.gains[arm]:.2f}" for arm in ARMS),
            )
        self._out.print(table)
        self._out.print(f"published: {PUBLISHED_WORKER_GAIN}")

    def tables(self, tables: Iterable[Table]) -> None:
        """Tables on standard output."""
        for table in tables:
            self._out.print(table)

    def control_table(self, comparisons: tuple[ControlComparison, ...]) -> None:
        """The table of `run controls`: times against no library at all, their ratios."""
        bare = [item for item in comparisons if item.baseline == "not loaded"]
        table = plain_table("median time of one execution, and ratio without / with the library")
        table.add_column("workload", no_wrap=True)
        table.add_column("io_\nmethod")
        for name in ("without", "with", "least\nratio"):
            table.add_column(name, justify="right", no_wrap=True)
        add_ratio_columns(table, [item.estimate for item in bare], verdict=False)
        for item in bare:
            table.add_row(
                item.workload,
                item.io_method,
                short_time(item.baseline_median_ms),
                short_time(item.on_median_ms),
                f"{item.least_ratio:.2f}",
                escape(ratio_text(item.estimate)),
            )
        self._out.print(table)

    def _plain(self, text: str) -> None:
        self._err.print(text, soft_wrap=True)


def _plain_text(text: str) -> str:
    """Text that is no markup of ours, and nothing that a terminal obeys."""
    return escape(printable(text))


def pattern_text(scenario: Scenario, *, short: bool = False) -> str:
    """What a scan reads, such as "10,000 pages", "LIMIT 100" or "25 % in heap order".

    `short`, for narrow places: "10k pages", "LIMIT 100", "25 % heap".
    """
    number = number_text if short else "{:,}".format
    if scenario.limit is not None:
        return f"LIMIT {number(scenario.limit)}"
    if scenario.share_percent is not None:
        return f"{scenario.share_percent} % {'heap' if short else 'in heap order'}"
    return f"{number(scenario.pages)} pages"


def number_text(value: float) -> str:
    """Thousands as k, no needless zeros."""
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"


def rate_text(value: float) -> str:
    """Transactions per second: no fraction, unless they are few."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def milliseconds(value: float) -> str:
    """A time with three significant digits, in ms or s."""
    if value >= 10_000:
        return f"{value / 1000:.1f} s"
    if value >= 1000:
        return f"{value / 1000:.2f} s"
    if value >= 100:
        return f"{value:.0f} ms"
    return f"{value:.1f} ms" if value >= 10 else f"{value:.2f} ms"


def short_time(value_ms: float) -> str:
    """A time that may be far below a millisecond."""
    return milliseconds(value_ms) if value_ms >= 1 else f"{value_ms * 1000:.3g} us"


def ratio_text(estimate: RatioEstimate) -> str:
    """The ratio and its interval, such as "4.12 [3.90, 4.40]"."""
    return f"{estimate.ratio:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _scan_table(title: str, comparisons: Sequence[ScanComparison]) -> Table:
    """Medians, ratio, verdict."""
    table = plain_table(title)
    for name in ("scan", "io_\nmethod"):
        table.add_column(name)
    for name in ("stock", "look-\nahead"):
        table.add_column(name, justify="right")
    add_ratio_columns(table, [item.estimate for item in comparisons])
    for item in comparisons:
        table.add_row(
            pattern_text(item.scenario, short=True),
            item.scenario.io_method,
            milliseconds(item.baseline_median_ms),
            milliseconds(item.lookahead_median_ms),
            *ratio_cells(item.estimate),
        )
    return table


def plain_table(title: str) -> Table:
    """A table that fits into 80 columns."""
    return Table(title=title, box=SIMPLE_HEAD, padding=0, title_justify="left")


def _key_table(title: str, names: Sequence[str]) -> Table:
    """A table with a row for each key of an index: its name, then columns of numbers."""
    table = plain_table(title)
    table.add_column("key", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right")
    return table


def add_ratio_columns(
    table: Table, estimates: Sequence[RatioEstimate], *, verdict: bool = True
) -> None:
    confidence = f"{estimates[0].confidence:.0%} " if estimates else ""
    table.add_column(f"ratio\n\\[{confidence}interval]", justify="right", no_wrap=True)
    if verdict:
        table.add_column("verdict")
    if estimates:
        counts = sorted({estimate.pairs for estimate in estimates})
        pairs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        rough = "; rough: few pairs" if any(item.is_rough for item in estimates) else ""
        table.caption_justify = "left"
        table.caption = f"pairs: {pairs}, bootstrap seed: {estimates[0].seed}{rough}"


def ratio_cells(estimate: RatioEstimate) -> tuple[str, str]:
    style = _VERDICT_STYLES[estimate.verdict]
    return escape(ratio_text(estimate)), f"[{style}]{estimate.verdict}[/]"
