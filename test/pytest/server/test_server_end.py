"""However the process that made a server ends, the server and its folder go with it."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from crashing_server import Leftovers
from hidden_installation import hide
from waiting import wait_until

from lookahead.account import find_account
from lookahead.installation import Installation
from lookahead.janitor import JanitorProcess, end_processes, processes_in
from lookahead.server_folder import ServerFolder

as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="the server's account is our own, which reaches what we reach"
)
_MAKER = """
import os, signal, sys, time
from pathlib import Path
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has it ignored
from lookahead.installation import find_installation
from lookahead.server import PrivateServer

keep = sys.argv[2] == "keeps"
with PrivateServer(find_installation(Path(sys.argv[1])), keep=keep) as server:
    if sys.argv[2] == "before-initdb":
        print(server.directory, server.bindir, flush=True)
    server.start()
    connection = server.connect()
    connection.execute("create table t as select 1")
    print(server.directory, server.bindir, flush=True)
    if sys.argv[2] == "raises":
        raise RuntimeError("on purpose")
    if sys.argv[2] == "forgets":
        sys.exit("without closing")
    if sys.argv[2] == "forks":
        child = os.fork()
        if child == 0:
            sys.exit(0)
        os.waitpid(child, 0)
        (one,) = connection.execute("select 1").fetchone()
        print(f"the child ended; select 1 yields {one}", flush=True)
        sys.exit(0)
    while True:  # pause() would miss a signal of the moment before
        time.sleep(0.1)
