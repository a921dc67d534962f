"""What test/core reads out of the Makefiles of contrib modules."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

_CORE = Path(__file__).resolve().parents[2] / "core"
_MAKEFILE = """
MODULE_big = one
EXTENSION = one
REGRESS = first second \\
	third
REGRESS_OPTS = --temp-config $(top_srcdir)/contrib/one/one.conf
ISOLATION = waits
ISOLATION_OPTS = --load-extension=one
"""


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(_CORE))
    yield importlib.import_module("modules")
    sys.modules.pop("modules", None)


@pytest.fixture
def installation(tmp_path: Path) -> SimpleNamespace:
    """An installed server without any module."""
    for name in ("lib", "share/extension"):
        (tmp_path / name).mkdir(parents=True)
    return SimpleNamespace(pkglibdir=tmp_path / "lib", sharedir=tmp_path / "share")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source/contrib/one"
    folder.mkdir(parents=True)
    (folder / "Makefile").write_text(_MAKEFILE)
    (folder / "one.conf").write_text("# comment\nwal_level = logical\nname.x = 'y z'\n")
    return tmp_path / "source"


def test_tests_settings_and_extensions(
    modules: ModuleType, installation: SimpleNamespace, source: Path
) -> None:
    (installation.pkglibdir / "one.so").touch()
    ((module,), missing) = modules.find_modules(source, installation, "contrib")
    assert missing == []
    assert module.tests == {"regress": ("first", "second", "third"), "isolation": ("waits",)}
    assert module.extensions == {"regress": (), "isolation": ("one",)}
    assert module.settings == {"wal_level": "logical", "name.x": "y z"}


def test_what_the_server_lacks_is_named(
    modules: ModuleType, installation: SimpleNamespace, source: Path
) -> None:
    assert modules.find_modules(source, installation, "contrib") == ([], ["one"])


def test_modules_without_tests_are_left_out(
    modules: ModuleType, installation: SimpleNamespace, source: Path
) -> None:
    (source / "contrib/one/Makefile").write_text("MODULE_big = one\nTAP_TESTS = 1\n")
    assert modules.find_modules(source, installation, "contrib") == ([], [])
