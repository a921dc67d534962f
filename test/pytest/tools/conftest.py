"""What tests of the tools share."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

_LINT = Path(__file__).resolve().parents[3] / "tools" / "lint"
_MODULES = ("documents", "findings", "private_parts", "sizes")


@pytest.fixture
def lint(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules of tools/lint, which is a folder of scripts and no package."""
    monkeypatch.syspath_prepend(str(_LINT))
    yield {name: importlib.import_module(name) for name in _MODULES}
    for name in _MODULES:
        sys.modules.pop(name, None)
