"""File systems of a test's own; skips the test where mounting is not permitted."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(place: Path, options: str) -> Iterator[Path]:
    """A new folder with a tmpfs mounted on it while the block runs."""
    with _mounted(place, "-t", "tmpfs", "-o", f"mode=1777,{options}", "tmpfs"):
        yield place


@contextmanager
def mounted_disk(place: Path, size_bytes: int) -> Iterator[Path]:
    """A new folder with an ext4 of that size on it, from a file beside it, while the block runs."""
    file = place.with_suffix(".ext4")
    with file.open("wb") as opened:
        os.posix_fallocate(opened.fileno(), 0, size_bytes)
    try:
        _run("mkfs.ext4", "-q", "-m", "0", str(file))
        with _mounted(place, "-o", "loop", str(file)):
            (place / "lost+found").rmdir()
            place.chmod(0o1777)
            yield place
    finally:
        file.unlink()


@contextmanager
def _mounted(place: Path, *arguments: str) -> Iterator[None]:
    place.mkdir()
    _run("mount", *arguments, str(place))
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip(f"needs {command[0]}")
    if done.returncode != 0:
        pytest.skip(f"needs the right to mount: {done.stderr.strip()}")
