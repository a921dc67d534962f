"""The profile as a server takes it: for which tablespaces, from whom, and why not."""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from made_profile import made_profile
from psycopg.rows import dict_row
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from lookahead.device.block_device import DeviceId, device_of, machine_name
from lookahead.device.profile import format_profiles
from lookahead.extension import Stage

_MEMORY = Path("/dev/shm")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            session.execute("CREATE ROLE plain LOGIN")
        yield started


@pytest.fixture
def path(server: WatchedServer) -> Iterator[Path]:
    """A file that the server can reach, outside of its data directory."""
    file = server.directory / "profile"
    yield file
    if file.is_dir():
        file.rmdir()
    file.unlink(missing_ok=True)


@pytest.fixture
def configured(server: WatchedServer, path: Path) -> Iterator[Path]:
    """The setting names the file; sessions that start from here on see it."""
    _configure(server, path)
    yield path
    _configure(server, None)


def _configure(server: WatchedServer, path: Path | None) -> None:
    value = f"SET pg_lookahead.device_profile = '{path}'" if path else "RESET ALL"
    with server.connect() as session:
        session.execute(f"ALTER SYSTEM {value}")
        _reload(session)


def _reload(session: psycopg.Connection[Any]) -> None:
    before = session.execute("SELECT pg_conf_load_time()").fetchone()
    session.execute("SELECT pg_reload_conf()")
    wait_until(
        lambda: session.execute("SELECT pg_conf_load_time()").fetchone() != before,
        "the configuration is read again",
    )


def _row(session: psycopg.Connection[Any], tablespace: str = "pg_default") -> dict[str, Any]:
    with session.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(
            "SELECT * FROM pg_lookahead_device WHERE tablespace = %s", [tablespace]
        ).fetchone()
    assert found is not None
    return found


def _here(server: WatchedServer) -> DeviceId:
    return device_of(server.data_directory / "base")


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o644)


def test_lab_and_extension_name_machine_and_device_alike(
    server: WatchedServer, configured: Path
) -> None:
    _write(configured, format_profiles((made_profile(_here(server)),)))
    with server.connect() as session:
        row = _row(session)
    assert row["reason"] is None
    assert row["device"] == f"{_here(server).major}:{_here(server).minor}"
    assert row["profile"] == str(configured)
    assert row["measured_at"] == "2026-01-31T23:59:59Z"
    assert (row["depth"], row["iops"], row["bandwidth_mb"]) == (64, 60_000.5, 1500.0)


def test_others_do_not_see_the_path(server: WatchedServer, configured: Path) -> None:
    _write(configured, format_profiles((made_profile(_here(server)),)))
    with server.connect(user="plain") as session:
        row = _row(session)
        assert (row["profile"], row["depth"]) == (None, 64)
        assert session.execute("SELECT set_config('DateStyle', 'ISO', false)").fetchone()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("SHOW pg_lookahead.device_profile")


def test_a_reload_reads_the_file_again(server: WatchedServer, configured: Path) -> None:
    device = _here(server)
    _write(configured, format_profiles((made_profile(device),)))
    with server.connect() as session:
        assert _row(session)["depth"] == 64
        _write(configured, format_profiles((made_profile(device, depth=1),)))
        assert _row(session)["depth"] == 64
        _reload(session)
        assert _row(session)["depth"] == 1
        configured.unlink()
        _reload(session)
        assert _row(session)["reason"].startswith("the file cannot be found")


