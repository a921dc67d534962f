"""Formatters, linters and the type checker, run as programs."""

import os
import shutil
import sys
from pathlib import Path

from findings import Checkout, Outcome, outcome_of

_MYPY_CONFIG = "lab/pyproject.toml"
_TYPED = (
    "lab/src/lookahead",
    "bench",
    "tools",
    "test/core",
    "test/generators",
    "test/instructions",
    "test/mutants",
    "test/pytest",
)
# Folders of scripts import their neighbours by name: these are the roots of their modules.
_MODULE_ROOTS = (
    "bench",
    "tools",
    "tools/lint",
    "test/core",
    "test/generators",
    "test/instructions",
    "test/mutants",
    "test/pytest",
)


def _tool(name: str) -> str:
    """A program of the environment that runs this check."""
    return str(Path(sys.executable).with_name(name))


def check_c_style(checkout: Checkout) -> Outcome:
    """PostgreSQL's own indenter would change nothing."""
    outcome = outcome_of([str(checkout.top / "tools/indent"), "--check"], checkout.top)
    skips = [line for line in outcome.findings if line.startswith("skipped: ")]
    return Outcome(skipped=skips[0].removeprefix("skipped: ")) if skips else outcome


def check_python_format(checkout: Checkout) -> Outcome:
    """ruff format would change nothing."""
    return outcome_of([_tool("ruff"), "format", "--quiet", "--diff", "."], checkout.top)


def check_python(checkout: Checkout) -> Outcome:
    """ruff check has nothing to say."""
    return outcome_of([_tool("ruff"), "check", "--output-format", "concise", "."], checkout.top)


def check_types(checkout: Checkout) -> Outcome:
    """mypy --strict has nothing to say."""
    os.environ["MYPYPATH"] = os.pathsep.join(str(checkout.top / name) for name in _MODULE_ROOTS)
    rooms = [room for room in _TYPED if (checkout.top / room).is_dir()]
    command = [_tool("mypy"), "--config-file", _MYPY_CONFIG, "--no-error-summary", *rooms]
    return outcome_of(command, checkout.top)


def check_shell(checkout: Checkout) -> Outcome:
    """shellcheck has nothing to say about the shell scripts."""
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        return Outcome(skipped="shellcheck is not installed (Debian package shellcheck)")
    scripts = [str(path) for path in checkout.files if _is_shell_script(checkout.top / path)]
    return (
        outcome_of([shellcheck, "--format=gcc", *scripts], checkout.top) if scripts else Outcome()
    )


def _is_shell_script(path: Path) -> bool:
    with path.open("rb") as file:
        first = file.readline(80)
    return first.startswith(b"#!") and first.split()[-1].rsplit(b"/")[-1] in (b"sh", b"bash")
