"""The experiment "bulk-insert": what it inserts, compares and shows; on a server but once."""

import os
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from lab import small_run
from lab.outcome import run_command
from lookahead.comparisons import compare, compare_wal, proofs
from lookahead.errors import ExitStatus, LabError
from lookahead.experiments import bulk_insert, bulk_insert_trials
from lookahead.experiments.bulk_insert_cases import NARROW, PARTS, Case, cases_for
from lookahead.experiments.bulk_insert_trials import InsertCounters, check_path, read_counters
from lookahead.measurements import Measurements, Sample
from lookahead.report.page import render_page
from lookahead.report.result_tables import wal_table
from lookahead.results import ResultDocument, read_result
from lookahead.server import Session

_PG_CONFIG = ("--pg-config", os.environ["PG_CONFIG"]) if "PG_CONFIG" in os.environ else ()
_ROWS = 128 * 107
_NO_SESSION = cast(Session, None)
_STOCK_TIMES = (400.0, 410.0, 420.0) * 2
# Of stock and of ours, for each inserted row.
_WAL_BYTES = {"stock": 120.0, "ours": 48.0}


def _cases(*parts: str) -> dict[str, Case]:
    found = cases_for(parts, 1024)
    return {str(case.scenario.value("insert")): case for case in found}


def _sample(case: Case, number: int, arm: str, time_ms: float, wal_bytes: float) -> Sample:
    counts = {"inserted_rows": float(case.rows), "wal_bytes": wal_bytes * case.rows}
    if arm == "ours":
        counts["batched_rows"] = float(case.batched)
    return Sample(case.scenario, number, number, arm, time_ms, (time_ms,), counts=counts)


@pytest.fixture
def inserts() -> Measurements:
    """Ours takes half of the time, and 0.4 of the WAL where the table has any."""
    cases = cases_for(("flat",), 1024)
    samples = []
    for case in cases:
        is_logged = case.scenario.value("insert") == "logged"
        for number, time_ms in enumerate(_STOCK_TIMES):
            for arm, factor in (("stock", 1.0), ("ours", 0.5)):
                wal_bytes = _WAL_BYTES[arm] if is_logged else 0.1
                samples.append(_sample(case, number, arm, time_ms * factor, wal_bytes))
    data = Measurements(
        arms=cases[0].arms,
        questions=tuple(question for case in cases for question in case.questions),
        samples=tuple(samples),
    )
    return replace(data, comparisons=compare(data, seed=1))


def test_rows_take_as_many_pages_whatever_they_have() -> None:
    assert NARROW.rows(1024) == _ROWS
    assert NARROW.rows(1) == 107


def test_a_table_is_truncated_in_the_transaction_of_the_insert() -> None:
    made = _cases("indexes")["two, after TRUNCATE"]
    assert made.opening == ("TRUNCATE lookahead_target",)
    assert made.built == 2
    assert _cases("new-table")["after TRUNCATE"].opening == made.opening
    assert _cases("indexes")["two indexes"].opening == ()


def test_a_fifth_is_appended_to_a_full_table() -> None:
    case = _cases("indexes")["two, appending a fifth"]
    assert case.rows == _ROWS // 5
    assert f"id + {_ROWS}" in case.statement
    assert case.before[2] == "INSERT INTO lookahead_target SELECT * FROM lookahead_rows"
    assert case.before[-1] == "CREATE INDEX ON lookahead_target (random)"


