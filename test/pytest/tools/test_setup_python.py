"""tools/setup-python, as far as it goes without making an environment."""

import shutil
import subprocess
from pathlib import Path

_SCRIPT = Path(__file__).resolve().parents[3] / "tools" / "setup-python"


def test_what_a_link_points_at_is_left_alone(tmp_path: Path) -> None:
    """It belongs to another checkout; to make it anew would empty it."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (tmp_path / "tools").mkdir()
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "pyproject.toml").touch()
    (tmp_path / ".venv").symlink_to(other)
    script = shutil.copy(_SCRIPT, tmp_path / "tools")
    done = subprocess.run([script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "is a link" in done.stderr
    assert [path.name for path in other.iterdir()] == ["pyvenv.cfg"]
