"""The table of what inserts must keep names tests that exist."""

import re
from pathlib import Path

_TEST = Path(__file__).resolve().parents[2]


def test_named_tests_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", (_TEST / "obligations-of-inserts.md").read_text()))
    defined = {
        name
        for file in (_TEST / "pytest" / "bulk_insert").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)\(", file.read_text(), re.MULTILINE)
    }
    assert len(named) > 50
    assert named <= defined, sorted(named - defined)
