"""Hardly any buffers, memory or disk: inserts work as stock's do, or fail as they do."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from extension.probes import TINY, Connection, need_own_memory, scalar
from mounting import mounted_disk
from server_log import ServerFactory, WatchedServer

from bulk_insert.arms import DEFAULT, EXTENTS, STOCK, SWITCH, Arm, Counters, choose
from lookahead.experiments.index_build_watch import private_bytes
from lookahead.extension import Stage

_MB = 1 << 20
_LARGE = EXTENTS.with_settings(bulk_extend_size=512)
# Bytes of texts with which rows are at limits: of toasting, of half a page, of a page.
_LENGTHS = (1, 900, 1000, 1992, 2000, 2001, 3900, 4040, 4060, 8000, 8112, 8120, 8121, 8128)
_MEMORY_ROWS = 3_000_000
_MEMORY_GROWTH = 1 * _MB
_DISK_BYTES = 48 * _MB
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


@pytest.mark.parametrize("width", ["4", "300"])
def test_memory_stays_flat(server: WatchedServer, connection: Connection, width: str) -> None:
    """The private memory at the end of a long insert is about that of its beginning."""
    need_own_memory(connection)
    rows = _MEMORY_ROWS if width == "4" else _MEMORY_ROWS // 10
    choose(connection, DEFAULT)
    connection.execute("DROP TABLE IF EXISTS m; CREATE UNLOGGED TABLE m (i int, s text)")
    insert = (
        f"INSERT INTO m SELECT i, repeat('x', {width}) FROM (SELECT generate_series(1, {{}}) i) r"
    )
    connection.execute(insert.format(rows // 10))  # what a first insert keeps
    before = private_bytes(connection.info.backend_pid)
    seen: list[int] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.01):
            seen.append(private_bytes(connection.info.backend_pid) or 0)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        connection.execute(insert.format(rows))
    finally:
        stop.set()
        thread.join()
    assert before is not None
    assert len(seen) > 3
    assert max(seen) <= before + _MEMORY_GROWTH
    connection.execute("DROP TABLE m")


@pytest.fixture
def small_disk(server: WatchedServer, connection: Connection) -> Iterator[str]:
    """A tablespace `small` on a file system of 48 MB."""
    with tempfile.TemporaryDirectory(prefix="lookahead-test-") as name:
        Path(name).chmod(0o755)
        with mounted_disk(Path(name) / "small", _DISK_BYTES) as place:
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


@pytest.mark.parametrize("index", ["", "CREATE INDEX d_i ON d (i) TABLESPACE pg_default"])
def test_table_that_does_not_fit(connection: Connection, small_disk: str, index: str) -> None:
    """It fails where stock does, not more than a page earlier; then what fits is inserted."""
    rows: dict[str, int] = {}
    states = []
    for name, arm in (("stock", STOCK), ("default", DEFAULT), ("large", _LARGE)):
        connection.execute("DROP TABLE IF EXISTS d")
        connection.execute("CHECKPOINT")
        connection.execute(f"CREATE TABLE d (i int, s text) TABLESPACE {small_disk}; {index}")
        choose(connection, arm)
        with pytest.raises(psycopg.errors.DiskFull) as caught:
            connection.execute(f"INSERT INTO d {_KILOBYTE.format(10**6)}")
        states.append((caught.value.diag.sqlstate, caught.value.diag.message_hint))
        rows[name] = int(scalar(connection, "SELECT pg_relation_size('d') / 8192"))
        assert scalar(connection, "SELECT count(*) FROM d") == 0
        connection.execute("DROP TABLE d")
        connection.execute("CHECKPOINT")
        connection.execute(f"CREATE TABLE d (i int, s text) TABLESPACE {small_disk}")
        connection.execute(f"INSERT INTO d {_KILOBYTE.format(20_000)}")
        assert scalar(connection, "SELECT count(*) FROM d") == 20_000
        choose(connection, STOCK)
    assert len(set(states)) == 1
    assert min(rows["default"], rows["large"]) >= rows["stock"] - 1, rows
