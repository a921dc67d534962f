"""Many direct reads in flight from one thread: the kernel's asynchronous I/O (io_submit(2)).

Python has no interface to it, so the system calls are made through ctypes, with the structures of
linux/aio_abi.h laid out by hand. One thread that keeps 256 reads in flight costs a fraction of 256
threads, which would measure Python's lock instead of the device.
"""

import ctypes
import errno
import mmap
import os
import platform
import sys
import time
from array import array
from types import TracebackType
from typing import Self

from lookahead.device.probe.pattern import Pattern

# io_setup, io_destroy, io_getevents, io_submit.
_X86_64 = (206, 207, 208, 209)
_GENERIC = (0, 1, 4, 2)
_CALLS = {"x86_64": _X86_64, "aarch64": _GENERIC, "riscv64": _GENERIC}

_PREAD = 0  # IOCB_CMD_PREAD
# struct iocb is 8 words of 8 bytes: data, key and flags, operation and descriptor, buffer, length,
# offset, two more; struct io_event is 4, the third of which is the result.
_IOCB_WORDS, _EVENT_WORDS = 8, 4
_EVENT_RESULT = 2
# From depth 64 on, the share of the queue that has to end before we are woken: less work for the
# processor, while the queue is never emptier than by this.
_WAKE_SHARE = 32
# Reads started with one call. Of more than two (AIO_PLUG_THRESHOLD in fs/aio.c) the kernel hands
# none to the device before all are ready, and merges those that are adjacent.
_AT_ONCE = 2
_DESCRIPTOR_SHIFT = 32  # the descriptor is the upper half of the operation's word


def is_available() -> bool:
    """Whether this kernel lets this process use it."""
    if platform.machine() not in _CALLS or sys.byteorder != "little":
        return False
    try:
        with _Context(1):
            return True
    except OSError:
        return False


def read_for(
    descriptor: int, pattern: Pattern, offsets: list[int], seconds: float
) -> tuple[int, float]:
    """Keep `pattern.depth` reads in flight; how many ended in how many seconds.

    The clock starts when as many reads have ended as were started at once, or after `seconds`:
    until then the queue is being filled. OSError when a read fails.
    """
    with _Reads(descriptor, pattern, offsets) as reads:
        warmed, patience = 0, time.perf_counter() + seconds
        while warmed < pattern.depth and time.perf_counter() < patience:
            warmed += reads.exchange()
        done, started = 0, time.perf_counter()
        deadline, now = started + seconds, started
        while now < deadline:
            done += reads.exchange()
            now = time.perf_counter()
        return done, now - started


class _Context:
    """A queue of the kernel for `depth` reads."""

    def __init__(self, depth: int) -> None:
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        self._numbers = _CALLS[platform.machine()]
        self._depth = depth
        self._least = ctypes.c_long(max(1, depth // _WAKE_SHARE))
        self._most = ctypes.c_long(depth)
        self._id = ctypes.c_ulong(0)

    def __enter__(self) -> Self:
        identity = ctypes.byref(self._id)
        self._check(self._call(self._numbers[0], ctypes.c_uint(self._depth), identity))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Waits for what is in flight, so that no read ends in memory that is somebody else's.
        self._call(self._numbers[1], self._id)

    def wait(self, events: "ctypes.Array[ctypes.c_uint64]") -> int:
        """Wait for reads to end; how many did."""
        call, least, most = self._numbers[2], self._least, self._most
        while True:
            count = int(self._call(call, self._id, least, most, events, None))
            if count > 0:
                return count
            # A signal's handler may run here, and raises if it wants to.
            if ctypes.get_errno() != errno.EINTR:
                self._check(count)

    def submit(self, count: int, pointers: "ctypes.Array[ctypes.c_uint64]", first: int) -> None:
        """Start `count` reads, beginning with the one that `pointers[first]` points to."""
        while count > 0:
            rest = ctypes.byref(pointers, 8 * first)
            done = self._call(self._numbers[3], self._id, ctypes.c_long(count), rest)
            self._check(done)
            first, count = first + done, count - done

    @staticmethod
    def _check(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


class _Reads:
    """The reads of one pattern. All their control blocks are made before the first is started.

    Then an exchange is two system calls and no loop: every microsecond that Python spends between
    the end of a read and the start of the next one is missing from the queue of the device.
    """

    def __init__(self, descriptor: int, pattern: Pattern, offsets: list[int]) -> None:
        depth, size = pattern.depth, pattern.request_bytes
        self._depth, self._size = depth, size
        self._count, self._next = len(offsets), 0
        self._context = _Context(depth)
        self._memory = mmap.mmap(-1, depth * size)  # aligned, as direct reads must be
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._events = (ctypes.c_uint64 * (depth * _EVENT_WORDS))()
        operation = (descriptor << _DESCRIPTOR_SHIFT) | _PREAD
        words = array("Q")
        for number, offset in enumerate(offsets):
            # Reads may meet in a buffer: nobody looks at what they bring.
            buffer = base + number % depth * size
            words.extend((0, 0, operation, buffer, size, offset, 0, 0))
        self._iocbs = (ctypes.c_uint64 * len(words)).from_buffer(words)
        first = ctypes.addressof(self._iocbs)
        places = range(first, first + 8 * len(words), 8 * _IOCB_WORDS)
        self._pointers = (ctypes.c_uint64 * len(offsets)).from_buffer(array("Q", places))

    def __enter__(self) -> Self:
        self._context.__enter__()
        try:
            self._start(self._depth)
        except BaseException:
            self._context.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._context.__exit__(kind, error, trace)

    def exchange(self) -> int:
        """Wait for reads to end and start as many anew; how many ended."""
        count = self._context.wait(self._events)
        self._start(count)
        results = self._events[_EVENT_RESULT : count * _EVENT_WORDS : _EVENT_WORDS]
        if results.count(self._size) != count:
            raise _failed(next(result for result in results if result != self._size))
        return count

    def _start(self, count: int) -> None:
        """Start the next ones; after the last comes the first again."""
        while count > 0:
            part = min(count, _AT_ONCE, self._count - self._next)
            self._context.submit(part, self._pointers, self._next)
            self._next = (self._next + part) % self._count
            count -= part


def _failed(result: int) -> OSError:
    """The kernel's result as an unsigned word: a negative error number, or too few bytes."""
    number = 2**64 - result
    if number < 4096:
        return OSError(number, os.strerror(number))
    return OSError(errno.EIO, f"a read ended after {result} bytes")
