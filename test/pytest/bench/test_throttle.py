"""The control group that throttles a disk, on a made hierarchy of each version."""

from pathlib import Path

import pytest

from lookahead.device.block_device import BlockDevice
from lookahead.errors import ExitStatus, LabError
from lookahead_bench.throttle import Throttle

_DEVICE = BlockDevice("sda1", "sda")


@pytest.fixture
def sys_block(tmp_path: Path) -> Path:
    (tmp_path / "block/sda").mkdir(parents=True)
    (tmp_path / "block/sda/dev").write_text("8:0\n")
    return tmp_path / "block"


def _mountinfo(folder: Path, place: str, filesystem: str) -> Path:
    (folder / place).mkdir(parents=True)
    path = folder / "mountinfo"
    path.write_text(f"30 1 0:26 / {folder / place} rw - {filesystem} {filesystem} rw\n")
    return path


def _only_group(parent: Path) -> Path:
    (group,) = parent.glob("lookahead-*")
    return group


def test_version_1(tmp_path: Path, sys_block: Path) -> None:
    mountinfo = _mountinfo(tmp_path, "cpu/blkio", "cgroup")
    with Throttle(_DEVICE, 3000, 125_000_000, mountinfo=mountinfo, sys_block=sys_block) as throttle:
        group = _only_group(tmp_path / "cpu/blkio")
        assert (group / "blkio.throttle.read_iops_device").read_text() == "8:0 3000"
        assert (group / "blkio.throttle.read_bps_device").read_text() == "8:0 125000000"
        throttle.add([123])
        assert (group / "cgroup.procs").read_text() == "123"
    # What still lives goes back to where it came from.
    assert (tmp_path / "cpu/blkio/cgroup.procs").read_text() == "123"


def test_version_2(tmp_path: Path, sys_block: Path) -> None:
    mountinfo = _mountinfo(tmp_path, "unified", "cgroup2")
    (tmp_path / "unified/cgroup.controllers").write_text("cpu io memory\n")
    with Throttle(_DEVICE, 3000, 125_000_000, mountinfo=mountinfo, sys_block=sys_block):
        group = _only_group(tmp_path / "unified")
        assert (group / "io.max").read_text() == "8:0 rbps=125000000 riops=3000"
    assert (tmp_path / "unified/cgroup.subtree_control").read_text() == "+io"


def test_group_of_a_killed_lab_is_removed(tmp_path: Path, sys_block: Path) -> None:
    mountinfo = _mountinfo(tmp_path, "blkio", "cgroup")
    abandoned = tmp_path / "blkio" / "lookahead-999999999"
    alive = tmp_path / "blkio" / "lookahead-1"
    abandoned.mkdir()
    alive.mkdir()
    with Throttle(_DEVICE, 3000, 1, mountinfo=mountinfo, sys_block=sys_block):
        assert not abandoned.exists()
        assert alive.exists()


@pytest.mark.parametrize("controllers", ["cpu memory\n", None])
def test_no_hierarchy_limits_reads(
    tmp_path: Path, sys_block: Path, controllers: str | None
) -> None:
    mountinfo = _mountinfo(tmp_path, "unified", "cgroup2")
    if controllers is not None:
        (tmp_path / "unified/cgroup.controllers").write_text(controllers)
    throttle = Throttle(_DEVICE, 3000, 1, mountinfo=mountinfo, sys_block=sys_block)
    with pytest.raises(LabError, match="no control group hierarchy") as caught, throttle:
        pass
    assert caught.value.status is ExitStatus.ENVIRONMENT


def test_a_disk_that_has_gone(tmp_path: Path) -> None:
    mountinfo = _mountinfo(tmp_path, "blkio", "cgroup")
    throttle = Throttle(_DEVICE, 3000, 1, mountinfo=mountinfo, sys_block=tmp_path)
    with pytest.raises(LabError, match="No such file or directory"), throttle:
        pass
    assert list((tmp_path / "blkio").iterdir()) == []
