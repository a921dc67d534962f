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
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psycopg

from lookahead.cold import check_direct_reads
from lookahead.device.block_device import find_block_device
from lookahead.device.counters import parse_diskstats
from lookahead.device.probe.fio import Target
from lookahead.errors import LabError, UnavailableError, UsageError
from lookahead.formats import require_text
from lookahead.guarded_connection import connect_guarded, shown_error
from lookahead.safe_files import make_nameless

# Of the time in which the device has any request; more than a quiet server's checkpointer.
MAX_BUSY_PERCENT = 20.0
_LOOK_SECONDS = 1.0
_STANDBY_FILES = ("standby.signal", "recovery.signal")
_DSN_HINT = "Name the server with --dsn, or set PGHOST, PGPORT, PGUSER and PGDATABASE."

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
    require_text(dsn or "", "--dsn")
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
    try:
        with connect_guarded(dsn, "lookahead probe") as connection:
            state = connection.execute(_STATE).fetchone()
            found = connection.execute(_LOCATION, [name]).fetchone()
    except psycopg.ProgrammingError:
        # libpq's own words would quote the string.
        raise UsageError("--dsn is no connection string", _DSN_HINT) from None
    except psycopg.OperationalError as error:
        text = shown_error(dsn, error).splitlines()[0]
        raise UnavailableError(f"cannot connect: {text}", _DSN_HINT) from None
    except psycopg.errors.InsufficientPrivilege as error:
        raise UnavailableError(
            f"the server does not say where the tablespace is: {error.diag.message_primary}",
            "Connect as a member of pg_monitor.",
        ) from None
    assert state is not None
    return state, found


def busy_objection(folder: Path) -> str | None:
    """What the kernel says of the device's load within a second; None when it is low or unknown."""
    device = find_block_device(folder)
    if device is None:
        return None
    before = parse_diskstats(Path("/proc/diskstats").read_text(), device.name)
    started = time.monotonic()
    time.sleep(_LOOK_SECONDS)
    after = parse_diskstats(Path("/proc/diskstats").read_text(), device.name)
    if before is None or after is None:
        return None
    busy_ms = after.busy_ms - before.busy_ms
    percent = min(100.0, busy_ms / 10 / (time.monotonic() - started))
    if percent <= MAX_BUSY_PERCENT:
        return None
    return f"{device.name} is busy {percent:.0f} % of the time"


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
        with ExitStack() as cleanup:
            cleanup.callback(self._close)
            try:
                check_direct_reads(self.folder)
                self._descriptor = make_nameless(self.folder)
                self._fill()
            except OSError as error:
                raise self._cannot_write(error) from None
            cleanup.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def evict(self) -> None:
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

    def _cannot_write(self, error: OSError) -> LabError:
        message = f'cannot write to "{self.folder}": {error.strerror}'
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return UnavailableError(message, "Name a folder that you may write to.")
        return LabError(message, "Make room or name another folder.")

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
        raise UnavailableError(
            f'"{folder}" has {free_mb} MB free, and the probe takes a tenth of it at most',
            f"Make room, or name a smaller file with --size (at least {MIN_BYTES // 2**20}MB).",
        )
    return size
