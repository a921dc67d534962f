"""tools/check-packages says in one line what is missing for it, and that fails nobody's run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_PROGRAM = Path(__file__).resolve().parents[3] / "tools" / "check-packages"


def _run(programs: Path, place: Path) -> subprocess.CompletedProcess[str]:
    """With these programs only, and no folder of systems that stand already."""
    return subprocess.run(
        [shutil.which("bash") or "bash", _PROGRAM, place],
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("missing", ["mmdebstrap", "unshare", "git"])
def test_what_is_missing_is_named(tmp_path: Path, missing: str) -> None:
    programs, place = tmp_path / "bin", tmp_path / "systems"
    programs.mkdir()
    for name in ("dirname", "id"):
        (programs / name).symlink_to(shutil.which(name) or name)
    for name in ("mmdebstrap", "unshare", "git", "apt-config"):
        if name != missing:
            (programs / name).symlink_to("/bin/true")
    done = _run(programs, place)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    if os.geteuid() == 0:
        assert line.startswith(f"skipped: {missing} is missing (Debian package ")
    else:
        assert line == "skipped: only root can make the clean system"
    assert not place.exists()
