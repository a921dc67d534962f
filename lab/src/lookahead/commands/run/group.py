"""The experiments of `lookahead run`."""

import click

from lookahead.commands.run.bitmap_scan import bitmap_scan
from lookahead.commands.run.cached_scan import cached_scan
from lookahead.commands.run.concurrent_scans import concurrent_scans
from lookahead.commands.run.controls import controls
from lookahead.commands.run.index_build import index_build
from lookahead.commands.run.index_scan import index_scan
from lookahead.commands.run.latency import latency
from lookahead.commands.run.range_query import range_query
from lookahead.commands.run.seq_scan import ARTICLE_5, seq_scan
from lookahead.commands.run.throttled import throttled
from lookahead.errors import ExitStatus, LabError


class ExperimentGroup(click.Group):
    """Names the experiments when an unknown one is asked for."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise LabError(
                f'there is no experiment "{args[0]}"',
                f"Experiments: {', '.join(self.list_commands(ctx))}.",
                status=ExitStatus.USAGE,
            )
        return super().resolve_command(ctx, args)


@click.group(cls=ExperimentGroup)
def run() -> None:
    """Measure stock PostgreSQL against pg_lookahead on a private server.

    Every run writes a result file with all raw samples and a page with its plots.
    """


run.add_command(index_scan)
run.add_command(latency)
run.add_command(index_build)
run.add_command(controls)
run.add_command(bitmap_scan)
run.add_command(cached_scan)
run.add_command(range_query)
run.add_command(throttled)
run.add_command(seq_scan)
run.add_command(concurrent_scans)
# Chapters of the source articles.
run.add_command(bitmap_scan, "article-1")
run.add_command(seq_scan, "article-2")
run.add_command(cached_scan, "article-4")
run.add_command(seq_scan, ARTICLE_5)
