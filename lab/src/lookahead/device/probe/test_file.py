"""The file that the probe reads: random bytes, without a name.

It is made with O_TMPFILE or unlinked at once, so the kernel frees it with the last descriptor, in
whatever way the probe ends. Random bytes are neither compressed nor deduplicated below us.
"""

import errno
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from lookahead.data_place import check_direct_reads
from lookahead.device.probe.fio import Target
from lookahead.errors import ExitStatus, LabError
from lookahead.safe_files import make_nameless

MIN_BYTES = 64 * 2**20
# The share of the free space that the file may take: a probe must not fill a server's disk.
FREE_SHARE = 10
_CHUNK_BYTES = 4 * 2**20


class TestFile:
    """Context manager: the file, filled and on the device.

    `rate_bytes_per_s` limits the writing (0: no limit).
    """

    __test__ = False  # not one of pytest's

    def __init__(self, folder: Path, size_bytes: int, rate_bytes_per_s: float = 0.0) -> None:
        self.folder = folder
        self.size_bytes = size_bytes
        self._rate = rate_bytes_per_s
        self._descriptor = -1

    @property
    def target(self) -> Target:
        """What our children can open, while the file is there."""
        return Target(Path(f"/proc/{os.getpid()}/fd/{self._descriptor}"), self.size_bytes)

    def __enter__(self) -> Self:
        try:
            check_direct_reads(self.folder)
            self._descriptor = make_nameless(self.folder)
            self._fill()
        except OSError as error:
            self._close()
            raise _cannot_write(self.folder, error) from None
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def evict(self) -> None:
        """Take the file out of the system's cache."""
        os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def _fill(self) -> None:
        started, written = time.monotonic(), 0
        while written < self.size_bytes:
            chunk = os.urandom(min(_CHUNK_BYTES, self.size_bytes - written))
            written += os.write(self._descriptor, chunk)
            if self._rate:
                time.sleep(max(0.0, started + written / self._rate - time.monotonic()))
        os.fsync(self._descriptor)
        self.evict()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def choose_size(folder: Path, wanted_bytes: int, *, named: bool) -> int:
    """The size of the file in bytes; LabError when the folder has no room for it.

    A size that the user has `named` is taken or refused, the default may shrink.
    """
    status = os.statvfs(folder)
    allowed = status.f_bavail * status.f_frsize // FREE_SHARE
    size = wanted_bytes if named else min(wanted_bytes, allowed)
    size -= size % _CHUNK_BYTES
    if size > allowed or size < MIN_BYTES:
        free_mb = status.f_bavail * status.f_frsize // 2**20
        raise LabError(
            f'"{folder}" has {free_mb} MB free, and the probe takes a tenth of it at most',
            f"Make room, or name a smaller file with --size (at least {MIN_BYTES // 2**20}MB).",
            status=ExitStatus.ENVIRONMENT,
        )
    return size


def _cannot_write(folder: Path, error: OSError) -> LabError:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        status, hint = ExitStatus.ENVIRONMENT, "Name a folder that you may write to."
    else:
        status, hint = ExitStatus.FAILURE, "Make room or name another folder."
    return LabError(f'cannot write to "{folder}": {error.strerror}', hint, status=status)
