"""The experiment "index-build": what it measures, compares and shows; without a server but once."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from lab import small_run
from lab.made_results import make_builds, make_conditions
from lab.outcome import run_command
from lookahead.comparisons import compare
from lookahead.errors import ExitStatus, LabError
from lookahead.experiments import index_build
from lookahead.experiments.built_index import blanked, pages_sha256
from lookahead.experiments.conditions import BLOCK_BYTES
from lookahead.experiments.index_build import IndexBuilds, conditions_for
from lookahead.experiments.index_build_keys import KEYS
from lookahead.report.page import render_page
from lookahead.results import ResultDocument, encode, parse_result, read_result

_PG_CONFIG = ("--pg-config", os.environ["PG_CONFIG"]) if "PG_CONFIG" in os.environ else ()


@pytest.fixture
def builds(document: ResultDocument) -> ResultDocument:
    data = make_builds()
    answered = replace(data, comparisons=compare(data, seed=document.parameters.seed))
    return replace(document, experiment="index-build", measurements=answered)


def test_comparison_takes_whole_pairs() -> None:
    (found,) = compare(make_builds(), seed=1)
    assert found.question.scenario == make_conditions(0).scenario
    assert (found.baseline_median_ms, found.challenger_median_ms) == (425.0, 106.25)
    assert (found.estimate.ratio, found.estimate.verdict) == (4.0, "faster")


def test_result_file_keeps_everything(builds: ResultDocument) -> None:
    assert parse_result(encode(builds), "made") == builds


def test_page_shows_builds(builds: ResultDocument) -> None:
    page = render_page([("made.json", builds)])
    assert "<li>index build 4.0 times faster (4.0 to 4.0)</li>" in page
    assert "In all: key bigint-random, workers 0, memory 512 MB, rows 1,000" in page
    assert 'data-head="scanning table" class="number">212 ms</td>' in page


def test_one_setting_varies_at_a_time() -> None:
    wanted = IndexBuilds(3, ("uuid",), 1000, (0, 2), (524288, 65536))
    found = list(conditions_for(wanted))
    assert [(item.workers, item.memory_kb) for item in found] == [
        *((0, 524288), (2, 524288), (0, 65536))
    ]
    assert found[1].scenario.label == "uuid, 2, 512 MB, 1,000"


def test_statements_of_keys() -> None:
    assert KEYS["text-c"].create.endswith('ON lookahead_build (name COLLATE "C")')
    assert KEYS["unique"].create.startswith("CREATE UNIQUE INDEX")


def test_digest_leaves_out_lsn_and_checksum(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("1", "2", "3"))
    page = bytes(range(256)) * (BLOCK_BYTES // 256)
    first.write_bytes(page * 3)
    second.write_bytes(page * 2 + b"0123456789" + page[10:])
    third.write_bytes(page * 2 + b"0123456789X" + page[11:])
    assert pages_sha256(first) == pages_sha256(second) != pages_sha256(third)


def test_digest_goes_on_in_the_next_segment(tmp_path: Path) -> None:
    whole, parts = tmp_path / "1", tmp_path / "2"
    whole.write_bytes(bytes(2 * BLOCK_BYTES))
    parts.write_bytes(bytes(BLOCK_BYTES))
    assert pages_sha256(whole) != pages_sha256(parts)
    parts.with_name("2.1").write_bytes(bytes(BLOCK_BYTES))
    assert pages_sha256(whole) == pages_sha256(parts)


def test_torn_page_is_an_error() -> None:
    with pytest.raises(LabError, match="no whole pages"):
        blanked(bytes(BLOCK_BYTES + 1))


@pytest.mark.end_to_end
def test_whole_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(index_build.EXPERIMENT.sizes, "demo", small_run.BUILD)
    outcome = run_command("run", "index-build", "--demo", "--output", tmp_path, *_PG_CONFIG)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (path,) = tmp_path.glob("*.json")
    found = read_result(path)
    data = found.measurements
    assert (found.status, len(data.samples)) == ("complete", 8)
    keys = [sample.scenario.value("key") for sample in data.samples[::4]]
    assert keys == ["int-sorted", "uuid"]
    for sample in data.samples:
        assert sample.counts["built_by_us"] == (sample.arm == "ours")
        # Its pages, without the holes in them.
        assert 0.3 < sample.counts["wal_bytes"] / sample.counts["index_bytes"] < 3
    assert data.comparisons == compare(data, found.parameters.seed)
    assert len(data.comparisons) == 2
    assert list(data.statements.values()) == [KEYS[str(key)].build for key in keys]
    assert data.tables[0].rows == 2_000
    assert (
        "same pages: SHA-256 over the pages of 2 indexes in several arms: equal" in outcome.stdout
    )
    assert "path taken: 4 indexes in 4 samples" in outcome.stdout


@pytest.mark.end_to_end
def test_a_larger_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 4 MB inserts in batches would leave empty pages, which no VACUUM makes all-visible.

    ANALYZE looks at 300 of its pages, and so estimates its rows.
    """
    wanted = replace(small_run.BUILD, rows=100_000, key=("int-sorted",))
    monkeypatch.setitem(index_build.BUILD_SETTINGS, "default_statistics_target", "1")
    monkeypatch.setitem(index_build.EXPERIMENT.sizes, "demo", wanted)
    outcome = run_command("run", "index-build", "--demo", "--output", tmp_path, *_PG_CONFIG)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (path,) = tmp_path.glob("*.json")
    assert read_result(path).measurements.tables[0].rows == 100_000
