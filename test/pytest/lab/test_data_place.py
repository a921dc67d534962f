"""Where data go: not into memory, not where there is no room, not where nothing gets cold."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from mounting import mounted

from lookahead.cold import (
    SERVER_BYTES,
    check_can_be_cold,
    check_direct_reads,
    check_place,
    choose_place,
    memory_file_system,
)
from lookahead.commands import run
from lookahead.commands.options import CommandContext
from lookahead.errors import ExitStatus, LabError
from lookahead.terminal import Terminal


@pytest.fixture
def memory(disk: Path) -> Iterator[Path]:
    """A folder in memory; needs the right to mount."""
    with mounted(disk / "memory", "size=16m") as place:
        yield place


def test_memory_and_disk_are_told_apart(memory: Path, disk: Path) -> None:
    assert memory_file_system(memory) == "tmpfs"
    assert memory_file_system(memory / "not" / "made") == "tmpfs"
    (disk / "link").symlink_to(memory)
    assert memory_file_system(disk / "link") == "tmpfs"
    assert memory_file_system(disk) is None


def test_the_temporary_directory_is_taken(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    assert choose_place() == disk


def test_another_place_than_memory(
    memory: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(memory))
    monkeypatch.setattr("lookahead.cold._VAR_TMP", disk)
    assert choose_place() == disk
    # Neither there: the build folder of the checkout, where there is one.
    monkeypatch.setattr("lookahead.cold._VAR_TMP", disk / "missing")
    monkeypatch.setattr("lookahead.cold.find_checkout", lambda: disk)
    (disk / "build").mkdir()
    assert choose_place() == disk / "build"
    # Nowhere: the error names the place that everybody expects.
    monkeypatch.setattr("lookahead.cold.find_checkout", lambda: None)
    assert choose_place() == memory


@pytest.mark.skipif(os.geteuid() != 0, reason="only root keeps what it makes from others")
def test_a_place_where_others_replace_what_root_makes_is_not_taken(
    memory: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(memory))
    monkeypatch.setattr("lookahead.cold.find_checkout", lambda: None)
    (disk / "open").mkdir()
    (disk / "open").chmod(0o777)
    monkeypatch.setattr("lookahead.cold._VAR_TMP", disk / "open")
    assert choose_place() == memory


def test_it_is_said_when_it_is_another_one(
    memory: Path, disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(memory))
    monkeypatch.setattr("lookahead.cold._VAR_TMP", disk)
    assert run.default_directory(CommandContext(Terminal(), ())) == disk
    assert f"the server's folder is made in {disk}" in capsys.readouterr().err


def test_a_place_in_memory_is_refused(memory: Path) -> None:
    with pytest.raises(LabError, match=r"is in memory \(tmpfs\)") as caught:
        check_place(memory / "new", 0)
    assert caught.value.status is ExitStatus.ENVIRONMENT
    assert caught.value.hint == "Name a folder on a disk with --directory."


def test_the_server_itself_needs_room_too(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = SERVER_BYTES + 1_000_000
    usage = type("Usage", (), {"free": free})()
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    check_place(disk / "not" / "made", 1_000_000)
    with pytest.raises(LabError, match=r"needs 0.2 GB of disk space, 0.2 GB are free in") as caught:
        check_place(disk, 1_000_001)
    assert caught.value.status is ExitStatus.ENVIRONMENT


def test_files_on_a_disk_get_cold_and_those_in_memory_do_not(memory: Path, disk: Path) -> None:
    check_can_be_cold(disk)
    with pytest.raises(LabError, match="cannot be made cold: 1024 of 1024 kB") as caught:
        check_can_be_cold(memory)
    assert caught.value.status is ExitStatus.ENVIRONMENT
    assert list(disk.iterdir()) == [memory]


def test_a_full_disk_is_no_bug(full_disk: Path) -> None:
    with pytest.raises(LabError, match="No space left on device"):
        check_can_be_cold(full_disk)


def test_direct_reads_where_they_are_needed(
    memory: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_direct_reads(disk)
    with pytest.raises(LabError, match="tmpfs is in memory"):
        check_direct_reads(memory)

    def refuse(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    # As an overlay over such a file system does.
    monkeypatch.setattr(os, "preadv", refuse)
    with pytest.raises(LabError, match=r"are possible in .*: Invalid argument") as caught:
        check_direct_reads(disk)
    assert caught.value.status is ExitStatus.ENVIRONMENT
