"""Running command lines in this process."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import click

from lookahead.cli import PROGRAM, cli, execute
from lookahead.errors import ExitStatus
from lookahead.terminal import Terminal


@dataclass(frozen=True)
class Outcome:
    """What a command line did: its exit status and what it wrote where."""

    status: ExitStatus
    stdout: str
    stderr: str


def run_command(
    *arguments: str | Path, group: click.Group = cli, program: str = PROGRAM
) -> Outcome:
    """Run a command line of `group` on a terminal of 80 columns."""
    stdout, stderr = StringIO(), StringIO()
    words: Sequence[str] = [str(part) for part in arguments]
    status = execute(words, Terminal(stdout, stderr, width=80), group, program)
    return Outcome(status, stdout.getvalue(), stderr.getvalue())
