"""A checkout in a folder that make cannot cope with says so, instead of doing half of it."""

import subprocess
from pathlib import Path

import pytest

_MAKEFILE = Path(__file__).resolve().parents[3] / "Makefile"


@pytest.mark.parametrize(
    ("name", "word"), [("with space", "space"), ("it's", "quote"), ('a"b', "quote")]
)
def test_a_path_that_cannot_be_built_in(tmp_path: Path, name: str, word: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "Makefile").write_bytes(_MAKEFILE.read_bytes())
    done = subprocess.run(
        ["make", "help"], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert f"The path of the checkout holds a {word}" in done.stderr
