"""File work as root in folders where another account plants links."""

import errno
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from crashing_server import Leftovers
from made_profile import made_profile

from lookahead.account import acting_as_owner, find_account
from lookahead.cold import make_cold
from lookahead.device.block_device import DeviceId
from lookahead.device.probe.place import MIN_BYTES, filled_file
from lookahead.device.profile import merge_into, parse_profiles
from lookahead.errors import ExitStatus, LabError
from lookahead.janitor import status_lines
from lookahead.results import ResultFile, write_atomically
from lookahead.safe_files import (
    make_folder_for,
    open_for_append,
    opened_folder,
    own_place,
    read_file,
)
from lookahead_bench.loop_disk import LoopDisk

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root works in folders of others")
_STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_PLANTED = "a link on the way lies in a folder that others may write to"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder of an unprivileged account."""
    account = find_account()
    folder = tmp_path / "foreign"
    folder.mkdir()
    os.chown(folder, account.uid, account.gid)
    return folder


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of root's, in a folder of root's, that nobody else may read."""
    file = tmp_path / "closed" / "victim"
    file.parent.mkdir(mode=0o700)
    file.write_text("untouched")
    file.chmod(0o600)
    return file


def _plant(link: Path, target: Path) -> None:
    account = find_account()
    link.symlink_to(target)
    os.lchown(link, account.uid, account.gid)


def _is_untouched(victim: Path) -> bool:
    status = victim.stat()
    kept = (victim.read_text(), status.st_uid, stat.S_IMODE(status.st_mode))
    return kept == ("untouched", 0, 0o600) and list(victim.parent.iterdir()) == [victim]


@as_root
def test_a_planted_link_on_the_way_is_refused(foreign: Path, victim: Path) -> None:
    _plant(foreign / "results", victim.parent)
    for path in (foreign / "results", foreign / "results" / "below", foreign / "results" / ".."):
        with pytest.raises(PermissionError, match=_PLANTED), opened_folder(path, make=True):
            pass
    with pytest.raises(LabError, match=_PLANTED):
        ResultFile.claim(foreign / "results", "index-scan", _STARTED)
    with pytest.raises(LabError, match=_PLANTED):
        write_atomically(foreign / "results" / "victim", "overwritten")
    assert _is_untouched(victim)


@as_root
def test_links_of_root_are_followed(tmp_path: Path, foreign: Path) -> None:
    """Those that nobody else can have put there."""
    (tmp_path / "own").mkdir()
    (tmp_path / "link").symlink_to("own/../own")
    write_atomically(tmp_path / "link" / "file", "content")
    assert (tmp_path / "own" / "file").read_text() == "content"
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    (sticky / "ours").symlink_to(tmp_path / "own")
    _plant(sticky / "theirs", tmp_path / "own")
    with opened_folder(sticky / "ours") as folder:
        assert read_file(folder, "file") == b"content"
    with pytest.raises(PermissionError, match=_PLANTED), opened_folder(sticky / "theirs"):
        pass
    (foreign / "root made this").symlink_to(tmp_path / "own")  # and anybody may have moved it
    with pytest.raises(PermissionError), opened_folder(foreign / "root made this"):
        pass


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many") as caught, opened_folder(tmp_path / "a"):
        pass
    assert caught.value.errno == errno.ELOOP


def test_a_name_of_any_length(tmp_path: Path) -> None:
    write_atomically(tmp_path / ("a" * 255), "content")
    assert (tmp_path / ("a" * 255)).read_text() == "content"


@as_root
def test_a_planted_file_is_replaced_and_not_followed(foreign: Path, victim: Path) -> None:
    _plant(foreign / "page.html", victim)
    _plant(foreign / f".lookahead.{os.getpid()}.new", victim)
    write_atomically(foreign / "page.html", "page", mode=0o644)
    assert (foreign / "page.html").read_text() == "page"
    assert not (foreign / "page.html").is_symlink()
    assert _is_untouched(victim)


