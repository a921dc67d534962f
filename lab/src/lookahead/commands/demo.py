"""`lookahead demo`: what the library gains here, in four small experiments."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import click

from lookahead.commands.context import CommandContext, pass_command_context
from lookahead.commands.options import PLACE_OPTIONS
from lookahead.commands.run import EXPERIMENTS, default_directory, show_outcome
from lookahead.errors import UnavailableError
from lookahead.experiments.experiment import run_experiment
from lookahead.experiments.runner import RunRequest


@dataclass(frozen=True)
class _Part:
    """An experiment of the demo: its name, what it shows, the values that are not its size's."""

    name: str
    title: str
    given: Mapping[str, Any]


_PARTS = (
    _Part("index-scan", "a cold index scan in random order", {"pages": (10_000,)}),
    _Part(
        "bitmap-scan",
        "cold bitmap scans",
        {"pages_share": (0.1, 0.4), "plan": (), "repetitions": 6},
    ),
    _Part("index-build", "builds of indexes", {}),
    _Part("bulk-insert", "inserts of many rows (off by default)", {"parts": ("flat",)}),
)


def _demo(context: CommandContext, /, **places: Any) -> None:
    terminal, missing = context.terminal, 0
    request = _request(context, places)
    experiments = {one.name: one for one in EXPERIMENTS}
    for number, part in enumerate(_PARTS, start=1):
        terminal.step(f"{number} of {len(_PARTS)}: {part.title}")
        try:
            result = run_experiment(
                experiments[part.name], replace(request, follows=number > 1), part.given, terminal
            )
        except UnavailableError as error:
            missing += 1
            terminal.finding("warning", f"not measured here: {error.message}", error.hint)
        else:
            show_outcome(context, result)
    if missing:
        raise UnavailableError(
            f"{missing} of {len(_PARTS)} experiments could not be measured here",
            "The reasons stand above.",
        )


demo = click.command(
    "demo",
    help="See what the library gains on this machine, within three minutes.\n\n"
    "A cold index scan, cold bitmap scans, builds of indexes and inserts of many rows (off by "
    "default), by stock PostgreSQL and with pg_lookahead, in the smallest size. Needs no root, and "
    "touches no caches "
    "but those of its own files. Exit status 3 says that a part could not be measured here.",
)(pass_command_context(_demo))
for _decorate in PLACE_OPTIONS:
    _decorate(demo)


def _request(context: CommandContext, places: Mapping[str, Any]) -> RunRequest:
    directory = places["directory"] or default_directory(context)
    others = {name: value for name, value in places.items() if name != "directory"}
    return RunRequest(size="demo", directory=directory, command=context.command, **others)
