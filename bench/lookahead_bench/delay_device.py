"""A disk of one's own whose reads take longer: a loop disk on a file in memory, served with delay.

    with DelayDevice(size_bytes, latency_us, folder) as device:
        ...  # device.disk is the folder of its file system

The file (delay_file.py) is mounted over an empty one. Needs root, FUSE and loop devices.
"""

import os
import subprocess
import sys
from pathlib import Path

from lookahead.errors import UnavailableError
from lookahead_bench import delay_file
from lookahead_bench.loop_disk import LoopDisk

# Program and Debian package.
_PROGRAMS = {"mount": "mount", "umount": "mount", "losetup": "mount", "mkfs.ext4": "e2fsprogs"}
# Left to everything else: the server's memory, the lab.
_SPARE_BYTES = 2**30


class DelayDevice(LoopDisk):
    """The device, made on entry; raises LabError where the machine does not permit it.

    `directory` is where its folder is made.
    """

    what = "delay device"
    needs = "FUSE and loop devices"

    def __init__(self, size_bytes: int, latency_us: int, directory: Path) -> None:
        super().__init__(size_bytes, directory)
        self.latency_us = latency_us
        self._server: subprocess.Popen[str] | None = None

    def _check_permitted(self) -> None:
        check_permitted(self.size_bytes)

    def _check_place(self, place: Path) -> None:
        """The content is in memory: any place will do."""

    def _make_file(self, file: Path) -> None:
        """A file whose content is in memory, served with delay."""
        file.touch()
        arguments = [str(self.size_bytes), str(self.latency_us), str(file)]
        self._server = subprocess.Popen(
            [sys.executable, "-I", "-S", delay_file.__file__, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd="/",
            start_new_session=True,
        )
        assert self._server.stdout is not None
        answer = self._server.stdout.readline().strip()
        if answer != "ready":
            raise self.not_permitted(f"a file cannot be served: {answer}")

    def _finish(self, *, left: bool) -> None:
        if self._server is not None:
            if left:
                self._server.kill()
            self._server.wait()
            if self._server.stdout is not None:
                self._server.stdout.close()


def check_permitted(size_bytes: int) -> None:
    """LabError unless this process may make a delay device of that size."""
    if os.geteuid() != 0:
        raise UnavailableError(
            "a delay device needs root: it mounts a file system",
            "Run the command as root; the server itself runs under an unprivileged account.",
        )
    for program, package in _PROGRAMS.items():
        if not _has_program(program):
            raise UnavailableError(
                f"{program} is missing: a delay device cannot be made", f"apt install {package}"
            )
    for place, what in ((Path("/dev/fuse"), "FUSE"), (Path("/dev/loop-control"), "loop devices")):
        if not place.exists():
            raise DelayDevice(size_bytes, 0, Path()).not_permitted(
                f"the kernel offers no {what} here ({place} is missing)"
            )
    available = available_memory_bytes()
    if available < size_bytes + _SPARE_BYTES:
        raise UnavailableError(
            f"the delay device needs {size_bytes / 1e9:.1f} GB of memory beside 1 GB for all else, "
            f"{available / 1e9:.1f} GB are available",
            "Take a smaller size (--demo, --quick).",
        )


def available_memory_bytes() -> int:
    """What the kernel says is available without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def _has_program(name: str) -> bool:
    # Also where an unprivileged PATH does not lead.
    folders = [*os.environ.get("PATH", os.defpath).split(":"), "/sbin", "/usr/sbin"]
    return any(os.access(Path(folder) / name, os.X_OK) for folder in folders if folder)
