"""`lookahead run index-scan`."""

from typing import Any

import click

from lookahead.commands.context import CommandContext, pass_command_context
from lookahead.commands.run import run_request, show_outcome
from lookahead.commands.run_by_request.options import (
    io_method_option,
    limit_option,
    machine_options,
    pages_option,
    read_ahead_option,
    repetitions_option,
    shared_options,
)
from lookahead.experiments.index_scan import run_index_scan
from lookahead.experiments.request import IndexScanRequest


@click.command("index-scan")
@shared_options
@machine_options
@repetitions_option
@io_method_option
@pages_option(
    "Distinct table pages that a scan in random order touches; may be repeated. "
    "Default: 1000 and 10000, except with --demo 100000 too."
)
@limit_option(
    "LIMIT of a scan in random order; may be repeated. Default: 1 and 100, none with --demo."
)
@click.option(
    "--share",
    "shares_percent",
    type=click.IntRange(1, 100),
    multiple=True,
    metavar="PERCENT",
    help="Share of the table's pages that a scan in heap order touches; may be repeated. "
    "Default: 10, 25, 50 and 75, none with --demo.",
)
@read_ahead_option()
@pass_command_context
def index_scan(
    context: CommandContext,
    /,
    io_methods: tuple[str, ...],
    pages: tuple[int, ...],
    limits: tuple[int, ...],
    shares_percent: tuple[int, ...],
    read_aheads_kb: tuple[int, ...],
    repetitions: int | None,
    **shared: Any,
) -> None:
    """A cold btree index scan, in random order and in the order of the table.

    Ranges of keys, LIMIT, and shares of the table's pages; ranges also against stock's bitmap scan
    and sort of the same rows. Naming one of --pages, --limit and --share leaves out what is not
    named. Without a size option a table of more than 2 GB is made and the run takes hours.
    """
    request = IndexScanRequest(
        run=run_request(context, shared),
        pages=pages or None,
        limits=limits or None,
        shares_percent=shares_percent or None,
        io_methods=io_methods or None,
        repetitions=repetitions,
        read_aheads_kb=read_aheads_kb or None,
    )
    show_outcome(context, run_index_scan(request, context.terminal))
