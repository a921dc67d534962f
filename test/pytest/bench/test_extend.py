"""The experiment "extend": who lets which table grow; on a server but once."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench import small_bench
from bench.small_bench import PG_CONFIG, run_bench
from lookahead.errors import ExitStatus
from lookahead.results import ResultDocument, read_result
from lookahead_bench import extend, insert_trials
from lookahead_bench.extend import _cases

_WANTED = small_bench.EXTEND


def test_sessions_have_tables_of_their_own_and_one() -> None:
    cases = list(_cases(replace(_WANTED, sessions=(1, 4))))
    assert [(case.sessions, len(case.targets)) for case in cases] == [(1, 1), (4, 4), (4, 1)]
    assert {case.rows * case.sessions for case in cases} == {128 * 107}
    own = cases[1]
    arm = own.arms[0]
    filled = [own.statement_of(arm, session).split()[2] for session in range(4)]
    assert filled == list(own.targets)
    assert {cases[2].statement_of(arm, session) for session in range(4)} == {
        "INSERT INTO lookahead_target_0 SELECT * FROM lookahead_rows LIMIT 3424"
    }


def test_each_step_is_compared_with_stock() -> None:
    case, *_ = _cases(replace(_WANTED, extend_size=(0, 512)))
    assert [arm.name for arm in case.arms] == ["stock", "ours, 0 kB", "ours, 512 kB"]
    sizes = [arm.settings.get("pg_lookahead.bulk_extend_size") for arm in case.arms]
    assert sizes == [None, "0kB", "512kB"]
    assert [one.challengers for one in case.questions] == [("ours, 0 kB",), ("ours, 512 kB",)]


def _run(tmp_path: Path, disk: Path, *options: str) -> ResultDocument:
    place = ("--directory", disk, "--output", tmp_path)
    outcome = run_bench("run", "extend", "--demo", *place, *options, *PG_CONFIG)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (path,) = tmp_path.glob("*.json")
    return read_result(path)


@pytest.mark.end_to_end
def test_whole_command(tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extend.EXPERIMENT.sizes, "demo", _WANTED)
    found = _run(tmp_path, disk)
    data = found.measurements
    assert found.status == "complete"
    assert {one.scenario.value("growing") for one in data.samples} == {
        "sessions 2, tables 2",
        "sessions 2, tables 1",
        "pgbench -i, COPY",
        "pgbench -i, INSERT ... SELECT",
    }
    grown = [one for one in data.samples if one.scenario.value("sample") == "insert"]
    read = [one for one in data.samples if one.scenario.value("sample") == "read cold"]
    assert len(grown) == len(read) == 4 * 2
    assert all(one.cold is not None and one.cold.is_cold for one in read)
    assert all(one.cold is None and one.counts["table_bytes"] > 1_000_000 for one in grown)
    assert {len(one.session_ms) for one in grown} == {1, 2}
    assert len(data.comparisons) == 4 * 2
    by_pgbench = [one for one in grown if "pgbench" in one.scenario.label]
    assert min(one.counts["table_bytes"] for one in by_pgbench) >= 12 * 2**20


@pytest.mark.end_to_end
def test_extents_that_nobody_tells(
    tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = replace(_WANTED, sessions=(1,), scale=(), extend_size=(0,))
    monkeypatch.setitem(extend.EXPERIMENT.sizes, "demo", wanted)
    monkeypatch.setattr(insert_trials, "file_extents", lambda file: None)
    found = _run(tmp_path, disk)
    assert "extents are not counted: the file system does not tell them" in [
        one.text for one in found.findings
    ]
    assert not any("file_extents" in one.counts for one in found.measurements.samples)
