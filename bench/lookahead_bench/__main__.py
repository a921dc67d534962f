"""The command line: python -m lookahead_bench."""

import click

from lookahead.cli import main
from lookahead.commands.options import HELP_OPTIONS, CommandContext, pass_command_context
from lookahead.commands.run import make_run_group
from lookahead_bench import (
    bulk_insert,
    cached_scan,
    concurrent_scans,
    controls,
    create_partitions,
    extend,
    index_build,
    index_only_scan,
    join_latency,
    joins,
    latency,
    needed_partitions,
    page_layouts,
    partitions,
    range_query,
    select_partitions,
    seq_scan,
    throttled,
    tpch,
)
from lookahead_bench.aims_command import aims
from lookahead_bench.figures import figures
from lookahead_bench.read_ahead import read_ahead, restore_abandoned

PROGRAM = "lookahead_bench"


# A pinned width, as that of `lookahead`.
@click.group(context_settings={"terminal_width": 80, **HELP_OPTIONS})
@pass_command_context
def bench(context: CommandContext) -> None:
    """Measure pg_lookahead as its developers do.

    Beside aims, where it must not cost anything, on devices made for it.

    Exit status as that of `lookahead`.
    """
    for done in restore_abandoned():
        context.terminal.step(done)


run = make_run_group(
    (
        controls.EXPERIMENT,
        latency.EXPERIMENT,
        join_latency.EXPERIMENT,
        throttled.EXPERIMENT,
        tpch.EXPERIMENT,
        seq_scan.EXPERIMENT,
        page_layouts.EXPERIMENT,
        cached_scan.EXPERIMENT,
        range_query.EXPERIMENT,
        concurrent_scans.EXPERIMENT,
        extend.EXPERIMENT,
        joins.EXPERIMENT,
        index_only_scan.EXPERIMENT,
        index_build.EXPERIMENT,
        bulk_insert.EXPERIMENT,
        partitions.EXPERIMENT,
        create_partitions.EXPERIMENT,
        select_partitions.EXPERIMENT,
        needed_partitions.EXPERIMENT,
    )
)
bench.add_command(run)
bench.add_command(aims)
bench.add_command(figures)
bench.add_command(read_ahead)

if __name__ == "__main__":
    main(bench, PROGRAM)
