"""Serves one file from memory whose reads take a chosen time longer; many at once.

The kernel's FUSE interface asks (linux/fuse.h), one thread answers: a read is kept in a queue until
its time has come while others arrive, so that as many are in flight as the kernel sends. Writes are
answered at once. The content is gone when the file is unmounted, which ends the program.

Run as a program, by a bare interpreter, as root: it may import the standard library only.

    delay_file.py BYTES MICROSECONDS MOUNT_POINT

The mount point is an existing file, which the served one covers. "ready" on standard output says
that it is served; anything else is why not.
"""

import ctypes
import errno
import mmap
import os
import select
import struct
import sys
import time
from collections import deque

_FORGET, _GETATTR, _SETATTR, _OPEN, _READ, _WRITE, _STATFS = 2, 3, 4, 14, 15, 16, 17
_RELEASE, _FSYNC, _FLUSH, _INIT, _INTERRUPT, _DESTROY, _BATCH_FORGET = 18, 20, 25, 26, 36, 38, 42
_UNANSWERED = (_FORGET, _BATCH_FORGET, _INTERRUPT)
_EMPTY_ANSWERS = (_RELEASE, _FSYNC, _FLUSH, _DESTROY)
# FUSE_ASYNC_READ, FUSE_BIG_WRITES, FUSE_ASYNC_DIO, FUSE_MAX_PAGES: many and large requests.
_WANTED = 1 << 0 | 1 << 5 | 1 << 15 | 1 << 22
_VERSION = (7, 36)
# Requests that the kernel has in flight at most; more than any queue depth used here.
_MAX_REQUESTS = 1024
_MAX_WRITE_BYTES, _MAX_PAGES = 1 << 20, 256
_HEADER_BYTES = 40
_MODE = 0o100600
_VALID_SECONDS = 3600
_NOSUID_NODEV = 2 | 4
_PR_SET_TIMERSLACK = 29
# After so many requests the due ones are looked at again; arbitrary.
_BATCH = 16

# Of each request: opcode and unique number, then (of reads and writes) offset and size.
_unpack_request = struct.Struct("<4xIQ24xQQI").unpack_from
_unpack_short = struct.Struct("<4xIQ24x").unpack_from
_unpack_init = struct.Struct("<40xIIII").unpack_from
_pack_header = struct.Struct("<IiQ").pack
_REQUEST_BYTES = struct.calcsize("<4xIQ24xQQI")


class DelayFile:
    """The file and the connection to the kernel."""

    def __init__(self, size: int, delay_s: float, mount_point: str) -> None:
        self._size = size
        self._delay_s = delay_s
        self._connection = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        memory = os.memfd_create("lookahead-delay")
        os.ftruncate(memory, size)
        self._content = memoryview(mmap.mmap(memory, size))
        self._request = bytearray(_HEADER_BYTES + _MAX_WRITE_BYTES + mmap.PAGESIZE)
        self._waiting: deque[tuple[float, int, int, int]] = deque()
        libc = ctypes.CDLL(None, use_errno=True)
        # Waits end on time rather than up to 50 us later.
        libc.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
        options = f"fd={self._connection},rootmode={_MODE:o},user_id=0,group_id=0"
        arguments = (b"lookahead-delay", os.fsencode(mount_point), b"fuse")
        if libc.mount(*arguments, _NOSUID_NODEV, options.encode()) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), mount_point)

    def serve(self) -> None:
        """Answer until the file is unmounted."""
        while True:
            due_in_s = self._waiting[0][0] - time.monotonic() if self._waiting else None
            if due_in_s is None or due_in_s > 0:
                select.select((self._connection,), (), (), due_in_s)
            self._answer_due()
            try:
                for _ in range(_BATCH):
                    self._take_request()
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                # ENOENT, EINTR: the request was interrupted before it was taken.
                if error.errno not in (errno.ENOENT, errno.EINTR):
                    raise

    def _answer_due(self) -> None:
        now = time.monotonic()
        waiting, content = self._waiting, self._content
        while waiting and waiting[0][0] <= now:
            _, unique, offset, size = waiting.popleft()
            self._answer(unique, content[offset : offset + size])

    def _take_request(self) -> None:
        length = os.readv(self._connection, (self._request,))
        if length < _REQUEST_BYTES:
            opcode, unique = _unpack_short(self._request)
            offset = size = 0
        else:
            opcode, unique, _, offset, size = _unpack_request(self._request)
        if opcode == _READ:
            size = max(0, min(size, self._size - offset))
            self._waiting.append((time.monotonic() + self._delay_s, unique, offset, size))
        elif opcode == _WRITE:
            start = length - size
            self._content[offset : offset + size] = memoryview(self._request)[start:length]
            self._answer(unique, struct.pack("<II", size, 0))
        elif opcode not in _UNANSWERED:
            self._answer_other(opcode, unique)

    def _answer_other(self, opcode: int, unique: int) -> None:
        if opcode == _INIT:
            self._answer(unique, self._init_answer())
        elif opcode in (_GETATTR, _SETATTR):
            self._answer(unique, self._attributes())
        elif opcode == _OPEN:
            self._answer(unique, struct.pack("<QII", 1, 0, 0))
        elif opcode == _STATFS:
            self._answer(unique, bytes(80))
        elif opcode in _EMPTY_ANSWERS:
            self._answer(unique, b"")
        else:
            os.write(self._connection, _pack_header(16, -errno.ENOSYS, unique))

    def _answer(self, unique: int, body: bytes | memoryview) -> None:
        os.writev(self._connection, (_pack_header(16 + len(body), 0, unique), body))

    def _init_answer(self) -> bytes:
        """struct fuse_init_out."""
        _, _, read_ahead, flags = _unpack_init(self._request)
        limits = (_MAX_REQUESTS, _MAX_REQUESTS, _MAX_WRITE_BYTES, 1, _MAX_PAGES, 0)
        answer = struct.pack("<IIIIHHIIHH", *_VERSION, read_ahead, flags & _WANTED, *limits)
        return answer.ljust(64, b"\0")

    def _attributes(self) -> bytes:
        """struct fuse_attr_out: one regular file of root's."""
        times_and_sizes = (1, self._size, self._size // 512, 0, 0, 0)
        rest = (0, 0, 0, _MODE, 1, 0, 0, 0, mmap.PAGESIZE, 0)
        return struct.pack("<QII6Q10I", _VALID_SECONDS, 0, 0, *times_and_sizes, *rest)


def main(arguments: list[str]) -> int:
    """Mount, say so, serve."""
    size, delay_us, mount_point = int(arguments[0]), int(arguments[1]), arguments[2]
    try:
        file = DelayFile(size, delay_us / 1e6, mount_point)
    except OSError as error:
        sys.stdout.write(f"{error.filename or '/dev/fuse'}: {error.strerror}\n")
        return 1
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    file.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
