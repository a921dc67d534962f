"""Watches a build from beside: its phases and the memory of its processes."""

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

from lookahead.build_measurements import BuildPhase

# Coarse enough to leave the processors to the build, fine enough for the shortest phases shown.
_INTERVAL_S = 0.02
_PREFIX = "building index: "
_QUERY = """
    SELECT (SELECT phase FROM pg_stat_progress_create_index WHERE pid = %(pid)s),
           ARRAY(SELECT pid FROM pg_stat_activity WHERE leader_pid = %(pid)s)"""


def private_bytes(process: int) -> int | None:
    """Private memory of a process that is in RAM (RssAnon); None when it is gone or unknown."""
    try:
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


class BuildWatch:
    """Context manager: watches the session `backend` over a connection of its own."""

    def __init__(self, connection: psycopg.Connection[Any], backend: int) -> None:
        self._connection = connection
        self._backend = backend
        self._before = private_bytes(backend)
        self._peak = 0
        self._workers: set[int] = set()
        self._phases: dict[str, float] = {}
        self._stop = threading.Event()
        self._failure: psycopg.Error | None = None
        self._thread = threading.Thread(target=self._watch, name="build-watch", daemon=True)

    def __enter__(self) -> "BuildWatch":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._failure is not None and kind is None:
            raise self._failure

    @property
    def peak_memory_bytes(self) -> int | None:
        """Most private memory of session and workers at once, beyond the session's before."""
        return None if self._before is None else max(self._peak - self._before, 0)

    @property
    def workers_seen(self) -> int:
        """How many parallel workers there were."""
        return len(self._workers)

    @property
    def phases(self) -> tuple[BuildPhase, ...]:
        """Phases in the order in which they were first seen."""
        return tuple(BuildPhase(name, round(time, 1)) for name, time in self._phases.items())

    def _watch(self) -> None:
        last = time.monotonic()
        try:
            while not self._stop.wait(_INTERVAL_S):
                row = self._connection.execute(_QUERY, {"pid": self._backend}).fetchone()
                assert row is not None
                phase, workers = row
                now = time.monotonic()
                if phase is not None:
                    name = phase.removeprefix(_PREFIX)
                    self._phases[name] = self._phases.get(name, 0.0) + (now - last) * 1000
                last = now
                self._workers.update(workers)
                sizes = [private_bytes(process) or 0 for process in (self._backend, *workers)]
                self._peak = max(self._peak, sum(sizes))
        except psycopg.Error as failure:  # raised again in the caller's thread
            self._failure = failure
