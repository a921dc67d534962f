"""A disk of one's own: a file on another disk, a loop device that reads it directly, ext4.

    with LoopDisk(size_bytes, folder) as disk:
        disk.make_file_system()
        ...  # disk.disk is the folder of its file system

    FOLDER/served    the file
    FOLDER/disk      the file system on the loop device of that file

Its settings, such as the read-ahead, are ours to change, where those of the machine's disk may not
be touched. Needs root and loop devices. It is taken apart with the process that made it, whichever
way that ends (loop_janitor.py).
"""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from lookahead.account import own_account
from lookahead.cold import SERVER_BYTES, check_direct_reads, check_space
from lookahead.errors import LabError, UnavailableError, last_lines
from lookahead.janitor import JanitorProcess
from lookahead.safe_files import own_place
from lookahead_bench import loop_janitor
from lookahead_bench.loop_janitor import DISK, SERVED_FILE


def disk_bytes(needed_bytes: int) -> int:
    """How large a disk must be for a server that needs so much beside its data directory.

    Of ext4 1.6 % are inodes, and the journal of one of some GB is 128 MB; with some allowance.
    """
    return int(1.03 * (needed_bytes + SERVER_BYTES)) + 200_000_000


class BenchJanitor(JanitorProcess):
    """A janitor of the bench."""

    program = loop_janitor.__file__


class LoopDisk:
    """The disk, made on entry; raises LabError where the machine does not permit it.

    `directory` is where its folder is made.
    """

    what = "loop disk"
    needs = "loop devices"

    def __init__(self, size_bytes: int, directory: Path) -> None:
        self.size_bytes = size_bytes
        self._directory = directory
        self._folder = Path()
        self._loop: Path | None = None
        self._janitor: JanitorProcess | None = None

    def __enter__(self) -> Self:
        self._check_permitted()
        place = own_place(self._directory / "new").parent
        try:
            place.mkdir(parents=True, exist_ok=True)
            self._check_place(place)
            prefix = f"lookahead-{self.what.split()[0]}-"
            self._folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        except OSError as error:
            raise UnavailableError(
                f"cannot make a folder for the {self.what}: {error}",
                "Name another place with --directory.",
            ) from None
        self._folder.chmod(0o755)  # the server's account passes through
        self._janitor = BenchJanitor("loop-disk", self._folder)
        try:
            self._make_file(self._folder / SERVED_FILE)
            self._attach_loop()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    @property
    def loop(self) -> Path:
        """The loop device."""
        assert self._loop is not None
        return self._loop

    @property
    def disk(self) -> Path:
        """Where its file system is mounted."""
        return self._folder / DISK

    def make_file_system(self) -> None:
        """An ext4 on the device, mounted."""
        self.disk.mkdir()
        # Everything is written at once rather than behind the server's back later.
        options = ("-m", "0", "-E", "lazy_itable_init=0,nodiscard")  # no share kept for root
        self._run("mkfs.ext4", "-q", *options, str(self.loop))
        self._run("mount", str(self.loop), str(self.disk))
        self.disk.chmod(0o755)

    def not_permitted(self, reason: str) -> LabError:
        """The error that says why there can be none here."""
        return UnavailableError(
            f"a {self.what} cannot be made: {reason}",
            f"It takes {self.needs}, which containers often lack: use a machine of your own.",
        )

    def _check_permitted(self) -> None:
        if os.geteuid() != 0:
            raise self.not_permitted("it needs root")

    def _check_place(self, place: Path) -> None:
        check_space(place, self.size_bytes)
        check_direct_reads(place)

    def _make_file(self, file: Path) -> None:
        """The file below the loop device: here all of it, so that no read meets a hole."""
        try:
            with file.open("wb") as opened:
                os.posix_fallocate(opened.fileno(), 0, self.size_bytes)
        except OSError as error:
            raise self.not_permitted(f"{error.strerror}: {file}") from None

    def _attach_loop(self) -> None:
        served = self._folder / SERVED_FILE
        # Direct: past the page cache of the file, and several requests at a time.
        done = self._run("losetup", "--find", "--show", "--direct-io=on", str(served))
        self._loop = Path(done.stdout.strip())
        direct = Path("/sys/block") / self._loop.name / "loop/dio"
        if direct.read_text().strip() != "1":
            raise self.not_permitted("the loop device does not take direct I/O")

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        try:
            done = own_account().run(command)
        except OSError as error:
            raise self.not_permitted(f"cannot run {command[0]}: {error.strerror}") from None
        if done.returncode != 0:
            raise self.not_permitted(f"{command[0]} fails:\n{last_lines(done.stderr)}")
        return done

    def _close(self) -> None:
        """Have the janitor take everything apart; LabError when something stays behind."""
        assert self._janitor is not None
        left = not self._janitor.finish()
        self._finish(left=left)
        if left:
            raise LabError(
                f'the {self.what} in "{self._folder}" could not be taken apart',
                "Look for processes that still use it, then: umount, losetup -d.",
            )

    def _finish(self, *, left: bool) -> None:
        """What else there is to end; `left` says that something stays behind."""
