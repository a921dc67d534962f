"""Standard output that says what went wrong instead of ending in a traceback.

A full disk and a reader that has gone away are nothing that we could repair, and no bugs either.
"""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import TextIO, cast

from lookahead.errors import LabError


class _Closed(StringIO):
    """Takes nothing."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


class _Checked:
    """A text stream whose failures are LabErrors; what its encoding lacks is written as escapes."""

    def __init__(self, stream: TextIO | None) -> None:
        # Python has no stream for a descriptor that was closed when it started.
        self._stream = stream or _Closed()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        known = text.encode(encoding, "backslashreplace").decode(encoding)
        try:
            return self._stream.write(known)
        except OSError as error:
            raise _failure(error) from None

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            raise _failure(error) from None


class _Indifferent(_Checked):
    """A stream for what may be lost: messages beside the work."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except LabError:
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except LabError:
            return


def checked(stream: TextIO | None) -> TextIO:
    """The stream for results: LabError when it takes no more."""
    return cast(TextIO, _Checked(stream))


def indifferent(stream: TextIO | None) -> TextIO:
    """The stream for messages: what it does not take is lost."""
    return cast(TextIO, _Indifferent(stream))


@contextmanager
def checked_stdout() -> Iterator[None]:
    """The same for whatever else writes to standard output, and for the end of the process."""
    stream = sys.stdout
    sys.stdout = checked(stream)
    try:
        yield
    finally:
        sys.stdout = stream
        for each in (sys.stdout, sys.stderr):
            _forget_unwritten(each)


def _forget_unwritten(stream: TextIO | None) -> None:
    """Without this the interpreter tries once more to write it when it ends, and complains."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _failure(error: OSError) -> LabError:
    return LabError(
        f"cannot write to standard output: {error.strerror}",
        "Make room, or have it read to its end; result files are not affected.",
    )
