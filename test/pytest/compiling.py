"""C files that a test compiles by itself, against the server under test."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from lookahead.installation import Installation


def shared_library(source: Path, folder: Path, installation: Installation, *flags: str) -> Path:
    """A shared library in `folder`, of one C file."""
    library = folder / f"{source.stem}.so"
    _compile(library, (source,), installation, "-shared", "-fPIC", "-O1", *flags)
    return library


def loadable_library(
    source: Path, folders: pytest.TempPathFactory, installation: Installation
) -> Path:
    """A shared library that servers can load: their account reaches its folder, a new one."""
    folder = folders.mktemp(source.stem)
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)
    return shared_library(source, folder, installation)


def program(sources: Sequence[Path], folder: Path, installation: Installation, *flags: str) -> Path:
    """A program in `folder`, of several C files and named after the first."""
    target = folder / sources[0].stem
    _compile(target, sources, installation, *flags)
    return target


def _compile(
    target: Path, sources: Sequence[Path], installation: Installation, *flags: str
) -> None:
    headers = subprocess.run(
        [installation.pg_config, "--includedir-server"], check=True, text=True, capture_output=True
    ).stdout.strip()
    compiler = os.environ.get("CC", "cc").split()
    inputs = ["-isystem", headers, *flags, *map(str, sources)]
    subprocess.run([*compiler, "-Wall", "-Werror", *inputs, "-o", str(target)], check=True)
