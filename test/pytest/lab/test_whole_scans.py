"""Whole commands of the experiments made of trials: each once, small, with its evidence."""

import os
from pathlib import Path

import pytest

from lab import small_run
from lab.outcome import Outcome, run_command
from lookahead.comparisons import arms_of, compare, scenarios_of
from lookahead.device.block_device import find_block_device
from lookahead.device.loop_disk import LoopDisk
from lookahead.device.profile import format_profiles
from lookahead.device.read_ahead import ReadAhead
from lookahead.errors import ExitStatus, LabError
from lookahead.experiments import (
    bitmap_scan,
    cached_scan,
    concurrent_scans,
    range_query,
    seq_scan,
)
from lookahead.measurements import Measurements, Sample
from lookahead.results import read_result

pytestmark = pytest.mark.end_to_end
_PG_CONFIG = ("--pg-config", os.environ["PG_CONFIG"]) if "PG_CONFIG" in os.environ else ()


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bitmap_scan.EXPERIMENT.sizes, "demo", small_run.BITMAP)
    monkeypatch.setitem(cached_scan.EXPERIMENT.sizes, "demo", small_run.CACHED)
    monkeypatch.setitem(range_query.EXPERIMENT.sizes, "demo", small_run.QUERY)
    monkeypatch.setitem(concurrent_scans.EXPERIMENT.sizes, "demo", small_run.CONCURRENT)
    monkeypatch.setitem(seq_scan.EXPERIMENT.sizes, "demo", small_run.SEQ)


def _run(name: str, disk: Path, output: Path, *options: str) -> Outcome:
    return run_command(
        *("run", name, "--demo", *options, "--directory", disk, "--output", output, *_PG_CONFIG)
    )


def _measured(outcome: Outcome, output: Path, disk: Path) -> Measurements:
    """The data of a run that ended well, left nothing behind and made its page."""
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (path,) = output.glob("*.json")
    document = read_result(path)
    assert document.status == "complete"
    data = document.measurements
    assert data.comparisons == compare(data, document.parameters.seed)
    assert data.statements.keys() == {scenario.label for scenario in scenarios_of(data.samples)}
    assert path.with_suffix(".html").exists()
    assert list(disk.iterdir()) == []
    for sample in data.samples:
        _check_evidence(data, sample)
    return data


def _check_evidence(data: Measurements, sample: Sample) -> None:
    (arm,) = (one for one in data.arms if one.name == sample.arm)
    assert sample.time_ms > 0
    assert sample.cold is None or sample.cold.is_cold
    if sample.evidence is None:
        assert arm.plan == ""
        return
    assert sample.evidence.node_type == arm.plan
    if arm.settings.get("pg_lookahead.bulk_read_size") != "0":
        assert (sample.evidence.lookahead.status == "prefetch") is (arm.library == "on")


def test_bitmap_scan(tmp_path: Path, disk: Path) -> None:
    data = _measured(_run("bitmap-scan", disk, tmp_path), tmp_path, disk)
    (scenario,) = scenarios_of(data.samples)
    assert (scenario.value("pages"), scenario.value("work_mem")) == ("75 %", "64kB")
    assert arms_of(data.samples) == [
        *("seq", "index", "index, random order", "bitmap, 0", "bitmap, 64", "bitmap, default"),
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
        *("--pages-share", "50", "--layout", "periodic,uniform", "--plan", "bitmap"),
        *("--setting", "none", "--work-mem", "4MB", "--table-pages", "1000"),
    )
    outcome = _run("article-1", disk, tmp_path, *options)
    data = _measured(outcome, tmp_path, disk)
    assert "device profile in use: of no device" in outcome.stderr
    found = [(one.value("pages"), one.value("layout")) for one in scenarios_of(data.samples)]
    assert found == [("50 %", "periodic"), ("50 %", "uniform")]
    assert arms_of(data.samples) == ["bitmap, default", "ours"]
    # At even distances there are as many pages as the share says.
    assert data.digests[0].rows == 500


def test_a_file_that_is_no_device_profile(tmp_path: Path, disk: Path) -> None:
    wrong = tmp_path / "wrong.profile"
    wrong.write_text(format_profiles(()).replace("[end]", "[device 8:0]"))
    for profile in (wrong, tmp_path / "missing.profile"):
        outcome = _run("bitmap-scan", disk, tmp_path / "results", "--profile", str(profile))
        assert outcome.status is ExitStatus.ENVIRONMENT
        assert f'"{profile}" is no device profile: ' in outcome.stderr
    assert list((tmp_path / "results").iterdir()) == []
    assert list(disk.iterdir()) == []


def test_cached_scan(tmp_path: Path, disk: Path) -> None:
    data = _measured(_run("article-4", disk, tmp_path), tmp_path, disk)
    cached = [one for one in data.samples if one.scenario.value("data") == "cached"]
    assert len(cached) == 2 * 7
    for sample in cached:
        assert sample.cold is None
        assert sample.evidence is not None
        assert sample.evidence.shared_read_blocks == 0
        assert sample.evidence.lossy_blocks > 0
    cold = [one for one in data.samples if one.scenario.value("data") == "cold"]
    assert len(cold) == 2 * 2
    for sample in data.samples:
        assert sample.evidence is not None
        assert str(sample.evidence.workers) == sample.scenario.value("workers")
        # The fastest of four where data is cached; of parallel workers the time is not known.
        assert sample.executions == (1 if sample.cold else 4)
        assert (sample.backend_cpu_ms is None) == (sample.evidence.workers > 0)
    assert {one.name for one in data.references} == {
        *("article: setting 0", "article: default", "article: 1000")
    }


