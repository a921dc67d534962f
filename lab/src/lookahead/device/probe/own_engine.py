"""The probe's own engine: needs nothing but Python and Linux.

One read at a time is a plain loop, which also tells how long each read took. Many at a time are the
kernel's asynchronous I/O, or threads where that is missing; threads reach some 30,000 reads per
second, so what they say of a faster device is too low.
"""

import errno
import mmap
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from lookahead.device.probe import native_aio
from lookahead.device.probe.pattern import Pattern
from lookahead.device.probe.reading import Reading, ReadTarget
from lookahead.device.probe.test_file import TestFile
from lookahead.errors import LabError


@dataclass(frozen=True)
class OwnEngine:
    """See the module; `native` is whether asynchronous I/O is used."""

    native: bool

    @property
    def name(self) -> str:
        """As in result files."""
        return "own (aio)" if self.native else "own (threads)"

    def run(
        self, target: ReadTarget, patterns: Sequence[Pattern], slice_s: float, seed: int
    ) -> Iterator[tuple[Pattern, Reading]]:
        """Measure the patterns in this order."""
        for number, pattern in enumerate(patterns):
            offsets = pattern.offsets(target.size_bytes, seed + number)
            try:
                yield pattern, self._measure(target.direct, pattern, offsets, slice_s)
            except OSError as error:
                raise read_failed(error) from None

    def _measure(
        self, descriptor: int, pattern: Pattern, offsets: list[int], seconds: float
    ) -> Reading:
        if pattern.depth == 1:
            return _one_at_a_time(descriptor, pattern, offsets, seconds)
        if self.native:
            return Reading(*native_aio.read_for(descriptor, pattern, offsets, seconds), None)
        return _by_threads(descriptor, pattern, offsets, seconds)


def make_own_engine() -> OwnEngine:
    """The engine with the best means that this machine has."""
    return OwnEngine(native_aio.is_available())


def read_failed(error: OSError) -> LabError:
    """A read that the device or the file system refused."""
    return LabError(
        f"a read of the test file failed: {error.strerror}",
        "See the kernel's log (dmesg) for errors of the device.",
    )


def buffered_rate(file: TestFile, pattern: Pattern, seconds: float, seed: int) -> Reading:
    """Read the file once at most, through the system's cache, which holds nothing of it."""
    file.evict()
    descriptor = file.open_buffered()
    try:
        offsets = pattern.offsets(file.size_bytes, seed)
        return _one_at_a_time(descriptor, pattern, offsets, seconds, once=True)
    except OSError as error:
        raise read_failed(error) from None
    finally:
        os.close(descriptor)
        file.evict()


def _one_at_a_time(
    descriptor: int, pattern: Pattern, offsets: list[int], seconds: float, *, once: bool = False
) -> Reading:
    """A plain loop; `once` ends it with the last of the offsets."""
    took_ns: list[int] = []
    clock = time.perf_counter_ns
    with mmap.mmap(-1, pattern.request_bytes) as buffer:
        buffers, size = [buffer], pattern.request_bytes
        started = before = clock()
        deadline, position = started + int(seconds * 1e9), 0
        while before < deadline:
            if os.preadv(descriptor, buffers, offsets[position]) != size:
                raise OSError(errno.EIO, "a read ended early")
            after = clock()
            took_ns.append(after - before)
            before, position = after, position + 1
            if position == len(offsets):
                if once:
                    break
                position = 0
    return Reading(len(took_ns), (before - started) / 1e9, median(took_ns) / 1000)


def _by_threads(descriptor: int, pattern: Pattern, offsets: list[int], seconds: float) -> Reading:
    """A thread for each read in flight; they take the offsets in turn."""
    depth, counts = pattern.depth, [0] * pattern.depth
    failures: list[OSError] = []

    def read(number: int) -> None:
        position = number % len(offsets)
        try:
            with mmap.mmap(-1, pattern.request_bytes) as buffer:
                while time.perf_counter() < deadline:
                    os.preadv(descriptor, [buffer], offsets[position])
                    counts[number] += 1
                    position = (position + depth) % len(offsets)
        except OSError as error:
            failures.append(error)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(depth)]
    started = time.perf_counter()
    deadline = started + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return Reading(sum(counts), time.perf_counter() - started, None)
