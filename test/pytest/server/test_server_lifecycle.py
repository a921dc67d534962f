"""Start, stop, restart, crash, keep: the life of a private server."""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from lookahead.errors import LabError
from lookahead.installation import Installation
from lookahead.janitor import processes_in
from lookahead.server import PrivateServer


def value(server: PrivateServer, query: str) -> Any:
    """The single value a query yields."""
    with server.connect() as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


@pytest.fixture(scope="module")
def running(server_factory: ServerFactory) -> Iterator[WatchedServer]:
    """One stock server for the tests that leave it as it was."""
    with server_factory() as server:
        yield server


def test_a_server_starts_serves_and_disappears(server_factory: ServerFactory) -> None:
    with server_factory() as server:
        assert value(server, "select current_setting('server_version_num')::int / 10000") == 18
        assert value(server, "select current_setting('data_checksums')") == "on"
        assert value(server, "select current_setting('listen_addresses')") == ""
        assert value(server, "select 'ä' < 'z' collate \"default\"") is False
        folder = server.directory.stat()
        assert folder.st_uid == os.geteuid()
        assert stat.S_IMODE(folder.st_mode) == (0o750 if server.account.drops else 0o700)
        assert stat.S_IMODE(server.socket_directory.stat().st_mode) == 0o700
        assert server.data_directory.stat().st_uid == server.account.uid != 0
        assert server.pid in processes_in(server.directory, server.bindir)
    assert not server.directory.exists()
    assert not processes_in(server.directory, server.bindir)


def test_the_default_is_stock(running: WatchedServer) -> None:
    assert value(running, "select current_setting('session_preload_libraries')") == ""


def test_settings_of_a_run_end_with_the_next_ones(server_factory: ServerFactory) -> None:
    query = "select current_setting('work_mem') || ' ' || current_setting('temp_buffers')"
    with server_factory(settings={"work_mem": "5MB"}) as server:
        assert value(server, query) == "5MB 8MB"
        server.restart({"temp_buffers": "1MB"})
        assert value(server, query) == "5MB 1MB"
        server.restart()
        assert value(server, query) == "5MB 1MB"
        server.configure({"work_mem": "6MB"})
        server.restart({})
        assert value(server, query) == "6MB 8MB"


def test_a_crash_loses_nothing_committed(server_factory: ServerFactory) -> None:
    with server_factory() as server:
        with server.connect() as connection:
            connection.execute("create table kept as select generate_series(1, 1000) as n")
            server.crash()
        assert not server.is_running
        assert not processes_in(server.directory, server.bindir)
        server.start()
        assert value(server, "select count(*) from kept") == 1000
        assert "not properly shut down; automatic recovery in progress" in server.read_log()


def test_a_crash_ends_a_backend_that_only_computes(server_factory: ServerFactory) -> None:
    with server_factory() as server:
        # It never waits, so it does not notice that the postmaster is gone.
        busy = "do $$ declare n bigint := 0; begin loop n := n + 1; end loop; end $$"
        connection = server.connect()
        query = "select count(*) from pg_stat_activity where state = 'active' and query = %s"
        with server.connect() as witness:
            connection.pgconn.send_query(busy.encode())

            def is_busy() -> bool:
                return witness.execute(query, [busy]).fetchone() == (1,)

            wait_until(is_busy, "the backend computes")
        server.crash()
        assert not processes_in(server.directory, server.bindir)
        connection.close()


