"""What may be expected to go wrong, and how the command line reports it.

Everything that a user can meet and repair is a `LabError`: the command line prints its message
and its hint and exits with its status. Any other exception is a bug and keeps its traceback.
"""

from enum import IntEnum


class ExitStatus(IntEnum):
    """Exit statuses of the `lookahead` command; lab/README.md says what each means."""

    SUCCESS = 0
    FAILURE = 1
    USAGE = 2
    ENVIRONMENT = 3
    BAD_FILE = 4
    DIFFERENT_ROWS = 5
    NOT_COMPARABLE = 6
    INTERRUPTED = 130


class LabError(Exception):
    """An expected failure.

    `message` says what happened, `hint` what to try next ("" when there is nothing to say);
    the `status` of its class is what the command exits with.
    """

    status = ExitStatus.FAILURE

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class UsageError(LabError):
    """What was asked for cannot be done, whatever the machine."""

    status = ExitStatus.USAGE


class UnavailableError(LabError):
    """What it takes is not there, or may not be used."""

    status = ExitStatus.ENVIRONMENT


class BadFileError(LabError):
    """A file is not what it should be."""

    status = ExitStatus.BAD_FILE


class DifferentRowsError(LabError):
    """What pg_lookahead must never do."""

    status = ExitStatus.DIFFERENT_ROWS


class NotComparableError(LabError):
    """Two results whose figures do not belong beside each other."""

    status = ExitStatus.NOT_COMPARABLE


def last_lines(text: str, count: int = 15) -> str:
    """The last `count` non-empty lines of `text`, indented by two spaces, for error messages."""
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(f"  {line}" for line in lines[-count:])
