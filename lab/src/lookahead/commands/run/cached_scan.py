"""`lookahead run cached-scan`, also called article-4."""

from typing import Any

import click

from lookahead.commands.context import CommandContext, pass_command_context
from lookahead.commands.run.lists import MemorySize, joined, list_option
from lookahead.commands.run.options import (
    machine_options,
    repetitions_option,
    run_request,
    shared_options,
    table_pages_option,
)
from lookahead.commands.run.outcome import show_outcome
from lookahead.experiments.cached_scan import run_cached_scan
from lookahead.experiments.request import CachedScanRequest

_MAX_WORKERS = 8  # of the default max_worker_processes


@click.command("cached-scan")
@shared_options
@machine_options
@repetitions_option
@table_pages_option
@list_option(
    "--workers",
    "workers",
    click.IntRange(0, _MAX_WORKERS),
    "N,...",
    "Parallel workers of the scan. Default: 0,2, in the full size 0,1,2,3,4.",
)
@list_option(
    "--work-mem",
    "work_mems",
    MemorySize(),
    "SIZE,...",
    "work_mem of the scans of cached data. Default: 64kB, at which the bitmap is lossy, and, "
    "except with --demo, 64MB.",
)
@list_option(
    "--data",
    "data",
    click.Choice(("cached", "cold")),
    "NAME,...",
    "Whether the table is in shared buffers or on the disk only: cached, cold. Default: both.",
)
@pass_command_context
def cached_scan(
    context: CommandContext,
    /,
    table_pages: int | None,
    workers: tuple[Any, ...],
    work_mems: tuple[Any, ...],
    data: tuple[Any, ...],
    repetitions: int | None,
    **shared: Any,
) -> None:
    """A bitmap heap scan with everything cached, and in parallel: the fourth article.

    Against stock's at effective_io_concurrency 0, at the default and at 1000. Cold data is scanned
    by the same numbers of workers.
    """
    request = CachedScanRequest(
        run=run_request(context, shared),
        workers=joined(workers),
        work_mems=joined(work_mems),
        data=joined(data),
        table_pages=table_pages,
        repetitions=repetitions,
    )
    show_outcome(context, run_cached_scan(request, context.terminal))
