"""The tables of what each feature must keep name tests that exist; README names every room."""

import re
from pathlib import Path

import pytest

_TEST = Path(__file__).resolve().parents[2]
_TABLES = sorted(_TEST.glob("obligations-of-*.md"))


@pytest.mark.parametrize("table", _TABLES, ids=lambda table: table.stem)
def test_named_tests_exist(table: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", table.read_text()))
    defined = {
        name
        for file in (_TEST / "pytest").glob("*/test_*.py")
        for name in re.findall(r"^def (test_\w+)\(", file.read_text(), re.MULTILINE)
    }
    assert len(named) > 40
    assert named <= defined, sorted(named - defined)


def test_every_feature_has_a_table() -> None:
    found = [table.stem.removeprefix("obligations-of-") for table in _TABLES]
    assert found == ["builds", "inserts", "partitions", "scans"]


def test_readme_names_every_room() -> None:
    rooms = {file.parent.name for file in (_TEST / "pytest").glob("*/test_*.py")}
    assert len(rooms) > 10
    readme = (_TEST / "README.md").read_text()
    assert [room for room in sorted(rooms) if f"`pytest/{room}`" not in readme] == []
