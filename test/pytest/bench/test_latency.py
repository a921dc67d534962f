"""Whole runs of the experiment "latency", and that nothing of its device is left behind."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from lab.needs import needs_fio
from waiting import wait_until

from bench.small_bench import PG_CONFIG, child_environment, run_bench
from lookahead.errors import ExitStatus, LabError
from lookahead.results import read_result
from lookahead_bench import delay_device, latency
from lookahead_bench.overlap import Overlap

pytestmark = [pytest.mark.end_to_end, pytest.mark.usefixtures("small")]


@pytest.fixture
def _permitted() -> None:
    try:
        delay_device.check_permitted(10**9)
    except LabError as error:
        pytest.skip(error.message)


def _run(
    disk: Path, output: Path, *options: str, experiment: str = "latency"
) -> tuple[str | Path, ...]:
    place = ("--directory", disk, "--output", output, *PG_CONFIG)
    return ("run", experiment, "--demo", *options, *place)


@needs_fio
@pytest.mark.usefixtures("_permitted")
def test_each_read_is_late(tmp_path: Path, disk: Path) -> None:
    outcome = run_bench(*_run(disk, tmp_path, "--latency", "500", "--repetitions", "1"))
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (path,) = tmp_path.glob("*.json")
    found = read_result(path)
    assert found.experiment == "latency"
    assert found.facts["added latency"].startswith("500 us")
    arms = {sample.arm: sample for sample in found.measurements.samples}
    assert {sample.scenario.value("added latency") for sample in arms.values()} == {"500 us"}
    # One page after the other, each late by at least that much.
    assert arms["stock"].time_ms >= 300 * 0.5
    assert found.machine.device.name is not None
    assert found.machine.device.name.startswith("loop")
    assert "with 64 in flight" in outcome.stderr
    assert ">added latency</td>" in path.with_suffix(".html").read_text()
    assert list(disk.iterdir()) == []


@needs_fio
@pytest.mark.usefixtures("_permitted")
def test_each_look_up_of_a_join_is_late(tmp_path: Path, disk: Path) -> None:
    outcome = run_bench(*_run(disk, tmp_path, experiment="join-latency"))
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (path,) = tmp_path.glob("*.json")
    samples = read_result(path).measurements.samples
    assert {sample.scenario.value("added latency") for sample in samples} == {"500 us"}
    (stock,) = (
        sample
        for sample in samples
        if sample.arm == "stock" and sample.scenario.value("data") == "index hot"
    )
    # A page of the table for each of 100 outer rows, which may share a few.
    assert stock.time_ms >= 80 * 0.5
    assert list(disk.iterdir()) == []


@needs_fio
@pytest.mark.usefixtures("_permitted")
def test_each_read_of_a_sequential_scan_is_late(tmp_path: Path, disk: Path) -> None:
    late = ("--own-disk", "--part", "scan", "--latency", "2000", "--read-ahead", "128kB")
    outcome = run_bench(*_run(disk, tmp_path, *late, experiment="seq-scan"))
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (path,) = tmp_path.glob("*.json")
    samples = read_result(path).measurements.samples
    assert {sample.scenario.value("added latency") for sample in samples} == {"2,000 us"}
    (stock,) = (sample for sample in samples if sample.arm == "seq")
    # A table of 10 MB takes 80 reads of that size, few of them at once.
    assert stock.time_ms >= 10 * 2
    assert list(disk.iterdir()) == []


@pytest.mark.usefixtures("_permitted")
def test_a_device_that_serves_few_reads_at_once(
    tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Overlap(64, 800.0, 4000.0)
    monkeypatch.setattr(latency, "probe_overlap", lambda device, depth, seconds: slow)
    monkeypatch.setattr(latency, "MIN_READS_AT_ONCE", 32)
    outcome = run_bench(*_run(disk, tmp_path))
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "serves 5 reads at once, 32 are needed" in outcome.stderr
    assert list(disk.iterdir()) == []
    assert list(tmp_path.iterdir()) == []


@needs_fio
@pytest.mark.usefixtures("_permitted")
def test_interrupted(tmp_path: Path, disk: Path) -> None:
    program = [sys.executable, "-m", "bench.small_bench"]
    command = [*program, *_run(disk, tmp_path, "--repetitions", "500")]
    env = child_environment()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as child:
        wait_until(
            lambda: (
                any('"sequence"' in path.read_text() for path in tmp_path.glob("*.json"))
                or child.poll() is not None
            ),
            "a first sample",
            timeout_seconds=200,
        )
        child.send_signal(signal.SIGINT)
        _, stderr = child.communicate(timeout=60)
    assert child.returncode == ExitStatus.INTERRUPTED, stderr
    assert list(disk.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (("--keep",), "--keep is not possible: the device is in memory", "Leave it out."),
        (
            ("--latency", "0"),
            "0 is not in the range",
            "`lookahead_bench run latency --help` lists",
        ),
    ],
)
def test_wrong_usage(tmp_path: Path, options: tuple[str, ...], message: str, hint: str) -> None:
    outcome = run_bench("run", "latency", "--output", tmp_path, *options)
    assert outcome.status is ExitStatus.USAGE
    error, shown = outcome.stderr.splitlines()
    assert error.startswith("error: ") and message in error
    assert shown.startswith("hint: ") and hint in shown
    assert list(tmp_path.iterdir()) == []
