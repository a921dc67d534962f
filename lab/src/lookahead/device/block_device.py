"""Which block device a folder lies on.

The kernel counts requests per block device (/proc/diskstats: the partition or the mapped volume
that carries the file system) but keeps read-ahead and scheduler per queue, which belongs to the
whole disk (/sys/block/DISK/queue). A folder can also lie on no block device of its own: tmpfs,
network file systems, a container's overlay. Then there is nothing to sample or to set.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mount:
    """One line of /proc/self/mountinfo. `device` is "major:minor", `source` what was mounted."""

    device: str
    mount_point: Path
    filesystem: str
    source: str
    options: str


@dataclass(frozen=True)
class BlockDevice:
    """A block device: `name` as in /proc/diskstats, `disk` the owner of its queue."""

    name: str
    disk: str

    @property
    def queue(self) -> Path:
        """The kernel's folder of the queue's settings."""
        return Path("/sys/block") / self.disk / "queue"


def find_mount(path: Path, mountinfo: str) -> Mount | None:
    """The mount that `path` (absolute, resolved) lies on, from the text of mountinfo.

    Of several mounts on one point the last is the visible one.
    """
    mounts = [
        mount for mount in parse_mountinfo(mountinfo) if path.is_relative_to(mount.mount_point)
    ]
    longest = max((len(mount.mount_point.parts) for mount in mounts), default=0)
    covering = [mount for mount in mounts if len(mount.mount_point.parts) == longest]
    return covering[-1] if covering else None


def parse_mountinfo(text: str) -> Iterable[Mount]:
    """All mounts; lines of another shape than the kernel documents are passed over."""
    for line in text.splitlines():
        fields, separator, rest = line.partition(" - ")
        left, right = fields.split(), rest.split()
        if not separator or len(left) < 6 or len(right) < 2:
            continue
        yield Mount(left[2], Path(_unescape(left[4])), right[0], _unescape(right[1]), left[5])


def find_block_device(path: Path) -> BlockDevice | None:
    """The device below an existing folder, or None when there is none to be seen."""
    resolved = path.resolve()
    mount = find_mount(resolved, Path("/proc/self/mountinfo").read_text())
    if mount is None:
        return None
    number = mount.device
    if number.startswith("0:"):
        # An anonymous device (btrfs, overlay): what was mounted may still name a block device.
        source = Path(mount.source)
        if not source.is_block_device():
            return None
        status = source.stat()
        number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    link = Path("/sys/dev/block") / number
    if not link.exists():
        return None
    folder = link.resolve()
    disk = folder.parent if (folder / "partition").exists() else folder
    return BlockDevice(folder.name, disk.name)


def _unescape(text: str) -> str:
    """The kernel writes blank, tab, newline and backslash as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
