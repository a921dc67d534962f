"""Cleans up after the lab, however it ends.

One janitor process accompanies each private server. It waits for the end of a pipe that only its
maker holds open; the kernel closes the pipe however the maker ends, kill -9 included. In the
orderly case the maker stops the server and closes the pipe. Then the janitor ends what still runs
in the server's folder, and removes the folder.

The file is also run as a program, by a bare interpreter: it may import the standard library only.

    janitor.py keep|remove BINDIR FOLDER [SOCKET_FOLDER]

Shared memory is not its business: a server that shuts down removes its segments, and one that
starts on the same data directory removes those of its predecessor.
"""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

# How long a server may take to end by itself, in seconds: SIGQUIT ends it without a checkpoint,
# after 5 s the postmaster kills its children; twice that is arbitrary.
_GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.02
_STATUS_BYTES = 8192  # eight short lines and two paths
_BLOCKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SERVER_PROGRAMS = ("postgres", "initdb")


def processes_in(folder: Path, bindir: Path) -> list[int]:
    """The ids of server processes whose working directory is `folder` or lies below it.

    Every process of a server works in its data directory. Only the server's own programs are
    counted, those of `bindir` and copies in the folder itself, so that a shell that was moved into
    the folder to look around is spared.
    """
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and _belongs(entry, folder, bindir):
            found.append(int(entry.name))
    return found


def _belongs(entry: Path, folder: Path, bindir: Path) -> bool:
    try:
        program = Path(str((entry / "exe").readlink()).removesuffix(" (deleted)"))
        directory = Path(str((entry / "cwd").readlink()).removesuffix(" (deleted)"))
    except OSError:  # it has just ended, or is another user's
        return False
    if program.name not in _SERVER_PROGRAMS:
        return False
    is_servers = program.parent == bindir or program.is_relative_to(folder)
    return is_servers and directory.is_relative_to(folder)


def send(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)


def postmaster_of(data_directory: Path) -> int | None:
    """The process id that stands in postmaster.pid, else None."""
    try:
        return int(status_lines(data_directory)[0])
    except (ValueError, IndexError):
        return None


def status_lines(data_directory: Path) -> list[str]:
    """The lines of postmaster.pid, none when there is no such file.

    The server's account owns the folder, and we may be root: a link is not followed, a pipe not
    waited for.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(data_directory / "postmaster.pid", flags)
    except OSError:
        return []
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        text = os.read(descriptor, _STATUS_BYTES) if is_file else b""
    finally:
        os.close(descriptor)
    return text.decode("utf-8", "replace").splitlines()


def end_processes(folder: Path, bindir: Path, *, grace_seconds: float = _GRACE_SECONDS) -> bool:
    """End all server processes in `folder`: an immediate shutdown, then by force.

    Returns whether none is left.
    """
    postmaster = postmaster_of(folder / "data")
    if postmaster in processes_in(folder, bindir):
        send(postmaster, signal.SIGQUIT)
    if wait_until_none(folder, bindir, grace_seconds):
        return True
    for process in processes_in(folder, bindir):
        send(process, signal.SIGKILL)
    return wait_until_none(folder, bindir, _GRACE_SECONDS)


def wait_until_none(folder: Path, bindir: Path, timeout_seconds: float) -> bool:
    """Wait until no server process is left in `folder`; False when the time is over."""
    deadline = time.monotonic() + timeout_seconds
    while processes_in(folder, bindir):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


class JanitorProcess:
    """A janitor at its work: waiting for the end of a pipe that only we hold open.

    `arguments` are those of the program. Raises OSError when it cannot be started.
    """

    program = __file__

    def __init__(self, *arguments: object) -> None:
        self.arguments = tuple(map(str, arguments))
        # Who ends all of our processes at once, as the stop of a unit, does not end the janitor:
        # a mask is inherited.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
        try:
            # Our end of the pipe is closed in every program that we start, at its exec.
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", self.program, *self.arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def finish(self) -> bool:
        """Have it clean up now; returns whether nothing stays behind."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait() == 0


def end_server(task: str, bindir: str, path: str, *extra_folders: str) -> bool:
    """End the processes of a server and remove its folders; whether nothing is left.

    With `task` "keep" the folder itself stays.
    """
    keep, folder = task == "keep", Path(path)
    # Nothing to wait for in the orderly case, and when initdb was under way no postmaster to ask.
    grace_seconds = _GRACE_SECONDS if postmaster_of(folder / "data") else 0.0
    ended = end_processes(folder, Path(bindir), grace_seconds=grace_seconds)
    for extra in extra_folders:
        shutil.rmtree(extra, ignore_errors=True)
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
    return ended and (keep or not folder.exists())


def main(task: str, *arguments: str) -> int:
    """Wait for the end of standard input, then clean up."""
    sys.stdin.buffer.read()
    return 0 if end_server(task, *arguments) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
