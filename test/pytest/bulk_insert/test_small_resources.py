"""Hardly any buffers, memory or disk: inserts work as stock's do, or fail as they do."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
import pytest
from extension.probes import TINY, Connection, need_own_memory, scalar
from mounting import mounted, mounted_disk
from server_log import ServerFactory, WatchedServer

from bulk_insert.arms import DEFAULT, EXTENTS, STOCK, SWITCH, Arm, Counters, choose
from bulk_insert.ways import INSERT, WAYS, Way, size
from lookahead.extension import Stage
from lookahead_bench.build_watch import private_bytes

_MB = 1 << 20
_LARGE = EXTENTS.with_settings(bulk_extend_size=512)
# Bytes of texts with which rows are at limits: of toasting, of half a page, of a page.
_LENGTHS = (1, 900, 1000, 1992, 2000, 2001, 3900, 4040, 4060, 8000, 8112, 8120, 8121, 8128)
_MEMORY_ROWS = 3_000_000
_MEMORY_GROWTH = 1 * _MB
_DISK_BYTES = 48 * _MB
_TOO_MANY_ROWS = 60_000  # of a kilobyte
# More pages than one page of the free space map knows, and rows for nearly all of them.
_MEMORY_DISK_BYTES = 40 * _MB
_NEARLY_ALL_ROWS = 34_000
_KILOBYTE = "SELECT i, repeat('x', 1000) FROM generate_series(1, {}) i"


@pytest.mark.parametrize("arm", [DEFAULT, EXTENTS, _LARGE], ids=["default", "extents", "large"])
@pytest.mark.parametrize("fillfactor", [10, 50, 100])
def test_rows_at_limits(connection: Connection, fillfactor: int, arm: Arm) -> None:
    """As many pages as stock's, or a step more, and the same rows; with the same error at last."""
    found = []
    for one in (STOCK, arm):
        connection.execute("DROP TABLE IF EXISTS l")
        connection.execute(
            f"CREATE TABLE l (i int, s text STORAGE PLAIN) WITH (fillfactor = {fillfactor})"
        )
        choose(connection, one)
        for length in _LENGTHS:
            connection.execute(
                f"INSERT INTO l SELECT i, repeat('x', {length}) FROM generate_series(1, 70) i"
            )
        with pytest.raises(psycopg.errors.ProgramLimitExceeded) as caught:
            connection.execute("INSERT INTO l SELECT i, repeat('x', 8128 + i) FROM l")
        rows = connection.execute("SELECT i, length(s) FROM l ORDER BY length(s), i").fetchall()
        found.append((rows, caught.value.diag.message_primary))
    assert found[0] == found[1]


@pytest.fixture
def tiny(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=test_stage, settings={**TINY, SWITCH: "on"}) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
        yield started


@pytest.mark.parametrize("persistence", ["", "UNLOGGED", "TEMPORARY"])
def test_hardly_any_buffers(tiny: WatchedServer, persistence: str) -> None:
    """16 of them for all, 100 for a session's temporary tables; steps are longer than that."""
    with tiny.connect() as session:
        choose(session, _LARGE)
        before = Counters.of(session)
        session.execute(f"CREATE {persistence} TABLE n (i int, s text)")
        session.execute("CREATE INDEX n_i ON n (i)")
        for _ in range(2):
            session.execute(
                "INSERT INTO n SELECT i, repeat('x', i % 3000) FROM generate_series(1, 5000) i"
            )
        assert scalar(session, "SELECT count(*) FROM n") == 10_000
        assert scalar(session, "SELECT sum(length(s)) FROM n") == sum(
            2 * (i % 3000) for i in range(1, 5001)
        )
        assert Counters.of(session).extended >= before.extended + 512


def test_many_sessions_share_few_buffers(tiny: WatchedServer) -> None:
    with tiny.connect() as session:
        session.execute("CREATE TABLE n (i int, s text)")
        failures: list[BaseException] = []

        def fill() -> None:
            try:
                with tiny.connect() as own:
                    choose(own, _LARGE)
                    own.execute(f"INSERT INTO n {_KILOBYTE.format(2000)}")
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=fill) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert scalar(session, "SELECT count(*) FROM n") == 12_000


