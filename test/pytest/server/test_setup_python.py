"""tools/setup-python on a checkout of its own, with a package that needs no registry."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import wait_until

_SCRIPT = Path(__file__).parents[3] / "tools" / "setup-python"
_PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "lookahead"
version = "1"
"""
# The least that pip accepts: an editable wheel with nothing in it.
_BACKEND = """
import zipfile

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name = "lookahead-1-py3-none-any.whl"
    metadata = "Metadata-Version: 2.1\\nName: lookahead\\nVersion: 1\\n"
    metadata += "Provides-Extra: server\\nProvides-Extra: dev\\n"
    wheel = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    with zipfile.ZipFile(f"{wheel_directory}/{name}", "w") as archive:
        archive.writestr("lookahead-1.dist-info/METADATA", metadata)
        archive.writestr("lookahead-1.dist-info/WHEEL", wheel)
        archive.writestr("lookahead-1.dist-info/RECORD", "")
    return name
"""
_BROKEN_BACKEND = "raise RuntimeError('the backend is broken')\n"


def make_checkout(place: Path, backend: str = _BACKEND) -> Path:
    (place / "tools").mkdir(parents=True)
    (place / "lab").mkdir()
    shutil.copy(_SCRIPT, place / "tools")
    (place / "lab" / "pyproject.toml").write_text(_PYPROJECT)
    (place / "lab" / "backend.py").write_text(backend)
    return place


def set_up(checkout: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "tools" / "setup-python"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def assert_one_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """The run failed and said so in one line that contains the words."""
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("setup-python: ")
    for word in words:
        assert word in line


@pytest.mark.long
def test_an_environment_is_made_once_and_anew_after_a_change_or_a_kill(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path / "checkout")
    python = checkout / ".venv" / "bin" / "python"

    first = set_up(checkout)
    assert first.returncode == 0, first.stderr
    assert first.stdout.splitlines()[-1] == str(python)

    witness = checkout / ".venv" / "witness"
    witness.touch()
    second = set_up(checkout)
    assert (second.stdout, second.stderr) == (f"{python}\n", "")
    assert witness.exists()

    # A change of the package makes it anew; that run is killed half way.
    pyproject = checkout / "lab" / "pyproject.toml"
    pyproject.write_text(pyproject.read_text() + "description = 'changed'\n")
    killed = subprocess.Popen(
        [checkout / "tools" / "setup-python"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    wait_until(lambda: not witness.exists() and python.exists(), "the interpreter is there again")
    os.killpg(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL

    done = set_up(checkout)
    assert done.returncode == 0, done.stderr
    subprocess.run([python, "-m", "pip", "show", "-q", "lookahead"], check=True)


def test_a_failed_installation_shows_why_and_is_not_taken_for_done(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path / "checkout", _BROKEN_BACKEND)
    done = set_up(checkout)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "the backend is broken" in done.stderr
    assert "cannot install the packages" in done.stderr.splitlines()[-1]
    assert not (checkout / ".venv" / "lookahead.stamp").exists()


def test_an_old_or_missing_python_names_the_packages(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path / "checkout")
    done = set_up(checkout, PYTHON="/bin/false")
    assert_one_line(done, "Python 3.11", "PYTHON=/bin/false", "apt install python3 python3-venv")


def test_a_missing_venv_module_names_the_package(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path / "checkout")
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\ncase "$2" in *ensurepip*) exit 1 ;; esac\n')
    python.chmod(0o755)
    done = set_up(checkout, PYTHON=str(python))
    assert_one_line(done, "lacks the venv module", "apt install python3-venv")


def test_a_read_only_checkout_is_named(mount_small: Callable[[str], Path]) -> None:
    disk = mount_small("size=4m")
    checkout = make_checkout(disk / "checkout")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert_one_line(set_up(checkout), str(checkout), "must be writable")
