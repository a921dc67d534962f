"""Emptying the operating system's cache of a stopped server's files, and proving it.

As root the kernel drops its whole page cache. Otherwise (or where that is forbidden, as in
containers) every file is written out and given up one by one. How much of the files stays
resident is counted with mincore(2) before and after; the evidence goes into the result.
"""

import ctypes
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_DROP_CACHES = Path("/proc/sys/vm/drop_caches")
_MAP_FAILED = ctypes.c_void_p(-1).value
# A stopped server's files can be dropped to the last page; a hundredth is an arbitrary allowance
# for pages that something else on the machine (a backup, a virus scanner) reads meanwhile.
_COLD_SHARE = 0.01


@dataclass(frozen=True)
class ColdEvidence:
    """How the files were made cold and what was resident, in bytes, just before and after.

    `method` is "drop_caches" or "dontneed"; `files` counts the files, `total_bytes` their size.
    """

    method: str
    resident_bytes_before: int
    resident_bytes_after: int
    files: int
    total_bytes: int

    @property
    def is_cold(self) -> bool:
        """Whether at most 1 % of the bytes stayed in the cache (never so on a tmpfs)."""
        return self.resident_bytes_after <= self.total_bytes * _COLD_SHARE


def make_cold(directory: Path) -> ColdEvidence:
    """Empty the cache of all files below `directory`, tablespaces included.

    The server on it must be stopped: pages that it writes afterwards are cached again. Raises
    OSError when a file cannot be opened or written out.
    """
    files = [path for path in data_files(directory) if path.stat().st_size > 0]
    before = sum(resident_bytes(path) for path in files)
    os.sync()
    method = "drop_caches" if _drop_caches() else "dontneed"
    if method == "dontneed":
        for path in files:
            _give_up(path)
    return ColdEvidence(
        method=method,
        resident_bytes_before=before,
        resident_bytes_after=sum(resident_bytes(path) for path in files),
        files=len(files),
        total_bytes=sum(path.stat().st_size for path in files),
    )


def data_files(directory: Path) -> Iterator[Path]:
    """Every regular file below `directory`, following links to folders (tablespaces, WAL)."""
    for folder, _, names in os.walk(directory, followlinks=True):
        for name in names:
            path = Path(folder, name)
            if path.is_file():
                yield path


def resident_bytes(path: Path) -> int:
    """How many bytes of the file are in the page cache, in whole pages.

    The kernel tells the owner of a file, or who may write it; others are told "all".
    """
    size = path.stat().st_size
    if size == 0:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    descriptor = os.open(path, os.O_RDONLY)
    try:
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    finally:
        os.close(descriptor)
    if address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), "cannot map", str(path))
    try:
        pages = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
        if libc.mincore(address, size, pages) != 0:
            raise OSError(ctypes.get_errno(), "cannot count resident pages of", str(path))
        # Only the lowest bit of each byte is defined; the kernel leaves the others zero.
        return (len(pages) - pages.raw.count(b"\0")) * mmap.PAGESIZE
    finally:
        libc.munmap(address, size)


def _drop_caches() -> bool:
    """Ask the kernel to drop its page cache, dentries and inodes; False when not permitted."""
    try:
        _DROP_CACHES.write_text("3\n")
    except OSError:
        return False
    return True


def _give_up(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        # The advice passes over dirty pages.
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
