"""`lookahead compare A B`: what changed from one result to another of the same experiment."""

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from lookahead.commands.options import HELP_OPTIONS, CommandContext, pass_command_context
from lookahead.contrasts import Contrast, arm_contrasts, differences, gain_contrasts, remarks
from lookahead.errors import NotComparableError
from lookahead.formats import interval_text, milliseconds
from lookahead.report.sentences import labelling
from lookahead.report.tables import Table, table_of, to_markdown
from lookahead.results import read_result

_FILE = click.Path(path_type=Path)
_TIMES = (
    "A / B is how many times faster the second result is; where stock's own arms changed, so did "
    "the machine"
)
_GAINS = "above 1 the second result gains more; each is its result's own stock time / our time"


@click.command(context_settings=HELP_OPTIONS)
@click.argument("first", type=_FILE, metavar="A.json")
@click.argument("second", type=_FILE, metavar="B.json")
@click.option("--markdown", is_flag=True, help="Print the tables as Markdown.")
@pass_command_context
def compare(context: CommandContext, first: Path, second: Path, markdown: bool) -> None:
    """Compare two results of one experiment, such as before and after an update of the library.

    Both must have the same values, rows, settings, server, processors, memory and device; only
    the library, and this program, may be others.

    Exit status: 0 compared, whatever was found; 4 no result file; 6 not comparable.
    """
    before, after = read_result(first), read_result(second)
    reasons = differences(before, after)
    if reasons:
        raise NotComparableError(
            f"not comparable: {'; '.join(reasons)}",
            "Repeat one of the runs as the other one was made.",
        )
    terminal, seed = context.terminal, before.parameters.seed
    for remark in remarks(before, after):
        terminal.finding("note", remark, "")
    data = (before.measurements, after.measurements)
    times, gains = arm_contrasts(*data, seed), gain_contrasts(*data, seed)
    if not times:
        raise NotComparableError(
            "not comparable: no arm was measured in both results", "Let both runs end."
        )
    tables = [_table("Times", times, milliseconds, ("A / B", "arm", _TIMES))]
    if gains:
        tables.append(_table("Gains", gains, "{:.2f}".format, ("B / A", "against", _GAINS)))
    if markdown:
        terminal.raw(to_markdown(tables).rstrip())
    else:
        terminal.tables(tables)


def _table(
    title: str, rows: Sequence[Contrast], value: Callable[[float], str], heads: tuple[str, str, str]
) -> Table:
    """A row for each contrast; `heads` are those of ratio and name, and the caption."""
    ratio, name, caption = heads
    label = labelling(one.scenario for one in rows)
    return table_of(
        title,
        rows,
        (("scenario", lambda one: label(one.scenario)), (name, lambda one: one.name)),
        (
            ("A", lambda one: value(one.first)),
            ("B", lambda one: value(one.second)),
            (ratio, lambda one: f"{one.estimate.ratio:.2f}"),
            ("95 % interval", lambda one: interval_text(one.estimate)),
            ("pairs", lambda one: str(one.estimate.pairs)),
            ("verdict", lambda one: one.estimate.verdict),
        ),
        caption,
    )
