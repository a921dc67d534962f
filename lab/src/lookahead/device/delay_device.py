"""A disk of one's own whose reads take longer: memory, a file served with delay, a loop device.

    with DelayDevice(size_bytes, latency_us, folder) as device:
        ...  # device.disk is the folder of its file system

    FOLDER/served    the file of delay_file.py, mounted over an empty one
    FOLDER/disk      the file system on the loop device of that file

Needs root, FUSE and loop devices. It is taken apart with the process that made it, whichever way
that ends (delay_janitor.py).
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from lookahead.account import own_account
from lookahead.device import delay_file, delay_janitor
from lookahead.errors import ExitStatus, LabError, last_lines
from lookahead.janitor_process import JanitorProcess

# Program and Debian package.
_PROGRAMS = {
    "mount": "mount",
    "umount": "mount",
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
}
# Left to everything else: the server's memory, the lab.
_SPARE_BYTES = 2**30


class DelayDevice:
    """The device, made on entry; raises LabError where the machine does not permit it.

    `directory` is where its folder is made (None: the temporary directory).
    """

    def __init__(self, size_bytes: int, latency_us: int, directory: Path | None = None) -> None:
        self.size_bytes = size_bytes
        self.latency_us = latency_us
        self._directory = directory
        self._folder = Path()
        self._loop: Path | None = None
        self._janitor: JanitorProcess | None = None
        self._server: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        check_permitted(self.size_bytes)
        try:
            if self._directory is not None:
                self._directory.mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix="lookahead-delay-", dir=self._directory))
        except OSError as error:
            raise LabError(
                f"cannot make a folder for the delay device: {error}",
                "Name another place with --directory.",
                status=ExitStatus.ENVIRONMENT,
            ) from None
        self._folder.chmod(0o755)  # the server's account passes through
        self._janitor = JanitorProcess(delay_janitor.__file__, self._folder)
        try:
            self._serve_file()
            self._attach_loop()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()

    @property
    def loop(self) -> Path:
        """The loop device."""
        assert self._loop is not None
        return self._loop

    @property
    def disk(self) -> Path:
        """Where its file system is mounted."""
        return self._folder / delay_janitor.DISK

    def make_file_system(self) -> None:
        """An ext4 on the device, mounted."""
        self.disk.mkdir()
        # Everything is written at once rather than behind the server's back later.
        self._run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,nodiscard", str(self.loop))
        self._run("mount", str(self.loop), str(self.disk))
        self.disk.chmod(0o755)

    def _serve_file(self) -> None:
        served = self._folder / delay_janitor.SERVED_FILE
        served.touch()
        arguments = [str(self.size_bytes), str(self.latency_us), str(served)]
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
            raise _not_permitted(f"a file cannot be served: {answer}")

    def _attach_loop(self) -> None:
        served = self._folder / delay_janitor.SERVED_FILE
        # Direct: past the page cache of the file, and several requests at a time.
        done = self._run("losetup", "--find", "--show", "--direct-io=on", str(served))
        self._loop = Path(done.stdout.strip())
        direct = Path("/sys/block") / self._loop.name / "loop/dio"
        if direct.read_text().strip() != "1":
            raise _not_permitted("the loop device does not take direct I/O")

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        done = own_account().run(command)
        if done.returncode != 0:
            raise _not_permitted(f"{command[0]} fails:\n{last_lines(done.stderr)}")
        return done

    def _close(self) -> None:
        """Have the janitor take everything apart; LabError when something stays behind."""
        assert self._janitor is not None
        left = not self._janitor.finish()
        if self._server is not None:
            if left:
                self._server.kill()
            self._server.wait()
            if self._server.stdout is not None:
                self._server.stdout.close()
        if left:
            raise LabError(
                f'the delay device in "{self._folder}" could not be taken apart',
                "Look for processes that still use it, then: umount, losetup -d.",
            )


def check_permitted(size_bytes: int) -> None:
    """LabError unless this process may make a delay device of that size."""
    if os.geteuid() != 0:
        raise LabError(
            "a delay device needs root: it mounts a file system",
            "Run the command as root; the server itself runs under an unprivileged account.",
            status=ExitStatus.ENVIRONMENT,
        )
    for program, package in _PROGRAMS.items():
        if not _has_program(program):
            raise LabError(
                f"{program} is missing: a delay device cannot be made",
                f"apt install {package}",
                status=ExitStatus.ENVIRONMENT,
            )
    for place, what in ((Path("/dev/fuse"), "FUSE"), (Path("/dev/loop-control"), "loop devices")):
        if not place.exists():
            raise _not_permitted(f"the kernel offers no {what} here ({place} is missing)")
    available = available_memory_bytes()
    if available < size_bytes + _SPARE_BYTES:
        raise LabError(
            f"the delay device needs {size_bytes / 1e9:.1f} GB of memory beside 1 GB for all else, "
            f"{available / 1e9:.1f} GB are available",
            "Take a smaller size (--demo, --quick).",
            status=ExitStatus.ENVIRONMENT,
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


def _not_permitted(reason: str) -> LabError:
    return LabError(
        f"a delay device cannot be made: {reason}",
        "It takes FUSE and loop devices, which containers often lack: use a machine of your own.",
        status=ExitStatus.ENVIRONMENT,
    )
