"""Under which account the server runs."""

import os
import pwd
import tempfile
from pathlib import Path

import pytest

from lookahead.account import find_account, own_account
from lookahead.errors import LabError

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change to another account")


@pytest.mark.skipif(os.geteuid() == 0, reason="root runs the server under another account")
def test_an_ordinary_user_runs_the_server_itself() -> None:
    assert find_account() == own_account()
    assert not find_account().drops


@as_root
def test_root_drops_to_an_unprivileged_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    account = find_account()
    assert account.name in ("postgres", "nobody")
    assert account.run(["id", "-u"]).stdout == f"{account.uid}\n"
    # Root's own groups would open files that the account must not reach.
    own_groups = os.getgroups()
    os.setgroups([*own_groups, 4])
    try:
        assert account.run(["id", "-G"]).stdout == f"{account.gid}\n"
        with tempfile.TemporaryFile() as output:
            command = ["id", "-G"]
            account.spawn(command, cwd=Path("/"), env={}, output=output.fileno()).wait()
            output.seek(0)
            assert output.read() == f"{account.gid}\n".encode()
    finally:
        os.setgroups(own_groups)


@as_root
def test_sudo_names_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", str(pwd.getpwnam("nobody").pw_uid))
    assert find_account().name == "nobody"


@as_root
@pytest.mark.parametrize("caller", ["0", "4294967000", "nonsense"])
def test_sudo_from_root_or_nowhere_is_ignored(monkeypatch: pytest.MonkeyPatch, caller: str) -> None:
    monkeypatch.setenv("SUDO_UID", caller)
    assert find_account().name in ("postgres", "nobody")


@as_root
def test_without_an_account_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> pwd.struct_passwd:
        raise KeyError(name)

    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setattr("lookahead.account.pwd.getpwnam", unknown)
    with pytest.raises(LabError, match="no unprivileged account") as caught:
        find_account()
    assert "ordinary user" in caught.value.hint


@as_root
def test_a_root_that_cannot_drop_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object, **options: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("lookahead.account.subprocess.run", refused)
    with pytest.raises(LabError, match="cannot run programs as user") as caught:
        find_account()
    assert "CAP_SETUID" in caught.value.hint


def test_an_account_less_user_id_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookahead.account.os.geteuid", lambda: 4294967000)
    with pytest.raises(LabError, match="user id 4294967000 has no account"):
        own_account()


@as_root
def test_reach_is_judged_with_the_eyes_of_the_account(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "file").write_text("")
    assert own_account().can_read(closed / "file")
    assert not find_account().can_read(closed / "file")
    assert not find_account().can_read(closed)
    assert find_account().can_read(Path("/etc/passwd"))
