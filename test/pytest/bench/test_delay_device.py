"""The delay device: slow and many at once, taken apart however it ends, and why there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lab.needs import needs_fio
from waiting import wait_until

from bench.small_bench import child_environment
from lookahead.errors import ExitStatus, LabError
from lookahead_bench import delay_device
from lookahead_bench.delay_device import DelayDevice
from lookahead_bench.loop_janitor import is_mounted, loop_devices_of
from lookahead_bench.overlap import Overlap, probe_overlap

_SIZE = 32 * 2**20
_LATENCY_US = 100_000


@pytest.fixture
def permitted() -> None:
    try:
        delay_device.check_permitted(_SIZE)
    except LabError as error:
        pytest.skip(error.message)


def _is_gone(folder: Path) -> bool:
    places = [folder / "disk", folder / "served"]
    return not any(map(is_mounted, places)) and not folder.exists()


@pytest.mark.usefixtures("permitted")
@needs_fio
def test_reads_are_late_and_many_at_once(tmp_path: Path) -> None:
    with DelayDevice(_SIZE, _LATENCY_US, tmp_path) as device:
        overlap = probe_overlap(device.loop, 8, 1)
    # No read is earlier than it may be; that several overlap does not depend on the machine much.
    assert overlap.single_reads_per_s <= 1e6 / _LATENCY_US
    assert overlap.reads_at_once > 2


@pytest.mark.usefixtures("permitted")
def test_holds_what_is_written_to_it(tmp_path: Path) -> None:
    content = os.urandom(3_000_001)
    place = tmp_path / "with blank and \\ in it"
    with DelayDevice(_SIZE, 1, place) as device:
        device.make_file_system()
        path = device.disk / "content"
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert path.read_bytes() == content
        loop, folder = device.loop, device.disk.parent
        assert loop_devices_of(folder / "served") == [str(loop)]
    assert _is_gone(folder)
    assert loop_devices_of(folder / "served") == []
    assert list(place.iterdir()) == []


_HOLDER = """
import sys, time
from pathlib import Path
from lookahead_bench.delay_device import DelayDevice
with DelayDevice({size}, 1, Path({folder!r})) as device:
    device.make_file_system()
    print(device.disk.parent, flush=True)
    time.sleep(600)
"""


@pytest.mark.usefixtures("permitted")
def test_is_taken_apart_after_a_kill(tmp_path: Path) -> None:
    program = _HOLDER.format(size=_SIZE, folder=str(tmp_path))
    command = [sys.executable, "-c", program]
    env = child_environment()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as child:
        assert child.stdout is not None
        folder = Path(child.stdout.readline().strip())
        assert is_mounted(folder / "disk")
        child.kill()
    wait_until(lambda: _is_gone(folder), "the device to be gone", timeout_seconds=60)


@pytest.mark.usefixtures("permitted")
def test_a_file_that_is_open_delays_the_end(tmp_path: Path) -> None:
    with DelayDevice(_SIZE, 1, tmp_path) as device:
        device.make_file_system()
        folder = device.disk.parent
        # Ends by itself soon after the device is closed.
        user = subprocess.Popen(["sleep", "1"], cwd=device.disk)
    assert _is_gone(folder)
    assert user.wait() == 0


def test_only_root_can_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match="needs root") as caught:
        delay_device.check_permitted(_SIZE)
    assert caught.value.status is ExitStatus.ENVIRONMENT
    assert "Run the command as root" in caught.value.hint


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.usefixtures("as_root")
def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_device, "_has_program", lambda name: name != "mkfs.ext4")
    with pytest.raises(LabError, match=r"mkfs\.ext4 is missing") as caught:
        delay_device.check_permitted(_SIZE)
    assert (caught.value.status, caught.value.hint) == (
        ExitStatus.ENVIRONMENT,
        "apt install e2fsprogs",
    )


@pytest.mark.usefixtures("as_root")
def test_too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_device, "_has_program", lambda name: True)
    monkeypatch.setattr(Path, "exists", lambda path: True)
    monkeypatch.setattr(delay_device, "available_memory_bytes", lambda: 10**9)
    with pytest.raises(LabError, match=r"needs 2\.0 GB of memory .* 1\.0 GB are available"):
        delay_device.check_permitted(2 * 10**9)


@pytest.mark.usefixtures("as_root")
def test_a_kernel_without_fuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_device, "_has_program", lambda name: True)
    monkeypatch.setattr(Path, "exists", lambda path: path.name != "fuse")
    with pytest.raises(LabError, match="the kernel offers no FUSE here") as caught:
        delay_device.check_permitted(_SIZE)
    assert caught.value.status is ExitStatus.ENVIRONMENT


def _fake_fio(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "fio"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_fio_is_asked_for_both_rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    took = '"clat_ns": {"percentile": {"50.000000": 800000}}, "slat_ns": {"mean": 0}'
    single = f'{{"read": {{"iops": 1250.0, "total_ios": 2500, {took}}}}}'
    deep = '{"read": {"iops": 5000.0, "total_ios": 10000}}'
    _fake_fio(tmp_path, f'note: before\n{{"jobs": [{single}, {deep}]}}', monkeypatch)
    found = probe_overlap(Path("/dev/null"), 64, 1)
    assert found == Overlap(64, 1250.0, 5000.0)
    assert found.reads_at_once == 4


@pytest.mark.parametrize(
    "text", ["fio: engine libaio not loadable", "{}", '{"jobs": []}', '{"jobs": [{}, {}]}']
)
def test_fio_that_does_not_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    _fake_fio(tmp_path, text, monkeypatch)
    with pytest.raises(LabError, match="fio does not measure /dev/null") as caught:
        probe_overlap(Path("/dev/null"), 64, 1)
    assert caught.value.hint
