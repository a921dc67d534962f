"""`lookahead run range-query`."""

from typing import Any

import click

from lookahead.commands.context import CommandContext, pass_command_context
from lookahead.commands.run.lists import joined, list_option
from lookahead.commands.run.options import (
    io_method_option,
    machine_options,
    repetitions_option,
    run_request,
    shared_options,
)
from lookahead.commands.run.outcome import show_outcome
from lookahead.experiments.lineitem import RANGES
from lookahead.experiments.range_query import run_range_query
from lookahead.experiments.request import RangeQueryRequest

_MAX_SCALE = 100


@click.command("range-query")
@shared_options
@machine_options
@repetitions_option
@io_method_option
@click.option(
    "--scale",
    type=click.FloatRange(0, _MAX_SCALE, min_open=True),
    metavar="FACTOR",
    help="TPC-H's scale: 1 is 6 million rows, 0.8 GB. Default: 0.1 with --demo, 0.25 with "
    "--quick, else 2.",
)
@list_option(
    "--range",
    "ranges",
    click.Choice(RANGES),
    "NAME,...",
    f"How much is summed up: {', '.join(RANGES)}. Default: all, month with --demo.",
)
@pass_command_context
def range_query(
    context: CommandContext,
    /,
    io_methods: tuple[str, ...],
    scale: float | None,
    ranges: tuple[Any, ...],
    repetitions: int | None,
    **shared: Any,
) -> None:
    """A cold sum over a range of dates, like query 6 of TPC-H.

    By a bitmap scan of a generated lineitem whose rows lie in the order of the orders; against
    stock's at several effective_io_concurrency and its sequential scan.
    """
    request = RangeQueryRequest(
        run=run_request(context, shared),
        scale=scale,
        ranges=joined(ranges),
        io_methods=io_methods or None,
        repetitions=repetitions,
    )
    show_outcome(context, run_range_query(request, context.terminal))
