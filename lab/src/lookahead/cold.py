"""Emptying the operating system's cache of a stopped server's files, and proving it.

Every file is written out and given up one by one, so that nothing else on the machine notices; only
when asked for does the kernel drop its whole page cache. How much of the files stays resident
is counted with mincore(2) before and after; the evidence goes into the result.
"""

import ctypes
import mmap
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lookahead.account import acting_as_owner
from lookahead.errors import ExitStatus, LabError

_DROP_CACHES = Path("/proc/sys/vm/drop_caches")
_MAP_FAILED = ctypes.c_void_p(-1).value
# A stopped server's files can be dropped to the last page; a hundredth is an arbitrary allowance
# for pages that something else on the machine (a backup, a virus scanner) reads meanwhile.
_COLD_SHARE = 0.01
# A page that something else reads at that moment stays; the next time it goes. Arbitrary.
_ATTEMPTS = 3


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


def make_cold(directory: Path, *, whole_machine: bool = False) -> ColdEvidence:
    """Empty the cache of all files below `directory`, tablespaces included.

    With `whole_machine` all caches of the machine are emptied, whoever they are for. The server on
    the folder must be stopped: pages that it writes afterwards are cached again. Raises OSError
    when a file cannot be opened or written out, or caches may not be dropped. Links are followed,
    so files are looked at with no other rights than those of the folder's owner.
    """
    with acting_as_owner(directory):
        files = [path for path in data_files(directory) if path.stat().st_size > 0]
        before = sum(resident_bytes(path) for path in files)
        if not whole_machine:
            _forget_all(files)
    if whole_machine:
        os.sync()
        _DROP_CACHES.write_text("3\n")  # page cache, dentries and inodes
    with acting_as_owner(directory):
        return ColdEvidence(
            method="drop_caches" if whole_machine else "dontneed",
            resident_bytes_before=before,
            resident_bytes_after=sum(resident_bytes(path) for path in files),
            files=len(files),
            total_bytes=sum(path.stat().st_size for path in files),
        )


def require_cold(empty_cache: Callable[[Path], ColdEvidence], directory: Path) -> ColdEvidence:
    """Have `empty_cache` make the files below `directory` cold; LabError unless they are then."""
    try:
        evidence = empty_cache(directory)
    except OSError as error:
        raise LabError(f"cannot make the data cold: {error}") from None
    if not evidence.is_cold:
        raise LabError(
            f"the data cannot be made cold: {evidence.resident_bytes_after / 1e6:.1f} of "
            f"{evidence.total_bytes / 1e6:.1f} MB stay in memory",
            "Something else reads the files (a backup, a virus scanner), or their file system "
            "keeps them: name a folder on a local disk with --directory.",
            status=ExitStatus.ENVIRONMENT,
        )
    return evidence


def check_drop_permitted() -> None:
    """LabError unless this process may empty all caches of the machine."""
    if not os.access(_DROP_CACHES, os.W_OK):
        raise LabError(
            "the caches of this machine may not be dropped",
            "Leave --drop-caches out: then the server's own files are made cold, which needs no "
            "root. With it, run as root, outside of a container.",
            status=ExitStatus.ENVIRONMENT,
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


def _forget_all(files: list[Path]) -> None:
    remaining = files
    for _ in range(_ATTEMPTS):
        for path in remaining:
            forget(path)
        remaining = [path for path in remaining if resident_bytes(path) > 0]


def forget(path: Path) -> None:
    """Write the file out, and have the operating system give its cache of it up."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        # The advice passes over dirty pages.
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
