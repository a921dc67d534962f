"""Dead entries of GiST and hash indexes, which are noted as the entry that was returned last.

That is another one than the row just examined while a scan looks ahead: marking it would make a
living row vanish. Parts of the tables are in shared buffers and the rest on the device, so that the
scans wake, look ahead and sleep by themselves, in the middle of index pages.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from server_log import WatchedServer

from extension.index_pages import Tid, dead_entries
from extension.parts import make_pages, warm_only
from extension.probes import (
    INDEX_SCANS_ONLY,
    Connection,
    explain,
    need_extension,
    scalar,
    streamed_scans,
)

_PART = 300
_PAGES = 4 * _PART
_CONDITIONS = {"gist": "place <@ box '((-1,-1),(9999,9999))'", "hash": "k * 0 = 0"}
# Which entries are dead, by their places in the order of the index: in the first and third quarter
# all pages are in buffers. A ring is handed back within the third.
_DEAD = {
    "every_third": lambda place: place % 3 == 0,
    "all_but_each_tenth": lambda place: place % 10 != 0,
    "where_the_scan_wakes": lambda place: abs(place - _PART) < 5,
    "where_the_ring_ends": lambda place: 2 * _PART <= place < 3 * _PART,
    "behind_the_ring": lambda place: place >= 3 * _PART,
}
# Entries that a ring may hold when it meets its first dead one, which stay unmarked.
_IN_RING = 2 * 64


@pytest.fixture
def session(server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as connection:
        connection.execute(INDEX_SCANS_ONLY)
        need_extension(connection, "pageinspect")
        yield connection


@dataclass(frozen=True)
class Made:
    """A table some of whose rows have been deleted, and the order in which its index has them."""

    order: list[int]
    tids: dict[int, Tid]
    deleted: list[int]

    def marked(self, session: Connection, method: str) -> set[int]:
        """The keys whose entries are marked dead, all of which have been deleted."""
        tids = dead_entries(session, "x_k", method)
        marked = {key for key, tid in self.tids.items() if tid in tids}
        assert len(marked) == len(tids)
        assert marked <= set(self.deleted)
        return marked


def _make(server: WatchedServer, session: Connection, method: str, dead: str) -> Made:
    make_pages(session, "x", _PAGES, using="gist")
    if method == "hash":
        session.execute("DROP INDEX x_k; CREATE INDEX x_k ON x USING hash ((k * 0))")
        session.execute("ANALYZE x")
    session.execute("SET pg_lookahead.enabled = off")
    order = _keys(session, method)
    tids = {
        key: (int(block), int(offset))
        for key, block, offset in session.execute(
            "SELECT k, (ctid::text::point)[0], (ctid::text::point)[1] FROM x"
        ).fetchall()
    }
    deleted = [key for place, key in enumerate(order) if _DEAD[dead](place)]
    session.execute("DELETE FROM x WHERE k = ANY (%s)", [deleted])
    return Made(order, tids, deleted)


def _query(method: str) -> str:
    return f"SELECT k FROM x WHERE {_CONDITIONS[method]} AND pad > ''"


def _keys(session: Connection, method: str) -> list[int]:
    return [row[0] for row in session.execute(_query(method)).fetchall()]


def _set_caches(server: WatchedServer, session: Connection, made: Made, *, awake: bool) -> None:
    hot = made.order if not awake else made.order[:_PART] + made.order[2 * _PART : 3 * _PART]
    warm_only(server, session, "x", hot, _PAGES)


def _check_rows(session: Connection, made: Made, method: str) -> None:
    """By the index as it is now marked, and by the table alone."""
    living = [key for key in made.order if key not in set(made.deleted)]
    assert _keys(session, method) == living
    session.execute("SET enable_indexscan = off; SET enable_seqscan = on")
    assert scalar(session, f"SELECT count(*) FROM x WHERE {_CONDITIONS[method]}") == len(living)
    session.execute(INDEX_SCANS_ONLY)
    session.execute("SET enable_indexscan = on")


def _marked_by_stock(
    server: WatchedServer, session: Connection, method: str, dead: str, query: str
) -> set[int]:
    made = _make(server, session, method, dead)
    session.execute("SET pg_lookahead.enabled = off")
    session.execute(query)
    marked = made.marked(session, method)
    assert marked == set(made.deleted)
    return marked


@pytest.mark.parametrize("awake", [False, True], ids=["asleep", "awake"])
@pytest.mark.parametrize("dead", _DEAD)
@pytest.mark.parametrize("method", _CONDITIONS)
def test_only_dead_entries_are_marked(
    server: WatchedServer, session: Connection, method: str, dead: str, awake: bool
) -> None:
    stock = _marked_by_stock(server, session, method, dead, _query(method))
    made = _make(server, session, method, dead)
    _set_caches(server, session, made, awake=awake)
    session.execute("SET pg_lookahead.enabled = on")
    plan = explain(session, _query(method))
    assert streamed_scans(plan) == awake
    marked = made.marked(session, method)
    if awake:
        dead_keys = [key for key in made.order if key in stock]
        left = [place for place, key in enumerate(dead_keys) if key not in marked]
        # What one ring held, and none that it or another one came to afterwards.
        assert left == list(range(min(left, default=0), min(left, default=0) + len(left)))
        assert len(left) <= _IN_RING
    else:
        assert marked == stock
    _check_rows(session, made, method)


@pytest.mark.parametrize("dead", _DEAD)
@pytest.mark.parametrize("method", _CONDITIONS)
def test_rescans_mark_what_was_left(
    server: WatchedServer, session: Connection, method: str, dead: str
) -> None:
    """A scan that stops in mid-page with its ring full, and is begun anew, asleep and awake."""
    session.execute(
        "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off; "
        "SET enable_material = off"
    )
    inner = f"SELECT k FROM x WHERE {_CONDITIONS[method]} AND pad > '' LIMIT n"
    query = (
        "SELECT n, (SELECT array_agg(k) FROM (" + inner + ") i) "
        f"FROM (VALUES ({_PART // 3}), ({_PART + 40}), ({_PART + 90}), ({_PAGES})) v (n)"
    )
    stock = _marked_by_stock(server, session, method, dead, query)
    made = _make(server, session, method, dead)
    _set_caches(server, session, made, awake=True)
    session.execute("SET pg_lookahead.enabled = on")
    living = [key for key in made.order if key not in set(made.deleted)]
    for _ in range(2):
        for limit, keys in session.execute(query).fetchall():
            assert keys == living[:limit]
        made.marked(session, method)
    assert made.marked(session, method) == stock
    _check_rows(session, made, method)
