"""`lookahead run seq-scan`, also called article-2; article-5 is its parts on bulk reads."""

from typing import Any

import click

from lookahead.commands.context import CommandContext, pass_command_context
from lookahead.commands.run.lists import joined, list_option
from lookahead.commands.run.options import (
    machine_options,
    read_ahead_option,
    repetitions_option,
    run_request,
    shared_options,
)
from lookahead.commands.run.outcome import show_outcome
from lookahead.experiments.request import SeqPart, SeqScanRequest
from lookahead.experiments.seq_scan import PARTS, run_seq_scan

_MAX_MB = 1_000_000
_MAX_SCALE = 100_000
_MAX_SESSIONS = 64
_MAX_SECONDS = 3600
ARTICLE_5 = "article-5"
_ARTICLE_5_PARTS: tuple[SeqPart, ...] = ("bulk-read", "vacuum")


@click.command("seq-scan")
@shared_options
@machine_options
@repetitions_option
@list_option(
    "--part",
    "parts",
    click.Choice(PARTS),
    "NAME,...",
    f"What is measured: {', '.join(PARTS)}. Default: all, with --demo scan; of "
    f"{ARTICLE_5} {' and '.join(_ARTICLE_5_PARTS)}.",
)
@read_ahead_option(
    "as it is; with --own-disk 128, 1024 and 8192, with --demo the first and the last, in the full "
    "size 128 to 163840"
)
@click.option(
    "--own-disk",
    is_flag=True,
    help="Measure on a loop device, made for the run, whose read-ahead is changed instead of that "
    "of the machine's disk; needs root.",
)
@click.option(
    "--table-mb",
    type=click.IntRange(1, _MAX_MB),
    metavar="MB",
    help="Size of the table of scan and lookups. Default: 150 with --demo, 400 with --quick, else "
    "3000.",
)
@click.option(
    "--scale",
    type=click.IntRange(1, _MAX_SCALE),
    help="pgbench's scale of the table of bulk-read and vacuum. Default: 20 with --quick, else "
    "200.",
)
@click.option(
    "--sessions",
    type=click.IntRange(1, _MAX_SESSIONS),
    default=8,
    show_default=True,
    help="Sessions that look rows up at once.",
)
@click.option(
    "--seconds",
    type=click.IntRange(1, _MAX_SECONDS),
    help="How long they do. Default: by size.",
)
@click.pass_context
@pass_command_context
def seq_scan(
    context: CommandContext,
    click_context: click.Context,
    /,
    parts: tuple[Any, ...],
    read_aheads_kb: tuple[int, ...],
    own_disk: bool,
    table_mb: int | None,
    scale: int | None,
    sessions: int,
    seconds: int | None,
    repetitions: int | None,
    **shared: Any,
) -> None:
    """A cold sequential scan by the read-ahead of the disk: the second article.

    Also COPY, random lookups of single rows at each read-ahead, the size of bulk reads on pgbench's
    table, and its VACUUM (the reads of the fifth article). Without a size option tables of 3 GB are
    made and the run takes hours.
    """
    default_parts = _ARTICLE_5_PARTS if click_context.info_name == ARTICLE_5 else None
    request = SeqScanRequest(
        run=run_request(context, shared),
        parts=joined(parts) or default_parts,
        read_aheads_kb=read_aheads_kb or None,
        table_mb=table_mb,
        scale=scale,
        sessions=sessions,
        seconds=seconds,
        own_disk=own_disk,
        repetitions=repetitions,
    )
    show_outcome(context, run_seq_scan(request, context.terminal))
