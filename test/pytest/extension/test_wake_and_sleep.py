"""Index scans wake where pages have to be read, fall asleep where they do not, and give all rows.

Parts of the tables are in shared buffers; of the others the operating system knows nothing, so the
scans do this by themselves, without a test setting.
"""

from collections.abc import Iterator

import pytest
from server_log import WatchedServer

from extension.parts import make_pages, warm_only
from extension.probes import (
    INDEX_SCANS_ONLY,
    Connection,
    explain,
    lookahead,
    need_extension,
    scalar,
)

_PART = 300
_PAGES = 4 * _PART
# Pages or entries in buffers after which a scan sleeps: LA_SLEEP_AFTER of la_wake.h.
_SLEEP_AFTER = 128
# The page that wakes a scan, the one that tells that it came from a device, and the first one of
# the ring, which is read on its turn.
_NOT_AHEAD = 3
_HOT_COLD_HOT_COLD = [*range(_PART), *range(2 * _PART, 3 * _PART)]
_DEAD_ENTRIES = (
    "SELECT count(*) FROM generate_series(1, pg_relation_size('q_k') / 8192 - 1) b, "
    "bt_page_items('q_k', b) WHERE dead"
)
_ALL = "SELECT k, pad FROM w WHERE k >= 0 ORDER BY k"


