"""Whole commands on a server: what they leave behind, complete, interrupted or out of disk."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from mounting import mounted, mounted_disk
from waiting import wait_until

from lab import small_run
from lab.outcome import run_command
from lookahead.comparisons import compare
from lookahead.errors import ExitStatus
from lookahead.experiments import index_scan, runner
from lookahead.results import ResultDocument, read_result

pytestmark = pytest.mark.end_to_end
_PG_CONFIG = ("--pg-config", os.environ["PG_CONFIG"]) if "PG_CONFIG" in os.environ else ()


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(index_scan.EXPERIMENT.sizes, "demo", small_run.SCAN)


def _only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


def _result(folder: Path) -> ResultDocument:
    return read_result(_only(folder, "*.json"))


def test_index_scan(tmp_path: Path, disk: Path) -> None:
    outcome = run_command(
        "run", "index-scan", "--demo", "--directory", disk, "--output", tmp_path, *_PG_CONFIG
    )
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    found = _result(tmp_path)
    data = found.measurements
    assert found.status == "complete"
    arms = [sample.arm for sample in data.samples]
    assert arms == ["stock", "ours", "bitmap and sort", "bitmap and sort", "ours", "stock"]
    plans = {arm.name: arm.plan for arm in data.arms}
    for sample in data.samples:
        ours = sample.arm == "ours"
        assert sample.evidence is not None
        assert sample.cold is not None
        assert sample.use is not None
        assert sample.evidence.node_type == plans[sample.arm]
        assert sample.evidence.rows == sample.counts["distinct_pages"] == 300
        assert (sample.evidence.lookahead.status == "prefetch") is ours
        assert (sample.evidence.lookahead.prefetched_blocks > 270) is ours
        assert sample.evidence.shared_read_blocks >= 300
        assert sample.cold.is_cold
        # Without a visible block device there is nothing to count.
        assert not sample.use.reads or sample.use.read_bytes >= 270 * 8192
    # The arms of a round have the same keys, and each round its own.
    keys = [sample.counts["first_key"] for sample in data.samples]
    assert (len(set(keys[:3])), len(set(keys[3:])), len(set(keys))) == (1, 1, 2)
    assert data.comparisons == compare(data, found.parameters.seed)
    assert [digest.rows for digest in data.digests] == [300]
    assert found.settings["shared_buffers"] == "256MB"
    assert found.parameters.values["pages"] == (300,)
    assert [item.baseline for item in data.comparisons] == ["stock", "bitmap and sort"]
    (statement,) = data.statements.values()
    assert statement.startswith(
        f"SELECT id, k, pad FROM lookahead_scan WHERE k BETWEEN {keys[0]:.0f}"
    )
    page = _only(tmp_path, "*.html")
    assert f"page:       {page}" in outcome.stdout
    assert "same rows:  300 rows of several arms" in outcome.stdout
    assert list(disk.iterdir()) == []


def test_index_scan_of_few_rows_and_in_heap_order(tmp_path: Path, disk: Path) -> None:
    patterns = ("--limit", "1", "--limit", "100", "--share", "25", "--repetitions", "1")
    outcome = run_command(
        *("run", "index-scan", "--demo", *patterns, "--directory", disk, "--output", tmp_path),
        *_PG_CONFIG,
    )
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    data = _result(tmp_path).measurements
    pages = {}
    for sample in data.samples:
        assert sample.evidence is not None
        pages[sample.scenario.value("scan")] = sample.evidence.rows
        assert sample.evidence.rows == sample.counts["distinct_pages"]
        assert sample.evidence.shared_read_blocks >= sample.evidence.rows
        assert (sample.evidence.lookahead.status == "prefetch") is (sample.arm == "ours")
    assert list(pages) == ["LIMIT 1", "LIMIT 100", "25 % in heap order"]
    assert (pages["LIMIT 1"], pages["LIMIT 100"]) == (1, 100)
    assert 400 < pages["25 % in heap order"] < 600  # chosen by a hash, of 2,000
    # More rounds of what takes a millisecond: 4 times.
    assert [item.estimate.pairs for item in data.comparisons] == [4, 4, 1]
    assert [digest.rows for digest in data.digests] == list(pages.values())


def _children_below(folder: Path) -> list[str]:
    """Processes that work in `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and (entry / "cwd").readlink().is_relative_to(folder):
                found.append(entry.name)
        except OSError:  # ended meanwhile, or another user's
            continue
    return found


def _has_sample(folder: Path) -> bool:
    for path in folder.glob("*.json"):
        text = path.read_text()
        return bool(text and json.loads(text)["measurements"]["samples"])
    return False


@pytest.mark.parametrize(
    ("experiment", "number"),
    [
        ("index-scan", signal.SIGINT),
        ("index-scan", signal.SIGTERM),
        ("bitmap-scan", signal.SIGTERM),
    ],
)
def test_interrupted(
    tmp_path: Path,
    disk: Path,
    experiment: str,
    number: signal.Signals,
) -> None:
    output = tmp_path / "results"
    command = [sys.executable, small_run.__file__, "run", experiment, "--demo"]
    options = ["--repetitions", "500", "--directory", disk, "--output", output, *_PG_CONFIG]
    with ExitStack() as stack:
        child = stack.enter_context(
            subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
        )
        stack.callback(child.kill)
        wait_until(
            lambda: _has_sample(output) or child.poll() is not None,
            "a first sample",
            timeout_seconds=200,
        )
        child.send_signal(number)
        _, stderr = child.communicate(timeout=60)
    assert child.returncode == ExitStatus.INTERRUPTED, stderr
    assert "error: interrupted" in stderr
    assert "marked incomplete" in stderr
    found = _result(output)
    assert (found.status, found.ending, found.finished_at) == ("incomplete", "interrupted", None)
    # Comparisons are its readers' work.
    assert '"comparisons": []' in _only(output, "*.json").read_text()
    assert len(found.measurements.samples) >= 1
    assert _children_below(disk) == []
    assert list(disk.iterdir()) == []
    assert run_command("report", _only(output, "*.json")).status is ExitStatus.SUCCESS


def test_more_pages_than_the_table_has(tmp_path: Path) -> None:
    outcome = run_command(
        *("run", "index-scan", "--demo", "--pages", "2001", "--output", tmp_path, *_PG_CONFIG)
    )
    assert outcome.status is ExitStatus.USAGE
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def small_disk(disk: Path) -> Iterator[Path]:
    """A file system of 60 MB; needs the right to mount."""
    with mounted_disk(disk / "small", 60 * 2**20) as place:
        yield place


def test_refuses_a_disk_that_is_too_small(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        index_scan.EXPERIMENT.sizes,
        "demo",
        replace(small_run.SCAN, table_pages=10_000),
    )
    outcome = run_command(
        "run", "index-scan", "--demo", "--directory", small_disk, "--output", tmp_path, *_PG_CONFIG
    )
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "GB of disk space" in outcome.stderr
    assert "--directory" in outcome.stderr
    assert list(small_disk.iterdir()) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("experiment", ["index-scan", "index-build"])
def test_refuses_a_place_in_memory(tmp_path: Path, disk: Path, experiment: str) -> None:
    output = tmp_path / "results"
    with mounted(disk / "memory", "size=16m") as place:
        outcome = run_command(
            *("run", experiment, "--demo", "--directory", place, "--output", output, *_PG_CONFIG)
        )
        assert list(place.iterdir()) == []
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert f'error: "{place}" is in memory (tmpfs)' in outcome.stderr
    assert "hint: Name a folder on a disk with --directory." in outcome.stderr
    assert list(output.iterdir()) == []


def test_disk_full_under_way(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if something else had filled the disk after it was looked at.
    monkeypatch.setattr(runner, "check_place", lambda place, needed_bytes: None)
    outcome = run_command(
        "run", "index-scan", "--demo", "--directory", small_disk, "--output", tmp_path, *_PG_CONFIG
    )
    assert outcome.status in (ExitStatus.FAILURE, ExitStatus.ENVIRONMENT)
    assert "No space left on device" in outcome.stderr
    assert "hint: " in outcome.stderr
    assert list(small_disk.iterdir()) == []
    assert list(tmp_path.iterdir()) == []
