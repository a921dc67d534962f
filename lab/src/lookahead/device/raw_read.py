"""How long a disk takes for whole files, without PostgreSQL and without the cache of the system."""

import mmap
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from lookahead.errors import LabError

# Large requests, some of them under way at once: what a disk is fastest with. Arbitrary.
_REQUEST_BYTES = 1 << 20
_READERS = 4


def read_directly(paths: Sequence[Path]) -> float:
    """Read all files once past the page cache; the time in ms. LabError when that cannot be."""
    requests = [
        (path, offset) for path in paths for offset in range(0, path.stat().st_size, _REQUEST_BYTES)
    ]
    failures: list[OSError] = []

    def read(number: int) -> None:
        try:
            _read_requests(requests[number::_READERS])
        except OSError as error:
            failures.append(error)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(_READERS)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.monotonic() - started
    if failures:
        raise LabError(
            f"the table's files cannot be read directly: {failures[0].strerror}",
            "Does the file system take direct I/O?",
        )
    return elapsed * 1000


def _read_requests(requests: Sequence[tuple[Path, int]]) -> None:
    descriptors: dict[Path, int] = {}
    try:
        with mmap.mmap(-1, _REQUEST_BYTES) as buffer:  # aligned, as direct reads must be
            for path, offset in requests:
                if path not in descriptors:
                    descriptors[path] = os.open(path, os.O_RDONLY | os.O_DIRECT)
                os.preadv(descriptors[path], [buffer], offset)
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)
