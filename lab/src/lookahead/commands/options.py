"""What commands are given by the command line, and the options that several of them have."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from psycopg.conninfo import make_conninfo

from lookahead.errors import UsageError
from lookahead.experiments.experiment import Count, Kind, Option
from lookahead.experiments.runner import DEFAULT_SEED
from lookahead.formats import require_text
from lookahead.guarded_connection import is_connection_string
from lookahead.terminal import Terminal

_Decorator = Callable[[Any], Any]
NameT = TypeVar("NameT", bound=str)

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
# As psql has it, -h is the host.
SERVER_COMMAND = {"help_option_names": ["--help"]}
# Generic for type checkers since click 8.5; distributions have older ones.
if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType
_NONE = "none"
_MAX_SEED = 2**31 - 1  # pgbench and hashint8extended take it too


@dataclass(frozen=True)
class CommandContext:
    """The terminal to show things on and the exact command line, for the result file."""

    terminal: Terminal
    command: tuple[str, ...]


pass_command_context = click.make_pass_decorator(CommandContext)


def path_option(name: str, metavar: str, help_text: str, **more: Any) -> _Decorator:
    """A file or folder; `more` is click's."""
    kind = click.Path(path_type=Path)
    return click.option(name, type=kind, metavar=metavar, help=help_text, **more)


def server_options(help_text: str) -> _Decorator:
    """The server to connect to: the command gets it as `dsn`, None where nothing is named."""
    default = "Default: libpq's rules (PGHOST, PGDATABASE, ...)."
    options = (
        click.option("--dsn", metavar="STRING", help=f"{help_text} {default}"),
        click.option("-h", "--host", metavar="HOST", help="As psql has it, and so the next ones."),
        click.option("-p", "--port", metavar="PORT"),
        click.option("-U", "--username", metavar="USER"),
        click.option("-d", "--dbname", metavar="DATABASE"),
    )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_dsn(*arguments: Any, **given: Any) -> None:
            words = ("host", "port", "username", "dbname")
            place = {name: given.pop(name) for name in words}
            command(*arguments, **{**given, "dsn": _dsn(given["dsn"], **place)})

        for option in reversed(options):
            option(with_dsn)
        return with_dsn

    return decorate


def _dsn(dsn: str | None, *, username: str | None, **place: str | None) -> str | None:
    named = {"user": username, **place}
    given = {name: value for name, value in named.items() if value is not None}
    if dsn is not None and given:
        raise UsageError("--dsn names the place already", "Leave -h, -p, -U and -d out.")
    if is_connection_string(place["dbname"] or ""):
        raise UsageError("-d takes the name of a database", "--dsn takes a connection string.")
    for text in (dsn, *given.values()):
        require_text(text or "", "the name of the server")
    return make_conninfo(**given) if given else dsn


def output_option(help_text: str) -> _Decorator:
    return path_option("--output", "DIR", help_text, default=Path("results"), show_default=True)


def only_one(given: Mapping[NameT, object], hint: str) -> NameT | None:
    """Which of these options was given, None without one; LabError when several were."""
    named = [name for name, is_given in given.items() if is_given]
    if len(named) > 1:
        raise UsageError(f"--{named[0]} and --{named[1]} exclude each other", hint)
    return named[0] if named else None


def seed_option(help_text: str) -> _Decorator:
    return click.option(
        "--seed",
        type=kind_option(Count(0, _MAX_SEED)),
        default=DEFAULT_SEED,
        show_default=True,
        help=help_text,
    )


class OptionValue(_ParamType):
    """A value of an option; of a list the values between commas, as a tuple."""

    def __init__(self, option: Option) -> None:
        self.name = option.kind.metavar.lower()
        self._option = option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        option, text = self._option, str(value)
        try:
            if not option.is_list:
                return option.kind.parse(text)
            if option.may_be_none and text == _NONE:
                return ()
            return tuple(option.kind.parse(word.strip()) for word in text.split(","))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def kind_option(kind: Kind) -> OptionValue:
    return OptionValue(Option(kind, ""))


# Of the commands that run experiments: on which server, and where.
PLACE_OPTIONS = (
    path_option(
        "--pg-config",
        "PROGRAM",
        "pg_config of the PostgreSQL 18 to use. Default: the one of this system, "
        "else the pinned binaries.",
    ),
    path_option(
        "--library",
        "DIR",
        "Folder with lib/pg_lookahead.so and share/extension/. "
        "Default: built from the checkout, else the installed one.",
    ),
    output_option("Folder for the result file and the page."),
    path_option(
        "--directory",
        "DIR",
        "Where the server's folder is made: the disk to measure. Default: the temporary directory "
        "if it is on a disk, else /var/tmp or the checkout.",
    ),
)
