"""Limits how many reads a second, and how many bytes, chosen processes get from a disk.

    with Throttle(device, reads_per_s, bytes_per_s) as throttle:
        throttle.add(processes)

By a control group of our own, of version 1 (blkio) or 2 (io), which needs root. The kernel counts
a request as one, however large it is, after neighbours were merged.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from lookahead.device.block_device import BlockDevice, parse_mountinfo
from lookahead.errors import LabError, UnavailableError

_MOUNTINFO = Path("/proc/self/mountinfo")
_SYS_BLOCK = Path("/sys/block")
# Of the group's name; the id of our process follows.
_PREFIX = "lookahead-"


class Throttle:
    """The control group, made on entry and removed on exit; LabError where that is not permitted.

    `mountinfo` and `sys_block` are replaced in tests.
    """

    def __init__(
        self,
        device: BlockDevice,
        reads_per_s: int,
        bytes_per_s: int,
        *,
        mountinfo: Path = _MOUNTINFO,
        sys_block: Path = _SYS_BLOCK,
    ) -> None:
        self._disk = device.disk
        self._reads_per_s = reads_per_s
        self._bytes_per_s = bytes_per_s
        self._mountinfo = mountinfo
        self._sys_block = sys_block
        self._group: Path | None = None
        self._parent = Path()

    def __enter__(self) -> Self:
        version, self._parent = _hierarchy(self._mountinfo.read_text())
        _remove_abandoned(self._parent)
        group = self._parent / f"{_PREFIX}{os.getpid()}"
        try:
            number = (self._sys_block / self._disk / "dev").read_text().strip()
            if version == 2:
                # Without this line the group would have no file io.max.
                (self._parent / "cgroup.subtree_control").write_text("+io")
            group.mkdir()
            self._group = group
            for name, limit in self._limits(version, number):
                (group / name).write_text(limit)
        except OSError as error:
            self._remove()
            raise _not_permitted(f"{error.strerror}: {error.filename}") from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._remove()

    def add(self, processes: Iterable[int]) -> None:
        """Throttle these processes, and those that they start from now on."""
        assert self._group is not None
        for process in processes:
            _move(process, self._group)

    def _limits(self, version: int, number: str) -> Iterable[tuple[str, str]]:
        if version == 2:
            return (("io.max", f"{number} rbps={self._bytes_per_s} riops={self._reads_per_s}"),)
        return (
            ("blkio.throttle.read_iops_device", f"{number} {self._reads_per_s}"),
            ("blkio.throttle.read_bps_device", f"{number} {self._bytes_per_s}"),
        )

    def _remove(self) -> None:
        """Give back what still lives, and remove the group."""
        group, self._group = self._group, None
        if group is None:
            return
        with suppress(OSError):
            for line in (group / "cgroup.procs").read_text().split():
                _move(int(line), self._parent)
        with suppress(OSError):
            group.rmdir()


def _remove_abandoned(parent: Path) -> None:
    """Remove the empty groups that labs left when they were killed."""
    for group in parent.glob(f"{_PREFIX}*"):
        if not Path("/proc", group.name.removeprefix(_PREFIX)).exists():
            with suppress(OSError):
                group.rmdir()


def _move(process: int, group: Path) -> None:
    try:
        (group / "cgroup.procs").write_text(str(process))
    except ProcessLookupError:  # it has ended meanwhile
        pass
    except OSError as error:
        raise _not_permitted(f"a process cannot be moved: {error.strerror}") from None


def _hierarchy(mountinfo: str) -> tuple[int, Path]:
    """Version and mount point of the hierarchy that limits reads; LabError when there is none."""
    mounts = list(parse_mountinfo(mountinfo))
    for mount in mounts:
        # Of version 1 each controller has a mount, whose last part names it.
        if mount.filesystem == "cgroup" and "blkio" in mount.mount_point.name.split(","):
            return 1, mount.mount_point
    for mount in mounts:
        controllers = mount.mount_point / "cgroup.controllers"
        with suppress(OSError):
            if mount.filesystem == "cgroup2" and "io" in controllers.read_text().split():
                return 2, mount.mount_point
    raise _not_permitted("no control group hierarchy that limits I/O is mounted")


def _not_permitted(reason: str) -> LabError:
    return UnavailableError(
        f"the disk cannot be throttled: {reason}",
        "It takes root and control groups with I/O limits, which containers often lack: "
        "use a machine of your own.",
    )
