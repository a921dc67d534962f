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
from types import TracebackType
from typing import Self

from lookahead.device.probe.pattern import Pattern

# io_setup, io_destroy, io_getevents, io_submit.
_X86_64 = (206, 207, 208, 209)
_GENERIC = (0, 1, 4, 2)
_CALLS = {"x86_64": _X86_64, "aarch64": _GENERIC, "riscv64": _GENERIC}

_PREAD = 0  # IOCB_CMD_PREAD
# struct iocb is 8 words of 8 bytes, struct io_event is 4; positions in words.
_IOCB_WORDS, _EVENT_WORDS = 8, 4
_DATA, _OPERATION, _BUFFER, _LENGTH, _OFFSET = 0, 2, 3, 4, 5
_EVENT_DATA, _EVENT_RESULT = 0, 2
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
        """Wait for at least one read to end; how many did."""
        call, least, most = self._numbers[2], ctypes.c_long(1), ctypes.c_long(self._depth)
        while True:
            count = int(self._call(call, self._id, least, most, events, None))
            if count > 0:
                return count
            # A signal's handler may run here, and raises if it wants to.
            if ctypes.get_errno() != errno.EINTR:
                self._check(count)

    def submit(self, count: int, pointers: "ctypes.Array[ctypes.c_uint64]") -> None:
        """Start `count` reads."""
        done = 0
        while done < count:
            rest = ctypes.byref(pointers, 8 * done)
            done += self._check(
                self._call(self._numbers[3], self._id, ctypes.c_long(count - done), rest)
            )

    @staticmethod
    def _check(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


class _Reads:
    """The reads of one pattern: a slot for each that may be in flight."""

    def __init__(self, descriptor: int, pattern: Pattern, offsets: list[int]) -> None:
        depth, size = pattern.depth, pattern.request_bytes
        self._depth, self._size = depth, size
        self._offsets, self._next = offsets, 0
        self._context = _Context(depth)
        self._memory = mmap.mmap(-1, depth * size)  # aligned, as direct reads must be
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._iocbs = (ctypes.c_uint64 * (depth * _IOCB_WORDS))()
        self._events = (ctypes.c_uint64 * (depth * _EVENT_WORDS))()
        self._pointers = (ctypes.c_uint64 * depth)()
        first = ctypes.addressof(self._iocbs)
        self._places = [first + slot * _IOCB_WORDS * 8 for slot in range(depth)]
        for slot in range(depth):
            word = slot * _IOCB_WORDS
            self._iocbs[word + _DATA] = slot
            self._iocbs[word + _OPERATION] = (descriptor << _DESCRIPTOR_SHIFT) | _PREAD
            self._iocbs[word + _BUFFER] = base + slot * size
            self._iocbs[word + _LENGTH] = size

    def __enter__(self) -> Self:
        self._context.__enter__()
        try:
            self._start(range(self._depth))
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
        words = self._events[: count * _EVENT_WORDS]
        for result in words[_EVENT_RESULT::_EVENT_WORDS]:
            if result != self._size:
                raise _failed(result)
        self._start(words[_EVENT_DATA::_EVENT_WORDS])
        return count

    def _start(self, slots: range | list[int]) -> None:
        offsets, position = self._offsets, self._next
        iocbs, pointers, places = self._iocbs, self._pointers, self._places
        for number, slot in enumerate(slots):
            iocbs[slot * _IOCB_WORDS + _OFFSET] = offsets[position]
            pointers[number] = places[slot]
            position += 1
            if position == len(offsets):
                position = 0
        self._next = position
        self._context.submit(len(slots), pointers)


def _failed(result: int) -> OSError:
    """The kernel's result as an unsigned word: a negative error number, or too few bytes."""
    number = 2**64 - result
    if number < 4096:
        return OSError(number, os.strerror(number))
    return OSError(errno.EIO, f"a read ended after {result} bytes")
