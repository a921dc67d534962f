"""The command `aims`: the comparisons of result files beside what is aimed at."""

from collections import Counter
from pathlib import Path

import click

from lookahead.commands.options import CommandContext, pass_command_context
from lookahead.errors import BadFileError, LabError
from lookahead.results import ResultDocument, parse_content, read_text, result_in
from lookahead.stats import RatioEstimate
from lookahead_bench.aims import Judged, Outcome, judge_all

_OUTCOMES: tuple[Outcome, ...] = ("reached", "missed", "open")


@click.command()
@click.argument(
    "results", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RESULT..."
)
@pass_command_context
def aims(context: CommandContext, results: tuple[Path, ...]) -> None:
    """Print each comparison of result files that something is aimed at.

    An aim is reached when the whole interval of the ratio is at it or above, missed when all of it
    is below, else open. Exit status: 1 when one is missed, 4 for a file that is no result.
    """
    counts: Counter[Outcome] = Counter()
    for path in results:
        document, remarks = result_in(parse_content(read_text(path), str(path)), str(path))
        for remark in remarks:
            context.terminal.finding(remark.level, remark.text, remark.advice)
        for judged in _judged(path, document):
            context.terminal.result(_line(document.experiment, judged))
            counts[judged.outcome] += 1
    context.terminal.result(", ".join(f"{counts[outcome]} {outcome}" for outcome in _OUTCOMES))
    if counts["missed"]:
        raise LabError(
            f"aims are missed: {counts['missed']} of {counts.total()}",
            "They are the lines above that begin with this word.",
        )


def _judged(path: Path, document: ResultDocument) -> tuple[Judged, ...]:
    try:
        return tuple(judge_all(document))
    except ValueError as error:
        raise BadFileError(
            f'"{path}" cannot be judged: {error}',
            "Copy the file again from where it was written, or repeat the run.",
        ) from None


def _line(experiment: str, judged: Judged) -> str:
    ratio = _ratio_text(judged.estimate)
    return f"{judged.outcome:<8} {ratio:<22} aim {judged.aim:5.2f}  {experiment}, {judged.what}"


def _ratio_text(estimate: RatioEstimate) -> str:
    """One pair has no interval."""
    if estimate.pairs == 1:
        return f"{estimate.ratio:6.2f} (one pair)"
    return f"{estimate.ratio:6.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"
