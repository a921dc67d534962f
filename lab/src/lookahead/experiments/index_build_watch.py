"""What is seen of a build beside its time: phases, memory of its processes, the pages it made.

Two builds of the same index differ legitimately in LSN and checksum, the first fields of
`PageHeaderData` (storage/bufpage.h): where in the WAL a page was logged differs from build to
build. All other bytes are determined by the table.
"""

import hashlib
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import psycopg

from lookahead.errors import LabError
from lookahead.experiments.conditions import BLOCK_BYTES, fetch_row, segments_of
from lookahead.experiments.index_build_keys import BuildKey
from lookahead.measurements import Arm
from lookahead.server import Session

# Coarse enough to leave the processors to the build, fine enough for the shortest phases shown.
_INTERVAL_S = 0.02
_PREFIX = "building index: "
_MASKED_BYTES = 10
_READ_BYTES = 128 * BLOCK_BYTES
_BUILT = "SELECT scans, fallbacks FROM pg_stat_lookahead WHERE feature = 'index_build'"
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
    def phases(self) -> dict[str, float]:
        """Times in phases of pg_stat_progress_create_index, such as "scanning_table_ms"."""
        return {
            f"{re.sub('[^a-z]+', '_', name)}_ms": round(time_ms, 1)
            for name, time_ms in self._phases.items()
        }

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


def builds_so_far(connection: Session) -> int:
    """How many indexes the session's pg_lookahead has built."""
    (built, _) = _built(connection)
    return built


def check_builder(connection: Session, key: BuildKey, arm: Arm, built: int) -> None:
    """LabError unless the arm's own code has built the session's last index.

    `built` is how many indexes pg_lookahead has built meanwhile.
    """
    if arm.library == "on" and built == 0:
        _, fallbacks = _built(connection)
        reasons = ", ".join(fallbacks) or "it was not asked"
        raise LabError(
            f"our path did not run: the index on {key.name} was left to stock ({reasons})",
            "docs/limitations.md says which indexes are; leave the key out.",
        )
    if arm.library == "off" and built:
        raise LabError(
            "pg_lookahead built the index of the stock arm although it is switched off",
            "This is a bug of pg_lookahead, report it.",
        )


def _built(connection: Session) -> tuple[int, dict[str, int]]:
    """Indexes that the session's pg_lookahead has built, and those it left to stock by reason."""
    row = connection.execute(_BUILT).fetchone()
    return (int(row[0]), row[1]) if row else (0, {})


def blanked(pages: bytes) -> bytes:
    """The pages with LSN and checksum set to zero; LabError when the last page is torn."""
    if len(pages) % BLOCK_BYTES:
        raise LabError(f"{len(pages)} bytes are no whole pages")
    image = bytearray(pages)
    for start in range(0, len(image), BLOCK_BYTES):
        image[start : start + _MASKED_BYTES] = bytes(_MASKED_BYTES)
    return bytes(image)


def read_blanked(file: Path) -> Iterator[bytes]:
    """The pages of a relation's main fork, all segments of it, in pieces.

    A build writes past the shared buffers: the file holds all pages as soon as the statement ends.
    """
    for segment in segments_of(file):
        with segment.open("rb", buffering=0) as opened:
            while piece := opened.read(_READ_BYTES):
                yield blanked(piece)


def pages_sha256(file: Path) -> str:
    """SHA-256 of a relation's pages without LSN and checksum."""
    digest = hashlib.sha256()
    for piece in read_blanked(file):
        digest.update(piece)
    return digest.hexdigest()
