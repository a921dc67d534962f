"""Under which operating system account the server runs, and running programs under it.

PostgreSQL refuses to run as root. When the lab runs as root, every program of the server is
started under an unprivileged account that exists already: no account is made, and nothing outside
the server's own folder is given to it. Otherwise the server runs under the user's own account.
"""

import os
import pwd
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookahead.errors import UnavailableError

Command = Sequence[str | Path]


@dataclass(frozen=True)
class Account:
    """An account of the operating system; `drops` is true when it is not the one we run as."""

    name: str
    uid: int
    gid: int
    drops: bool

    def run(
        self,
        command: Command,
        *,
        cwd: Path = Path("/"),
        env: Mapping[str, str] | None = None,
        input: str | None = None,
        timeout_seconds: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program under this account and capture its output as text.

        Raises OSError when the program cannot be executed and `subprocess.TimeoutExpired`;
        a non-zero exit is the caller's to judge.
        """
        return subprocess.run(
            [str(part) for part in command],
            cwd=cwd,
            env=env,
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            timeout=timeout_seconds,
            check=False,
            **self._identity(),
        )

    def spawn(
        self, command: Command, *, cwd: Path, env: Mapping[str, str], output: int
    ) -> subprocess.Popen[bytes]:
        """Start a program under this account in a session of its own, writing to `output`.

        The session keeps the terminal's Ctrl-C from it: ending it is the caller's task.
        """
        return subprocess.Popen(
            [str(part) for part in command],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **self._identity(),
        )

    def can_read(self, path: Path) -> bool:
        """Whether this account reaches and reads `path` (and, for a folder, enters it)."""
        condition = 'test -r "$1" && { test ! -d "$1" || test -x "$1"; }'
        return self.run(["/bin/sh", "-c", condition, "sh", path]).returncode == 0

    def _identity(self) -> dict[str, Any]:
        """What has a new process change to this account, for `subprocess`."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.drops else {}


@contextmanager
def acting_as_owner(folder: Path) -> Iterator[None]:
    """As root: have this whole process touch files with the rights of the folder's owner.

    What an account has planted in its folders then leads nowhere that it cannot go itself. The
    folder must lie where its owner cannot replace it. For blocks of plain file work: nothing that
    needs root, no program started, no module imported for the first time (it may lie where the
    owner cannot read).
    """
    status = folder.stat(follow_symlinks=False)
    if os.geteuid() != 0 or status.st_uid == 0:
        yield
        return
    gid, groups = os.getegid(), os.getgroups()
    try:
        os.setgroups([])
        os.setegid(status.st_gid)
        os.seteuid(status.st_uid)
        yield
    finally:
        os.seteuid(0)
        os.setegid(gid)
        os.setgroups(groups)


def own_account() -> Account:
    """The account this process runs as, whatever it is."""
    uid = os.geteuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        raise UnavailableError(
            f"user id {uid} has no account",
            "PostgreSQL needs an entry in /etc/passwd for the user it runs as; add one.",
        ) from None
    return Account(name, uid, os.getegid(), drops=False)


def find_account() -> Account:
    """The account for the server: our own, or as root an unprivileged one.

    As root that is the account `sudo` was called from, else `postgres`, else `nobody`.
    Raises LabError when there is none or when this root may not change to it.
    """
    if os.geteuid() != 0:
        return own_account()
    entry = _unprivileged_entry()
    account = Account(entry.pw_name, entry.pw_uid, entry.pw_gid, drops=True)
    try:
        account.run(["/bin/sh", "-c", ":"])
    except OSError as error:
        raise UnavailableError(
            f'cannot run programs as user "{account.name}": {error.strerror}',
            "PostgreSQL refuses to run as root, and this root may not change to another user "
            "(a container without CAP_SETUID?). Run the command as an ordinary user.",
        ) from None
    return account


def _unprivileged_entry() -> pwd.struct_passwd:
    caller = os.environ.get("SUDO_UID", "")
    if caller.isdecimal() and int(caller) != 0:
        try:
            return pwd.getpwuid(int(caller))
        except KeyError:
            pass
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return entry
    raise UnavailableError(
        "there is no unprivileged account to run PostgreSQL under",
        'PostgreSQL refuses to run as root: add a user named "postgres", '
        "or run the command as an ordinary user.",
    )
