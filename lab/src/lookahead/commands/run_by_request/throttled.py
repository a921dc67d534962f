"""`lookahead run throttled`."""

from typing import Any

import click

from lookahead.commands.context import CommandContext, pass_command_context
from lookahead.commands.run import run_request, show_outcome
from lookahead.commands.run_by_request.lists import joined
from lookahead.commands.run_by_request.options import (
    io_method_option,
    machine_options,
    pages_share_option,
    repetitions_option,
    shared_options,
    table_pages_option,
)
from lookahead.experiments.request import ThrottledRequest
from lookahead.experiments.throttled import run_throttled

_MAX_RATE = 1_000_000


@click.command("throttled")
@shared_options
@machine_options
@repetitions_option
@io_method_option
@table_pages_option
@pages_share_option
@click.option(
    "--reads-per-s",
    type=click.IntRange(1, _MAX_RATE),
    default=3000,
    show_default=True,
    help="Read requests a second that the volume serves.",
)
@click.option(
    "--mb-per-s",
    type=click.IntRange(1, _MAX_RATE),
    default=125,
    show_default=True,
    help="10^6 bytes a second that the volume serves.",
)
@pass_command_context
def throttled(
    context: CommandContext,
    /,
    io_methods: tuple[str, ...],
    table_pages: int | None,
    shares: tuple[Any, ...],
    reads_per_s: int,
    mb_per_s: int,
    repetitions: int | None,
    **shared: Any,
) -> None:
    """A cold bitmap heap scan on a throttled volume.

    The server's reads are limited by a control group, which needs root; exit status 3 says that it
    is not permitted here. Beside the times stands the least one that any gap limit can reach.
    """
    request = ThrottledRequest(
        run=run_request(context, shared),
        shares=joined(shares),
        io_methods=io_methods or None,
        table_pages=table_pages,
        repetitions=repetitions,
        reads_per_s=reads_per_s,
        mb_per_s=mb_per_s,
    )
    show_outcome(context, run_throttled(request, context.terminal))
