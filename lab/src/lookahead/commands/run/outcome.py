"""The end of every experiment: its page, and where result and page are."""

from pathlib import Path

from lookahead.commands.context import CommandContext
from lookahead.report.page import write_page
from lookahead.results import read_result


def show_outcome(context: CommandContext, result: Path) -> None:
    """Write the page of a result file and show where both are."""
    page = write_page([(result.name, read_result(result))], result.with_suffix(".html"))
    context.terminal.result(f"result:     {result}")
    context.terminal.result(f"page:       {page}")
