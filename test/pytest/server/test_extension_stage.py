"""Which pg_lookahead a server loads, and what is said when there is none."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from server_log import ServerFactory

from lookahead import extension as module
from lookahead.errors import ExitStatus, LabError
from lookahead.extension import Stage, find_stage
from lookahead.installation import Installation

FakeCheckout = Callable[[str], Path]


@pytest.fixture
def fake_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCheckout:
    """Makes a checkout whose `make stage` runs the given shell line."""

    def make(line: str) -> Path:
        (tmp_path / "Makefile").write_text(f"stage:\n\t@{line}\n")
        monkeypatch.setattr(module, "find_checkout", lambda: tmp_path)
        return tmp_path

    return make


def _stage_in(directory: Path) -> Path:
    (directory / "lib").mkdir(parents=True)
    (directory / "lib" / "pg_lookahead.so").touch()
    return directory


def test_a_named_folder_without_library_is_refused(
    installation: Installation, tmp_path: Path
) -> None:
    with pytest.raises(LabError, match=r"there is no .*lib/pg_lookahead\.so") as caught:
        find_stage(installation, library=tmp_path)
    assert "make stage" in caught.value.hint
    assert caught.value.status is ExitStatus.ENVIRONMENT


def test_a_named_folder_is_taken(installation: Installation, tmp_path: Path) -> None:
    stage = find_stage(installation, library=_stage_in(tmp_path))
    assert stage == Stage(tmp_path, tmp_path / "lib", tmp_path / "share" / "extension")


def test_a_checkout_is_built_and_its_last_line_counts(
    installation: Installation, tmp_path: Path, fake_checkout: FakeCheckout
) -> None:
    built = _stage_in(tmp_path / "built")
    fake_checkout(f'echo compiling; echo "$(PG_CONFIG)/$(LA_TEST)" >asked; echo {built}')
    assert find_stage(installation).directory == built
    assert (tmp_path / "asked").read_text() == f"{installation.pg_config}/\n"
    find_stage(installation, test=True)
    assert (tmp_path / "asked").read_text() == f"{installation.pg_config}/1\n"


def test_a_failed_build_shows_the_compilers_words(
    installation: Installation, fake_checkout: FakeCheckout
) -> None:
    fake_checkout("echo 'la_module.c:7:1: error: expected declaration' >&2; exit 1")
    with pytest.raises(LabError, match=r"la_module\.c:7:1: error: expected") as caught:
        find_stage(installation)
    assert caught.value.hint


def test_a_failed_build_in_the_folder_of_another_account_says_so(
    installation: Installation, fake_checkout: FakeCheckout, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fake_checkout("exit 1") / "build"
    folder.mkdir()
    monkeypatch.setattr(os, "access", lambda path, _: path != folder)  # root may write anywhere
    with pytest.raises(LabError, match="building pg_lookahead failed") as caught:
        find_stage(installation)
    assert caught.value.hint.startswith(f'"{folder}" is another account\'s: ')


def test_a_silent_build_is_an_error(
    installation: Installation, fake_checkout: FakeCheckout
) -> None:
    fake_checkout("true")
    with pytest.raises(LabError, match="named no folder"):
        find_stage(installation)


def test_an_outer_make_does_not_reach_in(
    installation: Installation,
    tmp_path: Path,
    fake_checkout: FakeCheckout,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built = _stage_in(tmp_path / "built")
    fake_checkout(f'echo "[$(LA_TEST)][$(MAKELEVEL)]" >asked; echo {built}')
    for name, text in {"LA_TEST": "1", "MAKEFLAGS": "n", "MAKELEVEL": "3"}.items():
        monkeypatch.setenv(name, text)
    find_stage(installation)
    assert (tmp_path / "asked").read_text() == "[][0]\n"


def test_without_make_the_package_is_named(
    installation: Installation, fake_checkout: FakeCheckout, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_checkout("true")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(LabError, match="make is missing") as caught:
        find_stage(installation)
    assert "apt install make" in caught.value.hint


def test_outside_a_checkout_the_installed_one_is_taken(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find_checkout", lambda: None)
    bare = replace(installation, pkglibdir=tmp_path, sharedir=tmp_path / "share")
    with pytest.raises(LabError, match="neither built nor installed") as caught:
        find_stage(bare)
    assert "make install" in caught.value.hint
    (tmp_path / "pg_lookahead.so").touch()
    assert find_stage(bare).library_directory == tmp_path
    # An installed library never has the test settings.
    with pytest.raises(LabError, match="neither built nor installed"):
        find_stage(bare, test=True)


def test_the_package_has_one_for_servers_of_the_same_build(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find_checkout", lambda: None)
    monkeypatch.setattr(module, "_PREBUILT", _stage_in(tmp_path))
    bare = replace(installation, pkglibdir=tmp_path, sharedir=tmp_path / "share")
    with pytest.raises(LabError, match="neither built nor installed"):
        find_stage(bare)
    (tmp_path / "server").write_text(installation.build)
    assert find_stage(bare).directory == tmp_path
    other = replace(bare, build=f"{installation.build}--with-icu")
    with pytest.raises(LabError, match="neither built nor installed"):
        find_stage(other)
    with pytest.raises(LabError, match="neither built nor installed"):
        find_stage(bare, test=True)


def test_sessions_load_the_stage_without_installing(
    server_factory: ServerFactory, installation: Installation, stage: Stage
) -> None:
    with server_factory(stage=stage) as server, server.connect() as connection:
        assert connection.execute("show pg_lookahead.enabled").fetchone() == ("on",)
        connection.execute("create extension pg_lookahead")
        assert connection.execute("select count(*) > 0 from pg_stat_lookahead").fetchone() == (
            True,
        )
        assert server.stage is not None
        maps = Path(f"/proc/{connection.info.backend_pid}/maps").read_text()
        assert str(server.stage.library_directory / "pg_lookahead.so") in maps
    assert not os.path.lexists(installation.pkglibdir / "pg_lookahead.so")
