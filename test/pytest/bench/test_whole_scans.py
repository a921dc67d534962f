"""Whole commands of the bench's experiments of scans: each once, small, with its evidence."""

from pathlib import Path

import pytest
from lab.outcome import Outcome
from lab.whole_runs import measured

from bench.small_bench import PG_CONFIG, run_bench
from lookahead.comparisons import arms_of, scenarios_of
from lookahead.device.block_device import find_block_device
from lookahead.errors import LabError
from lookahead_bench import joins
from lookahead_bench.loop_disk import LoopDisk
from lookahead_bench.read_ahead import ReadAhead

pytestmark = [pytest.mark.end_to_end, pytest.mark.usefixtures("small")]


def _run(name: str, disk: Path, output: Path, *options: str) -> Outcome:
    return run_bench(
        *("run", name, "--demo", *options, "--directory", disk, "--output", output, *PG_CONFIG)
    )


def test_cached_scan(tmp_path: Path, disk: Path) -> None:
    data = measured(_run("cached-scan", disk, tmp_path), tmp_path, disk)
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


def test_range_query(tmp_path: Path, disk: Path) -> None:
    data = measured(_run("range-query", disk, tmp_path), tmp_path, disk)
    assert len(data.samples) == 6
    rows = {one.evidence.rows for one in data.samples if one.evidence}
    assert len(rows) == 1
    assert [one.arms for one in data.digests] == [tuple(arm.name for arm in data.arms)]
    assert data.tables[0].rows > 50_000
    assert len(data.comparisons) == 3


def test_concurrent_scans(tmp_path: Path, disk: Path) -> None:
    data = measured(_run("concurrent-scans", disk, tmp_path), tmp_path, disk)
    assert arms_of(data.samples) == [
        *("bitmap, 64", "bitmap, default", "ours", "ours, distance 64")
    ]
    for sample in data.samples:
        assert str(len(sample.session_ms)) == sample.scenario.value("sessions")
        assert sample.time_ms == pytest.approx(sum(sample.session_ms) / len(sample.session_ms))
        assert sample.backend_cpu_ms is None or sample.backend_cpu_ms > 0


def test_page_layouts(tmp_path: Path, disk: Path) -> None:
    data = measured(_run("page-layouts", disk, tmp_path), tmp_path, disk)
    assert arms_of(data.samples) == ["index, random order", "bitmap, default", "ours"]
    found = [one.value("layout") for one in scenarios_of(data.samples)]
    assert found == ["periodic", "clustered"]
    # At even distances there are as many pages as the share says.
    assert data.digests[0].rows == 1000


def test_seq_scan_on_a_disk_of_its_own(tmp_path: Path, disk: Path) -> None:
    try:
        with LoopDisk(10_000_000, disk):
            pass
    except LabError as error:
        pytest.skip(error.message)
    outcome = _run("seq-scan", disk, tmp_path, "--own-disk", "--part", "scan,lookups")
    data = measured(outcome, tmp_path, disk)
    found = [one.value("read-ahead") for one in scenarios_of(data.samples)]
    assert found == ["128 kB", "1024 kB"] * 2
    scans, lookups = (
        [one for one in data.samples if bool(one.scenario.value("lookups")) is wanted]
        for wanted in (False, True)
    )
    assert arms_of(scans) == [
        *("seq", "ours", "device alone", "COPY table", "COPY query, stock", "COPY query, ours"),
        "seq, in memory",
    ]
    for one in scans:
        assert (one.backend_cpu_ms is None) == (one.arm not in ("seq", "ours"))
    assert [one.arm for one in lookups] == ["lookups, stock", "lookups, ours"] * 2
    assert {one.scenario.value("lookups") for one in lookups} == {"8 sessions"}
    for one in lookups:
        assert 0 < one.counts["p50_ms"] <= one.counts["p99_ms"]
        assert one.counts["lookups_per_s"] > 0
    assert "for the whole table the device alone takes" in outcome.stderr
    assert "knee of seq: a read-ahead of" in outcome.stderr


def test_seq_scan_at_the_read_ahead_of_the_machine(tmp_path: Path, disk: Path) -> None:
    """As root too: neither is it changed, nor is a loop device made."""
    device = find_block_device(disk)
    if device is None:
        pytest.skip("no block device is visible")
    before = ReadAhead.of(device).read_kb()
    outcome = _run("seq-scan", disk, tmp_path, "--part", "scan")
    data = measured(outcome, tmp_path, disk)
    (scenario,) = scenarios_of(data.samples)
    assert scenario.value("read-ahead") == f"{before} kB"
    assert "measured at the machine's own read-ahead only" in outcome.stderr
    assert "--own-disk measures several" in outcome.stderr
    assert ReadAhead.of(device).read_kb() == before


def test_seq_scan_of_accounts(tmp_path: Path, disk: Path) -> None:
    outcome = _run("seq-scan", disk, tmp_path, "--part", "bulk-read,vacuum")
    data = measured(outcome, tmp_path, disk)
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


def test_index_only_scan(tmp_path: Path, disk: Path) -> None:
    """Stock reads the pages that are not all-visible and no others; we ask for nearly all."""
    data = measured(_run("index-only-scan", disk, tmp_path), tmp_path, disk)
    found = [one.value("pages not all-visible") for one in scenarios_of(data.samples)]
    assert found == ["50 %", "100 %"]
    assert len(data.digests) == len(data.comparisons) == 2
    for sample in data.samples:
        assert sample.evidence is not None
        hidden = sample.counts["hidden_pages"]
        assert sample.evidence.rows == 200
        assert hidden <= sample.evidence.shared_read_blocks <= hidden + 10
        if sample.arm == "ours":
            assert sample.evidence.lookahead.prefetched_blocks >= 0.9 * hidden
            assert sample.evidence.lookahead.advised_blocks > 0
    assert {one.counts["hidden_pages"] for one in data.samples[-4:]} == {200}


def test_joins(tmp_path: Path, disk: Path) -> None:
    data = measured(_run("joins", disk, tmp_path), tmp_path, disk)
    assert [table.name for table in data.tables] == [joins.INNER, joins.OUTER, *joins.LEAVES]
    assert len(data.digests) == len(data.comparisons) == 22
    ours = [one for one in data.samples if one.arm.startswith(joins.OURS) and one.evidence]
    assert len(ours) == len(data.samples) / 2
    advised = {
        sample.scenario.label: sample.evidence.lookahead.advised_blocks
        for sample in ours
        if sample.evidence
    }
    assert advised.pop("limit-1, index cold, worker") == 0
    assert advised.pop("key, cached, worker") == advised.pop("subplan, cached, worker") == 0
    assert min(advised.values()) > 0
