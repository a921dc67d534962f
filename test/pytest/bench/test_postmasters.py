"""Other servers on the machine: which processes are one, and what is not done beside them."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from server_log import ServerFactory

from lookahead.errors import ExitStatus, LabError
from lookahead_bench.postmasters import check_undisturbed, other_postmasters

_STAT = "{pid} ({name}) S {parent} 1 1 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 7 1 1\n"


@dataclass
class Machine:
    """A process table."""

    proc: Path

    def add(self, pid: int, name: str, parent: int) -> None:
        folder = self.proc / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(_STAT.format(pid=pid, name=name, parent=parent))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr("lookahead_bench.postmasters._PROC", tmp_path)
    machine = Machine(tmp_path)
    (tmp_path / "uptime").touch()
    machine.add(1, "init", 0)
    machine.add(os.getpid(), "python3", 1)
    return machine


def test_a_machine_without_one(machine: Machine) -> None:
    machine.add(4_000_001, "postgresql", 1)
    assert other_postmasters() == []
    assert check_undisturbed("a deed", forced=False) is None


def test_its_backends_are_none(machine: Machine) -> None:
    machine.add(4_000_002, "postgres", 1)
    machine.add(4_000_001, "postgres", 4_000_002)
    assert other_postmasters() == [4_000_002]


def test_one_with_a_strange_neighbour(machine: Machine) -> None:
    machine.add(4_000_001, "postmaster", 4_000_002)
    machine.add(4_000_002, "a (strange) name", 1)
    assert other_postmasters() == [4_000_001]


def test_our_own_are_not_others(machine: Machine) -> None:
    machine.add(4_000_001, "postgres", os.getpid())
    machine.add(4_000_002, "make", os.getpid())
    machine.add(4_000_003, "postgres", 4_000_002)
    assert other_postmasters() == []


def test_each_is_named(machine: Machine) -> None:
    machine.add(4_000_001, "postgres", 1)
    machine.add(4_000_002, "postgres", 1)
    (machine.proc / "4000002" / "cwd").symlink_to("/srv/data")
    with pytest.raises(LabError) as caught:
        check_undisturbed("changing it", forced=False)
    assert caught.value.message == (
        "changing it disturbs another PostgreSQL on this machine: "
        "process 4000001, process 4000002 (/srv/data)"
    )
    assert caught.value.hint == "Stop that server, or insist with --force."
    assert caught.value.status is ExitStatus.ENVIRONMENT
    said = check_undisturbed("changing it", forced=True)
    assert said == caught.value.message


def test_a_server_that_runs(server_factory: ServerFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours, and as another process of the machine sees it."""
    with server_factory() as server:
        assert server.pid not in other_postmasters()
        monkeypatch.setattr("os.getpid", lambda: 4_194_305)  # one more than any
        assert server.pid in other_postmasters()
