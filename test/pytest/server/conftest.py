"""Small disks and stand-in programs for the tests of the private server."""

import os
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

MountSmall = Callable[[str], Path]


@pytest.fixture
def mount_small(tmp_path: Path) -> Iterator[MountSmall]:
    """Mounts a tmpfs with the given options (such as "size=16m") and unmounts it afterwards."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    mounted: list[Path] = []

    def mount(options: str) -> Path:
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"mode=1777,{options}", "tmpfs", str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"this root may not mount: {done.stderr.strip()}")
        mounted.append(place)
        # pytest keeps its own folders to itself; the server's account must get to the disk.
        for parent in (tmp_path, *tmp_path.parents[:2]):
            parent.chmod(parent.stat().st_mode | stat.S_IXOTH)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def fake_pg_config(tmp_path: Path) -> Callable[..., Path]:
    """Makes a pg_config program that answers what it is told, with empty server programs."""

    def make(version: str, *, programs: tuple[str, ...] = ("postgres", "initdb")) -> Path:
        bindir = tmp_path / "fake" / "bin"
        bindir.mkdir(parents=True)
        for name in programs:
            (bindir / name).write_text("#!/bin/sh\nexit 1\n")
        folders = [tmp_path / "fake" / name for name in ("lib", "lib", "share")]
        answers = [version, "--with-icu", bindir, *folders]
        pg_config = bindir / "pg_config"
        pg_config.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in answers))
        for path in bindir.iterdir():
            path.chmod(0o755)
        return pg_config

    return make


@pytest.fixture
def reachable_path() -> Iterator[Path]:
    """A new folder that the server's account can pass through, unlike pytest's `tmp_path`."""
    with tempfile.TemporaryDirectory(prefix="lookahead-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name).resolve()
