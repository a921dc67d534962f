"""Where the data of an experiment go: on a disk, with room, where they can get cold.

All of it is looked at before anything is made there: a run that takes hours should not find out at
its first measurement that its files stay in memory.
"""

import mmap
import os
import shutil
import tempfile
from pathlib import Path

from lookahead.cold import forget, resident_bytes
from lookahead.device.block_device import find_mount
from lookahead.errors import ExitStatus, LabError
from lookahead.extension import find_checkout
from lookahead.safe_files import make_nameless, own_place

# A data directory without tables and its first WAL (0.12 GB), copies of server programs (0.05 GB).
SERVER_BYTES = 200_000_000
_IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
_VAR_TMP = Path("/var/tmp")  # a disk, by the Filesystem Hierarchy Standard
_TRIAL_BYTES = 2**20


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
    mount = find_mount(place.resolve(), Path("/proc/self/mountinfo").read_text())
    return mount.filesystem if mount is not None and mount.filesystem in _IN_MEMORY else None


def check_place(place: Path, needed_bytes: int) -> None:
    """LabError unless data can get cold in `place`, and a server with so many has room there.

    The place may not exist yet.
    """
    kind = memory_file_system(place)
    if kind is not None:
        raise LabError(
            f'"{place}" is in memory ({kind}): what lies there is never cold',
            "Name a folder on a disk with --directory.",
            status=ExitStatus.ENVIRONMENT,
        )
    check_space(place, needed_bytes + SERVER_BYTES)


def check_space(place: Path, needed_bytes: int) -> None:
    """LabError unless `needed_bytes` are free where `place` lies, or will lie."""
    folder = place.resolve()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise LabError(
            f"the experiment needs {_gigabytes(needed_bytes)} of disk space, "
            f'{_gigabytes(free)} are free in "{place}"',
            "Make room, name another place with --directory, or take a smaller size "
            "(--demo, --quick).",
            status=ExitStatus.ENVIRONMENT,
        )


def check_can_be_cold(folder: Path) -> None:
    """LabError unless a file in an existing folder leaves the cache when it is told to."""
    try:
        left = _left_in_cache(folder)
    except OSError as error:
        raise LabError(
            f'cannot write to "{folder}": {error.strerror}',
            "Make room or name another place with --directory.",
            status=ExitStatus.ENVIRONMENT,
        ) from None
    if left:
        raise LabError(
            f'files in "{folder}" cannot be made cold: {left // 1024} of '
            f"{_TRIAL_BYTES // 1024} kB written there stay in memory",
            "Name a folder on a local disk with --directory.",
            status=ExitStatus.ENVIRONMENT,
        )


def check_direct_reads(folder: Path) -> None:
    """LabError unless files in an existing folder can be read past the cache.

    Raises OSError when none can be written there.
    """
    kind = memory_file_system(folder)
    if kind is not None:
        raise _no_direct_reads(folder, f"{kind} is in memory")
    descriptor = make_nameless(folder)
    try:
        os.write(descriptor, bytes(mmap.PAGESIZE))
        os.fsync(descriptor)
        try:
            _read_directly(f"/proc/{os.getpid()}/fd/{descriptor}")
        except OSError as error:
            raise _no_direct_reads(folder, os.strerror(error.errno or 0)) from None
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


def _left_in_cache(folder: Path) -> int:
    """How many bytes of a new file stay in the cache when it is given up."""
    descriptor = make_nameless(folder)
    try:
        os.write(descriptor, bytes(_TRIAL_BYTES))
        file = Path(f"/proc/{os.getpid()}/fd/{descriptor}")
        forget(file)
        return resident_bytes(file)
    finally:
        os.close(descriptor)


def _read_directly(file: str) -> None:
    descriptor = os.open(file, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, mmap.PAGESIZE) as buffer:  # aligned, as direct reads must be
            os.preadv(descriptor, [buffer], 0)
    finally:
        os.close(descriptor)


def _no_direct_reads(folder: Path, reason: str) -> LabError:
    return LabError(
        f'no direct reads are possible in "{folder}": {reason}',
        "What is read through memory says nothing of a device; name a folder on a disk.",
        status=ExitStatus.ENVIRONMENT,
    )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
