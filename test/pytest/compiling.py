"""C files that a test compiles by itself, against the server under test."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lookahead.installation import Installation


def shared_library(source: Path, folder: Path, installation: Installation, *flags: str) -> Path:
    """A shared library in `folder`, of one C file."""
    library = folder / f"{source.stem}.so"
    _compile(library, (source,), installation, "-shared", "-fPIC", "-O1", *flags)
    return library


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
