"""Statements with more scans than may look ahead at a time, and sessions with many that did.

What a scan needs no more is there for the others at once, and for the next statement.
"""

from collections.abc import Iterator

import pytest
from server_log import WatchedServer

from extension.probes import (
    AWAKE,
    INDEX_SCANS_ONLY,
    Connection,
    explain,
    lookahead,
    make_shuffled,
    scalar,
    streamed_scans,
)

# 4 MB, of which each ring takes 32 kB: 128 of them.
_PARTS = 360


@pytest.fixture
def session(server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as connection:
        connection.execute(INDEX_SCANS_ONLY)
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_lookahead")
        yield connection


def _make_ranges(session: Connection, parts: int) -> None:
    """Partitions of ten rows, whose keys go on from one to the next; scans look ahead in memory."""
    session.execute(AWAKE)
    session.execute("DROP TABLE IF EXISTS ranges")
    session.execute("CREATE TABLE ranges (k int, part int) PARTITION BY LIST (part)")
    session.execute(
        f"DO $$ BEGIN FOR i IN 0..{parts - 1} LOOP "
        "EXECUTE format('CREATE TABLE ranges_%s PARTITION OF ranges FOR VALUES IN (%s)', i, i); "
        "END LOOP; END $$"
    )
    session.execute(
        "INSERT INTO ranges SELECT p * 10 + i, p "
        f"FROM generate_series(0, {parts - 1}) p, generate_series(1, 10) i"
    )
    session.execute("CREATE INDEX ON ranges (k); ANALYZE ranges")


def test_scans_that_end_make_room_for_others(session: Connection) -> None:
    """The first ones end when the others begin: rows of a partition are all in one range."""
    _make_ranges(session, _PARTS)
    query = "SELECT k, part FROM ranges ORDER BY k"
    for _ in range(2):
        assert streamed_scans(explain(session, query)) == _PARTS
    rows = session.execute(query).fetchall()
    assert [key for key, _ in rows] == list(range(1, 10 * _PARTS + 1))


def test_scans_that_are_left_early_make_room_for_others(session: Connection) -> None:
    """Of each outer row the scans of all partitions start anew, and one is left before its end."""
    parts = 150
    _make_ranges(session, parts)
    session.execute("SET enable_hashjoin = off; SET enable_mergejoin = off")
    session.execute("SET enable_material = off; SET jit = off")
    query = (
        f"SELECT g FROM generate_series({parts - 1}, 0, -1) g "
        "WHERE EXISTS (SELECT FROM ranges r WHERE r.k > 0 AND r.k + 0 >= g * 10 + 8)"
    )
    scans = [group.get("Scans", 0) for group in lookahead(explain(session, query))]
    assert sum(scans) == parts * (parts + 1) // 2
    assert len(session.execute(query).fetchall()) == parts


def test_sessions_forget_the_cursors_they_had(server: WatchedServer, session: Connection) -> None:
    """Many at once, again and again, closed and failed: neither memory nor a place is kept."""
    cursors = 120
    if scalar(session, "SELECT to_regclass('n') IS NULL"):
        make_shuffled(session, "n", 2_000)
    session.execute(AWAKE)
    query = "SELECT k, pad FROM n WHERE k >= 0 ORDER BY k"
    kept = []
    for turn in range(6):
        session.execute("BEGIN")
        for number in range(cursors):
            session.execute(f"SAVEPOINT s{number}")
            session.execute(f"DECLARE c{number} NO SCROLL CURSOR FOR {query}")
            rows = session.execute(f"FETCH {5 + number % 50} FROM c{number}").fetchall()
            assert [key for key, _ in rows] == list(range(5 + number % 50))
            if number % 3 == 0:
                session.execute(f"ROLLBACK TO s{number}")
        session.execute("COMMIT" if turn % 2 else "ROLLBACK")
        kept.append(
            scalar(
                session,
                "SELECT sum(used_bytes) FROM pg_backend_memory_contexts "
                "WHERE name = 'TopMemoryContext'",
            )
        )
        # All of these have looked ahead.
        assert streamed_scans(explain(session, query)) == 1
    scans = "SELECT scans FROM pg_stat_lookahead WHERE feature = 'index_scan'"
    assert scalar(session, scans) == 6 * (cursors + 1)
    assert kept[-1] - kept[1] < 4096, kept
