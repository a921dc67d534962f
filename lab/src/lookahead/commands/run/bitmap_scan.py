"""`lookahead run bitmap-scan`, also called article-1."""

from typing import Any

import click

from lookahead.commands.context import CommandContext, pass_command_context
from lookahead.commands.run.lists import CommaList, MemorySize, joined, list_option
from lookahead.commands.run.options import (
    io_method_option,
    machine_options,
    pages_share_option,
    read_ahead_option,
    repetitions_option,
    run_request,
    shared_options,
    table_pages_option,
)
from lookahead.commands.run.outcome import show_outcome
from lookahead.experiments.bitmap_arms import PLANS
from lookahead.experiments.bitmap_scan import run_bitmap_scan
from lookahead.experiments.page_table import LAYOUTS
from lookahead.experiments.request import BitmapScanRequest

_MAX_CONCURRENCY = 1000
_NO_SETTINGS = "none"


class _Settings(CommaList):
    """Values of effective_io_concurrency, or the word for no value at all."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        return () if value == _NO_SETTINGS else super().convert(value, param, ctx)


@click.command("bitmap-scan")
@shared_options
@machine_options
@repetitions_option
@io_method_option
@table_pages_option
@pages_share_option
@list_option(
    "--layout",
    "layouts",
    click.Choice(LAYOUTS),
    "NAME,...",
    f"How these pages lie: {', '.join(LAYOUTS)}. Default: uniform, in the full size all.",
)
@list_option(
    "--work-mem",
    "work_mems",
    MemorySize(),
    "SIZE,...",
    "work_mem. Default: a small one, at which bitmaps are lossy, and 64MB.",
)
@list_option(
    "--plan",
    "plans",
    click.Choice(PLANS),
    "NAME,...",
    "Stock's plans beside its bitmap scan at the default setting: seq, index, index-random, "
    "bitmap (at each --setting). Default: all, with --demo seq and index.",
)
@click.option(
    "--setting",
    "settings",
    type=_Settings(click.IntRange(0, _MAX_CONCURRENCY)),
    metavar="N,...",
    help="effective_io_concurrency beside the default; none for no other. Default: 0,1,16,64,256, "
    "none with --demo. Our arm is measured at 0 and 1 of them too.",
)
@read_ahead_option()
@pass_command_context
def bitmap_scan(
    context: CommandContext,
    /,
    io_methods: tuple[str, ...],
    table_pages: int | None,
    shares: tuple[Any, ...],
    layouts: tuple[Any, ...],
    work_mems: tuple[Any, ...],
    plans: tuple[Any, ...],
    settings: tuple[int, ...] | None,
    read_aheads_kb: tuple[int, ...],
    repetitions: int | None,
    **shared: Any,
) -> None:
    """A cold bitmap heap scan of a share of a table's pages: the first article.

    Against stock's bitmap scans, sequential scan and index scans of the same rows. Of --layout and
    --read-ahead the first value is measured with everything, the others under the first --io-method
    and with the last --work-mem only. Without a size option a table of more than 2 GB is made and
    the run takes hours.
    """
    request = BitmapScanRequest(
        run=run_request(context, shared),
        shares=joined(shares),
        layouts=joined(layouts),
        work_mems=joined(work_mems),
        plans=joined(plans),
        settings=settings,
        io_methods=io_methods or None,
        read_aheads_kb=read_aheads_kb or None,
        table_pages=table_pages,
        repetitions=repetitions,
    )
    show_outcome(context, run_bitmap_scan(request, context.terminal))
