"""The check of sizes: what it takes for a file and for a function, and the limits."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

_Findings = Callable[[str], tuple[str, ...]]


def _function(name: str, lines: int) -> str:
    """A function of so many lines, from brace to brace."""
    return f"int\n{name}(void)\n{{\n" + "\tf();\n" * (lines - 2) + "}\n\n"


@pytest.fixture
def findings(
    lint: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> _Findings:
    """What the check finds in a checkout with one file of this text, and no exceptions."""
    exceptions = tmp_path / "sizes.txt"
    exceptions.touch()
    monkeypatch.setattr(lint["sizes"], "_EXCEPTIONS", exceptions)
    top = tmp_path / "checkout"
    (top / "src").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(top)], check=True)

    def check(text: str) -> tuple[str, ...]:
        (top / "src" / "la_long.c").write_text(text)
        outcome = lint["sizes"].check_sizes(lint["findings"].Checkout(top, None))
        return tuple(outcome.findings)

    return check


def test_within_the_limits(findings: _Findings) -> None:
    text = "".join(_function(f"f{n}", 30) for n in range(10)) + _function("last", 60)
    assert findings(text + "\n" * (600 - text.count("\n"))) == ()


def test_a_function_too_long(findings: _Findings) -> None:
    text = "".join(_function(f"f{n}", 3) for n in range(20)) + _function("last", 61)
    assert findings(text) == ("src/la_long.c:last: 61 lines, more than 60",)


def test_a_file_too_long(findings: _Findings) -> None:
    (finding,) = findings("\n" * 601)
    assert finding.startswith("src/la_long.c: 601 lines, more than 600: cut it")


def test_too_many_long_functions(findings: _Findings) -> None:
    text = "".join(_function(f"f{n}", 31 if n < 2 else 5) for n in range(19))
    assert findings(text) == ("src: one function of ten has 31 lines or more, more than 30",)
