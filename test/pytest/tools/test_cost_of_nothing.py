"""The judgement of test/instructions: a shape above its limit must fail, and be named."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

_FOLDER = Path(__file__).resolve().parents[2] / "instructions"
_MODULES = ("cost_of_nothing", "counting", "limits", "preparing", "profiles")


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The command's module; its folder holds scripts and is no package."""
    monkeypatch.syspath_prepend(str(_FOLDER))
    yield importlib.import_module("cost_of_nothing")
    for name in _MODULES:
        sys.modules.pop(name, None)


def run(program: ModuleType, monkeypatch: pytest.MonkeyPatch, loaded: dict[str, float]) -> int:
    """The exit status, when a shape costs 1000 without the library and so much with it."""
    costs = [
        program.Cost(
            name,
            {"IndexNext": 600.0, "both": 400.0},
            {"ours": count - 400.0, "both": 400.0},
            program.LIMITS.get(name, 1.0),
        )
        for name, count in loaded.items()
    ]
    monkeypatch.setattr(program, "_costs", lambda _options: iter(costs))
    monkeypatch.setattr(sys, "argv", ["cost-of-nothing", "--shapes", " ".join(loaded)])
    return int(program.main())


def test_every_shape_within_its_limit_passes(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(program, monkeypatch, {"point-lookup": 1030.0, "range-10": 1050.0}) == 0
    assert "2 of 2 shapes within the limit" in capsys.readouterr().out


def test_a_shape_above_its_limit_fails_and_is_named(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(program, monkeypatch, {"point-lookup": 1031.0, "range-10": 1049.0}) == 1
    said = capsys.readouterr().out
    assert "1 of 2 shapes within the limit" in said
    verdict = said.split("too high:")[1]
    assert "point-lookup" in verdict
    assert "range-10" not in verdict
    assert "+631 ours" in verdict


def test_an_unknown_shape_is_refused(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        run(program, monkeypatch, {"no-such": 1000.0})
    assert refused.value.code == 2
    assert "no-such is not of" in capsys.readouterr().err


_PROFILE = """\
events: Ir

fn=(1) (below main)
cfn=(2) caller
calls=0 12
0 185

fn=(3) la_walk
12 100
+3 20
cfn=(4) palloc
calls=7 30
* 65

fn=(4)
30 50
fn=(5) la_walk'2
-4 10
fn=(6) palloc.part.0
77 5

totals: 185
"""


def test_a_function_costs_what_its_own_lines_say(program: ModuleType) -> None:
    profiles = sys.modules["profiles"]
    assert profiles.functions(_PROFILE) == {"la_walk": 130, "palloc": 55}
    assert "calls=0" not in profiles.readable(_PROFILE)


def test_a_profile_that_does_not_sum_up_is_an_error(program: ModuleType) -> None:
    profiles = sys.modules["profiles"]
    for wrong in (_PROFILE.replace("totals: 185", "totals: 186"), "events: Ir\n"):
        with pytest.raises(profiles.LabError, match="does not sum up"):
            profiles.functions(wrong)


def test_a_mark_that_was_not_reached_is_an_error(program: ModuleType, tmp_path: Path) -> None:
    counting = sys.modules["counting"]
    (tmp_path / "shape.3").write_text(_PROFILE)
    assert counting._profile(tmp_path / "shape", 3) == _PROFILE
    with pytest.raises(counting.LabError, match="fewer than 4 calls"):
        counting._profile(tmp_path / "shape", 4)


def test_at_least_twenty_shapes_are_counted_and_each_has_a_limit(program: ModuleType) -> None:
    assert len(program.SHAPES) >= 20
    assert program.LIMITS.keys() == program.SHAPES.keys()
    for limit in program.LIMITS.values():
        assert 0 < limit <= 1.05