"""
_FORGETFUL_MAKER = _MAKER.replace(
    "with PrivateServer(find_installation(Path(sys.argv[1])), keep=keep) as server:",
    "server = PrivateServer(find_installation(Path(sys.argv[1])))\nif True:",
)


class Maker:
    """A Python process in a process group of its own that makes a server and waits."""

    def __init__(self, installation: Installation, mode: str, script: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, str(installation.pg_config), mode],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            process_group=0,
        )
        assert self.process.stdout is not None
        directory, bindir = self.process.stdout.readline().split()
        self.directory, self.bindir = Path(directory), Path(bindir)

    def nothing_is_left(self) -> bool:
        return not self.directory.exists() and not processes_in(self.directory, self.bindir)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def makers() -> Iterator[list[Maker]]:
    started: list[Maker] = []
    yield started
    for maker in started:
        maker.end()


@pytest.mark.parametrize("mode", ["raises", "forgets"])
@pytest.mark.parametrize("script", [_MAKER, _FORGETFUL_MAKER], ids=["with", "no with"])
def test_an_exception_or_exit_leaves_nothing(
    installation: Installation, makers: list[Maker], mode: str, script: str
) -> None:
    maker = Maker(installation, mode, script)
    makers.append(maker)
    assert maker.process.wait(60) == 1
    # The process itself cleans up before it ends: nothing to wait for.
    assert maker.nothing_is_left()


def test_ctrl_c_leaves_nothing(installation: Installation, makers: list[Maker]) -> None:
    maker = Maker(installation, "waits", _MAKER)
    makers.append(maker)
    assert processes_in(maker.directory, maker.bindir)
    # The terminal sends it to the whole foreground group.
    os.killpg(maker.process.pid, signal.SIGINT)
    assert maker.process.wait(60) != 0
    assert maker.nothing_is_left()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_killed_maker_leaves_nothing(
    installation: Installation, makers: list[Maker], number: signal.Signals
) -> None:
    maker = Maker(installation, "waits", _MAKER)
    makers.append(maker)
    memory = set(Path("/dev/shm").glob("PostgreSQL.*"))
    mapped = _shared_files(maker)
    assert mapped <= memory
    os.killpg(maker.process.pid, number)
    maker.process.wait(60)
    wait_until(maker.nothing_is_left, "the janitor has ended the server and removed its folder")
    assert not mapped & set(Path("/dev/shm").glob("PostgreSQL.*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_initdb_leaves_nothing(
    installation: Installation, makers: list[Maker], number: signal.Signals
) -> None:
    maker = Maker(installation, "before-initdb", _MAKER)
    makers.append(maker)
    wait_until(lambda: processes_in(maker.directory, maker.bindir), "initdb runs")
    os.killpg(maker.process.pid, number)
    maker.process.wait(60)
    wait_until(maker.nothing_is_left, "the janitor has ended initdb and removed its folder")


@pytest.mark.parametrize("copied", [False, pytest.param(True, marks=as_root)])
def test_a_killed_maker_leaves_a_kept_folder(
    installation: Installation, makers: list[Maker], tmp_path: Path, copied: bool
) -> None:
    chosen = hide(installation, tmp_path / "closed") if copied else installation
    maker = Maker(chosen, "keeps", _MAKER)
    makers.append(maker)
    os.killpg(maker.process.pid, signal.SIGKILL)
    maker.process.wait(60)
    gone = f"the janitor has ended the server in {maker.directory}"
    wait_until(lambda: not processes_in(maker.directory, maker.bindir), gone)
    assert (maker.directory / "data" / "PG_VERSION").exists()
    shutil.rmtree(maker.directory)


def test_who_ends_all_processes_does_not_end_the_janitor(tmp_path: Path) -> None:
    """Such as a stop of the whole unit, whose lab cleans up only then."""
    folder = tmp_path / "folder"
    folder.mkdir()
    janitor = JanitorProcess("remove", tmp_path, folder)
    os.kill(janitor._process.pid, signal.SIGTERM)
    assert janitor.finish()
    assert not folder.exists()


def test_a_killed_janitor_leaves_nothing(installation: Installation) -> None:
    folder = ServerFolder(None, find_account(), installation.bindir, keep=False)
    os.kill(folder._janitor._process.pid, signal.SIGKILL)
    folder.close()
    assert not folder.path.exists()


def test_servers_that_run_from_copies_are_known(tmp_path: Path) -> None:
    """Programs that the server's account could not reach are copied into the server's folder."""
    programs = tmp_path / "folder" / "programs" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "folder" / "data").mkdir()
    shutil.copy(shutil.which("sleep") or "/bin/sleep", programs / "postgres")
    named = Path("/elsewhere/bin")
    process = subprocess.Popen([programs / "postgres", "600"], cwd=tmp_path / "folder" / "data")
    try:
        assert processes_in(tmp_path / "folder", named) == [process.pid]
        assert processes_in(tmp_path / "other", named) == []
        assert end_processes(tmp_path / "folder", named, grace_seconds=0)
    finally:
        process.kill()
        assert process.wait() == -signal.SIGKILL


@as_root
def test_a_killed_maker_with_copied_programs_leaves_nothing(
    installation: Installation, makers: list[Maker], tmp_path: Path
) -> None:
    hidden = hide(installation, tmp_path / "closed")
    maker = Maker(hidden, "waits", _MAKER)
    makers.append(maker)
    assert maker.bindir.is_relative_to(maker.directory)
    assert processes_in(maker.directory, installation.bindir)
    os.killpg(maker.process.pid, signal.SIGKILL)
    maker.process.wait(60)
    wait_until(maker.nothing_is_left, "the janitor has ended the server and removed its folder")


def test_a_forked_child_does_not_take_the_server_with_it(
    installation: Installation, makers: list[Maker]
) -> None:
    maker = Maker(installation, "forks", _MAKER)
    makers.append(maker)
    assert maker.process.stdout is not None
    assert maker.process.stdout.readline() == "the child ended; select 1 yields 1\n"
    assert maker.process.wait(60) == 0


def test_a_shell_in_the_folder_is_spared(installation: Installation, makers: list[Maker]) -> None:
    maker = Maker(installation, "waits", _MAKER)
    makers.append(maker)
    # cat waits for its input, in the folder, as a user's shell there would.
    visitor = subprocess.Popen(["cat"], cwd=maker.directory, stdin=subprocess.PIPE)
    try:
        os.killpg(maker.process.pid, signal.SIGKILL)
        wait_until(maker.nothing_is_left, "the janitor has removed the folder")
        assert visitor.poll() is None
    finally:
        visitor.communicate()


def _shared_files(maker: Maker) -> set[Path]:
    files = Leftovers.of(processes_in(maker.directory, maker.bindir)).files
    assert files
    return set(files)
