"""Read-ahead is put back: at the end, after errors, after an interruption, after a kill -9."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from waiting import wait_until

from bench.small_bench import run_bench
from lookahead.device.block_device import BlockDevice, find_block_device
from lookahead.errors import ExitStatus, LabError
from lookahead_bench import read_ahead as module
from lookahead_bench.read_ahead import ReadAhead, state_folder

_BOOT = "11111111-aaaa"
_STAT = "{pid} (a (strange) name) S 1 1 1 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 {started} 1 1\n"


@dataclass
class Machine:
    """A disk "sda" with a setting, and a process table."""

    root: Path

    def __post_init__(self) -> None:
        self.value = self.root / "sys/sda/queue/read_ahead_kb"
        self.value.parent.mkdir(parents=True)
        self.value.write_text("8192\n")
        self.boot(_BOOT)
        self.add_process(os.getpid(), 500)
        self.journal = self.root / "state/read-ahead-sda.json"

    def boot(self, boot_id: str) -> None:
        path = self.root / "proc/sys/kernel/random/boot_id"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(boot_id + "\n")

    def add_process(self, pid: int, started: int) -> None:
        folder = self.root / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "stat").write_text(_STAT.format(pid=pid, started=started))

    def leave_journal(self, pid: int, started: int, changed_kb: int = 128) -> None:
        self.journal.parent.mkdir()
        entry = {
            "disk": "sda",
            "original_kb": 8192,
            "changed_kb": changed_kb,
            "process": pid,
            "started": started,
            "boot_id": _BOOT,
        }
        self.journal.write_text(json.dumps(entry))

    @property
    def read_ahead(self) -> ReadAhead:
        return ReadAhead("sda", self.journal, sys_block=self.root / "sys", proc=self.root / "proc")

    @property
    def state(self) -> tuple[int, bool]:
        return int(self.value.read_text()), self.journal.exists()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_changed_within_the_block_only(machine: Machine) -> None:
    with machine.read_ahead.changed_to(128):
        assert machine.state == (128, True)
        entry = json.loads(machine.journal.read_text())
        assert (entry["original_kb"], entry["process"], entry["started"]) == (
            8192,
            os.getpid(),
            500,
        )
    assert machine.state == (8192, False)


@pytest.mark.parametrize("error", [LabError("x"), KeyboardInterrupt(), ZeroDivisionError()])
def test_restored_whatever_happens(machine: Machine, error: BaseException) -> None:
    with pytest.raises(type(error)), machine.read_ahead.changed_to(128):
        raise error
    assert machine.state == (8192, False)


def test_the_value_in_effect_needs_no_journal(machine: Machine) -> None:
    with machine.read_ahead.changed_to(8192):
        assert machine.state == (8192, False)


def test_a_killed_run_is_cleaned_up_by_the_next(machine: Machine) -> None:
    machine.leave_journal(pid=999_999_999, started=7)
    machine.value.write_text("128\n")
    assert machine.read_ahead.restore_interrupted() == 8192
    assert machine.state == (8192, False)
    assert machine.read_ahead.restore_interrupted() is None


def test_a_process_id_that_is_used_again_is_not_the_run(machine: Machine) -> None:
    machine.add_process(4242, started=900)
    machine.leave_journal(pid=4242, started=7)
    machine.value.write_text("128\n")
    assert machine.read_ahead.restore_interrupted() == 8192


def test_a_live_run_keeps_its_setting(machine: Machine) -> None:
    machine.add_process(4242, started=900)
    machine.leave_journal(pid=4242, started=900)
    machine.value.write_text("128\n")
    with pytest.raises(LabError, match="process 4242 is measuring") as caught:
        machine.read_ahead.restore_interrupted()
    assert caught.value.hint
    assert caught.value.status is ExitStatus.ENVIRONMENT
    assert machine.state == (128, True)


def test_a_reboot_voids_the_journal(machine: Machine) -> None:
    machine.leave_journal(pid=999_999_999, started=7)
    machine.value.write_text("128\n")
    machine.boot("22222222-bbbb")
    assert machine.read_ahead.restore_interrupted() is None
    assert machine.state == (128, False)


def test_a_value_that_somebody_set_since_stays(machine: Machine) -> None:
    machine.leave_journal(pid=999_999_999, started=7)
    machine.value.write_text("256\n")
    assert machine.read_ahead.restore_interrupted() is None
    assert machine.state == (256, False)


def test_a_damaged_journal_is_shown_and_kept(machine: Machine) -> None:
    machine.journal.parent.mkdir()
    machine.journal.write_text('{"disk": "sda", ')
    with pytest.raises(LabError, match="cannot be read") as caught:
        machine.read_ahead.restore_interrupted()
    assert "remove the journal" in caught.value.hint
    assert machine.journal.exists()


def test_not_permitted(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root may write to a read-only file, so the permission itself is what the test replaces.
    monkeypatch.setattr(ReadAhead, "is_permitted", lambda self: False)
    with pytest.raises(LabError, match="8192 kB and may not be changed") as caught:
        machine.read_ahead.changed_to(128).__enter__()
    assert (caught.value.status, caught.value.hint) == (
        ExitStatus.ENVIRONMENT,
        "Run as root, or leave it as it is.",
    )
    assert machine.state == (8192, False)


def test_not_beside_another_server(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookahead_bench.postmasters.other_postmasters", lambda: [4_194_305])
    with pytest.raises(LabError, match="changing the read-ahead of sda disturbs") as caught:
        machine.read_ahead.check_undisturbed(128, forced=False)
    assert "process 4194305" in caught.value.message
    assert caught.value.hint.startswith("Stop that server,")
    said = machine.read_ahead.check_undisturbed(128, forced=True)
    assert said == caught.value.message
    # What is in effect already disturbs nobody.
    assert machine.read_ahead.check_undisturbed(8192, forced=False) is None


def test_without_a_journal_nothing_is_changed(machine: Machine) -> None:
    machine.journal.parent.write_text("a file where the folder should be")
    with (
        pytest.raises(LabError, match="cannot write"),
        machine.read_ahead.changed_to(128),
    ):
        pass
    assert int(machine.value.read_text()) == 8192


def test_state_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", "/some/state")
    assert state_folder() == Path("/some/state/lookahead")
    monkeypatch.setenv("XDG_STATE_HOME", "relative is ignored")
    assert state_folder() == Path.home() / ".local/state/lookahead"


def test_the_state_of_root_is_in_nobodys_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """`sudo` may leave HOME and XDG_STATE_HOME as they are."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("XDG_STATE_HOME", "/somebody/state")
    monkeypatch.setenv("HOME", "/somebody")
    assert state_folder() == Path("/run/lookahead")


