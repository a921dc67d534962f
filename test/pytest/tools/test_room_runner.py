"""The runner of rooms: what it shows, sums up and passes, and in which order rooms begin."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import room_runner
import run_tests


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], list[str]]:
    """Makes commands that print a text and end with a status; logs go elsewhere."""
    monkeypatch.setattr(room_runner, "TOP", tmp_path)
    monkeypatch.setattr(room_runner, "_RESULTS", tmp_path / "results")
    return lambda text, status: [
        *(sys.executable, "-c", f"print({text!r}); raise SystemExit({status})")
    ]


def test_rooms_that_pass_are_one_line_each(
    said: Callable[[str, int], list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    commands = {
        "device": said("....\nSKIPPED [1] why.py:3: no root\n3 passed, 1 skipped in 0.10s", 0),
        "prefetch": said("=== 14 passed in 61.00s (0:01:01) ===", 0),
        "regress": said("regress: 7 of 7 passed", 0),
    }
    assert room_runner.run_rooms(commands, {}, 2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 rooms, 2 at once, into results"
    assert sorted(lines[1:4]) == [
        "device: 3 passed, 1 skipped in 0.10s",
        "prefetch: 14 passed in 61.00s (0:01:01)",
        "regress: 7 of 7 passed",
    ]
    assert lines[4] == "SKIPPED [1] why.py:3: no root"
    assert lines[5].startswith("17 passed, 1 skipped in ")
    assert "no root" in (tmp_path / "results" / "device.log").read_text()


def test_a_room_that_fails_is_shown_whole(
    said: Callable[[str, int], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    commands = {
        "device": said("assert 1 == 2\n1 failed, 3 passed, 2 errors in 0.10s", 1),
        "prefetch": said("14 passed in 0.2s", 0),
    }
    assert not room_runner.run_rooms(commands, {}, 1)
    output = capsys.readouterr().out
    assert "assert 1 == 2\n" in output
    assert "device: 1 failed, 3 passed, 2 errors in 0.10s  FAILED\n" in output
    assert "failed, see above: device\n1 failed, 2 error, 17 passed in " in output


def test_what_samples_leave_out_is_summed_up(
    said: Callable[[str, int], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    line = "sampled: {} cases of {} tests left out (make test ALL=1 runs them)\n3 passed in 0.1s"
    commands = {
        "device": said(line.format(118, 3), 0),
        "lab": said(line.format(7, 2), 0),
        "prefetch": said("14 passed in 0.2s", 0),
    }
    assert room_runner.run_rooms(commands, {}, 1)
    output = capsys.readouterr().out
    assert "\nsampled: 125 cases of 5 tests left out (make test ALL=1 runs them)\n20 pass" in output


def test_a_room_that_dies_without_a_word_has_failed(
    said: Callable[[str, int], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert not room_runner.run_rooms({"device": said("", 137)}, {}, 1)
    assert "device: no output  FAILED\n" in capsys.readouterr().out


def test_variables_reach_the_rooms_and_the_longest_goes_first(
    capsys: pytest.CaptureFixture[str], said: Callable[[str, int], list[str]]
) -> None:
    shown = [sys.executable, "-c", "import os; print(os.environ['WHICH'], 'server')"]
    commands = {"tools": shown, "prefetch": shown, "lab": shown}
    assert room_runner.run_rooms(commands, {"WHICH": "this"}, 1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == ["lab: this server", "tools: this server", "prefetch: this server"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["--sample=0", "--brief", "--seed=1"]),
        (["--seed", "7"], ["--sample=0", "--brief", "--seed=7"]),
        (["--sample", "3"], ["--sample=3"]),
        (["--sample", "3", "--seed", "7"], ["--sample=3", "--seed=7"]),
        (["--all"], []),
        (["--all", "--seed", "7"], ["--seed=7"]),
    ],
)
def test_only_a_run_that_names_no_cases_has_a_fixed_seed(
    monkeypatch: pytest.MonkeyPatch, options: list[str], expected: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run_tests.py", *options])
    assert run_tests._choice_of_cases(run_tests._parse()) == expected


def test_all_folders_with_tests_are_rooms() -> None:
    rooms = room_runner.pytest_rooms()
    assert Path(__file__).parent.name in rooms
    assert set(room_runner._LONGEST_FIRST) <= set(rooms)
