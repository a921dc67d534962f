"""The command line: the only place that turns exceptions into messages and exit statuses."""

import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click

import lookahead
from lookahead.commands.check import check
from lookahead.commands.compare import compare
from lookahead.commands.demo import demo
from lookahead.commands.doctor import doctor
from lookahead.commands.options import HELP_OPTIONS, CommandContext
from lookahead.commands.partitions import partitions
from lookahead.commands.probe import probe
from lookahead.commands.report import report
from lookahead.commands.run import run
from lookahead.errors import ExitStatus, LabError, UsageError
from lookahead.guarded_connection import shown_arguments
from lookahead.terminal import Terminal, checked_stdout

PROGRAM = "lookahead"


# A pinned width: the same help on every terminal, narrow enough for all.
@click.group(context_settings={"terminal_width": 80, **HELP_OPTIONS})
@click.version_option(lookahead.__version__, prog_name=PROGRAM)
def cli() -> None:
    """Measure what pg_lookahead gains on this machine.

    Exit status: 0 done; 1 failed at work; 2 wrong usage; 3 no usable server, library, account or
    folder; 4 damaged result file or one of another version; 5 other rows with the library (check);
    6 results that are not comparable (compare); 130 interrupted.
    """


cli.add_command(doctor)
cli.add_command(demo)
cli.add_command(probe)
cli.add_command(run)
cli.add_command(check)
cli.add_command(partitions)
cli.add_command(report)
cli.add_command(compare)


def main(group: click.Group = cli, program: str = PROGRAM) -> None:
    """The console script: run the command line of `group` and exit with its status."""
    with checked_stdout():  # also for the help that click itself writes
        status = execute(sys.argv[1:], Terminal(), group, program)
    sys.exit(status)


def execute(
    arguments: Sequence[str], terminal: Terminal, group: click.Group = cli, program: str = PROGRAM
) -> ExitStatus:
    """Run one command line; expected failures are shown, bugs keep their traceback."""
    try:
        return _execute(arguments, terminal, group, program)
    except LabError as error:
        terminal.error(error)
        return error.status


def _execute(
    arguments: Sequence[str], terminal: Terminal, group: click.Group, program: str
) -> ExitStatus:
    # Kept in results, shown in messages.
    command = (program, *shown_arguments(arguments))
    context = CommandContext(terminal, command)
    try:
        with _terminated_like_interrupted():
            group.main(list(arguments), program, standalone_mode=False, obj=context)
    except click.exceptions.NoArgsIsHelpError as request:
        terminal.result(request.format_message())
        return ExitStatus.USAGE
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else program
        is_group = error.ctx is None or isinstance(error.ctx.command, click.Group)
        what = "commands" if is_group else "options and values"
        hint = f"`{path} --help` lists {what}."
        if isinstance(error, click.NoSuchOption) and len(error.option_name.split()) > 1:
            hint += " A statement that begins with a comment goes behind `--`."
        message = error.format_message()
        for given, shown in zip(arguments, command[1:], strict=True):
            message = message.replace(given, shown) if given != shown else message
        # In our style: no capital at the beginning, no period at the end.
        raise UsageError((message[:1].lower() + message[1:]).rstrip("."), hint) from None
    except (KeyboardInterrupt, click.Abort):
        again = shlex.join(command)
        terminal.error(LabError("interrupted", f"Start again with: {again}"))
        return ExitStatus.INTERRUPTED
    return ExitStatus.SUCCESS


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack as Ctrl-C does: servers stop, settings go back."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    # What was to be ignored stays so: nohup starts us with SIGHUP ignored.
    wanted = (signal.SIGTERM, signal.SIGHUP)
    numbers = [number for number in wanted if signal.getsignal(number) is not signal.SIG_IGN]
    previous = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)
