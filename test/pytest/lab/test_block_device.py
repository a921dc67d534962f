"""Finding the file system below a folder, from recorded texts of mountinfo."""

from pathlib import Path

import pytest

from lookahead.device.block_device import find_block_device, find_mount

_MOUNTINFO = """\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:26 / /run rw,nosuid shared:12 - tmpfs tmpfs rw
41 22 0:40 /@data /srv/my\\040data rw,noatime shared:20 master:3 - btrfs /dev/vdb rw
44 22 0:50 / /mnt rw - overlay overlay rw,lowerdir=/a
45 22 254:17 / /mnt rw - xfs /dev/vdb1 rw
a line of another shape
"""


@pytest.mark.parametrize(
    ("path", "filesystem", "device"),
    [
        ("/var/lib", "ext4", "254:1"),
        ("/run/x", "tmpfs", "0:26"),
        ("/runfile", "ext4", "254:1"),
        ("/srv/my data/pg", "btrfs", "0:40"),
        ("/mnt/pg", "xfs", "254:17"),
    ],
)
def test_the_longest_and_last_mount_counts(path: str, filesystem: str, device: str) -> None:
    mount = find_mount(Path(path), _MOUNTINFO)
    assert mount is not None
    assert (mount.filesystem, mount.device) == (filesystem, device)


def test_nothing_mounted() -> None:
    assert find_mount(Path("/x"), "") is None


def test_proc_lies_on_no_block_device() -> None:
    assert find_block_device(Path("/proc/self")) is None
