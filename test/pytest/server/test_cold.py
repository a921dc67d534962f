"""Cold means cold: what mincore says before and after."""

from pathlib import Path
from typing import Any

import pytest
from server_log import ServerFactory

from lookahead import cold
from lookahead.cold import ColdEvidence, make_cold, resident_bytes

_ONE_MB = 1024 * 1024


@pytest.fixture
def disk_path(tmp_path: Path) -> Path:
    """A folder whose cache can be dropped; on a tmpfs the files themselves are the cache."""
    longest, kind = "", ""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, file_system, *_ = line.split()
        if tmp_path.is_relative_to(place) and len(place) >= len(longest):
            longest, kind = place, file_system
    if kind in ("tmpfs", "ramfs"):
        pytest.skip(f"the temporary directory is a {kind}: it cannot be cold")
    return tmp_path


def test_resident_bytes_follow_the_cache(disk_path: Path) -> None:
    file = disk_path / "file"
    file.write_bytes(b"x" * (_ONE_MB + 1))
    assert resident_bytes(file) == _ONE_MB + 4096
    cold._give_up(file)
    assert resident_bytes(file) == 0
    with file.open("rb", buffering=0) as reader:
        reader.read(1)
    assert 0 < resident_bytes(file) <= _ONE_MB + 4096


def test_an_empty_file_has_nothing_resident(disk_path: Path) -> None:
    (disk_path / "empty").touch()
    assert resident_bytes(disk_path / "empty") == 0


def test_tablespaces_are_made_cold_too(disk_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold, "_drop_caches", lambda: False)
    (disk_path / "data").mkdir()
    (disk_path / "elsewhere").mkdir()
    (disk_path / "elsewhere" / "1").write_bytes(b"x" * _ONE_MB)
    (disk_path / "data" / "16384").symlink_to(disk_path / "elsewhere")
    evidence = make_cold(disk_path / "data")
    assert evidence == ColdEvidence("dontneed", _ONE_MB, 0, files=1, total_bytes=_ONE_MB)
    assert evidence.is_cold


def test_what_stays_resident_is_not_called_cold() -> None:
    assert ColdEvidence("dontneed", 1000, 10, files=1, total_bytes=1000).is_cold
    assert not ColdEvidence("dontneed", 1000, 11, files=1, total_bytes=1000).is_cold


@pytest.mark.parametrize("method", ["as permitted", "dontneed"])
def test_a_cold_restart_empties_the_cache_and_keeps_the_rows(
    server_factory: ServerFactory,
    disk_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
) -> None:
    if method == "dontneed":
        monkeypatch.setattr(cold, "_drop_caches", lambda: False)
    # Autovacuum would read the table behind the test's back.
    with server_factory(settings={"autovacuum": "off"}) as server:
        with server.connect() as connection:
            rows = "select n, repeat('x', 500) as pad from generate_series(1, 5000) n"
            connection.execute(f"create table t as {rows}")
        evidence = server.cold_restart({"work_mem": "5MB"})
        if method == "dontneed":
            assert evidence.method == "dontneed"
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
