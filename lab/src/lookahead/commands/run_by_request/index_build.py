"""`lookahead run index-build`."""

from typing import Any

import click

from lookahead.commands.context import CommandContext, pass_command_context
from lookahead.commands.run import run_request, show_outcome
from lookahead.commands.run_by_request.options import repetitions_option, shared_options
from lookahead.experiments.index_build import run_index_build
from lookahead.experiments.index_build_keys import KEYS
from lookahead.experiments.request import IndexBuildRequest

_MAX_ROWS = 1_000_000_000
_MAX_WORKERS = 8  # of the default max_worker_processes
_MAX_MEMORY_MB = 1024 * 1024
_MAX_EXTEND_KB = 64 * 1024  # the setting's own bound


@click.command("index-build")
@shared_options
@repetitions_option
@click.option(
    "--key",
    "keys",
    type=click.Choice(list(KEYS)),
    multiple=True,
    metavar="NAME",
    help="What is indexed, such as bigint-random; may be repeated. A wrong name lists all. "
    "Default: by size.",
)
@click.option(
    "--rows",
    type=click.IntRange(1, _MAX_ROWS),
    help="Rows of the table. Default: 500000 with --demo, 2000000 with --quick, else 30000000.",
)
@click.option(
    "--workers",
    type=click.IntRange(0, _MAX_WORKERS),
    multiple=True,
    help="max_parallel_maintenance_workers; may be repeated. Default: 0, in the full size also 2.",
)
@click.option(
    "--memory",
    "memories_mb",
    type=click.IntRange(1, _MAX_MEMORY_MB),
    multiple=True,
    metavar="MB",
    help="maintenance_work_mem; may be repeated. Default: 512, in the full size also 64.",
)
@click.option(
    "--extend-size",
    "extends_kb",
    type=click.IntRange(0, _MAX_EXTEND_KB),
    multiple=True,
    metavar="KB",
    help="pg_lookahead.index_build_extend_size; may be repeated. Default: 4096, except with "
    "--demo others too.",
)
@pass_command_context
def index_build(
    context: CommandContext,
    /,
    keys: tuple[str, ...],
    rows: int | None,
    workers: tuple[int, ...],
    memories_mb: tuple[int, ...],
    extends_kb: tuple[int, ...],
    repetitions: int | None,
    **shared: Any,
) -> None:
    """CREATE INDEX over a table in the cache.

    Of a setting given several times the first value is measured with every key, the others one at
    a time. Without a size option tables of 30 million rows are made and the run takes hours.
    """
    request = IndexBuildRequest(
        run=run_request(context, shared),
        keys=keys or None,
        rows=rows,
        workers=workers or None,
        memories_mb=memories_mb or None,
        extends_kb=extends_kb or None,
        repetitions=repetitions,
    )
    show_outcome(context, run_index_build(request, context.terminal))
