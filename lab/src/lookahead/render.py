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

from lookahead.errors import LabError
from lookahead.foreign_text import printable
from lookahead.output import checked, indifferent
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

    def tables(self, tables: Iterable[Table]) -> None:
        """Tables on standard output."""
        for table in tables:
            self._out.print(table)

    def _plain(self, text: str) -> None:
        self._err.print(text, soft_wrap=True)


def _plain_text(text: str) -> str:
    """Text that is no markup of ours, and nothing that a terminal obeys."""
    return escape(printable(text))


def number_text(value: float) -> str:
    """Thousands as k, no needless zeros."""
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"


def rate_text(value: float) -> str:
    """Transactions per second: no fraction, unless they are few."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def milliseconds(value: float) -> str:
    """A time with three significant digits, in us, ms or s."""
    if value < 0.1:
        return f"{value * 1000:.3g} us"
    if value >= 10_000:
        return f"{value / 1000:.1f} s"
    if value >= 1000:
        return f"{value / 1000:.2f} s"
    if value >= 100:
        return f"{value:.0f} ms"
    return f"{value:.1f} ms" if value >= 10 else f"{value:.2f} ms"


def ratio_text(estimate: RatioEstimate) -> str:
    """The ratio and its interval, such as "4.12 [3.90, 4.40]"."""
    return f"{estimate.ratio:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def plain_table(title: str) -> Table:
    """A table that fits into 80 columns."""
    return Table(title=title, box=SIMPLE_HEAD, padding=0, title_justify="left")


def add_ratio_columns(table: Table, estimates: Sequence[RatioEstimate]) -> None:
    confidence = f"{estimates[0].confidence:.0%} " if estimates else ""
    table.add_column(f"ratio\n\\[{confidence}interval]", justify="right", no_wrap=True)
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
