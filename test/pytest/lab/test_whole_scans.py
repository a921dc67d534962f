"""Whole commands of the experiments made of trials: each once, small, with its evidence."""

import os
from pathlib import Path

import pytest

from lab import small_run
from lab.outcome import Outcome, run_command
from lab.whole_runs import measured
from lookahead.comparisons import arms_of, scenarios_of
from lookahead.device.profile import format_profiles
from lookahead.errors import ExitStatus
from lookahead.experiments import bitmap_scan

pytestmark = pytest.mark.end_to_end
_PG_CONFIG = ("--pg-config", os.environ["PG_CONFIG"]) if "PG_CONFIG" in os.environ else ()


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bitmap_scan.EXPERIMENT.sizes, "demo", small_run.BITMAP)


def _run(name: str, disk: Path, output: Path, *options: str) -> Outcome:
    return run_command(
        *("run", name, "--demo", *options, "--directory", disk, "--output", output, *_PG_CONFIG)
    )


def test_bitmap_scan(tmp_path: Path, disk: Path) -> None:
    data = measured(_run("bitmap-scan", disk, tmp_path), tmp_path, disk)
    (scenario,) = scenarios_of(data.samples)
    assert (scenario.value("pages"), scenario.value("work_mem")) == ("75 %", "64kB")
    assert arms_of(data.samples) == [
        *("seq", "index", "bitmap, 0", "bitmap, 64", "bitmap, default"),
        *("ours", "ours, 0"),
    ]
    (digest,) = data.digests
    assert digest.arms == ("bitmap, default", "ours")
    assert 1400 < digest.rows < 1600
    by_arm = {one.arm: one.evidence for one in data.samples if one.evidence}
    assert {one.rows for one in by_arm.values()} == {digest.rows}
    for arm in ("bitmap, default", "ours"):
        evidence = by_arm[arm]
        assert evidence.exact_blocks + evidence.lossy_blocks == digest.rows
        # 64 kB are too little for the bitmap, so that other rows of its pages are read too.
        assert evidence.lossy_blocks > 0
        assert evidence.removed_rows > digest.rows
    assert by_arm["seq"].shared_read_blocks >= 2000
    names = [one.question.name for one in data.comparisons]
    assert names == ["stock's default", "best stock plan", "ours"]


def test_bitmap_scan_of_chosen_conditions(tmp_path: Path, disk: Path) -> None:
    profile = tmp_path / "device.profile"
    profile.write_text(format_profiles(()))
    options = (
        *("--profile", str(profile)),
        *("--pages-share", "10,50", "--plan", "bitmap"),
        *("--setting", "none", "--work-mem", "4MB", "--table-pages", "1000"),
    )
    outcome = _run("bitmap-scan", disk, tmp_path, *options)
    data = measured(outcome, tmp_path, disk)
    assert "device profile in use: of no device" in outcome.stderr
    found = [one.value("pages") for one in scenarios_of(data.samples)]
    assert found == ["10 %", "50 %"]
    assert arms_of(data.samples) == ["bitmap, default", "ours"]
    assert 60 < data.digests[0].rows < 140


def test_a_file_that_is_no_device_profile(tmp_path: Path, disk: Path) -> None:
    wrong = tmp_path / "wrong.profile"
    wrong.write_text(format_profiles(()).replace("[end]", "[device 8:0]"))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for profile in (wrong, tmp_path / "missing.profile", pipe):
        options = ("--profile", str(profile), "--pg-config", "/nonexistent")
        outcome = _run("bitmap-scan", disk, tmp_path / "results", *options)
        assert outcome.status is ExitStatus.ENVIRONMENT
        assert f'"{profile}" is no device profile: ' in outcome.stderr
    assert not (tmp_path / "results").exists()
    assert list(disk.iterdir()) == []
