"""Calls of the operating system that fail, each in its turn: an error, and nothing is broken.

The n-th extension of a file by a limit of its size, and the n-th allocation by one of memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from extension.probes import Connection, need_extension, need_own_memory, scalar
from server_log import WatchedServer

from bulk_insert.arms import DEFAULT, EXTENTS, Arm, Counters, choose
from bulk_insert.memory import address_space
from bulk_insert.ways import COPY_PARTITIONS, INSERT, Way, check_sound

# A limit of the size of files is one of WAL, too: tables are larger than its files.
_ROWS_BEFORE = 20_000
_ROWS = 3000
# Bytes by which a limit of memory grows. A session has some to give before it asks for more.
_STEP = 32 * 1024
_QUERY = "SELECT i, repeat('x', 1000) FROM generate_series({}, {}) i"
_ARMS = [(DEFAULT, INSERT), (EXTENTS, INSERT), (EXTENTS, COPY_PARTITIONS)]


@contextmanager
def _limited(server: WatchedServer, session: Connection, limit: str, value: int) -> Iterator[None]:
    """A soft limit of the session's process meanwhile, as prlimit names it."""
    pid = str(session.info.backend_pid)

    def set_to(text: str) -> None:
        done = server.account.run(["prlimit", "--pid", pid, f"--{limit}={text}:"])
        assert done.returncode == 0, done.stderr

    set_to(str(value))
    try:
        yield
    finally:
        if not session.closed:
            set_to("unlimited")


@pytest.fixture(params=["posix_fallocate", "write_zeros"])
def extend_method(request: pytest.FixtureRequest, server: WatchedServer) -> Iterator[str]:
    """How files are extended by more than a few pages."""
    with server.connect() as session:
        known = "SELECT count(*) FROM pg_settings WHERE name = 'file_extend_method'"
        if not scalar(session, known):
            pytest.skip("this PostgreSQL has no file_extend_method")
        session.execute(f"ALTER SYSTEM SET file_extend_method = {request.param}")
        session.execute("SELECT pg_reload_conf()")
        yield request.param
        session.execute("ALTER SYSTEM RESET file_extend_method")
        session.execute("SELECT pg_reload_conf()")


@pytest.mark.parametrize(
    ("arm", "way"), _ARMS, ids=lambda value: value.name if isinstance(value, Arm | Way) else ""
)
@pytest.mark.usefixtures("extend_method")
def test_any_extension_may_fail(
    server: WatchedServer, connection: Connection, arm: Arm, way: Way
) -> None:
    need_extension(connection, "amcheck")
    choose(connection, arm)
    parts = 4 if way.partitioned else 1
    before = _ROWS_BEFORE * parts
    connection.execute(f"DROP TABLE IF EXISTS d; {way.making('d', 'i int, s text', 'i')}")
    connection.execute(f"INSERT INTO d {_QUERY.format(1, before)}")
    more = way.statement(connection, "d", _QUERY.format(before + 1, before + _ROWS * parts))
    largest = "SELECT max(pg_relation_size(oid)) FROM pg_class WHERE relname ~ '^d(_[0-9])?$'"
    for pages in (0, 1, 2, 7, 8, 17, 64):
        size = int(scalar(connection, largest))
        with (
            _limited(server, connection, "fsize", size + pages * 8192),
            pytest.raises(psycopg.Error, match=r"File too large|file size limit"),
        ):
            connection.execute(more)
        assert scalar(connection, "SELECT count(*) FROM d") == before
    connection.execute(more)
    assert scalar(connection, "SELECT count(*) FROM d") == before + _ROWS * parts
    check_sound(connection, "d")
    connection.execute("DROP TABLE d")


@pytest.mark.parametrize(
    ("arm", "way"), _ARMS, ids=lambda value: value.name if isinstance(value, Arm | Way) else ""
)
def test_any_allocation_may_fail(
    server: WatchedServer, connection: Connection, arm: Arm, way: Way
) -> None:
    """From the first one on, until there is memory enough.

    It ends the session where a subtransaction begins: BeginInternalSubTransaction() in xact.c
    makes each error fatal. Ours has one for each extension; in stock PL/pgSQL has them.
    """
    need_extension(connection, "amcheck")
    need_own_memory(connection)
    connection.execute("DROP TABLE IF EXISTS m")
    making = way.making("m", "i int, s text STORAGE EXTERNAL", "i")
    connection.execute(f"{making}; CREATE UNIQUE INDEX ON m (i)")
    query = f"SELECT i, repeat('x', i % 2500) FROM generate_series(1, {_ROWS}) i"
    statement = way.statement(connection, "m", query)
    failed = done = batched = 0
    while done < 2:
        # Each time from the same point: what a session has once, it keeps.
        with server.connect() as session:
            choose(session, arm)
            session.execute("TRUNCATE m; INSERT INTO m VALUES (0, ''); DELETE FROM m")
            with _limited(server, session, "as", address_space(session) + failed * _STEP):
                try:
                    session.execute(statement)
                    done += 1
                    expected = _ROWS
                except psycopg.errors.OutOfMemory:
                    failed += 1
                    expected = 0
            if session.closed:
                assert scalar(connection, "SELECT count(*) FROM m") == 0
                continue
            assert scalar(session, "SELECT count(*) FROM m") == expected
            session.execute(f"TRUNCATE m; {statement}")
            assert scalar(session, "SELECT count(*) FROM m") == _ROWS
            batched += Counters.of(session).rows
        check_sound(connection, "m")
    assert failed > 2
    assert batched > _ROWS * failed / 2
    connection.execute("DROP TABLE m")