@pytest.fixture
def session(server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as connection:
        connection.execute(INDEX_SCANS_ONLY)
        yield connection


def _keys(connection: Connection, sql: str) -> list[int]:
    return [row[0] for row in connection.execute(sql).fetchall()]


def _prepared(server: WatchedServer, session: Connection, hot: list[int]) -> None:
    if scalar(session, "SELECT to_regclass('w') IS NULL"):
        make_pages(session, "w", _PAGES)
    warm_only(server, session, "w", hot, _PAGES)


def test_a_scan_wakes_and_sleeps_twice(server: WatchedServer, session: Connection) -> None:
    _prepared(server, session, _HOT_COLD_HOT_COLD)
    (group,) = lookahead(explain(session, _ALL))
    assert (group["Scans"], group["Restarts"]) == (1, 1)
    cold = 2 * (_PART - _NOT_AHEAD)
    assert group["Advised Blocks"] == cold
    # What is in buffers is looked at while the scan falls asleep, and not for longer.
    assert cold <= group["Prefetched Blocks"] <= cold + 2 * _SLEEP_AFTER
    assert cold <= group["Prefetched Blocks"] < _PAGES - 2 * _PART + _SLEEP_AFTER + 70


def test_few_cold_pages_among_many_in_buffers(server: WatchedServer, session: Connection) -> None:
    """They are seen in time because a scan looks some pages ahead while all are in buffers."""
    _prepared(server, session, [k for k in range(_PAGES) if k % 40])
    (group,) = lookahead(explain(session, _ALL))
    assert group["Restarts"] == 0
    assert group["Max Distance"] >= 8


def test_rows_of_a_cursor_across_the_changes(server: WatchedServer, session: Connection) -> None:
    _prepared(server, session, _HOT_COLD_HOT_COLD)
    seen: list[int] = []
    with session.transaction():
        session.execute(f"DECLARE c NO SCROLL CURSOR FOR {_ALL}")
        while rows := _keys(session, "FETCH 7 FROM c"):
            seen += rows
    assert seen == list(range(_PAGES))


def test_rows_behind_many_that_nobody_sees(server: WatchedServer, session: Connection) -> None:
    """A call that passes more rows than a scan goes on for without a read, then reads again.

    The scan must not sleep in the middle of that call.
    """
    make_pages(session, "d", _PAGES)
    session.execute(f"DELETE FROM d WHERE k BETWEEN 11 AND {2 * _PART}")
    # The planner itself may look at the first and last row.
    hot = [*range(10), *range(11, _PART)]
    warm_only(server, session, "d", hot, _PAGES)
    keys = _keys(session, "SELECT k FROM d WHERE k >= 0 AND pad > '' ORDER BY k")
    assert keys == [*range(11), *range(2 * _PART + 1, _PAGES)]


@pytest.mark.parametrize("dead", ["k % 3 = 0", "k % 2 = 1", "k % 10 <> 0"])
@pytest.mark.parametrize("direction", ["ASC", "DESC"])
@pytest.mark.parametrize("persistence", ["", "UNLOGGED"])
def test_dead_entries_beside_every_change(
    server: WatchedServer, session: Connection, persistence: str, direction: str, dead: str
) -> None:
    """The entry whose page wakes a scan may be dead, and the last one before the ring is drained.

    All are marked, once, as they are without us: those that core had noted, those that the ring
    noted, those of leaves that were left, and those of the leaf on which core goes on.
    """
    need_extension(session, "pageinspect")
    marked = []
    for setting in ("off", "on"):
        make_pages(session, "q", _PAGES, persistence=persistence)
        session.execute(f"DELETE FROM q WHERE {dead}")
        warm_only(server, session, "q", _HOT_COLD_HOT_COLD, _PAGES)
        session.execute(f"SET pg_lookahead.enabled = {setting}")
        query = f"SELECT k FROM q WHERE k >= 0 AND pad > '' ORDER BY k {direction}"
        if setting == "on":
            (group,) = lookahead(explain(session, query))
            # Asynchronous reads are restarted at each leaf of an unlogged index, too.
            assert group["Scans"] == 1
            assert group["Restarts"] >= 1
        keys = _keys(session, query)
        assert keys == sorted(keys, reverse=direction == "DESC")
        assert len(keys) == scalar(session, f"SELECT count(*) FROM q WHERE NOT ({dead})")
        marked.append(scalar(session, _DEAD_ENTRIES))
    assert marked[0] > 0
    assert marked[1] == marked[0]


@pytest.mark.parametrize("using", ["gist", "spgist"])
def test_rows_of_other_access_methods(
    server: WatchedServer, session: Connection, using: str
) -> None:
    """Their order has hot and cold pages mixed; one row in three is dead."""
    make_pages(session, "o", _PART, using=using)
    session.execute("DELETE FROM o WHERE k % 3 = 0")
    warm_only(server, session, "o", range(0, _PART, 2), _PART)
    query = "SELECT k FROM o WHERE place <@ box '((-1,-1),(9999,9999))' AND pad > ''"
    keys = _keys(session, query)
    assert sorted(keys) == [k for k in range(_PART) if k % 3]
    session.execute("SET pg_lookahead.enabled = off")
    assert _keys(session, query) == keys


def test_settings_may_change_between_the_wakings_of_two_nodes(
    server: WatchedServer, session: Connection
) -> None:
    """A node that was switched off while another one of its query woke is woken later."""
    make_pages(session, "s", _PART)
    _prepared(server, session, list(range(_PART)))
    warm_only(server, session, "s", [], _PART)
    session.execute("SET enable_bitmapscan = on; SET enable_indexscan = on")
    with session.transaction():
        session.execute(
            "DECLARE c NO SCROLL CURSOR FOR "
            "(SELECT k FROM s WHERE k >= 0 AND pad > '' ORDER BY k) UNION ALL "
            "(SELECT k FROM w WHERE k = ANY (ARRAY(SELECT generate_series(0, 1000, 10))) "
            "AND pad > '' OFFSET 0)"
        )
        session.execute("SET pg_lookahead.enable_bitmap_prefetch = off")
        first = _keys(session, "FETCH 100 FROM c")
        session.execute("SET pg_lookahead.enable_bitmap_prefetch = on")
        warm_only(server, session, "w", [], _PAGES)
        rest = _keys(session, "FETCH ALL FROM c")
    assert first + rest[: _PART - 100] == list(range(_PART))
    assert sorted(rest[_PART - 100 :]) == list(range(0, 1001, 10))