def _counted(monkeypatch: pytest.MonkeyPatch, *row: object) -> InsertCounters:
    """What is read where the view shows this row: batched rows first, built indexes, reasons."""
    monkeypatch.setattr(bulk_insert_trials, "fetch_row", lambda *_: row)
    return read_counters(_NO_SESSION)


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("two indexes", (0, 0, 0, 0, 0, 0, {"row trigger": 1}), "row trigger"),
        ("two indexes", (_ROWS - 33, 9, 0, 0, 0, 0, {}), "no reason was counted"),
        ("two, after TRUNCATE", (_ROWS, 9, 0, 0, 0, 1, {}), "1 indexes built at the end"),
    ],
)
def test_our_path_has_to_run(
    name: str, row: tuple[object, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = _cases("indexes")[name]
    counted = _counted(monkeypatch, *row)
    with pytest.raises(LabError, match=f"our path did not run: .*{message}"):
        check_path(counted, case, case.arms[1])


def test_stock_has_to_be_stock(monkeypatch: pytest.MonkeyPatch) -> None:
    case = _cases("flat")["logged"]
    counted = _counted(monkeypatch, 1, 1, 0, 0, 0, 0, {})
    with pytest.raises(LabError, match="of an arm in which it is switched off"):
        check_path(counted, case, case.arms[0])


def test_wal_is_compared_where_rows_are_logged(inserts: Measurements) -> None:
    (found,) = compare_wal(inserts)
    assert found.question.scenario.value("insert") == "logged"
    assert (found.baseline_bytes, found.challenger_bytes) == (120.0 * _ROWS, 48.0 * _ROWS)
    assert found.estimate.ratio == 2.5
    (row,) = wal_table(inserts).rows
    assert row == ("logged", "ours", "stock", "1.64 MB", "657 kB", "2.50")


def test_wal_of_index_builds_is_not_that_of_inserts(inserts: Measurements) -> None:
    builds = tuple(
        replace(one, counts={"wal_bytes": one.counts["wal_bytes"]}) for one in inserts.samples
    )
    assert compare_wal(replace(inserts, samples=builds)) == ()


def test_page_shows_inserts(document: ResultDocument, inserts: Measurements) -> None:
    made = replace(document, experiment="bulk-insert", measurements=inserts)
    page = render_page([("made.json", made)])
    assert "<li>bulk insert, unlogged: 2.0 times faster (2.0 to 2.0" in page
    assert "What was written to the WAL" in page
    batched = _ROWS - 32
    assert proofs(inserts) == (
        f"path taken: {batched * 12:,} rows in 12 samples were inserted in batches",
    )


@pytest.mark.end_to_end
def test_whole_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bulk_insert.EXPERIMENT.sizes, "demo", small_run.INSERT)
    outcome = run_command("run", "bulk-insert", "--demo", "--output", tmp_path, *_PG_CONFIG)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (path,) = tmp_path.glob("*.json")
    found = read_result(path)
    data = found.measurements
    assert found.status == "complete"
    assert {str(one.scenario.value("part")) for one in data.samples} == set(PARTS)
    assert [table.name for table in data.tables] == ["lookahead_rows"]
    for sample in data.samples:
        assert sample.counts["table_bytes"] > 0
        assert len(sample.session_ms) == 1
        assert ("batched_rows" in sample.counts) == (sample.arm == "ours")
    sorted_in = {
        sample.scenario.value("insert")
        for sample in data.samples
        if sample.counts.get("sorted_entries")
    }
    assert {"random key", "two indexes"} <= sorted_in
    wal = {one.question.scenario.label: one.estimate.ratio for one in compare_wal(data)}
    assert wal["logged, flat, 8MB"] > 1
    assert len(data.checks) == len({one.scenario for one in data.samples})
    assert "inserted in batches" in outcome.stdout


@pytest.mark.end_to_end
def test_different_content_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = iter([(10, "1"), (9, "1")])
    wanted = replace(small_run.INSERT, parts=("flat",), table_size=64)
    monkeypatch.setitem(bulk_insert.EXPERIMENT.sizes, "demo", wanted)
    monkeypatch.setattr(bulk_insert_trials, "content_of", lambda *_: next(contents))
    outcome = run_command("run", "bulk-insert", "--demo", "--output", tmp_path, *_PG_CONFIG)
    assert outcome.status is ExitStatus.FAILURE
    assert "error: the arms filled the table with different rows: unlogged" in outcome.stderr
    assert "stock 10 rows, ours 9 rows" in outcome.stderr
    assert list(tmp_path.glob("*.json")) == []
