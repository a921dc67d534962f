"""The list of mutants: its text and tests exist, and what is wrong with an entry is said."""

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

_TOP = Path(__file__).resolve().parents[3]
_LEAST = 40


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of test/mutants, which is a folder of scripts and no package."""
    monkeypatch.syspath_prepend(str(_TOP / "test/mutants"))
    yield importlib.import_module("catalogue")
    sys.modules.pop("catalogue", None)


def test_each_mutant_is_of_code_and_of_a_test_that_exist(catalogue: ModuleType) -> None:
    mutants = catalogue.read_mutants()
    assert len(mutants) >= _LEAST
    assert catalogue.find_errors(mutants, _TOP) == []


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("find", "no such text", "its text occurs 0 times in file.c, not once"),
        ("find", "a", "its text occurs 2 times in file.c, not once"),
        ("put", "b;", "it changes nothing"),
        ("file", "other.c", "its text occurs 0 times in other.c, not once"),
        ("killed_by", "pytest room/test_x.py::test_z", "there is no test"),
        ("killed_by", "pytest room/test_w.py::test_y", "there is no test"),
        ("killed_by", "sql nothing", "there is no test"),
        ("killed_by", "hope", "there is no test"),
    ],
)
def test_wrong_entries_are_named(
    catalogue: ModuleType, tmp_path: Path, field: str, value: str, complaint: str
) -> None:
    (tmp_path / "file.c").write_text("a; b; a;\n")
    test = tmp_path / "test/pytest/room/test_x.py"
    test.parent.mkdir(parents=True)
    test.write_text("\ndef test_y(one: int) -> None:\n    pass\n")
    right = catalogue.Mutant("m", "file.c", "b;", "", "bug", "pytest room/test_x.py::test_y[1]")
    assert catalogue.find_errors([right], tmp_path) == []
    (error,) = catalogue.find_errors([replace(right, **{field: value})], tmp_path)
    assert error.startswith(f"m: {complaint}")


def test_names_are_unique(catalogue: ModuleType) -> None:
    mutants = catalogue.read_mutants()
    twice = [*mutants, mutants[0]]
    assert catalogue.find_errors(twice, _TOP) == [f"{mutants[0].name}: 2 mutants have this name"]
