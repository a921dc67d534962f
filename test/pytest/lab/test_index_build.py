"""The experiment "index-build": what it measures, compares and shows; without a server but once."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from lab import small_run
from lab.outcome import run_command
from lookahead.build_comparisons import (
    compare_builds,
    compare_validated_builds,
    compare_workers,
    peak_memory_share,
)
from lookahead.build_measurements import (
    BuildPhase,
    BuildSample,
    BuildScenario,
    BuildTable,
    IndexBuildData,
)
from lookahead.errors import ExitStatus, LabError
from lookahead.experiments import index_build
from lookahead.experiments.index_build import SizeDefaults, describe, scenarios_for
from lookahead.experiments.index_build_keys import KEYS, PGBENCH_TABLE, Collation
from lookahead.experiments.index_build_pages import blanked, pages_sha256
from lookahead.experiments.index_build_watch import private_bytes
from lookahead.experiments.scan_table import BLOCK_BYTES
from lookahead.report.page import render_page
from lookahead.results import ResultDocument, encode, parse_result, read_result
from lookahead.scan_measurements import Arm

_PG_CONFIG = ("--pg-config", os.environ["PG_CONFIG"]) if "PG_CONFIG" in os.environ else ()
_SCENARIO = BuildScenario("bigint-random", 1000, 0, 512, 4096)
_TWO_WORKERS = replace(_SCENARIO, workers=2)
_ABSENT = Collation("absent", "libc", "xx_XX", "there is no locale xx_XX", "Make one.")


def _sample(scenario: BuildScenario, pair: int, arm: Arm, time_ms: float) -> BuildSample:
    ours = arm == "lookahead"
    return BuildSample(
        scenario=scenario,
        pair=pair,
        sequence=2 * pair + int(ours),
        arm=arm,
        time_ms=time_ms,
        built_by_us=int(ours),
        wal_bytes=70_000_000,
        index_bytes=64_000_000,
        peak_memory_bytes=None if pair else 33_000_000,
        workers_seen=scenario.workers,
        phases=(BuildPhase("scanning table", time_ms / 2), BuildPhase("another", time_ms / 4)),
        pages_sha256="ab" * 32 if pair == 0 else None,
    )


@pytest.fixture
def samples() -> tuple[BuildSample, ...]:
    """Six pairs that are four times as fast, and one arm of another scenario."""
    times = (400.0, 410.0, 420.0, 430.0, 440.0, 450.0)
    found = []
    for pair, time in enumerate(times):
        found.append(_sample(_SCENARIO, pair, "stock", time))
        found.append(_sample(_SCENARIO, pair, "lookahead", time / 4))
    return (*found, _sample(_TWO_WORKERS, 0, "stock", 300.0))


@pytest.fixture
def builds(document: ResultDocument, samples: tuple[BuildSample, ...]) -> ResultDocument:
    data = IndexBuildData((BuildTable("lookahead_build", 1000, 10**6, 1.5),), samples, ())
    return replace(document, experiment="index-build", index_scan=None, index_build=data)


def test_comparison_takes_whole_pairs(samples: tuple[BuildSample, ...]) -> None:
    (found,) = compare_builds(samples, seed=1)
    assert found.scenario == _SCENARIO
    assert (found.stock_median_ms, found.lookahead_median_ms) == (425.0, 106.25)
    assert found.estimate.ratio == 4.0
    assert found.estimate.verdict == "faster"


def test_validation_is_told_from_the_build() -> None:
    waiting = BuildPhase("waiting for writers before build", 20.0)
    validation = BuildPhase("index validation: scanning table", 60.0)
    times: dict[Arm, float] = {"stock": 480.0, "lookahead": 180.0}
    pair = [
        replace(_sample(_SCENARIO, 0, arm, time), phases=(waiting, validation))
        for arm, time in times.items()
    ]
    (found,) = compare_validated_builds(pair)
    assert found.build_ms == {"stock": 400.0, "lookahead": 100.0}
    assert found.validation_ms == {"stock": 60.0, "lookahead": 60.0}
    assert compare_validated_builds([_sample(_SCENARIO, 0, "stock", 480.0)]) == ()


def test_gain_of_workers_needs_the_same_build_without_them(
    samples: tuple[BuildSample, ...], builds: ResultDocument
) -> None:
    assert compare_workers(samples) == ()
    assert "What parallel workers gain" not in render_page([("made.json", builds)])
    whole = (*samples, _sample(_TWO_WORKERS, 0, "lookahead", 42.5))
    (found,) = compare_workers(whole)
    assert found.scenario == _TWO_WORKERS
    assert found.gains == {"stock": 425.0 / 300.0, "lookahead": 2.5}
    assert builds.index_build is not None
    shown = replace(builds, index_build=replace(builds.index_build, samples=whole))
    assert "often 2 to 3 (PostgreSQL" in render_page([("made.json", shown)])


def test_peak_memory_is_that_of_the_worst_sample() -> None:
    sample = _sample(_SCENARIO, 0, "lookahead", 100.0)
    worse = replace(sample, peak_memory_bytes=512 * 1024 * 1024)
    assert peak_memory_share([sample, worse, _sample(_SCENARIO, 1, "stock", 1.0)]) == 1.0
    assert peak_memory_share([_sample(_SCENARIO, 1, "lookahead", 100.0)]) is None


def test_result_file_keeps_everything(builds: ResultDocument) -> None:
    assert parse_result(encode(builds), "made") == builds


def test_page_shows_builds(builds: ResultDocument) -> None:
    page = render_page([("made.json", builds)])
    assert "Index builds over a cached table" in page
    assert "bigint-random, 0 workers, 512 MB, step 4096 kB" in page
    assert "4.00 [4.00, 4.00]" in page
    assert "Of 2 indexes both arms" in page
    assert 'class="phase-1"' in page
    assert "Each execution is an index scan" not in page


def test_one_setting_varies_at_a_time() -> None:
    wanted = SizeDefaults(1000, (), (0, 2), (512, 64), (4096, 0, 64), 3)
    found = list(scenarios_for(KEYS["bigint-random"], wanted))
    settings = [(item.workers, item.memory_mb, item.extend_kb) for item in found]
    assert settings == [
        (0, 512, 4096),
        (2, 512, 4096),
        (0, 64, 4096),
        (0, 512, 0),
        (0, 512, 64),
    ]
    assert len(list(scenarios_for(KEYS["uuid"], wanted))) == 3
    assert describe(found[1]).startswith("bigint, random: 2 workers, 512 MB")


def test_statements_of_keys() -> None:
    assert KEYS["text-c"].create.endswith('ON lookahead_build (name COLLATE "C")')
    assert KEYS["unique"].create.startswith("CREATE UNIQUE INDEX")
    assert KEYS["concurrent-text"].build.startswith("CREATE INDEX CONCURRENTLY")
    assert KEYS["reindex"].build.startswith("REINDEX INDEX")
    assert KEYS["reindex"].create.startswith("CREATE INDEX lookahead_built ON lookahead_build")
    assert KEYS["pgbench"].create.startswith(f"ALTER TABLE {PGBENCH_TABLE} ADD CONSTRAINT")
    assert KEYS["pgbench"].drop.startswith(f"ALTER TABLE {PGBENCH_TABLE} DROP CONSTRAINT")


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


def test_private_memory_of_a_process_is_known() -> None:
    own = private_bytes(os.getpid())
    assert own is not None
    assert own > 1_000_000
    assert private_bytes(2**22 + 1) is None


@pytest.mark.end_to_end
def test_wanted_key_without_its_collation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(index_build.DEFAULTS, "demo", small_run.BUILD)
    monkeypatch.setitem(KEYS, "text-libc", replace(KEYS["text-libc"], collation=_ABSENT))
    options = ("--demo", "--key", "text-libc", "--output", tmp_path, *_PG_CONFIG)
    outcome = run_command("run", "index-build", *options)
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "error: there is no locale xx_XX\nhint: Make one." in outcome.stderr


@pytest.mark.end_to_end
def test_whole_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = replace(small_run.BUILD, keys=(*small_run.BUILD.keys, "text-libc"))
    monkeypatch.setitem(index_build.DEFAULTS, "demo", wanted)
    monkeypatch.setitem(KEYS, "text-libc", replace(KEYS["text-libc"], collation=_ABSENT))
    outcome = run_command("run", "index-build", "--demo", "--output", tmp_path, *_PG_CONFIG)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (path,) = tmp_path.glob("*.json")
    found = read_result(path)
    data = found.index_build
    assert data is not None
    assert (found.status, len(data.samples)) == ("complete", 8)
    assert [sample.scenario.key for sample in data.samples[::4]] == ["not-vacuumed", "int-sorted"]
    for sample in data.samples:
        assert sample.built_by_us == (50 if sample.arm == "lookahead" else 0)
        assert sample.wal_bytes > sample.index_bytes > 0
    assert data.comparisons == compare_builds(data.samples, found.parameters.seed)
    assert data.tables[0].rows == 2_000
    assert "same pages: 2 indexes of both arms compared byte by byte: equal" in outcome.stdout
    assert "path taken: 200 indexes in 4 samples" in outcome.stdout
    assert "memory: at most" in outcome.stdout
    notes = [finding.text for finding in found.findings]
    assert "text-libc is left out: there is no locale xx_XX" in notes
