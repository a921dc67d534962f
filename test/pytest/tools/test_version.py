"""There is one version, wherever it is written."""

import json
import re
import tomllib
from pathlib import Path

import lookahead
from lookahead.installation import PINNED_BINARIES

_TOP = Path(__file__).resolve().parents[3]


def test_all_say_the_same_version() -> None:
    version = lookahead.__version__
    control = (_TOP / "pg_lookahead.control").read_text()
    assert re.findall(r"^default_version = '(.*)'$", control, re.MULTILINE) == [version]
    assert [path.name for path in (_TOP / "sql").iterdir()] == [f"pg_lookahead--{version}.sql"]
    header = (_TOP / "src" / "la_compat.h").read_text()
    assert re.findall(r'^#define LA_VERSION "(.*)"$', header, re.MULTILINE) == [version]
    meta = json.loads((_TOP / "META.json").read_text())
    provided = meta["provides"]["pg_lookahead"]
    assert (meta["version"], provided["version"]) == (version, version)
    assert (_TOP / provided["file"]).is_file()
    changelog = (_TOP / "debian" / "changelog").read_text()
    assert re.findall(r"^pg-lookahead \((.*)-\d+\) ", changelog, re.MULTILINE)[0] == version


def test_pinned_binaries_are_those_of_the_distribution() -> None:
    project = tomllib.loads((_TOP / "lab" / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["server"] == [PINNED_BINARIES]
    assert "version" in project["dynamic"]