def test_entries_take_no_more_than_shared_buffers(tiny: WatchedServer) -> None:
    """Index entries wait in temporary files only as long as their index fits there."""
    with tiny.connect() as session:
        choose(session, DEFAULT)
        files: list[str] = []
        session.add_notice_handler(lambda notice: files.append(notice.message_primary or ""))
        session.execute("CREATE TABLE e (i int, s text)")
        session.execute("CREATE INDEX e_s ON e (s); CREATE UNIQUE INDEX e_i ON e (i)")
        session.execute("SET log_temp_files = 0; SET client_min_messages = log")
        session.execute("SET work_mem = '1MB'")
        session.execute(
            "INSERT INTO e SELECT i, md5(i::text) FROM (SELECT generate_series(1, 150000) i) r"
        )
        assert [text for text in files if "temporary file" in text] == []
        session.execute("CREATE TABLE f AS SELECT i FROM e ORDER BY s || 'x'")
        assert [text for text in files if "temporary file" in text] != []


@pytest.mark.parametrize("width", ["4", "300"])
def test_memory_stays_flat(connection: Connection, width: str) -> None:
    """The private memory at the end of a long insert is about that of its beginning."""
    rows = _MEMORY_ROWS if width == "4" else _MEMORY_ROWS // 10
    _expect_flat_memory(connection, INSERT, rows, width)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_memory_stays_flat_for_long(connection: Connection, way: Way) -> None:
    _expect_flat_memory(connection, way, 10**7, "i % 9")


