"""`lookahead demo`: its four parts, and what it says where a part cannot be measured."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab import small_run
from lab.outcome import run_command
from lookahead.commands import demo
from lookahead.errors import ExitStatus, UnavailableError
from lookahead.experiments import bitmap_scan, bulk_insert, index_build, index_scan, runner
from lookahead.experiments.trials import Trials
from lookahead.results import read_result

pytestmark = pytest.mark.end_to_end
_PG_CONFIG = ("--pg-config", os.environ["PG_CONFIG"]) if "PG_CONFIG" in os.environ else ()


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, *others = demo._PARTS
    assert list(first.bars) == [f"{pages:,} pages" for pages in first.given["pages"]]
    (bar,) = first.bars.values()
    small = replace(first, given={"pages": small_run.SCAN.pages}, bars={"300 pages": bar})
    brief = replace(second, given={**second.given, "repetitions": 1})
    monkeypatch.setattr(demo, "_PARTS", (small, brief, *others))
    monkeypatch.setitem(index_scan.EXPERIMENT.sizes, "demo", small_run.SCAN)
    monkeypatch.setitem(bitmap_scan.EXPERIMENT.sizes, "demo", small_run.BITMAP)
    monkeypatch.setitem(index_build.EXPERIMENT.sizes, "demo", small_run.BUILD)
    monkeypatch.setitem(bulk_insert.EXPERIMENT.sizes, "demo", small_run.INSERT)


def test_all_parts(tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = iter([0.7, 0.1, 0.0, 0.2])
    monkeypatch.setattr(runner, "busy_share", lambda seconds: next(shares))
    outcome = run_command("demo", "--directory", disk, "--output", tmp_path, *_PG_CONFIG)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    found = {read_result(path).experiment: read_result(path) for path in tmp_path.glob("*.json")}
    assert set(found) == {"index-scan", "bitmap-scan", "index-build", "bulk-insert"}
    for document in found.values():
        assert document.status == "complete"
        assert document.parameters.size == "demo"
        assert document.measurements.comparisons
    busy = [name for name, one in found.items() if "take 70% of its" in str(one.findings)]
    assert busy == ["index-scan"]
    (scan,) = {sample.scenario.value("scan") for sample in found["index-scan"].measurements.samples}
    assert scan == "300 pages"
    inserted = found["bulk-insert"].measurements.comparisons
    assert {one.question.scenario.value("part") for one in inserted} == {"flat"}
    (page,) = tmp_path.glob("*.html")
    assert page.name.startswith("demo-")
    text = page.read_text()
    assert text.count("<svg") >= 2 * (1 + 4)
    assert text.count("<h2>") == 4
    lines = outcome.stdout.splitlines()
    names = [line for line in lines if line.endswith("by default)")]
    assert len(names) == 6
    assert all(name.endswith("(on by default)") for name in names)
    assert all(name in text for name in names)
    assert len([line for line in lines if line.startswith("  stock ")]) == 6
    assert len([line for line in lines if line.startswith("  ours ")]) == 6
    assert lines[-2:] == [f"page: {page}", lines[-1]]
    assert lines[-1].startswith("Next: lookahead check ")
    assert lines[-1].replace("'", "&#39;") in text
    assert len(lines) < 24  # of a screen
    assert [line for line in outcome.stderr.splitlines() if " of 4: " in line] == [
        "1 of 4: a cold index scan in random order",
        "2 of 4: cold bitmap scans",
        "3 of 4: builds of indexes",
        "4 of 4: inserts of many rows",
    ]
    assert list(disk.iterdir()) == []


def test_a_part_that_cannot_be_measured(
    tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(trials: Trials[Any], settings: object) -> None:
        raise UnavailableError("not cold", "Elsewhere.")

    monkeypatch.setattr(Trials, "cool", refuse)
    outcome = run_command("demo", "--directory", disk, "--output", tmp_path, *_PG_CONFIG)
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert outcome.stderr.count("warning: not measured here: not cold") == 2
    assert "error: 2 of 4 experiments could not be measured here" in outcome.stderr
    found = {read_result(path).experiment for path in tmp_path.glob("*.json")}
    assert found == {"index-build", "bulk-insert"}
    assert len([line for line in outcome.stdout.splitlines() if line.startswith("  ours ")]) == 3
    assert len(list(tmp_path.glob("*.html"))) == 1
