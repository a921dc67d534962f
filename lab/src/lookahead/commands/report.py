"""`lookahead report RESULT...`: make the page again from result files."""

from pathlib import Path

import click

from lookahead.commands.context import CommandContext, pass_command_context
from lookahead.report.page import write_page
from lookahead.results import read_result


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
@pass_command_context
def report(context: CommandContext, results: tuple[Path, ...], output: Path | None) -> None:
    """Write one self-contained HTML page from result files.

    The page needs no network; several results follow each other on it.
    """
    documents = [(path.name, read_result(path)) for path in results]
    page = write_page(documents, output or results[0].with_suffix(".html"))
    context.terminal.result(f"page: {page}")
