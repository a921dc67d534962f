"""Sequential scans that join one another in the middle of a table, and go round its end."""

from collections.abc import Iterator

import pytest
from extension.probes import QUIET, Connection, need_extension, scalar
from server_log import ServerFactory, WatchedServer

from heap_scan.probes import FORCED, OFF, SEQ_SCANS, make_pages
from lookahead.extension import Stage

_PAGES = 1_000
_ALL = list(range(2 * _PAGES))


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    """Scans of a table larger than a quarter of shared buffers are synchronised."""
    settings = {**QUIET, "shared_buffers": "1MB", "synchronize_seqscans": "on"}
    with server_factory(stage=test_stage, settings=settings) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            need_extension(session, "pg_buffercache")
            make_pages(session, "s", _PAGES)
        yield started


def _keys(session: Connection, sql: str) -> list[int]:
    return [row[0] for row in session.execute(sql).fetchall()]


def _begin(session: Connection, settings: str) -> None:
    session.execute(f"{SEQ_SCANS}; {settings}; BEGIN")
    session.execute("DECLARE c NO SCROLL CURSOR FOR SELECT k, pad FROM s")


@pytest.mark.parametrize(
    ("first", "second"),
    [(FORCED, FORCED), (OFF, FORCED), (FORCED, OFF), ("SET jit = off", "SET jit = off")],
    ids=["ours", "ours_joins_stock", "stock_joins_ours", "default"],
)
def test_each_scan_returns_every_row_once(server: WatchedServer, first: str, second: str) -> None:
    with server.connect() as one, server.connect() as other:
        _begin(one, first)
        seen = _keys(one, "FETCH 700 FROM c")
        _begin(other, second)
        joined = _keys(other, "FETCH 900 FROM c")
        # It began where the first one was, and not with its first page.
        assert abs(joined[0] - seen[-1]) < 100
        assert joined[0] != seen[0]
        seen += _keys(one, "FETCH ALL FROM c")
        joined += _keys(other, "FETCH ALL FROM c")
    assert sorted(seen) == sorted(joined) == _ALL
    # Both went round the end of the table, in its order.
    turn = joined.index(0)
    assert joined == _ALL[joined[0] :] + _ALL[: joined[0]]
    assert turn > 0


def test_a_rescan_returns_every_row_once(server: WatchedServer) -> None:
    """Where a synchronised scan begins, its rescans begin too."""
    with server.connect() as one, server.connect() as other:
        _begin(one, FORCED)
        one.execute("FETCH 700 FROM c")
        other.execute(
            f"{SEQ_SCANS}; {FORCED}; SET enable_material = off; SET enable_hashjoin = off"
        )
        other.execute("SET enable_mergejoin = off; SET enable_memoize = off")
        rows = other.execute(
            "SELECT g, count(*), count(DISTINCT k), sum(k) FROM generate_series(1, 4) g, s "
            "WHERE k <> -g GROUP BY g ORDER BY g"
        ).fetchall()
    assert rows == [(g, 2 * _PAGES, 2 * _PAGES, sum(_ALL)) for g in range(1, 5)]


@pytest.mark.parametrize("leader", ["on", "off"])
def test_a_parallel_scan_joins(server: WatchedServer, leader: str) -> None:
    with server.connect() as one, server.connect() as other:
        _begin(one, FORCED)
        one.execute("FETCH 700 FROM c")
        other.execute(
            f"{SEQ_SCANS}; {FORCED}; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; "
            "SET min_parallel_table_scan_size = 0; SET cpu_tuple_cost = 1; "
            f"SET parallel_leader_participation = {leader}"
        )
        query = "SELECT count(*), count(DISTINCT k), sum(k) FROM s"
        assert "Gather" in str(other.execute(f"EXPLAIN {query}").fetchall())
        for _ in range(3):
            assert other.execute(query).fetchone() == (2 * _PAGES, 2 * _PAGES, sum(_ALL))


def test_pages_are_asked_for_once(server: WatchedServer) -> None:
    """Also the pages after the end was gone round."""
    with server.connect() as one, server.connect() as other:
        _begin(one, FORCED)
        one.execute("FETCH 700 FROM c")
        one.execute("SELECT pg_lookahead_evict('s')")
        _begin(other, FORCED)
        advised = "SELECT advised_blocks FROM pg_stat_lookahead WHERE feature = 'seq_scan'"
        before = scalar(other, advised)
        assert len(_keys(other, "FETCH ALL FROM c")) == 2 * _PAGES
        other.execute("CLOSE c")
        assert 0.9 * _PAGES < scalar(other, advised) - before < _PAGES
