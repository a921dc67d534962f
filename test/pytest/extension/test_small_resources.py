"""Servers with hardly any buffers, and scans that must leave some to others."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from server_log import ServerFactory, WatchedServer

from extension.probes import (
    INDEX_SCANS_ONLY,
    STREAM_ALWAYS,
    TINY,
    Connection,
    explain,
    lookahead,
    make_shuffled,
    scalar,
    streamed_scans,
)
from lookahead.extension import Stage

_SCAN = "SELECT count(*), sum(k), min(pad) FROM n WHERE k >= 0"
_BACKENDS = 20


@pytest.fixture
def tiny(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    """A server with hardly any buffers."""
    with server_factory(stage=test_stage, settings=TINY) as server:
        yield server


def _greedy(server: WatchedServer) -> Connection:
    """A session that would look far ahead if it were let."""
    session = server.connect()
    session.execute(INDEX_SCANS_ONLY)
    session.execute(STREAM_ALWAYS)
    session.execute("SET pg_lookahead.prefetch_distance = 1000")
    session.execute("SET effective_io_concurrency = 1000")
    return session


def test_many_backends_share_few_buffers(tiny: WatchedServer) -> None:
    """Twenty cursors in turn, each with a stream of its own, all read to their ends."""
    with ExitStack() as stack:
        sessions = [stack.enter_context(_greedy(tiny)) for _ in range(_BACKENDS)]
        make_shuffled(sessions[0], "n", 2_000)
        expected = (2_000, sum(range(2_000)))
        seen: list[list[int]] = [[] for _ in sessions]
        for session in sessions[: _BACKENDS // 4]:
            session.execute("BEGIN")
            session.execute(
                "DECLARE c NO SCROLL CURSOR FOR SELECT k, pad FROM n WHERE k >= 0 ORDER BY k"
            )
        for _ in range(3):
            for number, session in enumerate(sessions[: _BACKENDS // 4]):
                rows = session.execute("FETCH 1 FROM c").fetchall()
                seen[number] += [row[0] for row in rows]
            assert all(rows[: len(seen[0])] == seen[0] for rows in seen[: _BACKENDS // 4])
        for session in sessions[: _BACKENDS // 4]:
            session.execute("ROLLBACK")
        for session in sessions:
            row = session.execute(_SCAN).fetchone()
            assert row is not None
            assert row[:2] == expected


def test_scans_of_temporary_tables_leave_buffers_free(tiny: WatchedServer) -> None:
    """Three streams open at once over temporary tables, and writes between them."""
    with _greedy(tiny) as session:
        make_shuffled(session, "n", 4_000)
        for name in ("one", "two", "three"):
            session.execute(f"CREATE TEMPORARY TABLE {name} AS SELECT * FROM n")
            session.execute(f"CREATE INDEX ON {name} (k)")
            session.execute(f"ANALYZE {name}")
        plan = explain(session, "SELECT count(pad) FROM one WHERE k >= 0")
        assert streamed_scans(plan) == 1
        session.execute("BEGIN")
        for name in ("one", "two", "three"):
            session.execute(
                f"DECLARE c_{name} NO SCROLL CURSOR FOR "
                f"SELECT k, pad FROM {name} WHERE k >= 0 ORDER BY k"
            )
        for turn in range(20):
            for name in ("one", "two", "three"):
                rows = session.execute(f"FETCH 7 FROM c_{name}").fetchall()
                assert [row[0] for row in rows] == list(range(7 * turn, 7 * turn + 7))
            session.execute(f"UPDATE two SET pad = 'z' WHERE k = {4 * turn}")
        session.execute("COMMIT")
        assert scalar(session, "SELECT count(pad) FROM two WHERE k >= 0") == 4_000


def test_joined_streams_share_a_backends_pins(tiny: WatchedServer) -> None:
    """Several streams of one query; each must do with what the pin limit leaves it."""
    with _greedy(tiny) as session:
        make_shuffled(session, "n", 1_000)
        session.execute(
            "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off"
        )
        query = (
            "SELECT count(a.pad), count(b.pad), count(c.pad) FROM n a "
            "JOIN n b ON b.k BETWEEN a.k AND a.k + 2 JOIN n c ON c.k = b.k WHERE a.k < 60"
        )
        session.execute("SET pg_lookahead.enabled = off")
        expected = session.execute(query).fetchone()
        session.execute("SET pg_lookahead.enabled = on")
        assert session.execute(query).fetchone() == expected


def test_many_scans_of_one_statement_share_a_bound(connection: Connection) -> None:
    """Each partition's scan is open at the same time; the later ones are left to core."""
    parts = 400
    connection.execute(INDEX_SCANS_ONLY)
    connection.execute("CREATE TABLE many (k int, part int) PARTITION BY LIST (part)")
    connection.execute(
        f"DO $$ BEGIN FOR i IN 1..{parts} LOOP "
        "EXECUTE format('CREATE TABLE many_%s PARTITION OF many FOR VALUES IN (%s)', i, i); "
        "END LOOP; END $$"
    )
    connection.execute(
        f"INSERT INTO many SELECT i, p FROM generate_series(1, 20) i, generate_series(1, {parts}) p"
    )
    connection.execute("CREATE INDEX ON many (k)")
    query = "SELECT k, part FROM many ORDER BY k"
    # Stopped while all scans are under way: one that ends makes room for another.
    plan = explain(connection, f"{query} LIMIT {parts * 10}")
    scans = [group["Scans"] for group in lookahead(plan)]
    assert len(scans) == parts
    # 4 MB, of which each scan takes 32 kB.
    assert 100 < sum(scans) < parts
    rows = connection.execute(query).fetchall()
    assert [key for key, _ in rows] == sorted(key for key, _ in rows)
    assert len(rows) == 20 * parts

    # One after the other, each finds room again.
    plan = explain(connection, "SELECT k, part FROM many WHERE k > 0")
    assert plan["Node Type"] == "Append"
    assert all(group["Scans"] == 1 for group in lookahead(plan))
