"""The regression and isolation tests that come with contrib modules and PL/pgSQL.

What a module wants run stands in its Makefile. That of a module needs a configured tree, which an
installed server is not: the few assignments that matter are read as text.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from lookahead.installation import Installation

_ASSIGNMENT = re.compile(r"^([A-Z_a-z]+)[ \t]*\+?=[ \t]*(.*)$", re.MULTILINE)
_SETTING = re.compile(r"^(\w[\w.]*)\s*=\s*'?([^'\n]*)'?\s*$", re.MULTILINE)
_PLPGSQL = "src/pl/plpgsql/src"
_SUITES = {"regress": "REGRESS", "isolation": "ISOLATION"}


@dataclass(frozen=True)
class Module:
    """One module: its folder in the source tree, and its tests by driver.

    `settings` are those of the server that its Makefile asks for; a module that has some runs on
    a server of its own. `extensions` are created before its tests, by driver. What the server comes
    without is in a folder where it was `built`.
    """

    name: str
    folder: Path
    tests: dict[str, tuple[str, ...]]
    extensions: dict[str, tuple[str, ...]]
    settings: dict[str, str]
    built: Path | None = None


def find_modules(
    source: Path, installation: Installation, suite: str
) -> tuple[list[Module], list[str]]:
    """The modules of "contrib" or "plpgsql" that the server has, and the names of those missing.

    Modules without such tests are in neither.
    """
    folders = [source / _PLPGSQL] if suite == "plpgsql" else sorted((source / "contrib").iterdir())
    found, missing = [], []
    for folder in folders:
        makefile = folder / "Makefile"
        values = _assignments(makefile.read_text()) if makefile.is_file() else {}
        module = _module(folder, values)
        if not any(module.tests.values()):
            continue
        if _is_installed(installation, values):
            found.append(module)
        else:
            missing.append(module.name)
    return found, missing


def _assignments(makefile: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in _ASSIGNMENT.findall(makefile.replace("\\\n", " ")):
        values[name] = f"{values.get(name, '')} {value}".strip()
    return values


def _module(folder: Path, values: dict[str, str]) -> Module:
    settings: dict[str, str] = {}
    options = {driver: values.get(f"{name}_OPTS", "") for driver, name in _SUITES.items()}
    for file in re.findall(r"--temp-config \S*/(\S+)", " ".join(options.values())):
        settings |= dict(_SETTING.findall((folder / file).read_text()))
    return Module(
        name="plpgsql" if folder.name == "src" else folder.name,
        folder=folder,
        tests={driver: tuple(values.get(name, "").split()) for driver, name in _SUITES.items()},
        extensions={
            driver: tuple(re.findall(r"--load-extension=(\S+)", text))
            for driver, text in options.items()
        },
        settings=settings,
    )


def _is_installed(installation: Installation, values: dict[str, str]) -> bool:
    names = f"{values.get('EXTENSION', '')} {values.get('MODULES', '')}".split()
    names += f"{values.get('MODULE_big', '')} {values.get('NAME', '')}".split()
    return any(
        (installation.sharedir / "extension" / f"{name}.control").is_file()
        or (installation.pkglibdir / f"{name}.so").is_file()
        for name in names
    )