def test_a_crash_spares_clients(running: WatchedServer) -> None:
    client = subprocess.Popen(
        [running.bindir / "psql", "-XAt"],
        cwd=running.directory,
        env={**os.environ, **running.environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert client.stdin is not None
    assert client.stdout is not None
    try:
        client.stdin.write("\\echo connected\n")
        client.stdin.flush()
        assert client.stdout.readline() == "connected\n"
        running.crash()
        running.start()
        assert client.poll() is None
    finally:
        client.communicate()


def test_a_crash_without_restart_leaves_no_shared_memory(server_factory: ServerFactory) -> None:
    with server_factory() as server:
        server.crash()
        left = server._leftovers
        assert left.segments
        assert any(file.exists() for file in left.files)
    assert not any(file.exists() for file in left.files)
    table = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    assert not left.segments & {int(line.split()[1]) for line in table}


def test_stopping_twice_and_closing_twice_is_harmless(server_factory: ServerFactory) -> None:
    server = server_factory()
    server.stop()
    server.stop("immediate")
    with pytest.raises(LabError, match="not running"):
        _ = server.pid
    server.close()
    server.close()
    with pytest.raises(LabError, match="removed"):
        server.start()


def test_starting_twice_is_refused(running: WatchedServer) -> None:
    with pytest.raises(LabError, match="running already"):
        running.start()


def test_a_failed_start_shows_the_log_and_leaves_nothing(server_factory: ServerFactory) -> None:
    with server_factory(start=False) as server:
        with pytest.raises(LabError) as caught:
            server.start({"shared_buffers": "lots"})
        assert "did not start; its log ends with:" in caught.value.message
        assert 'invalid value for parameter "shared_buffers": "lots"' in caught.value.message
        assert caught.value.hint
        assert not processes_in(server.directory, server.bindir)
        server.start({})
        assert value(server, "select 1") == 1


def test_a_failed_start_shows_only_its_own_lines(server_factory: ServerFactory) -> None:
    with server_factory() as server:
        with pytest.raises(psycopg.errors.DivisionByZero):
            value(server, "select 1/0")
        with pytest.raises(LabError) as caught:
            server.restart({"io_method": "magic"})
        assert "division by zero" in server.read_log()
        assert "division by zero" not in caught.value.message
        assert "magic" in caught.value.message


def test_a_missing_preload_library_is_named(server_factory: ServerFactory) -> None:
    said = 'could not access file "no_such_library"'
    with server_factory(start=False) as server, pytest.raises(LabError, match=said):
        server.start({"shared_preload_libraries": "no_such_library"})


def test_a_failed_initdb_shows_its_reason(server_factory: ServerFactory) -> None:
    with server_factory(start=False, initdb_options=["--wal-segsize=3"]) as server:
        with pytest.raises(LabError, match="initdb failed") as caught:
            server.initdb()
        assert "wal-segsize" in caught.value.message
        assert not server.is_initialized


def test_initdb_options_reach_initdb(server_factory: ServerFactory) -> None:
    options = ["--no-data-checksums", "--locale-provider=libc", "--locale=C"]
    with server_factory(initdb_options=options) as server:
        assert value(server, "select current_setting('data_checksums')") == "off"
        query = "select datlocprovider::text from pg_database where datname = 'postgres'"
        assert value(server, query) == "c"


def test_a_kept_folder_stays(
    server_factory: ServerFactory, installation: Installation, reachable_path: Path
) -> None:
    place = reachable_path / "kept"
    with server_factory(directory=place, keep=True) as first, first.connect() as connection:
        connection.execute("create table t as select 42 as n")
    assert (place / "data" / "PG_VERSION").exists()
    with pytest.raises(LabError, match="exists already"):
        PrivateServer(installation, directory=place)
    assert (place / "data" / "PG_VERSION").exists()
    shutil.rmtree(place)


def test_a_foreign_folder_is_left_alone(installation: Installation, reachable_path: Path) -> None:
    (reachable_path / "mine").write_text("precious")
    before = reachable_path.stat()
    with pytest.raises(LabError, match="exists already") as caught:
        PrivateServer(installation, directory=reachable_path)
    assert caught.value.hint
    assert (reachable_path / "mine").read_text() == "precious"
    after = reachable_path.stat()
    assert (before.st_mode, before.st_uid) == (after.st_mode, after.st_uid)


def test_a_long_path_gets_its_socket_elsewhere(
    server_factory: ServerFactory, reachable_path: Path
) -> None:
    with server_factory(directory=reachable_path / ("x" * 100)) as server:
        assert value(server, "select 1") == 1
        assert not server.socket_directory.is_relative_to(server.directory)
        assert stat.S_IMODE(server.socket_directory.stat().st_mode) == 0o700
    assert not server.socket_directory.exists()


def test_two_servers_do_not_meet(server_factory: ServerFactory) -> None:
    with server_factory() as one, server_factory() as other:
        query = "select current_setting('data_directory')"
        assert value(one, query) == str(one.data_directory)
        assert value(other, query) == str(other.data_directory)


def test_clients_run_under_the_servers_account(running: WatchedServer) -> None:
    assert running.run_client("psql", "-XAtc", "select 1 + 1").stdout == "2\n"
    assert (
        running.run_client("psql", "-XAt", input="\\! id -un\n").stdout
        == f"{running.account.name}\n"
    )
    script = "\\getenv word WORD\n\\echo :word\n"
    assert running.run_client("psql", "-X", input=script, env={"WORD": "hi"}).stdout == "hi\n"


def test_a_failing_client_shows_its_words(running: WatchedServer) -> None:
    with pytest.raises(LabError, match=r"psql exits with 1:\n.*division by zero"):
        running.run_client("psql", "-Xc", "select 1/0")
    done = running.run_client("psql", "-Xc", "select 1/0", check=False)
    assert done.returncode == 1
    with pytest.raises(LabError, match="cannot run no_such_program"):
        running.run_client("no_such_program")


def test_a_client_that_hangs_is_ended(running: WatchedServer) -> None:
    with pytest.raises(LabError, match=r"psql did not end within 0\.2 s"):
        running.run_client("psql", "-Xc", "select pg_sleep(60)", timeout_seconds=0.2)


def test_the_environment_leads_clients_to_the_server(
    running: WatchedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in running.environment().items():
        monkeypatch.setenv(name, text)
    with psycopg.connect() as connection:
        row = connection.execute("select current_setting('data_directory')").fetchone()
    assert row == (str(running.data_directory),)


def test_a_strict_file_mode_mask_does_not_lock_the_server_out(
    server_factory: ServerFactory,
) -> None:
    mask = os.umask(0o077)
    try:
        with server_factory(settings={"work_mem": "5MB"}) as server:
            assert value(server, "select current_setting('work_mem')") == "5MB"
    finally:
        os.umask(mask)


@pytest.mark.parametrize("method", ["sync", "worker", "io_uring"])
def test_every_io_method_starts(
    server_factory: ServerFactory, installation: Installation, method: str
) -> None:
    if method == "io_uring" and not installation.has_io_uring:
        pytest.skip(f"no io_uring: {installation.io_uring_obstacle}")
    with server_factory(settings={"io_method": method}) as server:
        assert value(server, "select current_setting('io_method')") == method


def test_a_standby_reads_its_own_settings(server_factory: ServerFactory) -> None:
    with server_factory(settings={"work_mem": "5MB"}) as primary:
        standby: WatchedServer = server_factory(start=False, settings={"work_mem": "6MB"})
        with standby:
            primary.run_client("pg_basebackup", "-R", "-D", standby.data_directory)
            standby.start()
            assert value(standby, "select pg_is_in_recovery()") is True
            assert value(standby, "select current_setting('work_mem')") == "6MB"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can plant links in another's folder")
def test_a_planted_link_is_not_followed(server_factory: ServerFactory, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    with server_factory(start=False) as server:
        server.initdb()
        server.log_path.symlink_to(victim)
        with pytest.raises(LabError, match="cannot open"):
            server.start()
        with pytest.raises(LabError, match="cannot read"):
            server.read_log()
        server.log_path.unlink()
    assert victim.read_text() == "untouched"
