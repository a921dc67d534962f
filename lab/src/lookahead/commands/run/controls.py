"""`lookahead run controls`."""

from typing import Any

import click

from lookahead.commands.context import CommandContext, pass_command_context
from lookahead.commands.run.options import (
    io_method_option,
    repetitions_option,
    run_request,
    shared_options,
)
from lookahead.commands.run.outcome import show_outcome
from lookahead.experiments.control_workloads import WORKLOAD_NAMES
from lookahead.experiments.controls import run_controls
from lookahead.experiments.request import ControlsRequest


@click.command("controls")
@shared_options
@repetitions_option
@io_method_option
@click.option(
    "--workload",
    "workloads",
    type=click.Choice(WORKLOAD_NAMES),
    multiple=True,
    help="May be repeated. Default: all.",
)
@pass_command_context
def controls(
    context: CommandContext,
    /,
    io_methods: tuple[str, ...],
    workloads: tuple[str, ...],
    repetitions: int | None,
    **shared: Any,
) -> None:
    """Cached statements, which must not become slower.

    pgbench of short statements and a long scan in shared buffers, and of scans of a table that is
    in the cache of the operating system only, the latter under each --io-method; against backends
    without the library and with it switched off.
    """
    request = ControlsRequest(
        run=run_request(context, shared),
        workloads=workloads or None,
        io_methods=io_methods or None,
        repetitions=repetitions,
    )
    show_outcome(context, run_controls(request, context.terminal))
