"""Where to probe, whether one should, and the file that is read there.

The place is a folder named by the user, or that of a tablespace. A probe keeps the device busy for
a minute: what would suffer from that is looked for before, requests of others at the device,
sessions at work, a standby that has to keep up.

The file is of random bytes, without a name: made with O_TMPFILE or unlinked at once, so the kernel
frees it with the last descriptor, in whatever way the probe ends. Random bytes are neither
compressed nor deduplicated below us.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from lookahead.cold import check_direct_reads
from lookahead.device.block_device import find_block_device
from lookahead.device.counters import IoMeter
from lookahead.device.probe.fio import Target
from lookahead.errors import LabError, UnavailableError, UsageError
from lookahead.formats import require_text
from lookahead.guarded_connection import asking, server_message
from lookahead.safe_files import make_nameless

# Of the time in which the device has any request; more than a quiet server's checkpointer.
MAX_BUSY_PERCENT = 20.0
_LOOK_SECONDS = 1.0
_STANDBY_FILES = ("standby.signal", "recovery.signal")

_STATE = """
SELECT pg_catalog.pg_is_in_recovery(),
       pg_catalog.inet_server_addr() IS DISTINCT FROM pg_catalog.inet_client_addr(),
       (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity
        WHERE backend_type = 'client backend' AND pid <> pg_catalog.pg_backend_pid()
          AND (state IS NULL OR state NOT LIKE 'idle%%'))
"""
_LOCATION = """
SELECT CASE WHEN spcname IN ('pg_default', 'pg_global')
            THEN pg_catalog.current_setting('data_directory') || '/base'
            ELSE pg_catalog.pg_tablespace_location(oid) END
FROM pg_catalog.pg_tablespace WHERE spcname = %s
"""
MIN_BYTES = 64 * 2**20
# The share of the free space that the file may take: a probe must not fill a server's disk.
FREE_SHARE = 10
_CHUNK_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Place:
    """The folder to probe, and why one should not (a hint for each; empty: nothing against it)."""

    folder: Path
    objections: tuple[str, ...]


def named_folder(folder: Path) -> Place:
    """A folder that the user has named; LabError when it is none."""
    resolved = _resolved(folder)
    standby = [
        parent
        for parent in (resolved, *resolved.parents)
        if any(_is_there(parent / name) for name in _STANDBY_FILES)
    ]
    return Place(resolved, ("it is in the data directory of a standby",) if standby else ())


def tablespace_folder(name: str, dsn: str | None) -> Place:
    """The folder of a tablespace of the server that libpq's rules or `dsn` lead to."""
    require_text(name, "the tablespace's name")
    state, found = _ask(name, dsn or "")
    if found is None:
        raise UsageError(
            f'there is no tablespace "{name}"', "SELECT spcname FROM pg_tablespace lists them."
        )
    in_recovery, is_remote, active = state
    folder = Path(found[0])
    if is_remote or not _is_there(folder):
        raise UnavailableError(
            f'the folder of tablespace "{name}" is not on this machine, or not accessible',
            "Run the probe on the server, as the server's account or as root.",
        )
    resolved = _resolved(folder)
    objections = []
    if in_recovery:
        objections.append("the server is a standby")
    if active:
        objections.append(f"sessions at work on the server: {active}")
    return Place(resolved, tuple(objections))


def _ask(name: str, dsn: str) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
    """The server's state, and the tablespace's location, None where there is none."""
    with asking(dsn, "lookahead probe", "the server does not answer as expected") as connection:
        state = connection.execute(_STATE).fetchone()
        assert state is not None
        try:
            return state, connection.execute(_LOCATION, [name]).fetchone()
        except psycopg.errors.InsufficientPrivilege as error:
            raise UnavailableError(
                f"the server does not say where the tablespace is: {server_message(error)}",
                "Connect as a member of pg_monitor.",
            ) from None


def busy_objection(folder: Path) -> str | None:
    """What the kernel says of the device's load within a second; None when it is low or unknown."""
    device = find_block_device(folder)
    if device is None:
        return None
    try:
        with IoMeter(device.name) as meter:
            time.sleep(_LOOK_SECONDS)
    except ValueError:
        return None
    if meter.rates.util_percent <= MAX_BUSY_PERCENT:
        return None
    return f"{device.name} is busy {meter.rates.util_percent:.0f} % of the time"


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _resolved(folder: Path) -> Path:
    """Without links; LabError when it is no folder."""
    try:
        mode = folder.stat().st_mode
        resolved = folder.resolve()
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        error_class = UsageError if is_missing else UnavailableError
        raise error_class(
            f'cannot look at "{folder}": {error.strerror}',
            "Name an existing folder on the device to measure.",
        ) from None
    if not stat.S_ISDIR(mode):
        kind = "a block device" if stat.S_ISBLK(mode) else "no folder"
        raise UsageError(
            f'"{folder}" is {kind}',
            "Name a folder on a file system of the device: the probe makes a file of its own "
            "there, and never touches a device.",
        )
    return resolved


@contextmanager
def filled_file(
    folder: Path, size_bytes: int, rate_bytes_per_s: float = 0.0
) -> Iterator[tuple[Target, int]]:
    """What our children can open, while the file is there, filled and on the device; and our
    descriptor.

    `rate_bytes_per_s` limits the writing (0: no limit).
    """
    with _write_errors(folder):
        check_direct_reads(folder)
        descriptor = make_nameless(folder)
    try:
        with _write_errors(folder):
            _fill(descriptor, size_bytes, rate_bytes_per_s)
        yield Target(Path(f"/proc/{os.getpid()}/fd/{descriptor}"), size_bytes), descriptor
    finally:
        os.close(descriptor)


def _fill(descriptor: int, size_bytes: int, rate_bytes_per_s: float) -> None:
    started, written = time.monotonic(), 0
    while written < size_bytes:
        chunk = os.urandom(min(_CHUNK_BYTES, size_bytes - written))
        written += os.write(descriptor, chunk)
        if rate_bytes_per_s:
            time.sleep(max(0.0, started + written / rate_bytes_per_s - time.monotonic()))
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def _write_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f'cannot write to "{folder}": {error.strerror}'
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise UnavailableError(message, "Name a folder that you may write to.") from None
        raise LabError(message, "Make room or name another folder.") from None


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
        raise UnavailableError(
            f'"{folder}" has {free_mb} MB free, and the probe takes a tenth of it at most',
            f"Make room, or name a smaller file with --size (at least {MIN_BYTES // 2**20}MB).",
        )
    return size
