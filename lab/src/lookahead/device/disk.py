"""What the kernel of this machine tells of a disk by its number: read-ahead, and what it is.

Of a server on another machine the number says nothing here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lookahead.device.block_device import whole_disk
from lookahead.machine import kernel_number, kernel_text

_DEVICES = Path("/sys/dev/block")
_CLOUD, _LOCAL = "a cloud volume", "a disk of the cloud's host"
# By what vendor and model of the disk begin with. What is not here may be anything.
_KINDS = {
    "Amazon Elastic Block Store": _CLOUD,
    "Amazon EC2 NVMe Instance Storage": _LOCAL,
    "Google PersistentDisk": _CLOUD,
    "Google EphemeralDisk": _LOCAL,
    "nvme_card-pd": _CLOUD,
    "nvme_card": _LOCAL,
    "MSFT NVMe Accelerator": _CLOUD,
    "Microsoft NVMe Direct Disk": _LOCAL,
    "DO Volume": _CLOUD,
    "HC Volume": _CLOUD,
    # A virtual machine does not see what these are made of.
    "Msft Virtual Disk": "a virtual disk, local or not",
    "QEMU": "a virtual disk, local or not",
    "0x1af4": "a virtual disk (virtio), local or not",
}


@dataclass(frozen=True)
class Disk:
    """`device` is "major:minor"; the rest is None where the kernel does not tell."""

    device: str
    read_ahead_kb: int | None
    model: str | None
    kind: str | None

    @property
    def text(self) -> str:
        ahead = "not known" if self.read_ahead_kb is None else f"{self.read_ahead_kb:,} kB"
        what = ": ".join(filter(None, (self.model, self.kind))) or "kind not known"
        return f"device {self.device}: OS read-ahead {ahead}, {what}"


def disks_of(devices: Iterable[str | None]) -> tuple[Disk, ...]:
    """Those of block devices of this machine; an anonymous one (major 0) has none."""
    numbers = {device for device in devices if device and not device.startswith("0:")}
    return tuple(_disk(number) for number in sorted(numbers))


def _disk(number: str) -> Disk:
    folder = whole_disk(_DEVICES / number)
    vendor, model = kernel_text(folder / "device/vendor"), kernel_text(folder / "device/model")
    names = (model or "", " ".join(filter(None, (vendor, model))))
    kinds = (
        kind for begin, kind in _KINDS.items() if any(name.startswith(begin) for name in names)
    )
    return Disk(number, kernel_number(folder, "queue/read_ahead_kb"), model, next(kinds, None))
