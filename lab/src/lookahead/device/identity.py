"""Names for this machine and for the device below a folder, as a device profile has them.

The extension makes the same names from the same sources (src/device/la_device_id.c), and takes a
profile only when they are equal; a test compares them.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from lookahead.errors import ExitStatus, LabError

_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SERIALS = ("dm/uuid", "md/uuid", "wwid", "device/wwid", "serial", "device/serial")
_MAX_SERIAL = 64
_MACHINE_ID_LENGTH = 32


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
        raise LabError(
            f'nothing tells the file system of "{folder}" from others',
            "Leave --profile out: the measurements are kept, but no profile can be made of them.",
            status=ExitStatus.ENVIRONMENT,
        )
    return DeviceId(major, minor, f"fs={filesystem:x}")


def _serial(device: Path) -> str:
    """The first of the kernel's names for the disk that the device is, or is a part of."""
    disk = device / ".." if (device / "partition").exists() else device
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
