"""The server's account is hostile: what it tries in the server's folder while root works there.

It acts at pauses that are injected into root's work, between one file and the next.
"""

import os
import shutil
import socket
import stat
import struct
import threading
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import psycopg
import pytest
from hidden_installation import hide
from server_log import ServerFactory

from lookahead.account import Account, find_account
from lookahead.errors import ExitStatus, LabError
from lookahead.extension import Stage
from lookahead.installation import Installation
from lookahead.server import PrivateServer

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root runs the server under another account"
)
# Exchanges whatever is in a folder for a link, and leaves one of each name that root will make.
_ATTACK = """
cd "$1" 2>/dev/null || exit 0
for name in *; do mv -T "$name" "$name.old" && ln -sT "$2" "$name"; done
for name in programs stage server.log settings.conf device.profile lookup.sql data work socket; do
  ln -sT "$2" "$name"
done
chmod 777 . programs stage
mv -T "$1" "$1.old" && ln -sT "$2" "$1"
true
"""


def _attack(account: Account, folder: Path, victim: Path) -> None:
    done = account.run(["/bin/sh", "-c", _ATTACK, "sh", folder, victim])
    assert done.returncode == 0, done.stderr


def _tree(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Owner, group and mode of everything below a folder, which is not looked at through links."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        found[str(path.relative_to(folder))] = (status.st_uid, status.st_gid, status.st_mode)
    return found


@pytest.fixture
def victim(reachable_path: Path) -> Path:
    """A folder of root's, laid out as what is copied, that a planted link leads to."""
    folder = reachable_path / "victim"
    for name in ("bin", "lib", "share/extension", "pginstall/bin"):
        (folder / name).mkdir(parents=True)
        (folder / name / "postgres").write_text("root's")
        (folder / name / "postgres").chmod(0o700)
    return folder


@pytest.fixture
def closed(installation: Installation, stage: Stage, reachable_path: Path) -> Path:
    """A folder that only root enters, with programs and a stage: both must be copied."""
    place = reachable_path / "closed"
    place.mkdir(mode=0o700)
    shutil.copytree(stage.directory, place / "stage")
    return place


def _staged(closed: Path) -> Stage:
    folder = closed / "stage"
    return Stage(folder, folder / "lib", folder / "share/extension")


def _is_roots(folder: Path, given: set[str], account: Account) -> bool:
    """Whether the folder is root's, with `given` folders of the account, and no link in it."""
    owners = {path.name: path.lstat().st_uid for path in folder.iterdir()}
    theirs = {name for name, owner in owners.items() if owner == account.uid}
    rest = {owner for name, owner in owners.items() if name not in given}
    links = [path for path in folder.iterdir() if path.is_symlink()]
    return theirs == given and rest == {0} and not links


@pytest.fixture
def pauses(reachable_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The account attacks the folder "server" before each of root's steps; which ones there were.

    More than the first few of a kind would only take time.
    """
    account, place = find_account(), reachable_path / "server"
    counts: Counter[str] = Counter()

    def paused(module: ModuleType, name: str) -> None:
        real = getattr(module, name)

        def step(*arguments: Any, **options: Any) -> Any:
            if place.is_dir() and counts[name] < 5:
                counts[name] += 1
                _attack(account, place, victim)
            return real(*arguments, **options)

        monkeypatch.setattr(module, name, step)

    for module, name in ((shutil, "copyfile"), (shutil, "copystat")):
        paused(module, name)
    for name in ("chown", "fchown", "chmod", "replace"):
        paused(os, name)
    return cast("set[str]", counts)


def test_nothing_can_be_exchanged_while_programs_are_copied(
    installation: Installation, reachable_path: Path, closed: Path, victim: Path, pauses: set[str]
) -> None:
    account, place = find_account(), reachable_path / "server"
    hidden = hide(installation, closed / "programs")
    before = _tree(victim)
    with PrivateServer(hidden, stage=_staged(closed), directory=place) as server:
        server.start()
        assert {"copyfile", "copystat", "chown", "fchown", "replace"} <= set(pauses)
        _attack(account, place, victim)
        assert _is_roots(place, {"data", "socket", "work"}, account)
        above = [folder for folder in server.bindir.parents if place in folder.parents]
        for folder in (server.bindir, *above):
            status = folder.lstat()
            assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (0, 0o755)
        assert {path.stat().st_uid for path in server.bindir.iterdir()} == {0}
        server.restart()
    assert _tree(victim) == before
    assert not place.exists()


def test_the_log_cannot_be_swapped_for_a_link(server_factory: ServerFactory, victim: Path) -> None:
    secret = victim / "secret"
    secret.write_text("secret of root")
    secret.chmod(0o600)
    with server_factory() as server:
        _attack(server.account, server.directory, secret)
        assert "secret of root" not in server.read_log()
        assert server.log_path.stat().st_uid == 0
        # The account writes to it through the descriptor that its server has, and by no name.
        assert "database system is ready" in server.read_log()
        script = server.write_file("lookup.sql", "select 1")
        assert server.account.run(["cat", script]).stdout == "select 1"
        assert server.account.run(["cat", server.log_path]).returncode != 0


def test_an_impostor_gets_no_password(
    server_factory: ServerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The account owns the folder of the socket, and may answer there in the server's place."""
    monkeypatch.setenv("PGPASSWORD", "secret of root")
    heard: list[bytes] = []

    def ask_for_password(listener: socket.socket) -> None:
        caller, _ = listener.accept()
        with caller:
            caller.recv(1024)
            caller.sendall(b"R" + struct.pack(">ii", 8, 3))  # AuthenticationCleartextPassword
            heard.append(caller.recv(1024))

    with server_factory(start=False) as server, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(server.socket_directory / f".s.PGSQL.{server.port}"))
        listener.listen()
        impostor = threading.Thread(target=ask_for_password, args=(listener,))
        impostor.start()
        with pytest.raises(psycopg.OperationalError):
            server.connect()
        impostor.join()
    assert b"secret" not in heard[0]


def test_set_user_id_is_not_copied(
    installation: Installation, reachable_path: Path, closed: Path
) -> None:
    hidden = hide(installation, closed / "programs")
    (hidden.bindir / "initdb").chmod(0o6755)
    with PrivateServer(hidden, directory=reachable_path / "server") as server:
        modes = {stat.S_IMODE(path.stat().st_mode) for path in server.bindir.iterdir()}
        assert modes <= {0o755, 0o644}


@pytest.mark.parametrize("name", ["programs", "stage", "server.log", "settings.conf"])
def test_a_folder_of_the_account_is_refused(
    installation: Installation, reachable_path: Path, closed: Path, victim: Path, name: str
) -> None:
    """Whoever owned the folder until a moment ago may have planted anything."""
    account, place = find_account(), reachable_path / "kept"
    (place / "data").mkdir(parents=True)
    (place / "data" / "PG_VERSION").write_text("18\n")
    (place / name).symlink_to(victim)
    for path in (place, place / "data"):
        os.chown(path, account.uid, account.gid)
    before = _tree(victim)
    with pytest.raises(LabError, match="exists already") as caught:
        PrivateServer(installation, stage=_staged(closed), directory=place)
    assert caught.value.status is ExitStatus.ENVIRONMENT
    assert _tree(victim) == before
    assert (place / name).is_symlink()
    assert place.stat().st_uid == account.uid


def test_a_folder_whose_parent_is_the_accounts_is_refused(
    installation: Installation, reachable_path: Path
) -> None:
    account, parent = find_account(), reachable_path / "parent"
    parent.mkdir()
    os.chown(parent, account.uid, account.gid)
    with pytest.raises(LabError, match="another user can replace what root makes"):
        PrivateServer(installation, directory=parent / "server")
    assert not list(parent.iterdir())


def test_a_data_directory_behind_a_link_is_refused(
    installation: Installation, reachable_path: Path, victim: Path
) -> None:
    place = reachable_path / "kept"
    place.mkdir()
    (victim / "PG_VERSION").write_text("18\n")
    (place / "data").symlink_to(victim)
    os.lchown(place / "data", find_account().uid, find_account().gid)
    before = _tree(victim)
    with pytest.raises(LabError, match="exists already"):
        PrivateServer(installation, directory=place)
    assert _tree(victim) == before
