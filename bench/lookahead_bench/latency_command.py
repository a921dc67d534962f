"""The command `latency`."""

from typing import Any

import click

from lookahead.commands.context import CommandContext, pass_command_context
from lookahead.commands.run import run_request, show_outcome
from lookahead.commands.run_by_request.options import (
    io_method_option,
    limit_option,
    machine_options,
    pages_option,
    repetitions_option,
    shared_options,
)
from lookahead.errors import ExitStatus, LabError
from lookahead.experiments.request import IndexScanRequest, LatencyRequest
from lookahead_bench.latency import run_latency

_DEFAULT_LATENCY_US = 1000  # a network volume's
_MAX_LATENCY_US = 1_000_000


@click.command("latency")
@shared_options
@machine_options
@repetitions_option
@io_method_option
@pages_option("Distinct table pages that a scan touches; may be repeated. Default: by size.")
@limit_option("LIMIT of a scan; may be repeated. Default: by size.")
@click.option(
    "--latency",
    "latency_us",
    type=click.IntRange(1, _MAX_LATENCY_US),
    default=_DEFAULT_LATENCY_US,
    show_default=True,
    metavar="US",
    help="Microseconds that each read takes longer.",
)
@pass_command_context
def latency(
    context: CommandContext,
    /,
    io_methods: tuple[str, ...],
    pages: tuple[int, ...],
    limits: tuple[int, ...],
    latency_us: int,
    repetitions: int | None,
    **shared: Any,
) -> None:
    """A cold btree index scan on a device with added latency.

    The device is made for the run, in memory: a file served with delay through FUSE, a loop device,
    ext4. Needs root and fio. It must first show that it serves 32 reads at once; exit status 3 says
    that it does not, or cannot be made here.
    """
    if shared["keep"]:
        raise LabError(
            "--keep is not possible: the device is in memory and ends with the run",
            "Leave it out.",
            status=ExitStatus.USAGE,
        )
    scans = IndexScanRequest(
        run=run_request(context, shared),
        pages=pages or None,
        limits=limits or None,
        shares_percent=None,
        io_methods=io_methods or None,
        repetitions=repetitions,
        read_aheads_kb=None,
    )
    show_outcome(context, run_latency(LatencyRequest(scans, latency_us), context.terminal))
