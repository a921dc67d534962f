"""`lookahead run concurrent-scans`."""

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
    table_pages_option,
)
from lookahead.commands.run.outcome import show_outcome
from lookahead.experiments.concurrent_scans import run_concurrent_scans
from lookahead.experiments.request import ConcurrentScansRequest

_MAX_SESSIONS = 64  # of the default max_connections, and of a page's rows
_MAX_DEPTH = 1000


@click.command("concurrent-scans")
@shared_options
@machine_options
@repetitions_option
@io_method_option
@table_pages_option
@list_option(
    "--sessions",
    "sessions",
    click.IntRange(1, _MAX_SESSIONS),
    "N,...",
    "Sessions at once. Default: 1,4,16, with --demo 1,4.",
)
@list_option(
    "--depth",
    "depths",
    click.IntRange(1, _MAX_DEPTH),
    "N,...",
    "effective_io_concurrency of stock and prefetch_distance of ours, beside the defaults of "
    "both. Default: none with --demo, 64 with --quick, else 4,64,256.",
)
@pass_command_context
def concurrent_scans(
    context: CommandContext,
    /,
    io_methods: tuple[str, ...],
    table_pages: int | None,
    sessions: tuple[Any, ...],
    depths: tuple[Any, ...],
    repetitions: int | None,
    **shared: Any,
) -> None:
    """Cold bitmap heap scans of several sessions at once.

    Each session reads other pages. Compared is the mean time of a session.
    """
    request = ConcurrentScansRequest(
        run=run_request(context, shared),
        sessions=joined(sessions),
        depths=joined(depths),
        io_methods=io_methods or None,
        table_pages=table_pages,
        repetitions=repetitions,
    )
    show_outcome(context, run_concurrent_scans(request, context.terminal))
