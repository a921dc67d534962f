"""The lines of Containerfile, for machines where no image can be built.

What it executes is tested elsewhere: the build, and `make install`. Here: that its stages and files
exist, that its packages are those of README, that nothing made on this machine gets into it.
"""

import json
import re
from pathlib import Path

_TOP = Path(__file__).resolve().parents[3]
_KNOWN = {"FROM", "RUN", "COPY", "CMD"}


def _instructions() -> list[tuple[str, str]]:
    """Name and arguments of each, without comments, continued lines joined."""
    text = (_TOP / "Containerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in joined.split("\n"))]


def _arguments(wanted: str) -> list[str]:
    return [rest for name, rest in _instructions() if name == wanted]


def test_instructions_and_stages() -> None:
    assert {name for name, _ in _instructions()} == _KNOWN
    stages = _arguments("FROM")
    assert [stage.split()[0] for stage in stages] == ["docker.io/library/postgres:18"] * 2
    named = {stage.split(" AS ")[1] for stage in stages if " AS " in stage}
    taken = {found for text in _arguments("COPY") for found in re.findall(r"--from=(\S+)", text)}
    assert taken == named == {"build"}


def test_it_installs_what_readme_asks_for() -> None:
    asked = re.search(r"^apt install ([^#\n]*)", (_TOP / "README.md").read_text(), re.MULTILINE)
    assert asked is not None
    (command,) = (text for text in _arguments("RUN") if "apt-get install" in text)
    assert command.startswith("apt-get update && ")
    names = command.split("--no-install-recommends", 1)[1].split()
    plain = [re.sub(r'^"(.*)-\$PG_MAJOR=\$PG_VERSION"$', r"\1-18", name) for name in names]
    assert plain == asked[1].split()


def test_it_builds_and_loads_the_library() -> None:
    (command,) = (text for text in _arguments("RUN") if text.startswith("make "))
    target = re.search(r" install DESTDIR=(\S+) ", command)
    source = re.search(r"-C (\S+) ", command)
    assert target is not None
    assert source is not None
    assert f". {source[1]}" in _arguments("COPY")
    assert f"--from=build {target[1]}/ /" in _arguments("COPY")
    words = json.loads(_arguments("CMD")[0])
    assert words == ["postgres", "-c", "shared_preload_libraries=pg_lookahead"]


def test_what_was_made_here_stays_out() -> None:
    made = {line.strip("/") for line in (_TOP / ".gitignore").read_text().splitlines()}
    ignored = set((_TOP / ".dockerignore").read_text().split())
    assert {".git", ".venv", "build", "results"} == ignored
    assert ignored - {".git"} <= made
