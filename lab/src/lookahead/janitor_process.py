"""Processes that clean up after us, however we end: lookahead.janitor and its kin in device/."""

import subprocess
import sys


class JanitorProcess:
    """A janitor at its work: waiting for the end of a pipe that only we hold open.

    `program` is its file, run by a bare interpreter. Raises OSError when it cannot be started.
    """

    def __init__(self, program: str, *arguments: object) -> None:
        # Our end of the pipe is closed in every program that we start, at its exec.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", program, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def finish(self) -> bool:
        """Have it clean up now; returns whether nothing stays behind."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait() == 0
