"""No room for the index or for temporary files: core's error, nothing left, and then it works."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from extension.probes import Connection
from mounting import mounted
from server_log import WatchedServer

from index_build.twins import ARMS, Arm, Counters, choose

_ROWS = 60_000
_SMALL = "size=2m"  # the index takes 4 MB, the entries in temporary files nearly 3


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
    connection.execute("SET temp_tablespaces = small; SET maintenance_work_mem = '256kB'")
    with pytest.raises(psycopg.errors.DiskFull, match="No space left on device"):
        connection.execute("CREATE INDEX wide_s ON wide (s)")
    assert _used(small_disk) == 0
    connection.execute("RESET temp_tablespaces; CREATE INDEX wide_s ON wide (s)")
