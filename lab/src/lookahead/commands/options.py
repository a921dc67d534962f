"""The options that several commands have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
_MAX_SEED = 2**31 - 1  # pgbench and hashint8extended take it too
_DEFAULT_SEED = 1


def pg_config_option(help_text: str) -> Callable[[CommandT], CommandT]:
    """Which PostgreSQL 18 a private server runs."""
    return click.option(
        "--pg-config", type=click.Path(path_type=Path), metavar="PROGRAM", help=help_text
    )


def library_option(help_text: str) -> Callable[[CommandT], CommandT]:
    """Which pg_lookahead is loaded into a private server."""
    return click.option("--library", type=click.Path(path_type=Path), metavar="DIR", help=help_text)


def seed_option(help_text: str) -> Callable[[CommandT], CommandT]:
    """The seed of everything random."""
    return click.option(
        "--seed",
        type=click.IntRange(0, _MAX_SEED),
        default=_DEFAULT_SEED,
        show_default=True,
        help=help_text,
    )