def _expect_flat_memory(connection: Connection, way: Way, rows: int, width: str) -> None:
    need_own_memory(connection)
    choose(connection, DEFAULT)
    query = f"SELECT i, repeat('x', {width}) FROM (SELECT generate_series(1, {{}}) i) r"
    connection.execute(f"DROP TABLE IF EXISTS m; {way.making('m', 'i int, s text', 'i')}")
    # What a first insert keeps.
    connection.execute(way.statement(connection, "m", query.format(rows // 10)))
    insert = way.statement(connection, "m", query.format(rows))
    before = private_bytes(connection.info.backend_pid)
    batched = Counters.of(connection).rows
    seen: list[int] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.01):
            seen.append(private_bytes(connection.info.backend_pid) or 0)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        connection.execute(insert)
    finally:
        stop.set()
        thread.join()
    assert before is not None
    assert len(seen) > 3
    assert max(seen) <= before + _MEMORY_GROWTH
    assert Counters.of(connection).rows >= batched + rows - 100
    connection.execute("DROP TABLE m")


@contextmanager
def _tablespace(
    server: WatchedServer,
    connection: Connection,
    mount: Callable[[Path], AbstractContextManager[Path]],
) -> Iterator[str]:
    """A tablespace `small`, for a table `d`, on a file system of its own."""
    with tempfile.TemporaryDirectory(prefix="lookahead-test-") as name:
        Path(name).chmod(0o755)
        with mount(Path(name) / "small") as place:
            folder = place / "space"
            made = server.account.run(["mkdir", "-m", "700", folder])
            assert made.returncode == 0, made.stderr
            connection.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
            try:
                yield "small"
            finally:
                connection.rollback()
                for statement in ("DROP TABLE IF EXISTS d", "CHECKPOINT", "DROP TABLESPACE small"):
                    connection.execute(statement)
                # Whoever has written there may still have the file open.
                server.restart({})


@pytest.fixture
def small_disk(server: WatchedServer, connection: Connection) -> Iterator[str]:
    """A tablespace on an ext4 of 48 MB."""
    with _tablespace(
        server, connection, lambda place: mounted_disk(place, _DISK_BYTES)
    ) as tablespace:
        yield tablespace


@pytest.fixture
def small_memory(server: WatchedServer, connection: Connection) -> Iterator[str]:
    """A tablespace on a tmpfs, where as much can be written as it says, to the page."""
    with _tablespace(
        server, connection, lambda place: mounted(place, f"size={_MEMORY_DISK_BYTES}")
    ) as tablespace:
        yield tablespace


@pytest.mark.parametrize(
    ("way", "index"),
    [(way, "") for way in WAYS] + [(INSERT, "CREATE INDEX d_i ON d (i) TABLESPACE pg_default")],
    ids=lambda value: value.name if isinstance(value, Way) else "with index" if value else "",
)
def test_table_that_does_not_fit(
    connection: Connection, small_disk: str, way: Way, index: str
) -> None:
    """It fails where stock does, not more than a page earlier; then what fits is inserted."""
    making = way.making("d", "i int, s text", "i", f" TABLESPACE {small_disk}")
    too_many = way.statement(connection, "d", _KILOBYTE.format(_TOO_MANY_ROWS))
    rows: dict[str, int] = {}
    states = []
    for name, arm in (("stock", STOCK), ("default", DEFAULT), ("large", _LARGE)):
        connection.execute("DROP TABLE IF EXISTS d")
        connection.execute("CHECKPOINT")
        connection.execute(f"{making}; {index}")
        choose(connection, arm)
        with pytest.raises(psycopg.errors.DiskFull) as caught:
            connection.execute(too_many)
        states.append((caught.value.diag.sqlstate, caught.value.diag.message_hint))
        rows[name] = size(connection, "d")
        assert scalar(connection, "SELECT count(*) FROM d") == 0
        connection.execute("DROP TABLE d")
        connection.execute("CHECKPOINT")
        connection.execute(making)
        connection.execute(f"INSERT INTO d {_KILOBYTE.format(20_000)}")
        assert scalar(connection, "SELECT count(*) FROM d") == 20_000
        choose(connection, STOCK)
    assert len(set(states)) == 1
    assert min(rows["default"], rows["large"]) >= rows["stock"] - 1, rows


@pytest.mark.parametrize("arm", [DEFAULT, _LARGE], ids=["default", "large"])
def test_table_that_nearly_fills_the_disk(
    connection: Connection, small_memory: str, arm: Arm
) -> None:
    """Pages that are reserved before the disk is full are filled, now or by the next insert."""
    found = []
    for one in (STOCK, arm):
        connection.execute("DROP TABLE IF EXISTS d")
        connection.execute("CHECKPOINT")
        choose(connection, one)
        connection.execute(f"CREATE TABLE d (i int, s text) TABLESPACE {small_memory}")
        connection.execute(f"INSERT INTO d {_KILOBYTE.format(_NEARLY_ALL_ROWS)}")
        size = int(scalar(connection, "SELECT pg_relation_size('d')"))
        connection.execute(f"INSERT INTO d {_KILOBYTE.format(1000)}")
        found.append((scalar(connection, "SELECT count(*) FROM d"), size))
    (stock_rows, stock_size), (rows, size) = found
    assert rows == stock_rows
    assert size > stock_size + 64 * 8192  # the disk was full


@pytest.mark.parametrize("spare", range(5))
def test_room_for_the_free_space_map(connection: Connection, small_memory: str, spare: int) -> None:
    """An insert ends well when the pages that it has reserved have filled the disk, to the page."""
    steps, step, pages_of_map = 8, 512, 3
    choose(connection, _LARGE)
    connection.execute(f"CREATE TABLE d (i int, s text) TABLESPACE {small_memory}")
    place = scalar(
        connection, "SELECT pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname = 'small'"
    )
    free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
    kept = (steps * step + pages_of_map + spare) * 8192
    Path(place, "..", "filler").write_bytes(bytes(free - kept))
    connection.execute(f"INSERT INTO d {_KILOBYTE.format(7 * (steps * step - 16))}")
    assert scalar(connection, "SELECT pg_relation_size('d') / 8192") > (steps - 1) * step


@pytest.mark.parametrize("arm", [DEFAULT, _LARGE], ids=["default", "large"])
def test_limit_of_a_file(server: WatchedServer, connection: Connection, arm: Arm) -> None:
    """Another limit than the disk's, and another error: a quota gives the same code."""
    pid = str(connection.info.backend_pid)
    for one in (STOCK, arm):
        connection.execute("DROP TABLE IF EXISTS d")
        choose(connection, one)
        connection.execute("CREATE TABLE d (i int, s text)")
        connection.execute(f"INSERT INTO d {_KILOBYTE.format(20_000)}")
        if one == STOCK:
            size = int(scalar(connection, "SELECT pg_relation_size('d')"))
            limit = f"--fsize={size + 2 * 8192}:"
            limited = server.account.run(["prlimit", "--pid", pid, limit])
            assert limited.returncode == 0, limited.stderr
    assert scalar(connection, "SELECT count(*) FROM d") == 20_000
    with pytest.raises(psycopg.errors.InternalError_, match="File too large"):
        connection.execute(f"INSERT INTO d {_KILOBYTE.format(20_000)}")
    connection.execute("DROP TABLE d")
