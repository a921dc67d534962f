"""Samples of parametrized tests: what is in them, and that they say what is not."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from sampling import choose, named_by_mutants, sampled_cases

_PYTEST = Path(__file__).resolve().parents[1]
_TESTS = """
import pytest

@pytest.mark.parametrize("number", range(30))
def test_many(number: int) -> None:
    pass

@pytest.mark.long
class TestLong:
    def test_one(self) -> None: pass
    def test_two(self) -> None: pass
    def test_three(self) -> None: pass

def test_alone(pairs: int, seed: int) -> None:
    print(f"seed {seed}, {pairs} pairs")
"""
_LENGTHS = ("pairs", "indexes", "inserts", "kills", "rounds")


@pytest.mark.parametrize("count", [1, 2, 3, 9, 20, 21, 63, 120])
def test_ten_samples_have_every_case(count: int) -> None:
    samples = [sampled_cases("room/test_x.py::test_y", count, number) for number in range(7, 17)]
    assert set.union(*samples) == set(range(count))
    assert {len(sample) for sample in samples} == {min(count, max(2, -(-count // 10)))}


def test_a_number_is_always_the_same_sample() -> None:
    assert sampled_cases("f", 63, 4) == sampled_cases("f", 63, 14) != sampled_cases("f", 63, 5)


def test_what_mutants_name_always_runs() -> None:
    functions = ["one", "two", "three"] * 30 + ["alone"]
    cases = [(function, f"{function}[{place}]") for place, function in enumerate(functions)]
    for number in range(10):
        chosen, left_out = choose(cases, {"two", "three[17]"}, number)
        kept = Counter(function for place, (function, _) in enumerate(cases) if place in chosen)
        of_three = 3 if 5 in sampled_cases("three", 30, number) else 4  # "three[17]" is the sixth
        assert kept == {"one": 3, "two": 30, "three": of_three, "alone": 1}
        assert 17 in chosen
        assert left_out == {"one": (27, 30), "three": (30 - of_three, 30)}


def test_every_test_of_a_mutant_is_in_the_sample() -> None:
    """A case that does not exist, or a test that is marked "soak", would notice nothing."""
    named = named_by_mutants()
    files = sorted({test.partition("::")[0] for test in named})
    command = [sys.executable, "-m", "pytest", "-c", "pytest.ini", "-p", "no:cacheprovider"]
    listed = subprocess.run(
        [*command, "--collect-only", "-q", "--sample=0", "--brief", *files],
        cwd=_PYTEST,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert len(named) > 200
    assert named <= {*listed, *(line.partition("[")[0] for line in listed)}


def test_no_mutant_hangs_on_what_a_sample_shortens() -> None:
    """Campaigns are shorter in a sample, and find less."""
    for test in named_by_mutants():
        file, _, name = test.partition("[")[0].partition("::")
        text = (_PYTEST / file).read_text()
        found = re.search(rf"^def {name}\(([^)]*)\)", text, re.MULTILINE)
        assert found is not None, test
        own = re.findall(r'"(\w+)"', text)  # parameters of the function itself among others
        assert not {*re.findall(r"\w+(?=:)", found[1])} & {*_LENGTHS} - {*own}, test


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """Runs two tests as all others are run; returns what pytest prints."""
    (tmp_path / "test_many.py").write_text(_TESTS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

    def outcome(*options: str) -> str:
        program = (sys.executable, "-m", "pytest", "-c", _PYTEST / "pytest.ini", "-p", "conftest")
        return subprocess.run(
            [*program, "-s", "-p", "no:cacheprovider", *options, tmp_path],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        ).stdout

    return outcome


def test_a_sample_says_what_it_left_out(run: Callable[..., str]) -> None:
    output = run("--sample=3", "--seed=5", "-v")
    assert "seed 5, 200 pairs" in output
    assert re.search(r"sampled: .*test_many.py::test_many: 3 of 30 cases\n", output)
    assert re.search(r"sampled: .*: long tests: 2 of 3 cases\n", output)
    assert "sampled: 28 cases of 2 tests left out (make test ALL=1 runs them)\n" in output
    assert "6 passed, 28 deselected" in output


def test_a_brief_run_has_a_tenth_of_the_sample_of_a_room(run: Callable[..., str]) -> None:
    output = run("--sample=3", "--brief", "-v")
    assert re.search(r"sampled: .*test_many.py::test_many: 3 of 30 cases\n", output)
    assert re.search(r"sampled: .*: long tests: 0 of 3 cases\n", output)
    assert re.search(r"sampled: [^:]+: 2 of 4 cases\n", output)
    assert "2 passed, 32 deselected" in output


def test_without_a_sample_all_runs(run: Callable[..., str]) -> None:
    output = run("--seed=5")
    assert "seed 5, 2000 pairs" in output
    assert "34 passed" in output
    assert "sampled" not in output


def test_a_campaign_is_as_long_as_was_asked_for(run: Callable[..., str]) -> None:
    assert "seed 5, 7 pairs" in run("--sample=3", "--seed=5", "--pairs=7")
