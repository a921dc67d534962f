"""pg_lookahead_evict: afterwards pages come from the disk, and only those of the relation went."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from interrupting import limited
from psycopg.rows import dict_row
from server_log import ServerFactory, WatchedServer

from extension.probes import QUIET, Connection, explain, make_shuffled, scalar
from lookahead.cold import resident_bytes
from lookahead.extension import Stage

_ROWS = 40_000
_SCAN = "SELECT count(pad) FROM e"
# The session reads by itself, so that the kernel books the reading on it.
_SETTINGS = {**QUIET, "io_method": "sync", "shared_buffers": "32MB", "bgwriter_lru_maxpages": "0"}


@pytest.fixture(scope="module")
def evicting(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=test_stage, settings=_SETTINGS) as server:
        if _is_memory(server.directory):
            pytest.skip("the temporary directory is in memory: it cannot be cold")
        with server.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            make_shuffled(session, "e", _ROWS)
        yield server


@pytest.fixture
def session(evicting: WatchedServer) -> Iterator[Connection]:
    with evicting.connect() as connection:
        yield connection


def _is_memory(directory: Path) -> bool:
    """Whether the cache of files below `directory` is all there is of them."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    places = [(Path(place), kind) for _, place, kind, *_ in mounts]
    holders = [
        (len(place.parts), kind) for place, kind in places if directory.is_relative_to(place)
    ]
    return max(holders)[1] in ("tmpfs", "ramfs")


def _files(server: WatchedServer, session: Connection, relation: str) -> list[Path]:
    """All files of a relation: forks and segments."""
    main = server.data_directory / scalar(session, f"SELECT pg_relation_filepath('{relation}')")
    return [main, *main.parent.glob(f"{main.name}.*"), *main.parent.glob(f"{main.name}_*")]


def _resident(files: list[Path]) -> int:
    return sum(resident_bytes(file) for file in files)


def _evict(session: Connection, relation: str) -> dict[str, Any]:
    with session.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute("SELECT * FROM pg_lookahead_evict(%s)", (relation,)).fetchone()
    assert row is not None
    return row


def _read_from_disk(session: Connection) -> int:
    """Bytes that the kernel has fetched from storage for the session's process."""
    text = Path(f"/proc/{session.info.backend_pid}/io").read_text()
    return int(dict(line.split(": ") for line in text.splitlines())["read_bytes"])


def test_next_scan_reads_from_disk(evicting: WatchedServer, session: Connection) -> None:
    files = _files(evicting, session, "e")
    size = sum(file.stat().st_size for file in files)
    pages = scalar(session, "SELECT pg_relation_size('e') / 8192")
    assert scalar(session, _SCAN) == _ROWS
    assert _resident(files) > 0
    done = _evict(session, "e")
    assert done["buffers_evicted"] > 0
    assert done["buffers_skipped"] == 0
    assert done["bytes"] >= size
    assert done["bytes_cached"] == 0
    assert _resident(files) == 0
    before = _read_from_disk(session)
    plan = explain(session, _SCAN, "ANALYZE, BUFFERS")
    assert plan["Shared Read Blocks"] == pages
    assert plan["Shared Hit Blocks"] == 0
    assert _read_from_disk(session) - before >= pages * 8192


def test_rows_only_in_memory_are_kept(evicting: WatchedServer, session: Connection) -> None:
    """Dirty pages are written and flushed before the kernel is asked to forget them."""
    session.execute("UPDATE e SET pad = 'new' WHERE k % 100 = 0")
    done = _evict(session, "e")
    assert done["buffers_flushed"] > 0
    assert done["bytes_cached"] == 0
    assert _resident(_files(evicting, session, "e")) == 0
    assert scalar(session, "SELECT count(*) FROM e WHERE pad = 'new'") == _ROWS // 100


def test_index_and_table_go_separately(evicting: WatchedServer, session: Connection) -> None:
    table, index = _files(evicting, session, "e"), _files(evicting, session, "e_k")
    for file in (*table, *index):
        file.read_bytes()
    _evict(session, "e")
    assert _resident(table) == 0
    assert _resident(index) > 0
    _evict(session, "e_k")
    assert _resident(index) == 0


def test_toast_goes_with_its_table(evicting: WatchedServer, session: Connection) -> None:
    session.execute("CREATE TABLE IF NOT EXISTS t (pad text STORAGE EXTERNAL)")
    session.execute("INSERT INTO t SELECT repeat('x', 20000) FROM generate_series(1, 100)")
    toast = scalar(session, "SELECT reltoastrelid::regclass FROM pg_class WHERE relname = 't'")
    files = [file for name in (toast, f"{toast}_index") for file in _files(evicting, session, name)]
    assert _resident(files) > 2_000_000
    assert _evict(session, "t")["relations"] == 3
    assert _resident(files) == 0


def test_scans_go_on_meanwhile(evicting: WatchedServer, session: Connection) -> None:
    """Scans of other sessions keep their pages, and neither side disturbs the other."""

    def scan() -> list[int]:
        with evicting.connect() as other:
            return [scalar(other, _SCAN) for _ in range(15)]

    with ThreadPoolExecutor() as pool:
        scans = [pool.submit(scan) for _ in range(2)]
        while not all(one.done() for one in scans):
            done = _evict(session, "e")
            assert 0 <= done["bytes_cached"] <= done["bytes"] + 4096 * done["relations"]
        assert [one.result() for one in scans] == [[_ROWS] * 15] * 2


def test_temporary_table_of_another_session(evicting: WatchedServer, session: Connection) -> None:
    with evicting.connect() as other:
        other.execute("CREATE TEMP TABLE theirs AS SELECT 1 AS k")
        oid = scalar(other, "SELECT 'theirs'::regclass::oid")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="of another session"):
            session.execute(f"SELECT pg_lookahead_evict({oid}::regclass)")


def test_cancel(session: Connection) -> None:
    """It can be interrupted, and leaves nothing behind."""
    for _ in range(20):
        with suppress(psycopg.errors.QueryCanceled):
            limited(session, "SELECT * FROM pg_lookahead_evict('e')", 1)
    assert scalar(session, _SCAN) == _ROWS
