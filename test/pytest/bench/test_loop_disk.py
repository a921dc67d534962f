"""A disk of our own: why there is none, and that nothing of a failed one stays behind."""

import os
from pathlib import Path

import pytest

from lookahead.errors import ExitStatus, LabError
from lookahead_bench.loop_disk import LoopDisk


def test_only_root_can_have_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    disk = LoopDisk(10**7, tmp_path)
    with pytest.raises(LabError, match="a loop disk cannot be made: it needs root") as caught, disk:
        pass
    assert caught.value.status is ExitStatus.ENVIRONMENT
    assert list(tmp_path.iterdir()) == []


def test_one_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoopDisk, "_check_permitted", lambda self: None)
    disk = LoopDisk(10**18, tmp_path)
    with pytest.raises(LabError, match=r"needs 1000000000.0 GB of disk space") as caught, disk:
        pass
    assert caught.value.status is ExitStatus.ENVIRONMENT
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoopDisk, "_check_permitted", lambda self: None)
    (tmp_path / "file").touch()
    disk = LoopDisk(10**7, tmp_path / "file" / "below")
    with pytest.raises(LabError, match="cannot make a folder for the loop disk"), disk:
        pass
