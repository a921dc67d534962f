"""Which block device a folder lies on, and the names that tell it and this machine from others.

The kernel counts requests per block device (/proc/diskstats: the partition or the mapped volume
that carries the file system) but keeps read-ahead and scheduler per queue, which belongs to the
whole disk (/sys/block/DISK/queue). A folder can also lie on no block device of its own: tmpfs,
network file systems, a container's overlay. Then there is nothing to sample or to set.

The names are those of device profiles. The extension makes the same ones from the same sources
(src/device/la_device_id.c), and takes a profile only when they are equal; a test compares them.
"""

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lookahead.errors import UnavailableError

_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SERIALS = ("dm/uuid", "md/uuid", "wwid", "device/wwid", "serial", "device/serial")
_MAX_SERIAL = 64
_MACHINE_ID_LENGTH = 32


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


def mount_of(path: Path) -> Mount | None:
    """The mount that `path` lies on; it may not exist yet."""
    return find_mount(path.resolve(), Path("/proc/self/mountinfo").read_text())


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
    mount = mount_of(path)
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
    return BlockDevice(link.resolve().name, whole_disk(link).name)


def whole_disk(device: Path) -> Path:
    """The kernel's folder of the disk that a device, by the kernel's folder, is or is a part of."""
    folder = device.resolve()
    return folder.parent if (folder / "partition").exists() else folder


@dataclass(frozen=True)
class DeviceId:
    """A device: its number as the kernel has it, and what tells it from others."""

    major: int
    minor: int
    identity: str

    def matches(self, other: "DeviceId") -> bool:
        """Whether both are one device; anonymous numbers (major 0) are given anew at each mount."""
        if self.identity != other.identity or self.major != other.major:
            return False
        return self.major == 0 or self.minor == other.minor


def machine_name() -> str:
    """The name of this machine: a hash, since machine-id(5) wants its id kept confidential.

    Without a machine id, as in a container, it holds until the system starts again.
    """
    for path in _MACHINE_IDS:
        text = _first_line(path)
        if len(text) == _MACHINE_ID_LENGTH:
            return f"id-{_hash(text)}"
    return f"boot-{_hash(_first_line(_BOOT_ID))}"


def device_of(folder: Path) -> DeviceId:
    """The device below an existing folder; LabError when nothing identifies it."""
    number = folder.stat().st_dev
    filesystem = os.statvfs(folder).f_fsid
    major, minor = os.major(number), os.minor(number)
    device = Path(f"/sys/dev/block/{major}:{minor}")
    sectors = _plain(_first_line(device / "size"))
    if major != 0 and sectors:
        identity = f"fs={filesystem:x};sectors={sectors[:20]};serial={_serial(device)}"
        return DeviceId(major, minor, identity)
    if filesystem == 0:
        raise UnavailableError(
            f'nothing tells the file system of "{folder}" from others',
            "Leave --profile out: the measurements are kept, but no profile can be made of them.",
        )
    return DeviceId(major, minor, f"fs={filesystem:x}")


def _serial(device: Path) -> str:
    """The first of the kernel's names for the disk that the device is, or is a part of."""
    disk = whole_disk(device)
    texts = (_plain(_first_line(disk / name))[:_MAX_SERIAL] for name in _SERIALS)
    return next((text for text in texts if text), "")


def _hash(text: str) -> str:
    return hashlib.sha256(b"pg_lookahead:" + text.encode()).hexdigest()[:_MACHINE_ID_LENGTH]


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "", text)


def _first_line(path: Path) -> str:
    """The first line of a small file of the kernel, "" when there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(255)
    except OSError:
        return ""
    return data.partition(b"\n")[0].decode("ascii", "replace")


def _unescape(text: str) -> str:
    """The kernel writes blank, tab, newline and backslash as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
