"""The options that experiments share, and the request that the common ones make."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from lookahead.commands.context import CommandContext
from lookahead.commands.options import (
    CommandT,
    library_option,
    pg_config_option,
    seed_option,
)
from lookahead.errors import ExitStatus, LabError
from lookahead.experiments.io_methods import IO_METHODS
from lookahead.experiments.request import RunRequest, Size

_MAX_PAGES = 10_000_000
_MAX_REPETITIONS = 1000

_SHARED_OPTIONS = (
    click.option("--demo", is_flag=True, help="Smallest size: at most 30 s a scenario."),
    click.option("--quick", is_flag=True, help="Middle size: at most 2 min a scenario."),
    pg_config_option(
        "pg_config of the PostgreSQL 18 to use. Default: the one of this system, "
        "else the pinned binaries."
    ),
    library_option(
        "Folder with lib/pg_lookahead.so and share/extension/. "
        "Default: built from the checkout, else the installed one."
    ),
    click.option(
        "--output",
        type=click.Path(path_type=Path),
        default=Path("results"),
        show_default=True,
        metavar="DIR",
        help="Folder for the result file and the page.",
    ),
    click.option(
        "--directory",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Where the server's folder is made: the disk to measure. "
        "Default: the temporary directory.",
    ),
    seed_option("Seed of the data, the keys and the interval."),
    click.option("--keep", is_flag=True, help="Keep the server's folder."),
)


def shared_options(command: CommandT) -> CommandT:
    """The options of every experiment."""
    for option in reversed(_SHARED_OPTIONS):
        command = option(command)
    return command


def repetitions_option(command: CommandT) -> CommandT:
    """The number of pairs or alternations."""
    option = click.option(
        "--repetitions",
        type=click.IntRange(1, _MAX_REPETITIONS),
        help="Samples of each arm per scenario. Default: by size.",
    )
    return option(command)


def io_method_option(command: CommandT) -> CommandT:
    """The I/O methods to measure under."""
    option = click.option(
        "--io-method",
        "io_methods",
        type=click.Choice(IO_METHODS),
        multiple=True,
        help="May be repeated. Default: worker with --demo, else all that the server has.",
    )
    return option(command)


def pages_option(help_text: str) -> Callable[[CommandT], CommandT]:
    """The numbers of pages that a scan in random order touches."""
    return click.option(
        "--pages", type=click.IntRange(1, _MAX_PAGES), multiple=True, help=help_text
    )


def limit_option(help_text: str) -> Callable[[CommandT], CommandT]:
    """The LIMITs of a scan in random order."""
    return click.option(
        "--limit",
        "limits",
        type=click.IntRange(1, _MAX_PAGES),
        multiple=True,
        metavar="ROWS",
        help=help_text,
    )


def run_request(context: CommandContext, shared: dict[str, Any]) -> RunRequest:
    """What the shared options say; LabError when they contradict each other."""
    if shared["demo"] and shared["quick"]:
        raise LabError(
            "--demo and --quick exclude each other", "Name one size.", status=ExitStatus.USAGE
        )
    size: Size = "demo" if shared["demo"] else "quick" if shared["quick"] else "full"
    return RunRequest(
        size=size,
        pg_config=shared["pg_config"],
        library=shared["library"],
        output=shared["output"],
        directory=shared["directory"],
        seed=shared["seed"],
        keep=shared["keep"],
        command=context.command,
    )
