"""What may be expected to go wrong, and how the command line reports it.

Everything that a user can meet and repair is a `LabError`: the command line prints its message
and its hint and exits with its status. Any other exception is a bug and keeps its traceback.
"""

from enum import IntEnum


class ExitStatus(IntEnum):
    """Exit statuses of the `lookahead` command."""

    SUCCESS = 0
    """The command did what it was asked for."""
    FAILURE = 1
    """The command started its work and could not finish it: disk full, server lost, and so on."""
    USAGE = 2
    """Unknown option, unknown name, or a value out of range; nothing was done."""
    ENVIRONMENT = 3
    """No usable server, library, account or folder was found; nothing was measured."""
    BAD_FILE = 4
    """A result file is of another version, cut short, or not a result file."""
    INTERRUPTED = 130
    """Ctrl-C ended the command; what was measured until then is kept and marked incomplete."""


class LabError(Exception):
    """An expected failure.

    `message` says what happened, `hint` what to try next ("" when there is nothing to say);
    `status` is what the command exits with.
    """

    def __init__(
        self, message: str, hint: str = "", *, status: ExitStatus = ExitStatus.FAILURE
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.status = status

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


def last_lines(text: str, count: int = 15) -> str:
    """The last `count` non-empty lines of `text`, indented by two spaces, for error messages."""
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(f"  {line}" for line in lines[-count:])
