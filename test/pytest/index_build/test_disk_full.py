"""No room for the index, temporary files or WAL: as with core, and then it works."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from extension.probes import Connection, scalar
from mounting import mounted
from server_log import WatchedServer
from waiting import wait_until

from index_build.twins import ARMS, Arm, Counters, check_tree, choose

_ROWS = 60_000
_SMALL = "size=2m"  # the index takes 4 MB, the entries in temporary files nearly 3
_WAL_ROWS = 400_000  # the WAL of their index takes 23 MB
_SMALL_WAL = "size=24m"  # room for one file of 16 MB and not for another
_LARGE_WAL = "size=200m"


@pytest.fixture
def small_disk(server: WatchedServer, connection: Connection) -> Iterator[Path]:
    """A tablespace `small` on a file system that is too small for the index."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS wide AS SELECT i AS id, md5(i::text) AS s "
        f"FROM generate_series(1, {_ROWS}) i"
    )
    with tempfile.TemporaryDirectory(prefix="lookahead-test-") as name:
        Path(name).chmod(0o755)
        with mounted(Path(name) / "small", _SMALL) as place:
            place.chmod(0o777)
            folder = place / "space"
            made = server.account.run(["mkdir", "-m", "700", folder])
            assert made.returncode == 0, made.stderr
            connection.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
            try:
                yield folder
            finally:
                connection.execute("RESET temp_tablespaces; DROP INDEX IF EXISTS wide_s")
                connection.execute("CHECKPOINT")
                connection.execute("DROP TABLESPACE small")


def _used(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("arm", ARMS)
def test_index_that_does_not_fit(connection: Connection, small_disk: Path, arm: Arm) -> None:
    choose(connection, arm)
    with pytest.raises(psycopg.errors.DiskFull, match="No space left on device"):
        connection.execute("CREATE INDEX wide_s ON wide (s) TABLESPACE small")
    connection.execute("CHECKPOINT")
    assert _used(small_disk) == 0
    connection.execute("CREATE INDEX wide_s ON wide (s)")
    assert (Counters.of(connection).built > 0) is (arm == "ours")


@pytest.mark.parametrize("arm", ARMS)
def test_temporary_files_that_do_not_fit(
    connection: Connection, small_disk: Path, arm: Arm
) -> None:
    choose(connection, arm)
    connection.execute("SET temp_tablespaces = small; SET maintenance_work_mem = '2MB'")
    with pytest.raises(psycopg.errors.DiskFull, match="No space left on device"):
        connection.execute("CREATE INDEX wide_s ON wide (s)")
    assert _used(small_disk) == 0
    connection.execute("RESET temp_tablespaces; CREATE INDEX wide_s ON wide (s)")


@contextmanager
def _wal_on_a_small_disk(server: WatchedServer) -> Iterator[Path]:
    """The WAL of a stopped server lies in a small file system of its own while the block runs."""
    wal = server.data_directory / "pg_wal"
    with mounted(server.directory / "small-wal", _SMALL_WAL) as place:
        moved = server.account.run(["cp", "-a", wal, place / "wal"])
        assert moved.returncode == 0, moved.stderr
        shutil.rmtree(wal)
        wal.symlink_to(place / "wal")
        try:
            yield place
        finally:
            server.stop("immediate")


@pytest.mark.expects_in_log("PANIC:  could not write to file")
@pytest.mark.expects_in_log("was terminated by signal 6")
@pytest.mark.parametrize("arm", ARMS)
def test_wal_that_does_not_fit(own_server: WatchedServer, arm: Arm) -> None:
    """PostgreSQL stops until there is room, whoever builds; then all but the index is there."""
    server = own_server
    with server.connect() as session:
        session.execute(
            "CREATE TABLE wide AS SELECT i AS id, md5(i::text) AS s "
            f"FROM generate_series(1, {_WAL_ROWS}) i"
        )
    server.stop()
    # Without files that were made or kept for later.
    emptied = server.account.run([server.bindir / "pg_resetwal", server.data_directory])
    assert emptied.returncode == 0, emptied.stderr
    with _wal_on_a_small_disk(server) as place:
        server.start()
        with server.connect() as session:
            choose(session, arm)
            with pytest.raises(psycopg.OperationalError):
                session.execute("CREATE INDEX wide_s ON wide (s)")
        wait_until(lambda: not server.is_running, "recovery finds no room either")
        subprocess.run(["mount", "-o", f"remount,{_LARGE_WAL}", place], check=True)
        server.start()
        with server.connect() as session:
            assert scalar(session, "SELECT to_regclass('wide_s')") is None
            assert scalar(session, "SELECT count(*) FROM wide") == _WAL_ROWS
            choose(session, arm)
            session.execute("CREATE INDEX wide_s ON wide (s)")
            assert (Counters.of(session).built > 0) is (arm == "ours")
            check_tree(session, "wide_s")
