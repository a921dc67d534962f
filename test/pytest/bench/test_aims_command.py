"""The command that prints the comparisons of result files beside what is aimed at."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from lab.made_trials import OURS, make_trials

from bench.small_bench import run_bench
from lookahead.comparisons import compare
from lookahead.errors import ExitStatus
from lookahead.measurements import Factor, Measurements, Question, Sample, Scenario
from lookahead.results import SCHEMA_VERSION, encode, read_result

_RECORDED = Path(__file__).parents[1] / "lab/data/index-scan.json"
_FIGURES = Path(__file__).parents[3] / "docs/results"


def _file(folder: Path, data: Measurements, experiment: str = "bitmap-scan") -> Path:
    compared = replace(data, comparisons=compare(data, seed=1))
    document = replace(read_result(_RECORDED), experiment=experiment, measurements=compared)
    path = folder / f"{experiment}.json"
    path.write_text(encode(document))
    return path


@pytest.fixture
def slower() -> Measurements:
    """Ours takes half as long again: 1.33 times as fast as stock's default, not twice."""
    data = make_trials()
    return replace(
        data,
        samples=tuple(
            replace(one, time_ms=one.time_ms * 1.5) if one.arm == OURS else one
            for one in data.samples
        ),
    )


def test_aims_that_are_reached(tmp_path: Path) -> None:
    outcome = run_bench("aims", _file(tmp_path, make_trials()))
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    *lines, counts = outcome.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["reached"] * 4
    assert lines[0].split("  ")[-1] == "bitmap-scan, 10 %, worker: ours against stock's default"
    assert "  2.00 [" in lines[0] and " aim  1.60  " in lines[0]
    assert counts == "4 reached, 0 missed, 0 open"


def test_a_file_of_a_later_version_is_judged_with_a_warning(tmp_path: Path) -> None:
    path = _file(tmp_path, make_trials())
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "schema_version": SCHEMA_VERSION + 1}))
    outcome = run_bench("aims", path)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert f'warning: "{path}" was written by a newer lookahead' in outcome.stderr
    assert outcome.stdout.splitlines()[-1] == "4 reached, 0 missed, 0 open"


def test_the_projects_own_figures_can_be_judged() -> None:
    outcome = run_bench("aims", *sorted(_FIGURES.glob("*.json")))
    counts = outcome.stdout.splitlines()[-1]
    assert " reached, " in counts, outcome.stderr
    if " 0 missed, " in counts:
        assert (outcome.status, outcome.stderr) == (ExitStatus.SUCCESS, "")
    else:
        assert outcome.status is ExitStatus.FAILURE
        assert outcome.stderr.startswith("error: aims are missed: ")


def test_a_missed_aim_fails(tmp_path: Path, slower: Measurements) -> None:
    files = _file(tmp_path, slower), _file(tmp_path, make_trials(), "range-query")
    outcome = run_bench("aims", *files)
    assert outcome.status is ExitStatus.FAILURE
    assert outcome.stdout.splitlines()[-1] == "4 reached, 4 missed, 0 open"
    assert outcome.stderr.startswith("error: aims are missed: 4 of 8\nhint: ")


def test_one_pair_is_open_and_has_no_interval(tmp_path: Path, slower: Measurements) -> None:
    first = tuple(one for one in slower.samples if one.round == 0)
    outcome = run_bench("aims", _file(tmp_path, replace(slower, samples=first)))
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    *lines, counts = outcome.stdout.splitlines()
    assert all(line.startswith("open ") and "(one pair)" in line for line in lines)
    assert "[" not in outcome.stdout
    assert counts == "0 reached, 0 missed, 4 open"


def test_wal_is_judged_after_the_times(tmp_path: Path) -> None:
    """Twice as fast where 2.2 times are aimed at, with a tenth of the WAL."""
    scenario = Scenario((Factor("insert", "logged"), Factor("part", "flat")))
    samples = tuple(
        Sample(
            scenario, number, 0, arm, time, (time,), counts={"inserted_rows": 9, "wal_bytes": wal}
        )
        for number in range(6)
        for arm, time, wal in (("stock", 2.0, 900.0), ("ours", 1.0, 90.0))
    )
    question = Question(scenario, "stock", ("stock",), ("ours",))
    data = Measurements(questions=(question,), samples=samples)
    outcome = run_bench("aims", _file(tmp_path, data, "bulk-insert"))
    assert [line.split("  ")[-1] for line in outcome.stdout.splitlines()] == [
        "bulk-insert, logged, flat: ours against stock",
        "bulk-insert, logged, flat: WAL against stock",
        "1 reached, 1 missed, 0 open",
    ]


def test_an_experiment_without_aims(tmp_path: Path) -> None:
    outcome = run_bench("aims", _file(tmp_path, make_trials(), "another"))
    assert outcome.status is ExitStatus.SUCCESS
    assert outcome.stdout == "0 reached, 0 missed, 0 open\n"


def test_a_recorded_result(tmp_path: Path) -> None:
    outcome = run_bench("aims", _RECORDED)
    assert outcome.stdout.startswith(("open", "reached", "missed"))
    assert "index-scan, LIMIT 100, worker" in outcome.stdout


def test_files_that_cannot_be_judged(tmp_path: Path) -> None:
    other = _file(tmp_path, make_trials(), "index-build")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    for file, message in ((other, "a scenario has no rows"), (broken, "empty or cut short")):
        outcome = run_bench("aims", file)
        assert outcome.status is ExitStatus.BAD_FILE
        assert message in outcome.stderr
