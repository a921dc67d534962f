"""What is seen of an index build while it runs: its phases, its workers, the memory of all.

A look takes a session of its own and some time of the processors.
"""

import re
import threading
import time
from pathlib import Path
from typing import Self

import psycopg

from lookahead.experiments.conditions import fetch_row
from lookahead.server import Session

# Coarse enough to leave the processors to the build, fine enough for the shortest phases shown.
_INTERVAL_S = 0.02
_PREFIX = "building index: "
_QUERY = """
    SELECT (SELECT phase FROM pg_stat_progress_create_index WHERE pid = %(pid)s),
           ARRAY(SELECT pid FROM pg_stat_activity WHERE leader_pid = %(pid)s)"""


def private_bytes(process: int) -> int | None:
    """Private memory of a process that is in RAM (RssAnon); None when it is gone or unknown."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return None
    size = re.search(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)
    return int(size[1]) * 1024 if size else None


class BuildWatch:
    """Context manager: watches the session `backend` over a connection of its own."""

    def __init__(self, connection: Session, backend: int) -> None:
        self._connection = connection
        self._backend = backend
        self._before = private_bytes(backend)
        self._peak: int | None = None
        self._workers: set[int] = set()
        self._phases: dict[str, float] = {}
        self._stop = threading.Event()
        self._failure: psycopg.Error | None = None
        self._thread = threading.Thread(target=self._watch, name="build-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._failure is not None and kind is None:
            raise self._failure

    @property
    def peak_memory_bytes(self) -> int | None:
        """Most private memory of session and workers at once, beyond the session's before.

        None where that is unknown, as of a build that was over before the first look.
        """
        if self._before is None or self._peak is None:
            return None
        return max(self._peak - self._before, 0)

    @property
    def workers_seen(self) -> int:
        return len(self._workers)

    @property
    def counts(self) -> dict[str, float]:
        """For a sample; times in phases of pg_stat_progress_create_index are "loading_tuples_ms".

        The peak is left out where it is unknown.
        """
        phases = {
            f"{re.sub('[^a-z]+', '_', name)}_ms": round(time_ms, 1)
            for name, time_ms in self._phases.items()
        }
        peak = self.peak_memory_bytes
        known = {} if peak is None else {"peak_memory_bytes": float(peak)}
        return {"workers_seen": self.workers_seen, **phases, **known}

    def _watch(self) -> None:
        last = time.monotonic()
        try:
            while not self._stop.wait(_INTERVAL_S):
                phase, workers = fetch_row(self._connection, _QUERY, pid=self._backend)
                now = time.monotonic()
                if phase is not None:
                    name = phase.removeprefix(_PREFIX)
                    self._phases[name] = self._phases.get(name, 0.0) + (now - last) * 1000
                last = now
                self._workers.update(workers)
                sizes = [private_bytes(process) or 0 for process in (self._backend, *workers)]
                self._peak = max(self._peak or 0, sum(sizes))
        except psycopg.Error as failure:  # raised again in the caller's thread
            self._failure = failure
