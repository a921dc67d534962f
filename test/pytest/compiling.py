"""C files that a test compiles by itself, against the server under test."""

import os
import subprocess
from pathlib import Path

from lookahead.installation import Installation

_FLAGS = ("-shared", "-fPIC", "-O1", "-Wall", "-Werror")


def shared_library(source: Path, folder: Path, installation: Installation, *flags: str) -> Path:
    """A shared library in `folder`, of one C file."""
    library = folder / f"{source.stem}.so"
    headers = subprocess.run(
        [installation.pg_config, "--includedir-server"], check=True, text=True, capture_output=True
    ).stdout.strip()
    compiler = os.environ.get("CC", "cc").split()
    inputs = ["-isystem", headers, *flags, str(source)]
    subprocess.run([*compiler, *_FLAGS, *inputs, "-o", str(library)], check=True)
    return library
