"""The experiment "controls": its help, and whole runs."""

from pathlib import Path

import pytest

from bench.small_bench import PG_CONFIG, run_bench
from lookahead.errors import ExitStatus
from lookahead.results import ResultDocument, read_result
from lookahead_bench.control_shapes import SHAPES

_GOLDEN = Path(__file__).parent / "golden"


def _result(folder: Path) -> ResultDocument:
    (path,) = folder.glob("*.json")
    return read_result(path)


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run_bench("run", "controls", "--help")
    assert outcome.status is ExitStatus.SUCCESS
    assert capsys.readouterr().out == (_GOLDEN / "help-run-controls.txt").read_text()


def test_a_workload_that_there_is_not() -> None:
    outcome = run_bench("run", "controls", "--workload", "vacuum")
    assert outcome.status is ExitStatus.USAGE
    assert "'vacuum' is not one of 'point-lookup', " in outcome.stderr
    assert "`lookahead_bench run controls --help` lists" in outcome.stderr


@pytest.mark.end_to_end
@pytest.mark.usefixtures("small")
def test_controls(tmp_path: Path, disk: Path) -> None:
    outcome = run_bench(
        "run", "controls", "--demo", "--directory", disk, "--output", tmp_path, *PG_CONFIG
    )
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    data = _result(tmp_path).measurements
    shapes = {shape.name: shape for shape in SHAPES if shape.pages <= 1280}
    names = list(dict.fromkeys(sample.scenario.value("workload") for sample in data.samples))
    assert names == list(shapes)
    assert len(data.samples) == 3 * len(names)
    assert all(sample.time_ms > 0 and sample.executions > 0 for sample in data.samples)
    checks = {check.scenario.value("workload"): check for check in data.checks}
    assert checks.keys() == {name for name in shapes if not shapes[name].preloaded}
    for name, check in checks.items():
        facts, shape = check.facts, shapes[str(name)]
        assert set(shape.nodes) <= set(facts["plan"].split(", "))
        assert facts["attached in"] in ("on", "none")
        read = int(facts["blocks read"].replace(",", ""))
        if shape.state == "cached":
            assert (check.scenario.value("I/O method"), read) == ("worker", 0)
            assert "in the OS cache" not in facts
        else:
            assert check.scenario.value("I/O method") == "sync"
            assert read > 1270
            assert float(facts["in the OS cache"].rstrip("%")) > 99
    assert checks["point-lookup"].facts["attached in"] == "on"
    assert len(data.comparisons) == 2 * len(names)
    assert list(disk.iterdir()) == []


@pytest.mark.end_to_end
@pytest.mark.usefixtures("small")
def test_a_cold_control(tmp_path: Path, disk: Path) -> None:
    outcome = run_bench(
        *(
            "run",
            "controls",
            "--demo",
            "--workload",
            "cold-stride-27-32mb",
            "--io-method",
            "worker",
        ),
        *("--directory", disk, "--output", tmp_path, *PG_CONFIG),
    )
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    found = _result(tmp_path)
    data = found.measurements
    assert {sample.scenario.label for sample in data.samples} == {"cold-stride-27-32mb, worker"}
    assert all(sample.cold is not None for sample in data.samples)
    assert int(data.checks[0].facts["blocks read"].replace(",", "")) >= 4096
    assert found.settings["plan_cache_mode"] == "force_generic_plan"
