"""Setting the operating system's read-ahead of a disk for an experiment, and putting it back.

The setting belongs to the machine, not to us. It is put back when the experiment ends, fails or is
interrupted, and when it is killed: by a janitor process (loop_janitor.py), at once. Should that be
killed too, there is a journal, written before the setting is touched: the next command finds it,
sees that its writer is gone, and restores. The kernel forgets the setting at a reboot, so a journal
of an earlier boot is void; so is one whose value somebody has changed again since.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from lookahead.cold import choose_place
from lookahead.commands.options import (
    CommandContext,
    kind_option,
    pass_command_context,
    path_option,
)
from lookahead.device.block_device import BlockDevice, find_block_device
from lookahead.errors import LabError, UnavailableError
from lookahead.experiments.experiment import MemorySize
from lookahead.experiments.runner import Run
from lookahead.measurements import Factor
from lookahead.safe_files import opened_folder, read_file, replace_file
from lookahead_bench.loop_disk import BenchJanitor
from lookahead_bench.postmasters import check_undisturbed

# The kernel stores pages in an unsigned long; more than 1 GB is a slip of the finger.
MAX_READ_AHEAD_KB = 1024 * 1024
_SYS_BLOCK = Path("/sys/block")
_PROC = Path("/proc")
# Root's own, whatever home `sudo` left in the environment. A reboot empties it, and voids journals.
_STATE_OF_ROOT = Path("/run/lookahead")
_PREFIX, _SUFFIX = "read-ahead-", ".json"
# The kernel keeps whole pages.
_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


@dataclass(frozen=True)
class JournalEntry:
    """What a run changed: sizes in kB; `process` and `started` (clock ticks) identify the run."""

    disk: str
    original_kb: int
    changed_kb: int
    process: int
    started: int
    boot_id: str


class ReadAhead:
    """The read-ahead of one disk. `sys_block` and `proc` are replaced in tests."""

    def __init__(
        self,
        disk: str,
        journal: Path,
        *,
        sys_block: Path | None = None,
        proc: Path | None = None,
    ) -> None:
        self._disk = disk
        self._journal = journal
        self._file = (sys_block or _SYS_BLOCK) / disk / "queue" / "read_ahead_kb"
        self._proc = proc or _PROC

    @classmethod
    def of(cls, device: BlockDevice) -> "ReadAhead":
        """The read-ahead of a device's disk, with its journal in the state folder."""
        return cls(device.disk, state_folder() / f"{_PREFIX}{device.disk}{_SUFFIX}")

    def read_kb(self) -> int:
        """The value in effect, in kB."""
        return int(self._file.read_text())

    def is_permitted(self) -> bool:
        """Whether this process may change it."""
        return os.access(self._file, os.W_OK)

    def check_permitted(self, size_kb: int) -> None:
        """LabError unless `size_kb` is in effect already or may be set by this process."""
        current_kb = self.read_kb()
        if size_kb != current_kb and not self.is_permitted():
            raise UnavailableError(
                f"the read-ahead of {self._disk} is {current_kb} kB and may not be changed",
                "Run as root, or leave it as it is.",
            )

    def check_undisturbed(self, size_kb: int, *, forced: bool) -> str | None:
        """LabError when another server runs and the size is not in effect, unless it is forced.

        Returns what was said against it when it is forced, None when there is nothing.
        """
        if size_kb == self.read_kb():
            return None
        return check_undisturbed(f"changing the read-ahead of {self._disk}", forced=forced)

    @contextmanager
    def changed_to(self, size_kb: int) -> Iterator[None]:
        """Have `size_kb` in effect within the block; restored whatever happens in it.

        Raises LabError when it may not be set or another live run has it changed.
        """
        self.restore_interrupted()
        original_kb = self.read_kb()
        size_kb -= size_kb % _PAGE_KB
        if size_kb == original_kb:
            yield
            return
        self.check_permitted(size_kb)
        self._write_journal(original_kb, size_kb)
        janitor = self._start_janitor(original_kb, size_kb)
        try:
            self._set_kb(size_kb)
            yield
        finally:
            if not janitor.finish():
                raise self._cannot_set(original_kb, "its janitor failed")

    def restore_interrupted(self) -> int | None:
        """Put back what a killed run left changed; returns the restored value in kB, else None.

        Raises LabError when the run that changed it is alive, or the journal cannot be read.
        """
        entry = self._read_journal()
        if entry is None:
            return None
        same_boot = entry.boot_id == self._boot_id()
        if same_boot and self._start_of(entry.process) == entry.started:
            if entry.process == os.getpid():
                raise ValueError("read-ahead is changed already")
            raise UnavailableError(
                f"process {entry.process} is measuring with a changed read-ahead of {self._disk}",
                "Two runs on one disk disturb each other: wait for it to end.",
            )
        restored = None
        if same_boot and self.read_kb() == entry.changed_kb:
            if not self.is_permitted():  # it stays for somebody who may
                return None
            self._set_kb(entry.original_kb)
            restored = entry.original_kb
        self._remove_journal()
        return restored

    def _start_janitor(self, original_kb: int, changed_kb: int) -> BenchJanitor:
        arguments = (self._file, changed_kb, original_kb, self._journal)
        try:
            return BenchJanitor("read-ahead", *arguments)
        except OSError as error:
            self._remove_journal()
            raise self._cannot_set(changed_kb, error.strerror) from None

    def _set_kb(self, size_kb: int) -> None:
        try:
            self._file.write_text(f"{size_kb}\n")
        except OSError as error:
            raise self._cannot_set(size_kb, error.strerror) from None

    def _cannot_set(self, size_kb: int, reason: str | None) -> LabError:
        return LabError(
            f"cannot set the read-ahead of {self._disk} to {size_kb} kB: {reason}",
            f"Set it by hand: echo {size_kb} > {self._file}",
        )

    def _write_journal(self, original_kb: int, changed_kb: int) -> None:
        entry = JournalEntry(
            disk=self._disk,
            original_kb=original_kb,
            changed_kb=changed_kb,
            process=os.getpid(),
            started=self._start_of(os.getpid()) or 0,
            boot_id=self._boot_id(),
        )
        try:
            with opened_folder(self._journal.parent, make=True) as folder:
                replace_file(folder, self._journal.name, json.dumps(asdict(entry)).encode())
        except OSError as error:
            raise UnavailableError(
                f'cannot write "{self._journal}": {error.strerror}',
                "Read-ahead is only changed when the old value is kept there; "
                "(not as root) set XDG_STATE_HOME to a writable folder.",
            ) from None

    def _read_journal(self) -> JournalEntry | None:
        try:
            with opened_folder(self._journal.parent) as folder:
                return JournalEntry(**json.loads(read_file(folder, self._journal.name)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, TypeError):
            raise UnavailableError(
                f'the journal "{self._journal}" cannot be read',
                f"See that {self._file} holds what you want, then remove the journal.",
            ) from None

    def _remove_journal(self) -> None:
        with (
            suppress(FileNotFoundError, NotADirectoryError),
            opened_folder(self._journal.parent) as folder,
        ):
            os.unlink(self._journal.name, dir_fd=folder)

    def _boot_id(self) -> str:
        return (self._proc / "sys/kernel/random/boot_id").read_text().strip()

    def _start_of(self, process: int) -> int | None:
        """When a process started, in clock ticks since boot; None when there is none.

        A process id is used again; together with this it is not.
        """
        try:
            text = (self._proc / str(process) / "stat").read_text()
        except OSError:
            return None
        # Field 22; the name in parentheses before it may contain anything.
        return int(text.rpartition(")")[2].split()[19])


def restore_abandoned() -> list[str]:
    """Put back what killed runs left changed, on all disks; what was done, to be shown.

    Of a run that is alive, and of a journal that cannot be read, whoever measures that disk hears.
    """
    done = []
    for journal in sorted(state_folder().glob(f"{_PREFIX}*{_SUFFIX}")):
        disk = journal.name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
        with suppress(LabError, OSError):
            restored_kb = ReadAhead(disk, journal).restore_interrupted()
            if restored_kb is not None:
                done.append(f"read-ahead of {disk} put back after a killed run: {restored_kb} kB")
    return done


def state_folder() -> Path:
    """Where the lab keeps what must outlive a run: of a user, $XDG_STATE_HOME/lookahead."""
    if os.geteuid() == 0:
        return _STATE_OF_ROOT
    base = os.environ.get("XDG_STATE_HOME", "")
    home = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return home / "lookahead"


def read_ahead_factor(size_kb: int | None) -> Factor:
    """The read-ahead of the disk as a factor; None is unknown."""
    return Factor("read-ahead", "unknown" if size_kb is None else f"{size_kb} kB")


class ReadAheads:
    """The sizes in kB to measure under: those asked for of a disk of our own, else the disk's.

    None stands for a disk that is not visible.
    """

    def __init__(self, run: Run, asked: tuple[int, ...]) -> None:
        self._read_ahead = ReadAhead.of(run.device) if run.device else None
        own = self._read_ahead.read_kb() if self._read_ahead else None
        self.sizes_kb: tuple[int | None, ...] = asked or (own,)
        self._asked = bool(asked)

    def with_size(self, size_kb: int | None) -> AbstractContextManager[None]:
        """A context with this read-ahead; nothing where there is none to set, or was asked for."""
        if self._read_ahead is None or size_kb is None or not self._asked:
            return nullcontext()
        return self._read_ahead.changed_to(size_kb)


@click.command(
    "read-ahead",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@path_option("--directory", "DIR", "A folder on the disk. Default: where `lookahead run` has its.")
@click.option("--force", "forced", is_flag=True, help="Although another PostgreSQL runs here.")
@click.argument("size_kb", metavar="SIZE", type=kind_option(MemorySize(0, MAX_READ_AHEAD_KB)))
@click.argument("command", metavar="lookahead ...", nargs=-1, required=True)
@pass_command_context
def read_ahead(
    context: CommandContext,
    directory: Path | None,
    forced: bool,
    size_kb: int,
    command: tuple[str, ...],
) -> None:
    """Execute a command of lookahead while the read-ahead of a disk is SIZE, and put it back.

    Such as `lookahead_bench read-ahead 128kB lookahead run bitmap-scan`. Needs root.
    """
    device = find_block_device(directory or choose_place())
    if device is None:
        raise UnavailableError(
            "the read-ahead cannot be set: no block device is visible",
            "Name a folder on a local disk with --directory.",
        )
    setting = ReadAhead.of(device)
    setting.check_permitted(size_kb)
    objection = setting.check_undisturbed(size_kb, forced=forced)
    if objection:
        context.terminal.finding("warning", objection, "Its reads are changed.")
    with setting.changed_to(size_kb):
        status = _execute(command)
    if status:
        raise LabError(f"{command[0]} ended with status {status}")


def _execute(command: tuple[str, ...]) -> int:
    """The status of a command; it ends by itself when we are to end, before the size goes back."""
    with subprocess.Popen([sys.executable, "-m", *command]) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:  # of the terminal, which has sent it to both
            process.wait()
            raise
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
