"""Cold means cold: what mincore says before and after."""

from pathlib import Path
from typing import Any

import pytest
from server_log import ServerFactory

from lookahead import cold
from lookahead.cold import (
    cold_record,
    make_cold,
    memory_file_system,
    resident_bytes,
)
from lookahead.errors import ExitStatus, LabError
from lookahead.measurements import ColdRecord

_ONE_MB = 1024 * 1024


@pytest.fixture
def disk_path(tmp_path: Path) -> Path:
    """A folder whose cache can be dropped; on a tmpfs the files themselves are the cache."""
    kind = memory_file_system(tmp_path)
    if kind:
        pytest.skip(f"the temporary directory is a {kind}: it cannot be cold")
    return tmp_path


def test_resident_bytes_follow_the_cache(disk_path: Path) -> None:
    file = disk_path / "file"
    file.write_bytes(b"x" * (_ONE_MB + 1))
    assert resident_bytes(file) == _ONE_MB + 4096
    cold.forget(file)
    assert resident_bytes(file) == 0
    with file.open("rb", buffering=0) as reader:
        reader.read(1)
    assert 0 < resident_bytes(file) <= _ONE_MB + 4096


def test_an_empty_file_has_nothing_resident(disk_path: Path) -> None:
    (disk_path / "empty").touch()
    assert resident_bytes(disk_path / "empty") == 0


def test_tablespaces_are_made_cold_too(disk_path: Path) -> None:
    (disk_path / "data").mkdir()
    (disk_path / "elsewhere").mkdir()
    (disk_path / "elsewhere" / "1").write_bytes(b"x" * _ONE_MB)
    (disk_path / "data" / "16384").symlink_to(disk_path / "elsewhere")
    evidence = make_cold(disk_path / "data")
    assert evidence == cold_record("dontneed", _ONE_MB, 0, 1, _ONE_MB)
    assert evidence.is_cold


def test_what_stays_resident_is_not_called_cold() -> None:
    assert cold_record("dontneed", 1000, 10, 1, 1000).is_cold
    assert not cold_record("dontneed", 1000, 11, 1, 1000).is_cold


@pytest.fixture
def data(disk_path: Path) -> Path:
    """A folder with a file that is in the cache."""
    (disk_path / "data").mkdir()
    (disk_path / "data" / "1").write_bytes(b"x" * _ONE_MB)
    return disk_path / "data"


def test_the_machine_keeps_its_caches(data: Path) -> None:
    """Whoever we are: nothing but our own files is given up."""
    other = data.parent / "other"
    other.write_bytes(b"x" * _ONE_MB)
    assert make_cold(data).method == "dontneed"
    assert resident_bytes(other) == _ONE_MB


def test_what_something_else_reads_meanwhile_goes_the_next_time(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget, done = cold.forget, []

    def disturbed(path: Path) -> None:
        forget(path)
        done.append(path)
        if len(done) == 1:
            path.read_bytes()

    monkeypatch.setattr(cold, "forget", disturbed)
    assert make_cold(data).resident_bytes_after == 0
    assert done == [data / "1"] * 2


def test_data_that_stay_in_memory_are_an_error(
    server_factory: ServerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(directory: Path) -> ColdRecord:
        return cold_record("dontneed", 9_000_000, 2_000_000, 1, 9_000_000)

    monkeypatch.setattr(cold, "make_cold", fail)
    with (
        server_factory() as server,
        pytest.raises(LabError, match=r"cannot be made cold: 2.0 of 9.0 MB stay") as caught,
    ):
        server.cold_restart()
    assert "--directory" in caught.value.hint
    assert caught.value.status is ExitStatus.ENVIRONMENT


@pytest.mark.usefixtures("disk_path")
def test_a_cold_restart_empties_the_cache_and_keeps_the_rows(
    server_factory: ServerFactory,
) -> None:
    # Autovacuum would read the table behind the test's back.
    with server_factory(settings={"autovacuum": "off"}) as server:
        with server.connect() as connection:
            rows = "select n, repeat('x', 500) as pad from generate_series(1, 5000) n"
            connection.execute(f"create table t as {rows}")
        evidence = server.cold_restart({"work_mem": "5MB"})
        assert evidence.files > 500
        # No more is certain: another job of the machine may drop caches too.
        assert evidence.resident_bytes_before > 0
        assert evidence.is_cold
        with server.connect() as connection:
            table = server.data_directory / _path_of(connection, "t")
            # The start itself reads no user table.
            assert resident_bytes(table) == 0
            query = "select count(*), current_setting('work_mem') from t"
            assert connection.execute(query).fetchone() == (5000, "5MB")
            assert resident_bytes(table) > 0


def _path_of(connection: Any, table: str) -> str:
    (path,) = connection.execute("select pg_relation_filepath(%s)", [table]).fetchone()
    return str(path)