_KILLED_RUN = """
import sys
from pathlib import Path
from lookahead_bench.read_ahead import ReadAhead

root = Path(sys.argv[1])
with ReadAhead("sda", root / "state/read-ahead-sda.json", sys_block=root / "sys").changed_to(128):
    print("changed", flush=True)
    sys.stdin.read()
"""


def test_a_killed_run_is_cleaned_up_at_once(machine: Machine) -> None:
    command = [sys.executable, "-c", _KILLED_RUN, str(machine.root)]
    pipe, env = subprocess.PIPE, {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, process_group=0, env=env
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "changed\n"
        assert machine.state == (128, True)
        os.killpg(run.pid, signal.SIGKILL)
    wait_until(lambda: not machine.journal.exists(), "the janitor has put it back")
    assert machine.state == (8192, False)


def test_the_value_of_a_killed_run_is_nobodys_own(machine: Machine) -> None:
    """Also when it is the one that the next run wants: it is put back first, and afterwards."""
    machine.leave_journal(pid=999_999_999, started=7)
    machine.value.write_text("128\n")
    with machine.read_ahead.changed_to(128):
        assert machine.state == (128, True)
    assert machine.state == (8192, False)


def test_a_value_that_the_kernel_rounds_is_put_back(machine: Machine) -> None:
    with machine.read_ahead.changed_to(131):
        assert machine.state == (128, True)
    assert machine.state == (8192, False)


def test_a_journal_waits_for_who_may_restore(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.leave_journal(pid=999_999_999, started=7)
    machine.value.write_text("128\n")
    monkeypatch.setattr(ReadAhead, "is_permitted", lambda self: False)
    assert machine.read_ahead.restore_interrupted() is None
    assert machine.state == (128, True)


def test_every_command_puts_back_what_was_left(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.leave_journal(pid=999_999_999, started=7)
    machine.value.write_text("128\n")
    (machine.journal.parent / "read-ahead-sdb.json").write_text("damaged")
    monkeypatch.setattr(module, "state_folder", lambda: machine.journal.parent)
    monkeypatch.setattr(module, "_SYS_BLOCK", machine.root / "sys")
    monkeypatch.setattr(module, "_PROC", machine.root / "proc")
    outcome = run_bench("run", "--help")
    assert outcome.status is ExitStatus.SUCCESS
    assert "read-ahead of sda put back after a killed run: 8192 kB" in outcome.stderr
    assert machine.state == (8192, False)


@pytest.fixture
def changeable(disk: Path) -> ReadAhead:
    """The read-ahead of a disk, where it may be changed."""
    device = find_block_device(disk)
    if device is None or not ReadAhead.of(device).is_permitted():
        pytest.skip("the read-ahead of the disk may not be changed here")
    return ReadAhead.of(device)


def test_not_changed_beside_another_server(
    disk: Path, monkeypatch: pytest.MonkeyPatch, changeable: ReadAhead
) -> None:
    monkeypatch.setattr("lookahead_bench.postmasters.other_postmasters", lambda: [os.getpid()])
    before = changeable.read_kb()
    outcome = run_bench(
        *("read-ahead", "--directory", disk, f"{before + 64}kB", "lookahead", "report", "--help")
    )
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "disturbs another" in outcome.stderr
    assert changeable.read_kb() == before


def test_a_command_is_executed_meanwhile(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a made folder of the kernel's: the disk keeps its own."""
    monkeypatch.setattr(ReadAhead, "of", lambda device: machine.read_ahead)
    monkeypatch.setattr(module, "find_block_device", lambda folder: BlockDevice("sda", "sda"))
    monkeypatch.setattr("lookahead_bench.postmasters.other_postmasters", lambda: [])
    seen = []

    def execute(command: tuple[str, ...]) -> int:
        seen.append((command, machine.state))
        return len(seen) - 1

    monkeypatch.setattr("lookahead_bench.read_ahead._execute", execute)
    options = ("--directory", machine.root, "128kB", "lookahead", "run", "--help", "--demo")
    assert run_bench("read-ahead", *options).status is ExitStatus.SUCCESS
    assert seen == [(("lookahead", "run", "--help", "--demo"), (128, True))]
    assert machine.state == (8192, False)
    outcome = run_bench("read-ahead", *options)
    assert outcome.status is ExitStatus.FAILURE
    assert "lookahead ended with status 1" in outcome.stderr
    assert machine.state == (8192, False)


def test_a_command_that_we_leave_ends_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told to end, and waited for."""
    (tmp_path / "slow.py").write_text(
        "import pathlib, sys, time\nbegun, ended = map(pathlib.Path, sys.argv[1:])\n"
        "try:\n    begun.touch()\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    time.sleep(0.5)\n    ended.touch()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    begun, ended = tmp_path / "begun", tmp_path / "ended"

    def leave(number: int, frame: object) -> None:
        if begun.exists():
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise SystemExit

    before = signal.signal(signal.SIGALRM, leave)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
        with pytest.raises(SystemExit):
            module._execute(("slow", str(begun), str(ended)))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert ended.exists()
