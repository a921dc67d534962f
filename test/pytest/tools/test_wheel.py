"""The lab as a wheel, in an environment of its own, away from the checkout.

The package index is not asked: what the wheel requires is linked from the checkout's environment,
and nothing else of that is there.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from server_log import ServerFactory

import lookahead
from lookahead.extension import Stage
from lookahead.installation import Installation

_LAB = Path(__file__).resolve().parents[3] / "lab"
_REQUIRED = re.compile(r"([\w.-]+)(?:\[([\w,-]+)\])?")
_EXTRA = re.compile(r"""extra == ['"]([\w-]+)['"]""")


def _run(*command: str | Path, **variables: str) -> str:
    """What the command prints; it must succeed."""
    # Of the variables none that leads back to the checkout.
    inherited = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    done = subprocess.run(
        command,
        cwd="/",
        env={**inherited, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _requirements(one: Distribution, extras: set[str]) -> Iterator[tuple[str, set[str]]]:
    """Name and extras of what a distribution requires, with these extras of its own."""
    for line in one.requires or ():
        wanted = _EXTRA.search(line)
        match = _REQUIRED.match(line)
        assert match is not None
        if wanted is None or wanted[1] in extras:
            yield match[1], set((match[2] or "").split(",")) - {""}


def _required_folders(names: list[tuple[str, set[str]]]) -> Iterator[Path]:
    """The files and folders on top of each of these, and of what they require in turn."""
    seen: set[str] = set()
    while names:
        name, extras = names.pop()
        if name in seen and not extras:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except ModuleNotFoundError:
            continue  # of another platform or Python: a marker that is not worked out here
        names.extend(_requirements(found, extras))
        tops = {file.parts[0] for file in found.files or () if file.parts[0] != ".."}
        yield from (Path(str(found.locate_file(top))) for top in tops)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command `lookahead` of the wheel."""
    return _installed(tmp_path_factory.mktemp("wheel"), "any")


@pytest.fixture(scope="module")
def with_library(
    tmp_path_factory: pytest.TempPathFactory, stage: Stage, installation: Installation
) -> Path:
    """The command of a wheel that has the library, too."""
    place = tmp_path_factory.mktemp("wheel-with-library")
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    given = {"PG_LOOKAHEAD_STAGE": str(stage.directory), "PG_CONFIG": str(installation.pg_config)}
    return _installed(place, platform, **given)


def _installed(place: Path, platform: str, **variables: str) -> Path:
    """A wheel of the lab for this platform, made and installed below `place`: its command."""
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    offline = ("--no-index", "--no-deps", "--no-build-isolation")
    _run(*pip, "wheel", *offline, "-w", place, _LAB, **variables)
    (wheel,) = place.iterdir()
    assert wheel.name == f"pg_lookahead-{lookahead.__version__}-py3-none-{platform}.whl"
    _run(sys.executable, "-m", "venv", "--without-pip", place / "venv")
    python = place / "venv" / "bin" / "python"
    _run(*pip, "--python", python, "install", "--no-index", "--no-deps", wheel)
    (packages,) = (place / "venv" / "lib").glob("python*/site-packages")
    (made,) = packages.glob("pg_lookahead-*.dist-info")
    for top in _required_folders(list(_requirements(Distribution.at(made), set()))):
        if not (packages / top.name).exists():
            (packages / top.name).symlink_to(top)
    return python.with_name("lookahead")


def test_it_is_whole_and_needs_no_checkout(program: Path) -> None:
    assert _run(program, "--version").split()[-1] == lookahead.__version__
    assert "doctor" in _run(program, "--help")
    code = "from lookahead import extension as e; print(e.__file__, e.find_checkout())"
    where, checkout = _run(program.with_name("python"), "-c", code).split()
    assert Path(where).is_relative_to(program.parents[1])
    assert checkout == "None"


def test_it_asks_a_server(program: Path, server_factory: ServerFactory, stage: Stage) -> None:
    with server_factory(stage=stage) as server:
        place = server.environment()
        found = json.loads(_run(program, "doctor", "--json", **place))
        assert found["server"]["loaded"] == lookahead.__version__
        assert "warning" not in {line["level"] for line in found["lines"]}
        verdict = _run(program, "check", "SELECT count(*) FROM pg_class", **place)
    assert verdict.startswith(("NO", "LITTLE"))


@pytest.mark.end_to_end
def test_it_runs_an_experiment_and_writes_its_page(
    program: Path, disk: Path, tmp_path: Path, stage: Stage, installation: Installation
) -> None:
    small = ("--table-pages", "2000", "--pages", "300", "--repetitions", "2")
    library = ("--library", stage.directory, "--pg-config", installation.pg_config)
    where = ("--directory", disk, "--output", tmp_path)
    _run(program, "run", "index-scan", "--demo", *small, *library, *where)
    (result,) = tmp_path.glob("*.json")
    assert json.loads(result.read_text())["software"]["source"] == {"commit": None, "dirty": None}
    assert "<svg" in result.with_suffix(".html").read_text()


def test_one_with_the_library_loads_that(with_library: Path, installation: Installation) -> None:
    code = (
        "from pathlib import Path; from lookahead.extension import find_stage; "
        "from lookahead.installation import find_installation as find; "
        f"print(find_stage(find(Path({str(installation.pg_config)!r}))).directory)"
    )
    found = Path(_run(with_library.with_name("python"), "-c", code).strip())
    assert found.is_relative_to(with_library.parents[1])
    assert (found / "share" / "extension" / "pg_lookahead.control").is_file()


@pytest.mark.end_to_end
def test_one_with_the_library_runs_an_experiment(
    with_library: Path, disk: Path, tmp_path: Path, installation: Installation
) -> None:
    small = ("--table-pages", "2000", "--pages", "300", "--repetitions", "2")
    where = ("--directory", disk, "--output", tmp_path, "--pg-config", installation.pg_config)
    _run(with_library, "run", "index-scan", "--demo", *small, *where)
    (result,) = tmp_path.glob("*.json")
    assert json.loads(result.read_text())["status"] == "complete"
