"""A private server that is killed as a power cut would, and what such a server leaves.

Its shared memory would stay until the machine restarts, unless another server starts on the same
data directory.
"""

import ctypes
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lookahead.account import acting_as_owner
from lookahead.errors import LabError
from lookahead.janitor import processes_in, send, wait_until_none
from lookahead.server import PrivateServer, StopMode

_REMOVE = 0  # IPC_RMID
# After kill -9 of the postmaster its children end by themselves as soon as they wait for
# anything; one that only computes does not notice. Arbitrary.
_ORPHAN_SECONDS = 5.0


@dataclass(frozen=True)
class Leftovers:
    """Segments that running processes have mapped: System V ids, and files of POSIX memory."""

    segments: frozenset[int] = frozenset()
    files: frozenset[Path] = frozenset()

    @classmethod
    def of(cls, processes: list[int]) -> Self:
        """What the given server processes have mapped now."""
        segments: set[int] = set()
        files: set[Path] = set()
        for process in processes:
            for line in _maps(process):
                # address, mode, offset, device, inode, path; the inode of a System V segment
                # is its id
                *_, inode, path = line.split(maxsplit=5)
                if path.startswith("/SYSV"):
                    segments.add(int(inode))
                elif path.startswith("/dev/shm/PostgreSQL."):
                    files.add(Path(path.removesuffix(" (deleted)")))
        return cls(frozenset(segments), frozenset(files))

    def remove(self) -> None:
        """Remove them, except those that are gone already or another account's."""
        for file in self.files:
            with suppress(FileNotFoundError, PermissionError):
                file.unlink()
        libc = ctypes.CDLL(None, use_errno=True)
        for segment in self.segments:
            libc.shmctl(segment, _REMOVE, None)


def _maps(process: int) -> list[str]:
    try:
        lines = Path(f"/proc/{process}/maps").read_text().splitlines()
    except OSError:  # it has just ended
        return []
    return [line for line in lines if len(line.split(maxsplit=5)) == 6]


class CrashingServer(PrivateServer):
    """A private server that can be killed."""

    _leftovers = Leftovers()

    def crash(self) -> None:
        """Kill the postmaster as a power cut would, and wait until all its children are gone."""
        process = self._running()
        self._leftovers = Leftovers.of(processes_in(self.directory, self.bindir))
        process.kill()
        process.wait()
        self._process = None
        if wait_until_none(self.directory, self.bindir, _ORPHAN_SECONDS):
            return
        for orphan in processes_in(self.directory, self.bindir):
            send(orphan, signal.SIGKILL)
        if not wait_until_none(self.directory, self.bindir, self.stop_timeout_seconds):
            raise LabError("children of the killed server do not end")

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        super().start(settings)
        self._leftovers = Leftovers()  # a start takes over, or removes, what a crash left

    def close(self, mode: StopMode = "fast") -> None:
        if self._leftovers != Leftovers():
            # Their names are those that processes of the account gave them.
            with acting_as_owner(self.data_directory):
                self._leftovers.remove()
            self._leftovers = Leftovers()
        super().close(mode)
