"""Where the server's folder can be made, and what is copied into it."""

import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hidden_installation import hide
from server_log import ServerFactory

from lookahead.account import find_account
from lookahead.errors import ExitStatus, LabError
from lookahead.extension import Stage
from lookahead.installation import Installation, find_installation
from lookahead.janitor import processes_in
from lookahead.server import PrivateServer

MountSmall = Callable[[str], Path]
as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="the server's account is our own, which reaches what we reach"
)


def test_a_read_only_place_is_refused(installation: Installation, mount_small: MountSmall) -> None:
    place = mount_small("ro,size=1m") / "server"
    with pytest.raises(LabError, match="Read-only file system") as caught:
        PrivateServer(installation, directory=place)
    assert str(place) in caught.value.message
    assert "TMPDIR" in caught.value.hint
    assert caught.value.status is ExitStatus.ENVIRONMENT


def test_a_place_that_does_not_exist_is_refused(installation: Installation) -> None:
    with pytest.raises(LabError, match=r'"/nonexistent/server": No such file'):
        PrivateServer(installation, directory=Path("/nonexistent/server"))


def test_a_full_disk_fails_clearly_and_leaves_nothing(
    installation: Installation, mount_small: MountSmall
) -> None:
    disk = mount_small("size=16m")
    # Where the programs must be copied, that is already more than fits.
    with (
        pytest.raises(LabError, match="No space left on device") as caught,
        PrivateServer(installation, directory=disk / "server") as server,
    ):
        server.start()
    assert "room on the disk" in caught.value.hint
    assert not list(disk.iterdir())


@as_root
def test_programs_that_do_not_fit_leave_nothing(
    installation: Installation, mount_small: MountSmall, reachable_path: Path
) -> None:
    hidden = hide(installation, reachable_path / "closed")
    (reachable_path / "closed").chmod(0o700)
    disk = mount_small("size=4m")
    with pytest.raises(LabError, match=r"cannot copy .*No space left on device") as caught:
        PrivateServer(hidden, directory=disk / "server")
    assert "room on the disk" in caught.value.hint
    assert not list(disk.iterdir())


def test_a_disk_without_room_for_a_file_is_refused(
    installation: Installation, mount_small: MountSmall
) -> None:
    disk = mount_small("nr_inodes=2")
    (disk / "last").touch()
    with pytest.raises(LabError, match="No space left on device"):
        PrivateServer(installation, directory=disk / "server")
    assert [path.name for path in disk.iterdir()] == ["last"]


def test_a_janitor_that_cannot_be_started_leaves_nothing(
    installation: Installation, reachable_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr("lookahead.server_folder.JanitorProcess", refused)
    with pytest.raises(LabError, match="cannot make the server's folder"):
        PrivateServer(installation, directory=reachable_path / "new")
    assert not (reachable_path / "new").exists()


@as_root
def test_a_place_the_account_cannot_reach_is_refused(
    installation: Installation, reachable_path: Path
) -> None:
    closed = reachable_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(LabError, match="cannot reach") as caught:
        PrivateServer(installation, directory=closed / "server")
    assert find_account().name in caught.value.message
    assert not list(closed.iterdir())
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@as_root
def test_unreachable_programs_and_library_are_copied(
    server_factory: ServerFactory, installation: Installation, stage: Stage, reachable_path: Path
) -> None:
    closed = reachable_path / "closed"
    hidden, hidden_stage = hide(installation, closed), closed / "stage"
    shutil.copytree(stage.directory, hidden_stage)
    # As root's mask of 077 would have made them.
    for folder in (closed, hidden.bindir, hidden.sharedir, hidden_stage / "lib"):
        folder.chmod(0o700)
    staged = Stage(hidden_stage, hidden_stage / "lib", hidden_stage / "share/extension")
    with server_factory(installation=hidden, stage=staged) as server:
        assert server.bindir.is_relative_to(server.directory)
        assert server.stage is not None
        assert server.stage.directory.is_relative_to(server.directory)
        assert set(processes_in(server.directory, server.bindir)) > {server.pid}
        with server.connect() as connection:
            connection.execute("create extension pg_lookahead")
            row = connection.execute("show pg_lookahead.enabled").fetchone()
            assert row == ("on",)
        assert server.run_client("psql", "-XAtc", "select 1").stdout == "1\n"
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert closed.stat().st_uid == 0


@as_root
def test_reachable_programs_and_library_stay_where_they_are(
    server_factory: ServerFactory, installation: Installation, stage: Stage, reachable_path: Path
) -> None:
    shutil.copytree(stage.directory, reachable_path / "stage")
    place = reachable_path / "stage"
    staged = Stage(place, place / "lib", place / "share/extension")
    with server_factory(stage=staged) as server:
        assert server.stage == staged
        reachable = find_account().can_read(installation.bindir)
        assert (server.bindir == installation.bindir) == reachable


def test_programs_that_do_not_run_are_refused(
    fake_pg_config: Callable[..., Path], reachable_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = find_installation(fake_pg_config("PostgreSQL 18.6"))
    monkeypatch.setattr("tempfile.tempdir", str(reachable_path))
    with pytest.raises(LabError, match="do not run:\n  postgres exits with 1"):
        PrivateServer(broken)
    assert list(reachable_path.iterdir()) == []
