"""Data that are read cold: where they can be, how caches are emptied, and the proof.

A place is looked at before anything is made there: a run that takes hours should not find out at
its first measurement that its files stay in memory.

To empty the operating system's cache of a stopped server's files, every file is written out and
given up one by one, so that nothing else on the machine notices. How much of the files stays
resident is counted with mincore(2) before and after; the evidence goes into the result.
"""

import ctypes
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lookahead.account import acting_as_owner
from lookahead.device.block_device import mount_of
from lookahead.errors import LabError, UnavailableError
from lookahead.extension import find_checkout
from lookahead.measurements import ColdRecord
from lookahead.safe_files import make_nameless, own_place

_MAP_FAILED = ctypes.c_void_p(-1).value
# A stopped server's files can be dropped to the last page; a hundredth is an arbitrary allowance
# for pages that something else on the machine (a backup, a virus scanner) reads meanwhile.
_COLD_SHARE = 0.01
# A page that something else reads at that moment stays; the next time it goes. Arbitrary.
_ATTEMPTS = 3
# A data directory without tables and its first WAL (0.12 GB), copies of server programs (0.05 GB).
SERVER_BYTES = 200_000_000
_IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
_VAR_TMP = Path("/var/tmp")  # a disk, by the Filesystem Hierarchy Standard
_TRIAL_BYTES = 2**20


def cold_record(method: str, before: int, after: int, files: int, total_bytes: int) -> ColdRecord:
    """Cold is when at most 1 % of the bytes stayed in the cache (never so on a tmpfs)."""
    return ColdRecord(method, before, after, files, total_bytes, after <= total_bytes * _COLD_SHARE)


def make_cold(directory: Path) -> ColdRecord:
    """Empty the cache of all files below `directory`, tablespaces included.

    The server on the folder must be stopped: pages that it writes afterwards are cached again.
    Raises OSError when a file cannot be opened or written out. Links are followed, so files are
    looked at with no other rights than those of the folder's owner.
    """
    with acting_as_owner(directory):
        files = [path for path in data_files(directory) if path.stat().st_size > 0]
        before = sum(resident_bytes(path) for path in files)
        _forget_all(files)
        return cold_record(
            "dontneed",
            before,
            sum(resident_bytes(path) for path in files),
            len(files),
            sum(path.stat().st_size for path in files),
        )


def require_cold(directory: Path) -> ColdRecord:
    """Make the files below `directory` cold; LabError unless they are then."""
    try:
        evidence = make_cold(directory)
    except OSError as error:
        raise LabError(f"cannot make the data cold: {error}") from None
    if not evidence.is_cold:
        raise UnavailableError(
            f"the data cannot be made cold: {evidence.resident_bytes_after / 1e6:.1f} of "
            f"{evidence.total_bytes / 1e6:.1f} MB stay in memory",
            "Something else reads the files (a backup, a virus scanner), or their file system "
            "keeps them: name a folder on a local disk with --directory.",
        )
    return evidence


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
    with path.open("rb", buffering=0) as file:
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
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
    with path.open("rb", buffering=0) as file:
        os.fsync(file.fileno())  # the advice passes over dirty pages
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def choose_place() -> Path:
    """Where data go when no place was named: the temporary directory where that is on a disk.

    Else /var/tmp or the checkout's build folder. When none will do it is the temporary directory,
    which `check_place` then refuses.
    """
    temporary = Path(tempfile.gettempdir())
    checkout = find_checkout()
    build = [checkout / "build"] if checkout else []
    usable = (place for place in (temporary, _VAR_TMP, *build) if _is_usable(place))
    return next(usable, temporary)


def memory_file_system(place: Path) -> str | None:
    """The name of the file system, such as "tmpfs", if it has no disk; the place may not exist."""
    mount = mount_of(place)
    return mount.filesystem if mount is not None and mount.filesystem in _IN_MEMORY else None


def check_place(place: Path, needed_bytes: int) -> None:
    """LabError unless data can get cold in `place`, and a server with so many has room there.

    The place may not exist yet.
    """
    kind = memory_file_system(place)
    if kind is not None:
        raise UnavailableError(
            f'"{place}" is in memory ({kind}): what lies there is never cold',
            "Name a folder on a disk with --directory.",
        )
    check_space(place, needed_bytes + SERVER_BYTES)


def check_space(place: Path, needed_bytes: int) -> None:
    """LabError unless `needed_bytes` are free where `place` lies, or will lie."""
    folder = place.resolve()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise UnavailableError(
            f"the experiment needs {needed_bytes / 1e9:.1f} GB of disk space, "
            f'{free / 1e9:.1f} GB are free in "{place}"',
            "Make room, name another place with --directory, or take a smaller size "
            "(--demo, --quick).",
        )


def check_can_be_cold(folder: Path) -> None:
    """LabError unless a new file in an existing folder leaves the cache when it is given up."""
    try:
        with _trial_file(folder) as file:
            forget(file)
            left = resident_bytes(file)
    except OSError as error:
        raise UnavailableError(
            f'cannot write to "{folder}": {error.strerror}',
            "Make room or name another place with --directory.",
        ) from None
    if left:
        raise UnavailableError(
            f'files in "{folder}" cannot be made cold: {left // 1024} of '
            f"{_TRIAL_BYTES // 1024} kB written there stay in memory",
            "Name a folder on a local disk with --directory.",
        )


def check_direct_reads(folder: Path) -> None:
    """LabError unless files in an existing folder can be read past the cache.

    Raises OSError when none can be written there.
    """
    reason = f"{kind} is in memory" if (kind := memory_file_system(folder)) else _obstacle(folder)
    if reason:
        raise UnavailableError(
            f'no direct reads are possible in "{folder}": {reason}',
            "What is read through memory says nothing of a device; name a folder on a disk.",
        )


def _obstacle(folder: Path) -> str:
    """Why a file in the folder cannot be read past the cache; "" if it can."""
    with _trial_file(folder) as file:
        try:
            with (
                os.fdopen(os.open(file, os.O_RDONLY | os.O_DIRECT), "rb", buffering=0) as opened,
                mmap.mmap(-1, _TRIAL_BYTES) as buffer,  # aligned, as direct reads must be
            ):
                os.preadv(opened.fileno(), [buffer], 0)
        except OSError as error:
            return os.strerror(error.errno or 0)
    return ""


@contextmanager
def _trial_file(folder: Path) -> Iterator[Path]:
    """A file without a name, which is on the disk."""
    descriptor = make_nameless(folder)
    try:
        os.write(descriptor, bytes(_TRIAL_BYTES))
        os.fsync(descriptor)
        yield Path(f"/proc/{os.getpid()}/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _is_usable(place: Path) -> bool:
    """Whether it is a folder on a disk that we may write to, and as root keep what we make in."""
    if memory_file_system(place) or not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        return False
    try:
        own_place(place / "new")
    except LabError:
        return False
    return True
