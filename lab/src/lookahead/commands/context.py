"""What a command is given by the command line; tests replace it as a whole."""

from dataclasses import dataclass

import click

from lookahead.terminal import Terminal


@dataclass(frozen=True)
class CommandContext:
    """The terminal to show things on and the exact command line, for the result file."""

    terminal: Terminal
    command: tuple[str, ...]


pass_command_context = click.make_pass_decorator(CommandContext)