def test_each_tablespace_has_the_profile_of_its_device(
    server: WatchedServer, configured: Path
) -> None:
    """Tablespaces are made and dropped in the session that looks."""
    folder = server.directory / "space"
    folder.mkdir()
    os.chown(folder, server.account.uid, server.account.gid)
    _write(configured, format_profiles((made_profile(_here(server)),)))
    with server.connect() as session:
        session.execute(f"CREATE TABLESPACE space LOCATION '{folder}'")
        assert _row(session, "space")["depth"] == 64
        (oid,) = session.execute("SELECT oid FROM pg_tablespace WHERE spcname='space'").fetchone()  # type: ignore[misc]
        session.execute("DROP TABLESPACE space")
        gone = session.execute("SELECT pg_lookahead_device_profile(%s) IS NULL", [oid])
        assert gone.fetchone() == (True,)
    folder.rmdir()


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder on a file system without a block device."""
    if not _MEMORY.is_dir() or os.major(_MEMORY.stat().st_dev) != 0:
        pytest.skip(f"{_MEMORY} is not in memory")
    folder = Path(tempfile.mkdtemp(prefix="lookahead-space-", dir=_MEMORY))
    yield folder
    shutil.rmtree(folder)


def test_devices_without_number_are_told_by_their_file_system(
    server: WatchedServer, configured: Path, memory: Path
) -> None:
    """The kernel numbers them anew at each mount, so the minor number does not count."""
    os.chown(memory, server.account.uid, server.account.gid)
    there = device_of(memory)
    profiles = (
        made_profile(_here(server)),
        made_profile(replace(there, minor=there.minor + 1), depth=1),
    )
    _write(configured, format_profiles(profiles))
    with server.connect() as session:
        session.execute(f"CREATE TABLESPACE memory LOCATION '{memory}'")
        assert _row(session, "memory")["depth"] == 1
        assert _row(session)["depth"] == 64
        session.execute("DROP TABLESPACE memory")


def test_another_device_was_not_measured(server: WatchedServer, configured: Path) -> None:
    here = _here(server)
    others = (
        replace(here, minor=here.minor + 1, major=here.major or 1),
        replace(here, identity=here.identity + "0"),
    )
    _write(configured, format_profiles(tuple(made_profile(other) for other in others)))
    with server.connect() as session:
        assert _row(session)["reason"] == "the device was not measured"


def _directory(path: Path) -> None:
    path.mkdir()


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _large(path: Path) -> None:
    _write(path, "#\n" * 40_000)


def _cut_short(path: Path) -> None:
    _write(path, path.read_text()[:-3])


def _foreign_machine(path: Path) -> None:
    _write(path, path.read_text().replace(machine_name(), "id-" + "0" * 32))


def _absurd(path: Path) -> None:
    _write(path, path.read_text().replace("depth = 64", "depth = 1e9"))


def _group_writable(path: Path) -> None:
    path.chmod(path.stat().st_mode | stat.S_IWGRP)


def _unreadable(path: Path) -> None:
    path.chmod(0)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (Path.unlink, "the file cannot be found: No such file or directory"),
        (_large, "the file is larger than 64 kB"),
        (_cut_short, "line 14: the line is cut short"),
        (_absurd, "line 10: the value is not a whole number"),
        (_foreign_machine, "it was measured on another machine"),
        (_group_writable, "others than its owner may write to the file"),
        pytest.param(_unreadable, "the file cannot be opened: Permission denied", marks=as_root),
    ],
)
def test_what_is_not_to_be_trusted_is_ignored(
    server: WatchedServer, configured: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    _write(configured, format_profiles((made_profile(_here(server)),)))
    spoil(configured)
    _expect_refused(server, reason)


@pytest.mark.parametrize("make", [_directory, _pipe])
def test_only_files_are_read(
    server: WatchedServer, configured: Path, make: Callable[[Path], None]
) -> None:
    make(configured)
    _expect_refused(server, "it is not a regular file")


@as_root
def test_the_owner_has_to_be_trusted(server: WatchedServer, configured: Path) -> None:
    _write(configured, format_profiles((made_profile(_here(server)),)))
    os.chown(configured, server.account.uid, -1)
    with server.connect() as session:
        assert _row(session)["depth"] == 64
    os.chown(configured, server.account.uid + 1 if server.account.uid < 60_000 else 12_345, -1)
    _expect_refused(server, "the file belongs neither to root nor to the server's account")


def test_a_file_in_the_data_directory_is_ignored(server: WatchedServer, path: Path) -> None:
    inside = server.data_directory / "profile"
    _write(inside, format_profiles((made_profile(_here(server)),)))
    try:
        path.symlink_to(inside)
        for name in (inside, path):
            _configure(server, name)
            _expect_refused(server, "the file is in the data directory")
    finally:
        inside.unlink()
        _configure(server, None)


def _expect_refused(server: WatchedServer, reason: str) -> None:
    with server.connect() as session:
        for tablespace in ("pg_default", "pg_global", "pg_default"):
            row = _row(session, tablespace)
            assert (row["reason"], row["depth"]) == (reason, None)
