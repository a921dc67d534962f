"""The source archive of `make dist`, and what PGXN wants to know of it."""

import json
import os
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from pg_regress import find_driver
from server_log import ServerFactory

import lookahead
from lookahead.extension import stage_at
from lookahead.installation import SUPPORTED_MAJOR, Installation

_TOP = Path(__file__).resolve().parents[3]
_NAME = f"pg_lookahead-{lookahead.__version__}"

# PGXN's meta spec, 1.0.0: names and tags (terms), versions.
_TERM = re.compile(r"[^\x00-\x1f/\\:]{2,256}")
_SEMANTIC = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)([A-Za-z][0-9A-Za-z-]*)?")
_FIELDS = {"name", "version", "abstract", "maintainer", "license", "provides", "meta-spec"}
_MORE_FIELDS = {
    *("description", "generated_by", "no_index", "prereqs", "release_status", "resources", "tags"),
}
_PHASES = {"configure", "build", "test", "runtime", "develop"}
_RELATIONS = {"requires", "recommends", "suggests", "conflicts"}


def _run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """What the command prints on both; it must succeed."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**inherited, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def archive(disk: Path) -> Path:
    """The archive of what is committed, as .tar.gz."""
    if not (_TOP / ".git").exists():
        pytest.skip("no git checkout: there is nothing to make an archive of")
    printed = _run("make", "-s", "dist", f"BUILD_DIR={disk}", cwd=_TOP).splitlines()
    assert printed == [f"{disk}/{_NAME}.tar.gz", f"{disk}/{_NAME}.zip"]
    with zipfile.ZipFile(printed[1]) as zipped, tarfile.open(printed[0]) as packed:
        files = sorted(one.name for one in packed if not one.isdir())
        assert files == sorted(name for name in zipped.namelist() if not name.endswith("/"))
    assert {name.split("/")[0] for name in files} == {_NAME}
    return Path(printed[0])


@pytest.mark.long
def test_it_builds_and_passes_installcheck_outside_git(
    archive: Path, disk: Path, installation: Installation, server_factory: ServerFactory
) -> None:
    if find_driver(installation, "regress") is None:
        pytest.skip("this server has no pg_regress")
    _run("tar", "-xzf", archive, cwd=disk)
    source = disk / _NAME
    # Nor is a folder above it a repository, which git would take.
    assert "not a git repository" in _run("sh", "-c", "git status 2>&1 || :", cwd=source)
    # Not optimized: what is asked is whether all files are there.
    chosen = (f"PG_CONFIG={installation.pg_config}", "CFLAGS=-O0")
    stage = _run("make", "-s", "stage", *chosen, cwd=source).splitlines()[-1]
    with server_factory(stage=stage_at(Path(stage))) as server:
        printed = _run("make", "-s", "installcheck", *chosen, cwd=source, **server.environment())
    # With test settings or without: those without are for everyone.
    texts = [one.read_text() for one in (source / "test" / "sql").iterdir()]
    released = sum("pg_lookahead.test_" not in text for text in texts)
    assert released > 0
    assert re.search(rf"All {released} tests passed", printed), printed


def test_pgxn_can_read_the_metadata() -> None:
    meta = json.loads((_TOP / "META.json").read_text())
    assert _FIELDS <= meta.keys() <= _FIELDS | _MORE_FIELDS
    assert _TERM.fullmatch(meta["name"])
    assert " " not in meta["name"]
    assert all(_TERM.fullmatch(tag) for tag in meta["tags"])
    assert _SEMANTIC.fullmatch(meta["version"])
    assert meta["license"] == "postgresql"
    assert meta["release_status"] in ("stable", "testing", "unstable")
    assert meta["meta-spec"] == {"version": "1.0.0", "url": "https://pgxn.org/meta/spec.txt"}
    assert all(isinstance(meta[name], str) and meta[name] for name in ("abstract", "maintainer"))
    _assert_requirements(meta["prereqs"])
    for name, provided in meta["provides"].items():
        assert (_TOP / f"{name}.control").is_file()
        assert {"file", "version"} <= provided.keys() <= {"file", "version", "docfile", "abstract"}
        assert _SEMANTIC.fullmatch(provided["version"])
        assert all((_TOP / provided[key]).is_file() for key in ("file", "docfile"))


def test_debians_control_follows_its_template() -> None:
    folder = _TOP / "debian"
    (version,) = (folder / "pgversions").read_text().split()
    assert version == str(SUPPORTED_MAJOR)
    template = (folder / "control.in").read_text()
    assert (folder / "control").read_text() == template.replace("PGVERSION", version)
    # What the build needs is what README has installed for it.
    assert "libicu-dev" in template
    assert (folder / "rules").stat().st_mode & 0o111


def _assert_requirements(phases: dict[str, Any]) -> None:
    assert phases.keys() <= _PHASES
    for relations in phases.values():
        assert relations.keys() <= _RELATIONS
        for versions in relations.values():
            assert all(_SEMANTIC.fullmatch(version) for version in versions.values())
