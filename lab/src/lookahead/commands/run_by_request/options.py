"""The options that experiments share, and the request that the common ones make."""

from collections.abc import Callable
from pathlib import Path

import click

from lookahead.commands.options import (
    CommandT,
    library_option,
    pg_config_option,
    seed_option,
)
from lookahead.commands.run_by_request.lists import Percent, list_option
from lookahead.device.read_ahead import MAX_READ_AHEAD_KB
from lookahead.experiments.options import IO_METHODS

_MAX_PAGES = 10_000_000
_MAX_REPETITIONS = 1000

_SHARED_OPTIONS = (
    click.option("--demo", is_flag=True, help="Smallest size: at most 30 s a scenario."),
    click.option("--quick", is_flag=True, help="Middle size, the default: minutes."),
    click.option("--full", is_flag=True, help="Full size: tables of GB, hours."),
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
        help="Where the server's folder is made: the disk to measure. Default: the temporary "
        "directory if it is on a disk, else /var/tmp or the checkout.",
    ),
    click.option(
        "--profile",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Device profile of `lookahead probe` for the server. Default: none.",
    ),
    seed_option("Seed of the data, the keys and the interval."),
    click.option("--keep", is_flag=True, help="Keep the server's folder."),
)


def shared_options(command: CommandT) -> CommandT:
    """The options of every experiment."""
    for option in reversed(_SHARED_OPTIONS):
        command = option(command)
    return command


def machine_options(command: CommandT) -> CommandT:
    """What is done to the whole machine, for experiments with cold data."""
    options = (
        click.option(
            "--drop-caches",
            "drops_caches",
            is_flag=True,
            help="Make data cold by dropping all caches of the machine (root only). Default: only "
            "those of the server's own files.",
        ),
        click.option(
            "--force",
            "forced",
            is_flag=True,
            help="Drop caches or change read-ahead although another PostgreSQL runs on this "
            "machine.",
        ),
    )
    for option in reversed(options):
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


def table_pages_option(command: CommandT) -> CommandT:
    """The size of the table in pages."""
    option = click.option(
        "--table-pages",
        type=click.IntRange(1, _MAX_PAGES),
        metavar="N",
        help="Pages of 8 kB that the table has. Default: by size.",
    )
    return option(command)


def pages_share_option(command: CommandT) -> CommandT:
    """The shares of a table's pages that a scan hits."""
    option = list_option(
        "--pages-share",
        "shares",
        Percent(),
        "PERCENT,...",
        "Shares of the table's pages that a scan hits. Default: by size.",
    )
    return option(command)


def read_ahead_option(default: str = "as it is") -> Callable[[CommandT], CommandT]:
    """The read-ahead of the disk to measure at."""
    return click.option(
        "--read-ahead",
        "read_aheads_kb",
        type=click.IntRange(0, MAX_READ_AHEAD_KB),
        multiple=True,
        metavar="KB",
        help="Change the system's read-ahead of the disk to this during the run, and put it back "
        f"(root only); may be repeated. Default: {default}.",
    )