def test_range_query(tmp_path: Path, disk: Path) -> None:
    data = _measured(_run("range-query", disk, tmp_path), tmp_path, disk)
    assert len(data.samples) == 6
    rows = {one.evidence.rows for one in data.samples if one.evidence}
    assert len(rows) == 1
    assert [one.arms for one in data.digests] == [tuple(arm.name for arm in data.arms)]
    assert data.tables[0].rows > 50_000
    assert len(data.comparisons) == 3


def test_concurrent_scans(tmp_path: Path, disk: Path) -> None:
    data = _measured(_run("concurrent-scans", disk, tmp_path), tmp_path, disk)
    assert arms_of(data.samples) == [
        *("bitmap, 64", "bitmap, default", "ours", "ours, distance 64")
    ]
    for sample in data.samples:
        assert str(len(sample.session_ms)) == sample.scenario.value("sessions")
        assert sample.time_ms == pytest.approx(sum(sample.session_ms) / len(sample.session_ms))
        assert sample.backend_cpu_ms is None or sample.backend_cpu_ms > 0


def test_seq_scan_on_a_disk_of_its_own(tmp_path: Path, disk: Path) -> None:
    try:
        with LoopDisk(10_000_000, disk):
            pass
    except LabError as error:
        pytest.skip(error.message)
    outcome = _run("article-2", disk, tmp_path, "--own-disk", "--part", "scan,lookups")
    data = _measured(outcome, tmp_path, disk)
    found = [one.value("read-ahead") for one in scenarios_of(data.samples)]
    assert found == ["128 kB", "1024 kB"]
    assert arms_of(data.samples) == [
        *("seq", "ours", "device alone", "COPY table", "COPY query, stock", "COPY query, ours")
    ]
    for one in data.samples:
        assert (one.backend_cpu_ms is None) == (one.arm not in ("seq", "ours"))
    assert [(one.arm, one.sessions) for one in data.lookups] == [("stock", 8), ("ours", 8)] * 2
    for sample in data.lookups:
        assert 0 < sample.p50_ms <= sample.p99_ms
        assert sample.lookups_per_s > 0
    assert {one.name for one in data.references} == {"seq, in memory", "article: COPY"}
    assert "for the whole table the device alone takes" in outcome.stderr
    assert "knee of seq: a read-ahead of" in outcome.stderr


def test_seq_scan_at_the_read_ahead_of_the_machine(tmp_path: Path, disk: Path) -> None:
    """As root too: neither is it changed, nor is a loop device made."""
    device = find_block_device(disk)
    if device is None:
        pytest.skip("no block device is visible")
    before = ReadAhead.of(device).read_kb()
    outcome = _run("article-2", disk, tmp_path, "--part", "scan")
    data = _measured(outcome, tmp_path, disk)
    (scenario,) = scenarios_of(data.samples)
    assert scenario.value("read-ahead") == f"{before} kB"
    assert "measured at the machine's own read-ahead only" in outcome.stderr
    assert "--own-disk measures several" in outcome.stderr
    assert ReadAhead.of(device).read_kb() == before


@pytest.mark.parametrize("experiment", ["bitmap-scan", "seq-scan"])
def test_read_ahead_is_not_changed_beside_another_server(
    tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch, experiment: str
) -> None:
    device = find_block_device(disk)
    if device is None or not ReadAhead.of(device).is_permitted():
        pytest.skip("the read-ahead of the disk may not be changed here")
    monkeypatch.setattr("lookahead.machine.other_postmasters", lambda: [os.getpid()])
    before = ReadAhead.of(device).read_kb()
    outcome = _run(experiment, disk, tmp_path, "--read-ahead", f"{before + 64}kB")
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert f"changing the read-ahead of {device.disk} disturbs another" in outcome.stderr
    assert ReadAhead.of(device).read_kb() == before
    assert list(tmp_path.iterdir()) == []
    assert list(disk.iterdir()) == []


def test_seq_scan_of_accounts(tmp_path: Path, disk: Path) -> None:
    outcome = _run("article-5", disk, tmp_path)
    data = _measured(outcome, tmp_path, disk)
    assert [table.name for table in data.tables] == ["pgbench_accounts"]
    assert arms_of(data.samples) == [
        *("seq", "ours", "ours, 0", "ours, 16kB", "ours, 1MB"),
        *("maintenance_io_concurrency 0", "maintenance_io_concurrency 16"),
    ]
    vacuums = [one for one in data.samples if one.evidence is None]
    assert len(vacuums) == 4
    # All pages were read: no device is visible, or it has served them.
    pages = data.tables[0].pages
    uses = [one.use for one in vacuums if one.use]
    assert len(uses) == len(vacuums)
    assert all(use.reads == 0 or use.read_bytes > pages * 8192 * 0.9 for use in uses)
    assert "knee of pg_lookahead.bulk_read_size" in outcome.stderr
    assert "knee of io_combine_limit for VACUUM" in outcome.stderr
