"""`lookahead report RESULT...`: make the page again from result files, or print their tables."""

import stat
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import click

from lookahead.commands.options import (
    HELP_OPTIONS,
    CommandContext,
    only_one,
    pass_command_context,
    path_option,
)
from lookahead.device.probe.probe_data import SCHEMA as PROBE_SCHEMA
from lookahead.device.probe.probe_data import probe_in
from lookahead.errors import BadFileError, UsageError
from lookahead.report.page import write_page
from lookahead.report.probe_page import render_probe_page
from lookahead.report.result_tables import render_tables
from lookahead.report.tables import to_csv, to_markdown
from lookahead.results import (
    COPY_AGAIN,
    Content,
    ResultDocument,
    parse_content,
    read_text,
    result_in,
    write_atomically,
)
from lookahead.terminal import Terminal

_Contents = Sequence[tuple[Path, Content]]
_BEGINNING = b"<!doctype html>"


@click.command(context_settings=HELP_OPTIONS)
@click.argument(
    "results", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RESULT..."
)
@path_option(
    "--output",
    "FILE",
    "The page to write; a page there is replaced. Default: the first result's name with .html.",
)
@click.option("--markdown", is_flag=True, help="Print the tables as Markdown, write no page.")
@click.option("--csv", is_flag=True, help="Print the tables as CSV, write no page.")
@pass_command_context
def report(
    context: CommandContext,
    results: tuple[Path, ...],
    output: Path | None,
    markdown: bool,
    csv: bool,
) -> None:
    """Write one self-contained HTML page from result files.

    The page needs no network; several results follow each other on it, those of `run` and those of
    `probe` on pages of their own.
    """
    only_one({"markdown": markdown, "csv": csv, "output": output is not None}, "Name one.")
    contents = [(path, parse_content(read_text(path), str(path))) for path in results]
    target = output or results[0].with_suffix(".html")
    if not (markdown or csv):
        _require_page(target)
    terminal = context.terminal
    try:
        if markdown or csv:
            terminal.raw(_tables(contents, terminal, as_csv=csv).rstrip())
        else:
            terminal.result(f"page: {_write(contents, target, terminal)}")
    except (ValueError, ArithmeticError, LookupError, TypeError, RecursionError) as error:
        # Numbers of the right type that no run writes, such as a negative time.
        names = ", ".join(f'"{path}"' for path in results)
        raise BadFileError(f"{names} cannot be worked out: {error}", COPY_AGAIN) from None


def _require_page(target: Path) -> None:
    """LabError when the page would replace anything but a page, as a result, a device, a link."""
    try:
        is_page = stat.S_ISREG(target.lstat().st_mode) and _begins_as_page(target)
    except OSError:
        return  # It is not there, or who writes it says why it cannot be.
    if not is_page:
        raise UsageError(
            f'the page would replace "{target}", which is no page',
            "Name another file with --output.",
        )


def _begins_as_page(path: Path) -> bool:
    """Or is empty."""
    with path.open("rb") as file:
        return file.read(len(_BEGINNING)) in (_BEGINNING, b"")


def _tables(contents: _Contents, terminal: Terminal, *, as_csv: bool) -> str:
    if any(_are_probes(contents)):
        raise UsageError(
            "a result of `probe` has a page only",
            "Name results of `lookahead run`, or leave out --markdown and --csv.",
        )
    tables = [table for _, one in _runs(contents, terminal) for table in render_tables(one)]
    return to_csv(tables) if as_csv else to_markdown(tables)


def _write(contents: _Contents, target: Path, terminal: Terminal) -> Path:
    """Write the page of these files; returns its path."""
    are_probes, as_written = _are_probes(contents), [content for _, content in contents]
    if not any(are_probes):
        return write_page(_runs(contents, terminal), target, as_written)
    if not all(are_probes):
        raise UsageError(
            "results of `run` and of `probe` do not go on one page", "Make a page of each kind."
        )
    probes = [(path.name, probe_in(content, str(path))) for path, content in contents]
    # What a probe's document hides, its page does not hand out.
    commands = ({"command": document.command} for _, document in probes)
    shown = [{**content, **hidden} for content, hidden in zip(as_written, commands, strict=True)]
    write_atomically(target, render_probe_page(probes, shown))
    return target


def _runs(contents: _Contents, terminal: Terminal) -> list[tuple[str, ResultDocument]]:
    """The results of `run` by their names; what is to be said of their reading is said."""
    found = [(path.name, *result_in(content, str(path))) for path, content in contents]
    for remark in chain.from_iterable(remarks for _, _, remarks in found):
        terminal.finding(remark.level, remark.text, remark.advice)
    return [(name, document) for name, document, _ in found]


def _are_probes(contents: _Contents) -> list[bool]:
    return [content.get("schema") == PROBE_SCHEMA for _, content in contents]
