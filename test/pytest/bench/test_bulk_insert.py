"""The bench's parts of "bulk-insert": what they insert; on a server but once."""

from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from bench import small_bench
from bench.small_bench import PG_CONFIG, run_bench
from lookahead.errors import ExitStatus
from lookahead.experiments import bulk_insert_trials
from lookahead.experiments.arms import arm_of
from lookahead.experiments.bulk_insert_trials import InsertCounters, read_counters
from lookahead.results import read_result
from lookahead.server import Session
from lookahead_bench import bulk_insert
from lookahead_bench.bulk_insert import PARTS, Conditions, cases_for, wide_source
from lookahead_bench.insert_trials import SessionCase, _counters, file_extents, summed

_CONDITIONS = Conditions(1024, (1, 32), (1, 4), Path("/a/b'c"))
_ROWS = 128 * 107
_NO_SESSION = cast(Session, None)


def _cases(*parts: str) -> dict[str, SessionCase]:
    found = cases_for(parts, _CONDITIONS)
    return {str(case.scenario.value("insert")): case for case in found}


def _counted(monkeypatch: pytest.MonkeyPatch, *row: object) -> InsertCounters:
    """What is read where the view shows this row: batched rows first, built indexes, reasons."""
    monkeypatch.setattr(bulk_insert_trials, "fetch_row", lambda *_: row)
    return read_counters(_NO_SESSION)


def test_wide_rows_take_as_many_pages() -> None:
    assert wide_source(128).rows(1024) == 128 * 15
    assert wide_source(2).fill(8, 7) == (
        "INSERT INTO lookahead_rows_2 SELECT i + 1, i + 2 FROM generate_series(1, 226) AS i"
    )


def test_cases_of_one_source_come_together() -> None:
    found = [case.source for case in cases_for(PARTS, _CONDITIONS)]
    changes = sum(one != other for one, other in pairwise(found))
    assert changes == len(set(found)) - 1


def test_copy_reads_what_was_written_before() -> None:
    case = _cases("copy")["logged"]
    assert case.first == ("COPY lookahead_rows TO '/a/b''c' (FORMAT binary)",)
    copied, inserted = map(case.statement_of, case.arms)
    assert copied == "COPY lookahead_target FROM 'b''c' (FORMAT binary)"
    assert inserted.startswith("INSERT INTO")


def test_small_inserts_are_against_sessions_without_the_library() -> None:
    cases = _cases("small")
    assert [case.batched for case in cases.values()] == [0, 0, 68]
    assert cases["VALUES of 10 rows"].statement.count("(") == 10
    for case in cases.values():
        assert [arm.library for arm in case.arms] == ["not loaded", "on"]


def test_all_sessions_insert_as_much_as_one() -> None:
    cases = _cases("sessions")
    assert [case.rows * case.sessions for case in cases.values()] == [_ROWS, _ROWS]


def test_counters_of_sessions_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _counted(monkeypatch, 10, 1, 0, 3, 0, 2, {})
    after = _counted(monkeypatch, 110, 2, 0, 6, 0, 2, {})
    both = [after.since(before), after]
    assert summed(both) == {
        "batched_rows": 210,
        "batches": 3,
        "extended_blocks": 9,
        "built_by_us": 2,
    }


def test_a_session_without_the_library_is_not_asked() -> None:
    found = _counters(_NO_SESSION, arm_of("not loaded", "", "not loaded"))
    assert summed([found]) == {}


def test_extents_of_files(disk: Path, tmp_path: Path) -> None:
    file = disk / "1"
    file.write_bytes(b"x" * 8192)
    (disk / "1.1").write_bytes(b"x" * 8192)
    found = file_extents(file)
    assert found is None or found >= 2
    assert file_extents(tmp_path / "absent") is None


@pytest.mark.end_to_end
def test_whole_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bulk_insert.EXPERIMENT.sizes, "demo", small_bench.INSERT)
    outcome = run_bench("run", "bulk-insert", "--demo", "--output", tmp_path, *PG_CONFIG)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (path,) = tmp_path.glob("*.json")
    found = read_result(path)
    data = found.measurements
    assert found.status == "complete"
    assert {str(one.scenario.value("part")) for one in data.samples} == set(PARTS) - {"indexes"}
    assert [table.name for table in data.tables] == ["lookahead_rows", "lookahead_rows_3"]
    for sample in data.samples:
        assert sample.counts["table_bytes"] > 0
        assert len(sample.session_ms) == (2 if "2 sessions" in sample.scenario.label else 1)
        if sample.arm in ("stock", "COPY BINARY", "not loaded"):
            assert "batched_rows" not in sample.counts
    assert len(data.checks) == len({one.scenario for one in data.samples})