@as_root
def test_the_name_of_a_temporary_file_is_not_foreseen(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by its number nor by those before it; what has the name all the same is refused."""
    names: list[str] = []
    real = os.replace

    def noted(source: str, target: str, **options: int) -> None:
        names.append(source)
        real(source, target, **options)

    monkeypatch.setattr(os, "replace", noted)
    for _ in range(3):
        write_atomically(foreign / "x", "content")
    assert len(set(names)) == 3
    monkeypatch.setattr("lookahead.safe_files.secrets.token_hex", lambda size: "known")
    (foreign / ".lookahead.known.new").touch()
    with pytest.raises(LabError, match="File exists"):
        write_atomically(foreign / "x", "other")
    assert (foreign / "x").read_text() == "content"


@as_root
def test_a_profile_in_a_foreign_folder(foreign: Path, victim: Path) -> None:
    profile = made_profile(DeviceId(8, 1, "fs=ab12;sectors=1000;serial=XYZ"))
    _plant(foreign / "profile", victim)
    _plant(foreign / f".lookahead.{os.getpid()}.new", victim)
    with pytest.raises(LabError, match="cannot write a device profile"):
        merge_into(foreign / "profile", profile)
    assert _is_untouched(victim)
    (foreign / "profile").unlink()
    merge_into(foreign / "profile", profile)
    status = (foreign / "profile").stat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (0, 0o644)
    assert parse_profiles((foreign / "profile").read_text()) == (profile,)
    assert _is_untouched(victim)


@as_root
def test_a_planted_result_is_left_alone(foreign: Path, victim: Path) -> None:
    _plant(foreign / "probe-20260102T030405Z.json", victim)
    file = ResultFile.claim(foreign, "probe", _STARTED)
    assert file.path.name == "probe-20260102T030405Z-2.json"
    file.discard()
    file.discard()
    assert _is_untouched(victim)


@as_root
def test_what_is_read_is_a_regular_file(foreign: Path, victim: Path) -> None:
    os.mkfifo(foreign / "pipe")
    _plant(foreign / "link", victim)
    with opened_folder(foreign) as folder:
        with pytest.raises(OSError, match="it is no regular file"):
            read_file(folder, "pipe")
        with pytest.raises(OSError, match="Too many levels"):
            read_file(folder, "link")


@as_root
def test_nothing_is_appended_to_what_is_not_ours(foreign: Path, victim: Path) -> None:
    account = find_account()
    os.mkfifo(foreign / "pipe")
    _plant(foreign / "link", victim)
    (foreign / "theirs").touch()
    os.chown(foreign / "theirs", account.uid, account.gid)
    with opened_folder(foreign) as folder:
        for name in ("pipe", "link", "theirs"):
            with pytest.raises(OSError):
                open_for_append(folder, name, 0o600)
        os.close(open_for_append(folder, "ours", 0o600))
    assert _is_untouched(victim)


@as_root
def test_no_folder_is_given_away_through_a_link(foreign: Path, victim: Path) -> None:
    account = find_account()
    _plant(foreign / "data", victim.parent)
    with opened_folder(foreign) as folder:
        with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
            make_folder_for(folder, "data", account.uid, account.gid)
        make_folder_for(folder, "other", account.uid, account.gid)
        make_folder_for(folder, "other", account.uid, account.gid)
        with pytest.raises(PermissionError, match="it belongs to another user"):
            make_folder_for(folder, "other", account.uid + 1, account.gid)
    assert (foreign / "other").stat().st_uid == account.uid
    assert _is_untouched(victim)


@as_root
def test_a_place_that_others_can_replace_is_refused(tmp_path: Path, foreign: Path) -> None:
    (foreign / "below").mkdir()
    for place in (foreign / "server", foreign / "below" / "server"):
        with pytest.raises(LabError, match="another user can replace what root makes") as caught:
            own_place(place)
        assert caught.value.status is ExitStatus.ENVIRONMENT
        assert "root's own" in caught.value.hint
    (tmp_path / "link").symlink_to(foreign)
    with pytest.raises(LabError, match="another user can replace"):
        own_place(tmp_path / "link" / "server")
    assert own_place(tmp_path / "not" / "there" / "yet") == tmp_path / "not" / "there" / "yet"
    with pytest.raises(LabError, match="another user can replace"), LoopDisk(10**7, foreign):
        pass
    assert [path.name for path in foreign.iterdir()] == ["below"]


@as_root
def test_the_owners_rights_are_taken_and_given_back(foreign: Path, victim: Path) -> None:
    before = (os.geteuid(), os.getegid(), os.getgroups())
    with pytest.raises(PermissionError), acting_as_owner(foreign):
        victim.read_text()
    assert (os.geteuid(), os.getegid(), os.getgroups()) == before
    with acting_as_owner(victim.parent):  # root's own
        assert victim.read_text() == "untouched"


@as_root
def test_a_planted_link_in_the_data_makes_nothing_else_cold(disk: Path, victim: Path) -> None:
    account, data = find_account(), disk / "data"
    data.mkdir()
    (data / "1").write_bytes(bytes(8192))
    for path in (data, data / "1"):
        os.chown(path, account.uid, account.gid)
    assert make_cold(data).files == 1
    _plant(data / "tablespace", victim)
    with pytest.raises(PermissionError):
        make_cold(data)


@as_root
def test_a_named_leftover_of_another_is_not_removed(foreign: Path, victim: Path) -> None:
    """Shared memory is removed by the names that its server gave it."""
    with acting_as_owner(foreign):
        Leftovers(files=frozenset({victim})).remove()
    assert _is_untouched(victim)


@as_root
def test_a_planted_status_file_is_not_read(foreign: Path, victim: Path) -> None:
    victim.write_text("12345\n")
    _plant(foreign / "postmaster.pid", victim)
    assert status_lines(foreign) == []
    (foreign / "postmaster.pid").unlink()
    os.mkfifo(foreign / "postmaster.pid")
    assert status_lines(foreign) == []
    (foreign / "postmaster.pid").unlink()
    (foreign / "postmaster.pid").write_text("12345\n/data\n")
    assert status_lines(foreign) == ["12345", "/data"]


@as_root
def test_no_test_file_behind_a_planted_link(foreign: Path, victim: Path) -> None:
    _plant(foreign / "space", victim.parent)
    with (
        pytest.raises(LabError, match=_PLANTED) as caught,
        filled_file(foreign / "space", MIN_BYTES),
    ):
        pass
    assert caught.value.status is ExitStatus.ENVIRONMENT
