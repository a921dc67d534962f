"""Sessions that have left nothing to be done when they are closed."""

import time
from pathlib import Path
from typing import Any

import psycopg

_POLL_SECONDS = 0.001
# Arbitrary. A process in the middle of a statement does not notice that its client is gone.
_LONGEST_WAIT_SECONDS = 30.0


class EndedSession(psycopg.Connection[Any]):
    """A connection whose server process is gone once it is closed.

    What a session has counted and not reported yet goes into the cumulative statistics when its
    process ends, which may be long after its client has left, on a busy machine in the middle of
    the next test.
    """

    def close(self) -> None:
        process = 0 if self.closed else self.info.backend_pid
        super().close()
        if process:
            _await_end(process)


def _await_end(process: int) -> None:
    # One that nobody has waited for has no command line any more.
    command_line = Path(f"/proc/{process}/cmdline")
    deadline = time.monotonic() + _LONGEST_WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            if not command_line.read_bytes():
                return
        except OSError:
            return
        time.sleep(_POLL_SECONDS)
