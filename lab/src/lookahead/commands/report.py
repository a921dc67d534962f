"""`lookahead report RESULT...`: make the page again from result files."""

from collections.abc import Sequence
from pathlib import Path

import click

from lookahead.commands.context import CommandContext, pass_command_context
from lookahead.device.probe.probe_data import SCHEMA as PROBE_SCHEMA
from lookahead.device.probe.probe_data import parse_probe
from lookahead.errors import ExitStatus, LabError
from lookahead.report.page import write_page
from lookahead.report.probe_page import write_probe_page
from lookahead.results import is_newer, parse_result, read_text, result_schema, schema_of
from lookahead.terminal import Terminal


def _show_schema(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the schema and end, whatever else was asked for."""
    if wanted and not context.resilient_parsing:
        command_context: CommandContext = context.obj
        command_context.terminal.raw(result_schema())
        context.exit()


@click.command()
@click.argument(
    "results", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RESULT..."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The page to write; replaced if it exists. Default: the first result's name with .html.",
)
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_schema,
    help="Print the JSON Schema of result files, and nothing else.",
)
@pass_command_context
def report(context: CommandContext, results: tuple[Path, ...], output: Path | None) -> None:
    """Write one self-contained HTML page from result files.

    The page needs no network; several results follow each other on it, those of `run` and those of
    `probe` on pages of their own.
    """
    texts = [(path, read_text(path)) for path in results]
    target = output or results[0].with_suffix(".html")
    try:
        page = _write(texts, target, context.terminal)
    except (ValueError, ArithmeticError) as error:
        # Numbers of the right type that no run writes, such as a negative time.
        names = ", ".join(f'"{path}"' for path in results)
        raise LabError(
            f"{names} cannot be worked out: {error}",
            "Copy the file again from where it was written, or repeat the run.",
            status=ExitStatus.BAD_FILE,
        ) from None
    context.terminal.result(f"page: {page}")


def _write(texts: Sequence[tuple[Path, str]], target: Path, terminal: Terminal) -> Path:
    """Write the page of these files; returns its path."""
    probes = [schema_of(text, str(path)) == PROBE_SCHEMA for path, text in texts]
    if all(probes):
        found = [(path.name, parse_probe(text, str(path))) for path, text in texts]
        return write_probe_page(found, target)
    if any(probes):
        raise LabError(
            "results of `run` and of `probe` do not go on one page",
            "Make a page of each kind.",
            status=ExitStatus.USAGE,
        )
    runs = [(path.name, parse_result(text, str(path))) for path, text in texts]
    for _, document in runs:
        if is_newer(document):
            said = document.findings[-1]
            terminal.finding(said.level, said.text, said.advice)
    return write_page(runs, target)
