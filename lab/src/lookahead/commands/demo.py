"""`lookahead demo`: what the library gains here, in four small experiments."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from lookahead.commands.options import PLACE_OPTIONS, CommandContext, pass_command_context
from lookahead.commands.run import EXPERIMENTS, default_directory
from lookahead.errors import UnavailableError
from lookahead.experiments.experiment import run_experiment
from lookahead.experiments.runner import RunRequest
from lookahead.report.bars import BarPair, bar_lines, bar_pair
from lookahead.report.page import write_demo_page
from lookahead.report.sentences import main_answers
from lookahead.results import ResultDocument, read_result

_NEXT_STEP = (
    "Next: lookahead check 'SELECT ...' says what a statement gains on a server of your own."
)


@dataclass(frozen=True)
class _Part:
    """An experiment of the demo: its name, what it shows, the values that are not its size's.

    `bars` are the scenarios with bars, by their first value, with the names of these.
    """

    name: str
    title: str
    given: Mapping[str, Any]
    bars: Mapping[str, str]


_PARTS = (
    _Part(
        "index-scan",
        "a cold index scan in random order",
        {"pages": (10_000,)},
        {"10,000 pages": "Index scan in random order"},
    ),
    _Part(
        "bitmap-scan",
        "cold bitmap scans",
        {"pages_share": (0.1, 0.4), "plan": (), "repetitions": 6},
        {"10 %": "Bitmap scan, 10 % of the pages", "40 %": "Bitmap scan, 40 % of the pages"},
    ),
    _Part(
        "index-build",
        "builds of indexes",
        {"key": ("bigint-random", "text-c")},
        {"bigint-random": "CREATE INDEX on random numbers", "text-c": "CREATE INDEX on texts"},
    ),
    _Part(
        "bulk-insert", "inserts of many rows", {"parts": ("flat",)}, {"logged": "INSERT ... SELECT"}
    ),
)


def _demo(context: CommandContext, /, **places: Any) -> None:
    terminal = context.terminal
    found: dict[Path, ResultDocument] = {}
    pairs: list[BarPair] = []
    places["directory"] = places["directory"] or default_directory(context)
    request = RunRequest(size="demo", command=context.command, **places)
    experiments = {one.name: one for one in EXPERIMENTS}
    for number, part in enumerate(_PARTS, start=1):
        terminal.step(f"{number} of {len(_PARTS)}: {part.title}")
        try:
            result = run_experiment(experiments[part.name], request, part.given, terminal)
        except UnavailableError as error:
            terminal.finding("warning", f"not measured here: {error.message}", error.hint)
        else:
            found[result] = read_result(result)
            pairs += _bars(part, found[result])
    if found:
        _show(context, found, pairs)
    missing = len(_PARTS) - len(found)
    if missing:
        raise UnavailableError(
            f"{missing} of {len(_PARTS)} experiments could not be measured here",
            "The reasons stand above.",
        )


def _bars(part: _Part, document: ResultDocument) -> Iterator[BarPair]:
    answers = {
        one.question.scenario.factors[0].value: one
        for one in main_answers(document.measurements.comparisons)
    }
    for value, name in part.bars.items():
        if value in answers:
            yield bar_pair(f"{name} (on by default)", answers[value])


def _show(
    context: CommandContext, found: Mapping[Path, ResultDocument], pairs: list[BarPair]
) -> None:
    first, document = next(iter(found.items()))
    name = first.name.replace(document.experiment, "demo", 1)
    documents = [(path.name, one) for path, one in found.items()]
    page = write_demo_page(documents, first.with_name(name).with_suffix(".html"), pairs, _NEXT_STEP)
    for line in ("", *bar_lines(pairs), "", f"page: {page}", _NEXT_STEP):
        context.terminal.result(line)


demo = click.command(
    "demo",
    help="See what the library gains on this machine, within three minutes.\n\n"
    "A cold index scan, cold bitmap scans, builds of indexes and inserts of many rows, by stock "
    "PostgreSQL and with pg_lookahead, in the smallest size: six pairs of bars and a page. Needs "
    "no root, and touches no caches "
    "but those of its own files. Exit status 3 says that a part could not be measured here.",
)(pass_command_context(_demo))
for _decorate in PLACE_OPTIONS:
    _decorate(demo)
