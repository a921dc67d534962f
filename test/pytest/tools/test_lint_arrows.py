"""`make lint` sees circles of files, and arrows between rooms that do not run down."""

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

_LINT = Path(__file__).resolve().parents[3] / "tools/lint"


@pytest.fixture
def lint(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of the checks."""
    monkeypatch.syspath_prepend(str(_LINT))
    yield importlib.import_module("arrows")
    for name in ("arrows", "findings"):
        sys.modules.pop(name, None)


@pytest.fixture
def checkout(lint: ModuleType, tmp_path: Path) -> Callable[[], Any]:
    """What the checks see of a new repository, once its files are written."""
    findings = importlib.import_module("findings")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return lambda: findings.Checkout(tmp_path, None)


@pytest.fixture
def check(lint: ModuleType, checkout: Callable[[], Any], tmp_path: Path) -> Callable[..., str]:
    """Checks a checkout with the files given, each with the names of those that it includes."""

    def run(**files: str) -> str:
        for room in ("attach", "prefetch", "heap_scan", "index_scan", "cellar"):
            (tmp_path / "src" / room).mkdir(parents=True, exist_ok=True)
        for name, included in files.items():
            room, _, stem = name.rpartition("__")
            lines = [f'#include "{other}"\n' for other in included.split()]
            (tmp_path / "src" / room / f"{stem}.h").write_text("".join(lines))
        return "\n".join(lint.check_arrows(checkout()).findings)

    return run


def test_arrows_that_run_down_are_clean(check: Callable[..., str]) -> None:
    assert not check(
        la_guc="",
        prefetch__la_wake="la_guc.h",
        attach__la_registry="la_guc.h prefetch/la_wake.h",
        heap_scan__la_seq_scan="attach/la_registry.h prefetch/la_trial.h",
        heap_scan__la_trial="prefetch/la_wake.h",
        la_module="heap_scan/la_seq_scan.h",
    )


def test_an_arrow_up_is_found(check: Callable[..., str]) -> None:
    found = check(prefetch__la_wake="attach/la_registry.h", attach__la_registry="")
    assert "la_wake.h includes src/attach/la_registry.h" in found


def test_rooms_of_one_floor_do_not_know_each_other(check: Callable[..., str]) -> None:
    found = check(heap_scan__la_trial="index_scan/la_ring.h", index_scan__la_ring="")
    assert "la_trial.h includes src/index_scan/la_ring.h" in found


def test_a_circle_within_a_room_is_found(check: Callable[..., str]) -> None:
    found = check(
        attach__la_a="attach/la_b.h", attach__la_b="attach/la_c.h", attach__la_c="attach/la_a.h"
    )
    assert found == "a circle: la_a, la_b, la_c"


def test_a_new_room_needs_a_floor(check: Callable[..., str]) -> None:
    assert "src/cellar has no floor" in check(cellar__la_x="")


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("from lookahead_bench.aims import judge", True),
        ("    import lookahead_bench", True),
        ("from lookahead.bench import lookahead_bench_of", False),
    ],
)
def test_the_lab_does_not_import_the_bench(
    lint: ModuleType, checkout: Callable[[], Any], tmp_path: Path, line: str, wrong: bool
) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "cli.py").write_text(f"{line}\n")
    assert bool(lint.check_lab_arrows(checkout()).findings) is wrong
