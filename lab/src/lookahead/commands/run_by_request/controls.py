"""`lookahead run controls`."""

from typing import Any

import click

from lookahead.commands.context import CommandContext, pass_command_context
from lookahead.commands.run import run_request, show_outcome
from lookahead.commands.run_by_request.options import (
    io_method_option,
    machine_options,
    repetitions_option,
    shared_options,
)
from lookahead.experiments.control_shapes import SHAPES
from lookahead.experiments.controls import run_controls
from lookahead.experiments.request import ControlsRequest


@click.command("controls")
@shared_options
@machine_options
@repetitions_option
@io_method_option
@click.option(
    "--workload",
    "workloads",
    type=click.Choice([shape.name for shape in SHAPES]),
    multiple=True,
    metavar="NAME",
    help="May be repeated; a wrong one lists them. Default: all, in the smaller sizes without the "
    "largest tables.",
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
    """Statements that gain nothing, which must not become slower.

    Short statements, joins, writes, partitions, parallel queries, connecting and long scans in
    shared buffers; scans of tables in the cache of the operating system only, and cold ones that
    visit pages again and again, under each --io-method. Against backends without the library and
    with it switched off.
    """
    request = ControlsRequest(
        run=run_request(context, shared),
        workloads=workloads or None,
        io_methods=io_methods or None,
        repetitions=repetitions,
    )
    show_outcome(context, run_controls(request, context.terminal))
