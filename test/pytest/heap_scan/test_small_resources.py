"""Servers with hardly any buffers, and scans that must leave some to others."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from extension.probes import TINY, Connection, scalar
from server_log import ServerFactory, WatchedServer

from heap_scan.probes import BITMAP_SCANS, FORCED, SEQ_SCANS, make_pages, only_scan
from lookahead.extension import Stage

_BACKENDS = 20
_PAGES = 400
_QUERIES = {
    BITMAP_SCANS: "SELECT count(*), sum(k), min(pad) FROM n WHERE r < 600",
    SEQ_SCANS: "SELECT count(*), sum(k), min(pad) FROM n",
}


@pytest.fixture
def tiny(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    """A server with hardly any buffers."""
    with server_factory(stage=test_stage, settings=TINY) as server:
        with server.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            make_pages(session, "n", _PAGES)
        yield server


def _greedy(server: WatchedServer) -> Connection:
    """A session that would look far ahead if it were let."""
    session = server.connect()
    session.execute(FORCED)
    session.execute("SET pg_lookahead.prefetch_distance = 1000; SET pg_lookahead.gap_limit = 256")
    session.execute("SET effective_io_concurrency = 1000")
    session.execute("SET io_combine_limit = 16")
    return session


def test_many_cursors_share_few_buffers(tiny: WatchedServer) -> None:
    """Cursors in turn, each with a stream of its own, then whole scans of many sessions."""
    with ExitStack() as stack:
        sessions = [stack.enter_context(_greedy(tiny)) for _ in range(_BACKENDS)]
        for settings, query in _QUERIES.items():
            condition = query.partition(" FROM ")[2]
            # Each row holds a page, and its scan may hold another one ahead.
            holders = sessions[:4]
            seen: list[list[int]] = [[] for _ in holders]
            for session in holders:
                session.execute(f"RESET enable_seqscan; RESET enable_bitmapscan; {settings}; BEGIN")
                session.execute(f"DECLARE c NO SCROLL CURSOR FOR SELECT k FROM {condition}")
            for _ in range(20):
                for rows, session in zip(seen, holders, strict=True):
                    rows += [row[0] for row in session.execute("FETCH 3 FROM c").fetchall()]
            assert seen == [seen[0]] * len(holders)
            for session in holders:
                session.execute("ROLLBACK")
            results = set()
            for session in sessions:
                session.execute(f"RESET enable_seqscan; RESET enable_bitmapscan; {settings}")
                results.add(session.execute(query).fetchone())
            assert len(results) == 1


def test_scans_of_temporary_tables_leave_buffers_free(tiny: WatchedServer) -> None:
    """Three scans open at once over temporary tables, and writes between them."""
    with _greedy(tiny) as session:
        for name in ("one", "two", "three"):
            session.execute(f"CREATE TEMPORARY TABLE {name} AS SELECT * FROM n ORDER BY k")
            session.execute(f"ALTER TABLE {name} ALTER pad SET STORAGE PLAIN")
            session.execute(f"CREATE INDEX ON {name} (r)")
            session.execute(f"ANALYZE {name}")
        session.execute("CREATE TEMPORARY TABLE other AS SELECT * FROM n LIMIT 0")
        queries = {
            "one": (BITMAP_SCANS, "r < 700"),
            "two": (SEQ_SCANS, "k >= 0"),
            "three": (BITMAP_SCANS, "r >= 100"),
        }
        expected = {}
        for name, (settings, condition) in queries.items():
            session.execute(f"RESET enable_seqscan; RESET enable_bitmapscan; {settings}")
            sql = f"SELECT k, pad FROM {name} WHERE {condition}"
            assert only_scan(session, sql)["Status"] == "prefetch"
            expected[name] = session.execute(sql).fetchall()
        session.execute("BEGIN")
        seen: dict[str, list[tuple[int, str]]] = {name: [] for name in queries}
        for name, (settings, condition) in queries.items():
            session.execute(f"SET enable_seqscan = on; SET enable_bitmapscan = on; {settings}")
            sql = f"SELECT k, pad FROM {name} WHERE {condition}"
            session.execute(f"DECLARE c_{name} NO SCROLL CURSOR FOR {sql}")
        for turn in range(20):
            for name, rows in seen.items():
                rows += session.execute(f"FETCH 7 FROM c_{name}").fetchall()
            session.execute(f"INSERT INTO other SELECT {turn}, {turn}, repeat('z', 3900)")
            session.execute(f"UPDATE two SET r = -1 WHERE k = {40 * turn}")
        for name, rows in seen.items():
            rows += session.execute(f"FETCH ALL FROM c_{name}").fetchall()
        session.execute("COMMIT")
        assert seen == expected
        assert scalar(session, "SELECT count(*) FROM two WHERE r = -1") == 20
