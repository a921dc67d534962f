"""Sizes of files and functions.

The tail is what makes code hard to read, so the limits cap the tail: the longest of each kind, and
the length that nine of ten functions of C keep to. A longer one has a line in sizes.txt that says
why it cannot be cut; nothing may exceed the hard limit.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from findings import Checkout, Outcome

_EXCEPTIONS = Path(__file__).with_name("sizes.txt")


@dataclass(frozen=True)
class _Limit:
    soft: int
    hard: int


@dataclass(frozen=True)
class _Item:
    """A file or function, named as in sizes.txt, with its length in lines."""

    name: str
    lines: int
    limit: _Limit


# lines; the project's house rules
_C_FILE = _Limit(600, 800)
_C_FUNCTION = _Limit(60, 60)
_C_FUNCTION_P90 = 30
_PYTHON_FILE = _Limit(400, 400)
_PYTHON_FUNCTION = _Limit(40, 80)


def check_sizes(checkout: Checkout) -> Outcome:
    """Every file and function within its limit, every exception named, needed and explained."""
    exceptions = _read_exceptions()
    used = set()
    items = tuple(_items(checkout))
    findings = _above_p90(items)
    for item in items:
        if item.lines <= item.limit.soft:
            continue
        used.add(item.name)
        if item.lines > item.limit.hard:
            findings.append(f"{item.name}: {item.lines} lines, more than {item.limit.hard}")
        elif not exceptions.get(item.name):
            findings.append(
                f"{item.name}: {item.lines} lines, more than {item.limit.soft}: "
                f"cut it, or say in {_EXCEPTIONS.name} why it cannot be"
            )
    for name in exceptions.keys() - used:
        findings.append(f"{_EXCEPTIONS.name}: {name} needs no exception")
    return Outcome(tuple(sorted(findings)))


def _above_p90(items: Sequence[_Item]) -> list[str]:
    lengths = sorted(item.lines for item in items if item.limit is _C_FUNCTION)
    p90 = lengths[len(lengths) * 9 // 10] if lengths else 0
    if p90 <= _C_FUNCTION_P90:
        return []
    return [f"src: one function of ten has {p90} lines or more, more than {_C_FUNCTION_P90}"]


def _read_exceptions() -> dict[str, str]:
    """Lines "name: reason", name being path or path:function."""
    exceptions = {}
    for line in _EXCEPTIONS.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition(": ")
            exceptions[name] = reason.strip()
    return exceptions


def _items(checkout: Checkout) -> Iterator[_Item]:
    for path in checkout.sources(".c", ".h"):
        text = checkout.text(path)
        yield _Item(path.as_posix(), len(text.splitlines()), _C_FILE)
        yield from _c_functions(path, text)
    for path in _python_files(checkout):
        text = checkout.text(path)
        yield _Item(path.as_posix(), len(text.splitlines()), _PYTHON_FILE)
        yield from _python_functions(path, text)


def _c_functions(path: Path, text: str) -> Iterator[_Item]:
    """Functions in PostgreSQL's style: name at the line's start, braces in column 0."""
    name, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"([a-zA-Z_]\w*)\(", line)
        if match:
            name = match[1]
        elif line == "{" and name:
            start = number
        elif line == "}" and start:
            yield _Item(f"{path.as_posix()}:{name}", number - start + 1, _C_FUNCTION)
            name, start = "", 0


def _python_functions(path: Path, text: str) -> Iterator[_Item]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield _Item(f"{path.as_posix()}:{node.name}", lines, _PYTHON_FUNCTION)


def _python_files(checkout: Checkout) -> Iterator[Path]:
    """Files named .py, and scripts whose first line names Python."""
    for path in checkout.files:
        if path.suffix == ".py" or (not path.suffix and _is_python_script(checkout.top / path)):
            yield path


def _is_python_script(path: Path) -> bool:
    with path.open("rb") as file:
        first = file.readline(80)
    return first.startswith(b"#!") and b"python" in first
