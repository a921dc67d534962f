"""Everything the lab shows on a terminal. The only module that prints.

Results go to standard output; progress, findings and errors to standard error, so that a pipe
receives results only. A full disk and a reader that has gone away are nothing that we could repair,
and no bugs either: standard output says so instead of ending in a traceback.
"""

import errno
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from textwrap import wrap
from typing import TextIO, cast

import rich.table
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lookahead.errors import LabError
from lookahead.formats import printable
from lookahead.report.tables import Table, with_columns

_VERDICT_STYLES = {"faster": "green", "slower": "red", "inconclusive": "yellow"}
# Names are wrapped where there is no room for them: not below this, nor within words up to that.
_MIN_NAME_WIDTH, _MAX_WORD_WIDTH = 12, 24
# The head of a number that is longer takes several lines.
_MAX_HEAD_WIDTH = 9


class ProgressBar:
    """A bar that advances by samples; what is under way stands beside it."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total)

    def describe(self, text: str) -> None:
        self._progress.update(self._task, description=_plain_text(text))

    def advance(self) -> None:
        self._progress.advance(self._task)

    def reach(self, done: float) -> None:
        self._progress.update(self._task, completed=done)


class Terminal:
    """Both consoles; tests give streams and a width in characters instead of the real ones."""

    def __init__(
        self, stdout: TextIO | None = None, stderr: TextIO | None = None, width: int | None = None
    ) -> None:
        out = cast(TextIO, _Stream(stdout or sys.stdout))
        err = cast(TextIO, _Stream(stderr or sys.stderr, may_be_lost=True))
        self._out = Console(file=out, width=width, highlight=False, emoji=False)
        self._err = Console(file=err, width=width, highlight=False, emoji=False)

    def error(self, error: LabError) -> None:
        """The two lines of an expected failure, unwrapped so that they can be searched for."""
        self._plain(f"[bold red]error:[/] {_plain_text(error.message)}")
        if error.hint:
            self._plain(f"[bold]hint:[/] {_plain_text(error.hint)}")

    def step(self, text: str) -> None:
        self._plain(f"[dim]{_plain_text(text)}[/]")

    def finding(self, level: str, text: str, advice: str) -> None:
        style = "yellow" if level == "warning" else "dim"
        self._plain(f"[{style}]{level}: {_plain_text(text)}[/]")
        if advice:
            self._plain(f"[dim]  {_plain_text(advice)}[/]")

    def log_only(self, text: str) -> None:
        """What the progress bar would show, for a standard error that is no terminal."""
        if not self._err.is_terminal:
            self.step(text)

    def result(self, text: str) -> None:
        self._out.print(_plain_text(text), soft_wrap=True)

    def raw(self, text: str) -> None:
        self._out.print(text, soft_wrap=True, markup=False)

    def document(self, schema: str, version: int, content: Mapping[str, object]) -> None:
        """One JSON document; a change of meaning or name in it is a new version."""
        found = {"schema": schema, "schema_version": version, **content}
        self.raw(json.dumps(found, indent=2, allow_nan=False))  # NaN and Infinity are not JSON

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
        """Tables on standard output; one that is too wide continues below itself, uncut."""
        for table in tables:
            self._out.print(f"[bold]{_plain_text(table.title)}[/]")
            for part in _parts(table, self._out.width):
                self._out.print(_drawn(part))
            if table.caption:
                self._out.print(f"[dim]{_plain_text(table.caption)}.[/]")
            self._out.print()

    def _plain(self, text: str) -> None:
        self._err.print(text, soft_wrap=True)


def _plain_text(text: str) -> str:
    """Text that is no markup of ours, and nothing that a terminal obeys."""
    return escape(printable(text))


def _parts(table: Table, width: int) -> list[Table]:
    """The table in parts that fit into `width` characters; each has the columns of names."""
    names = range(table.labels)
    taken = sum(_least_width(table, index) + 1 for index in names) + 1
    parts: list[list[int]] = [[]]
    left = width - taken
    for index in range(table.labels, len(table.columns)):
        needed = _width(table, index) + 1
        if parts[-1] and needed > left:
            parts.append([])
            left = width - taken
        parts[-1].append(index)
        left -= needed
    return [with_columns(table, [*names, *part]) for part in parts]


def _width(table: Table, index: int) -> int:
    """Characters that a column needs: its longest cell, or the longest word of a long head."""
    head = table.columns[index].name
    words = map(cell_len, [head] if cell_len(head) <= _MAX_HEAD_WIDTH else head.split())
    return max([1, *words, *(cell_len(row[index]) for row in table.rows)])


def _least_width(table: Table, index: int) -> int:
    """Characters that a column of names needs when it is wrapped between words."""
    words = [cell_len(word) for row in table.rows for word in row[index].split()]
    return min(_width(table, index), max(_MIN_NAME_WIDTH, min(max([0, *words]), _MAX_WORD_WIDTH)))


def _drawn(table: Table) -> rich.table.Table:
    """The table for a terminal: numbers in one line, names wrapped where they must be."""
    drawn = rich.table.Table(box=SIMPLE_HEAD, padding=0)
    for index, column in enumerate(table.columns):
        is_number = column.align == "right"
        lines = wrap(column.name, _width(table, index), break_long_words=False)
        head = "\n".join(lines) if is_number else column.name
        drawn.add_column(
            _plain_text(head),
            justify=column.align,
            no_wrap=is_number,
            overflow="fold",
            min_width=None if is_number else _least_width(table, index),
        )
    for row in table.rows:
        drawn.add_row(*(_cell(cell) for cell in row))
    return drawn


def _cell(text: str) -> str:
    style = _VERDICT_STYLES.get(text)
    return f"[{style}]{text}[/]" if style else _plain_text(text)


class _Closed(StringIO):
    """Takes nothing."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


class _Stream:
    """A text stream; what its encoding lacks is written as escapes.

    A failure is a LabError, but nothing where the text may be lost: messages beside the work.
    """

    def __init__(self, stream: TextIO | None, *, may_be_lost: bool = False) -> None:
        # Python has no stream for a descriptor that was closed when it started.
        self._stream = stream or _Closed()
        self._may_be_lost = may_be_lost

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        known = text.encode(encoding, "backslashreplace").decode(encoding)
        with self._failures_named():
            self._stream.write(known)
        return len(text)

    def flush(self) -> None:
        with self._failures_named():
            self._stream.flush()

    @contextmanager
    def _failures_named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._may_be_lost:
                raise LabError(
                    f"cannot write to standard output: {error.strerror}",
                    "Make room, or have it read to its end; result files are not affected.",
                ) from None


@contextmanager
def checked_stdout() -> Iterator[None]:
    """The same for whatever else writes to standard output, and for the end of the process."""
    stream = sys.stdout
    sys.stdout = cast(TextIO, _Stream(stream))
    try:
        yield
    finally:
        sys.stdout = stream
        for each in (sys.stdout, sys.stderr):
            _forget_unwritten(each)


def _forget_unwritten(stream: TextIO | None) -> None:
    """Without this the interpreter tries once more to write it when it ends, and complains."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
