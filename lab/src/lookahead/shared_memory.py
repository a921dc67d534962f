"""The shared memory that a killed server leaves behind.

A server that shuts down removes its segments, and one that starts on the same data directory
removes those of its predecessor. After a kill without another start they would stay until the
machine restarts.
"""

import ctypes
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_REMOVE = 0  # IPC_RMID


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
