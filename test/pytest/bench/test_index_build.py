"""The bench's keys of "index-build": statements, conditions; on a server but once."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from bench import small_bench
from bench.small_bench import PG_CONFIG, run_bench
from lookahead.comparisons import compare
from lookahead.errors import ExitStatus
from lookahead.results import read_result
from lookahead_bench import index_build
from lookahead_bench.build_watch import private_bytes
from lookahead_bench.index_build import (
    KEYS,
    PGBENCH_TABLE,
    Collation,
    IndexBuilds,
    conditions_for,
)

# One look of those that watch a build, and what it takes.
_POLLING_MS = 40.0
_ABSENT = Collation("absent", "libc", "xx_XX", "there is no locale xx_XX", "Make one.")


def test_one_setting_varies_at_a_time() -> None:
    wanted = IndexBuilds(3, (), 1000, (0, 2), (524288, 65536))
    found = list(conditions_for(KEYS["bigint-random"], wanted))
    settings = [(item.workers, item.memory_kb) for item in found]
    assert settings == [(0, 524288), (2, 524288), (0, 65536)]
    assert found[1].scenario.label == "bigint-random, 2, 512 MB, 1,000"


def test_statements_of_keys() -> None:
    assert KEYS["unique"].create == "CREATE UNIQUE INDEX lookahead_built ON lookahead_build (id)"
    assert KEYS["concurrent-text"].build.startswith("CREATE INDEX CONCURRENTLY")
    assert KEYS["reindex"].build.startswith("REINDEX INDEX")
    assert KEYS["reindex"].create.startswith("CREATE INDEX lookahead_built ON lookahead_build")
    assert KEYS["pgbench"].create.startswith(f"ALTER TABLE {PGBENCH_TABLE} ADD CONSTRAINT")
    assert KEYS["pgbench"].drop.startswith(f"ALTER TABLE {PGBENCH_TABLE} DROP CONSTRAINT")


def test_private_memory_of_a_process_is_known() -> None:
    own = private_bytes(os.getpid())
    assert own is not None
    assert own > 1_000_000
    assert private_bytes(2**22 + 1) is None


@pytest.mark.end_to_end
def test_wanted_key_without_its_collation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(index_build.EXPERIMENT.sizes, "demo", small_bench.BUILD)
    monkeypatch.setitem(KEYS, "text-libc", replace(KEYS["text-libc"], collation=_ABSENT))
    options = ("--demo", "--key", "text-libc", "--output", tmp_path, *PG_CONFIG)
    outcome = run_bench("run", "index-build", *options)
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "error: there is no locale xx_XX\nhint: Make one." in outcome.stderr


@pytest.mark.end_to_end
def test_whole_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = replace(small_bench.BUILD, key=(*small_bench.BUILD.key, "text-libc"))
    monkeypatch.setitem(index_build.EXPERIMENT.sizes, "demo", wanted)
    monkeypatch.setitem(KEYS, "text-libc", replace(KEYS["text-libc"], collation=_ABSENT))
    outcome = run_bench("run", "index-build", "--demo", "--output", tmp_path, *PG_CONFIG)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (path,) = tmp_path.glob("*.json")
    found = read_result(path)
    data = found.measurements
    assert (found.status, len(data.samples)) == ("complete", 20)
    keys = [sample.scenario.value("key") for sample in data.samples[::4]]
    assert keys == ["not-vacuumed", "int-sorted", "reindex", "concurrent-text", "pgbench"]
    for sample in data.samples:
        # All figures are those of one of 50 builds.
        assert sample.executions == 50
        assert sample.counts["built_by_us"] == (sample.arm == "ours")
        assert sample.counts["workers_seen"] == 0
        assert sample.counts["allowed_memory_bytes"] == 64 * 2**20
        # Its pages, without the holes in them.
        assert 0.3 < sample.counts["wal_bytes"] / sample.counts["index_bytes"] < 3
        phases = [value for name, value in sample.counts.items() if name.endswith("_ms")]
        assert sum(phases) <= sample.time_ms + _POLLING_MS
    assert data.comparisons == compare(data, found.parameters.seed)
    assert len(data.comparisons) == 5
    assert list(data.statements.values()) == [KEYS[str(key)].build for key in keys]
    assert data.tables[0].rows == 2_000
    assert (
        "same pages: SHA-256 over the pages of 5 indexes in several arms: equal" in outcome.stdout
    )
    assert "path taken: 10 indexes in 10 samples" in outcome.stdout
    notes = [finding.text for finding in found.findings]
    assert "text-libc is left out: there is no locale xx_XX" in notes
