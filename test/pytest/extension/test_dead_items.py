"""Entries of dead rows are marked as stock marks them, and pages are pruned as stock prunes.

Losing either gives right answers ever more slowly: a queue table whose dead entries are never
marked is read from its beginning each time.
"""

from collections.abc import Iterator

import pytest
from server_log import ServerFactory

from extension.probes import (
    AWAKE,
    INDEX_SCANS_ONLY,
    QUIET,
    Connection,
    buffers,
    explain,
    lookahead,
    need_extension,
    scalar,
    streamed_scans,
)
from lookahead.extension import Stage

ROWS = 20_000
LEFT = 500
TOLERANCE = 0.05

DEAD_ITEMS = (
    "SELECT count(*) FROM generate_series(1, pg_relation_size('q_pkey') / 8192 - 1) b, "
    "bt_page_items('q_pkey', b) WHERE dead"
)
FIRST_ROW = "SELECT * FROM q ORDER BY id LIMIT 1"
ALL_ROWS = "SELECT count(p) FROM q WHERE id > 0"

OFF = "SET pg_lookahead.enabled = off"
# How look-ahead is set up: as users have it, which sleeps here; from the fifth entry on; far beyond
# the leaf; and with a ring that is always full, which ends and restarts the stream all the time.
ARMS = {
    "asleep": "SET pg_lookahead.enabled = on",
    "mid_scan": AWAKE,
    "deep": "SET pg_lookahead.test_start_after = 0; SET pg_lookahead.test_depth = 2000",
    "tiny_ring": "SET pg_lookahead.test_start_after = 0; SET pg_lookahead.test_ring_size = 4",
    "stops": "SET pg_lookahead.test_start_after = 0; SET pg_lookahead.test_stop_seed = 3; "
    "SET pg_lookahead.test_depth = 500",
}


@pytest.fixture(
    scope="module",
    params=[("--data-checksums", "off"), ("--no-data-checksums", "on")],
    ids=["checksums", "wal_log_hints"],
)
def session(
    request: pytest.FixtureRequest,
    server_factory: ServerFactory,
    test_stage: Stage,
) -> Iterator[Connection]:
    """Alone on the server: an open transaction elsewhere would keep dead rows alive.

    With either setting, marking items writes a full page image after a checkpoint, which moves
    the page's LSN: marking one leaf twice would then lose the second half.
    """
    option, hints = request.param
    settings = {**QUIET, "wal_log_hints": hints}
    with (
        server_factory(stage=test_stage, settings=settings, initdb_options=[option]) as server,
        server.connect() as connection,
    ):
        connection.execute(INDEX_SCANS_ONLY)
        need_extension(connection, "pageinspect")
        yield connection


def _queue(connection: Connection, persistence: str) -> None:
    """A queue from which all but the last rows have been taken."""
    connection.execute("RESET ALL")
    connection.execute("DROP TABLE IF EXISTS q")
    connection.execute(f"CREATE {persistence} TABLE q (id int PRIMARY KEY, p text)")
    connection.execute(f"INSERT INTO q SELECT i, 'x' FROM generate_series(1, {ROWS}) i")
    connection.execute("VACUUM ANALYZE q")
    connection.execute(f"DELETE FROM q WHERE id <= {ROWS - LEFT}")
    connection.execute("CHECKPOINT")
    connection.execute(INDEX_SCANS_ONLY)


def _three_reads(connection: Connection, arm: str, query: str) -> tuple[list[int], int, int]:
    """Buffers of three runs in this arm, dead items at the end, and scans streamed."""
    connection.execute(arm)
    plans = [explain(connection, query, "ANALYZE, BUFFERS, LOOKAHEAD") for _ in range(3)]
    dead = int(scalar(connection, DEAD_ITEMS))
    return [buffers(plan) for plan in plans], dead, sum(map(streamed_scans, plans))


@pytest.mark.parametrize("persistence", ["", "UNLOGGED", "TEMPORARY"])
@pytest.mark.parametrize("query", [FIRST_ROW, ALL_ROWS], ids=["first_row", "all_rows"])
@pytest.mark.parametrize("arm", ARMS)
def test_dead_items_are_marked_as_stock_marks_them(
    session: Connection, persistence: str, query: str, arm: str
) -> None:
    _queue(session, persistence)
    stock_buffers, stock_dead, _ = _three_reads(session, OFF, query)
    _queue(session, persistence)
    our_buffers, our_dead, scans = _three_reads(session, ARMS[arm], query)
    assert stock_dead >= (ROWS - LEFT) * 0.98
    assert our_dead == pytest.approx(stock_dead, rel=TOLERANCE)
    assert our_buffers == pytest.approx(stock_buffers, rel=TOLERANCE)
    assert (scans > 0) == (arm != "asleep")


@pytest.mark.parametrize("updates", [1, 2])
def test_hot_chains_before_the_first_stream(session: Connection, updates: int) -> None:
    """The row behind an entry may stand elsewhere on the page than the entry says.

    Where core took the first entries, the self-check compares the one with the other.
    """
    session.execute("RESET ALL")
    session.execute("DROP TABLE IF EXISTS h")
    session.execute("CREATE TABLE h (id int PRIMARY KEY, v int) WITH (fillfactor = 40)")
    session.execute("INSERT INTO h SELECT i, 0 FROM generate_series(1, 2000) i")
    for _ in range(updates):
        session.execute("UPDATE h SET v = v + 1")
    session.execute(f"{INDEX_SCANS_ONLY}; {AWAKE}")
    (group,) = lookahead(explain(session, "SELECT sum(v) FROM h WHERE id > 0"))
    assert group["Status"] == "prefetch"
    assert group["Scans"] == 1


def test_dead_items_are_marked_by_a_scan_that_ends_early(session: Connection) -> None:
    """Reading on to the first living row and closing the cursor marks what was passed."""
    dead = []
    for arm in (OFF, ARMS["deep"]):
        _queue(session, "")
        session.execute(arm)
        with session.transaction():
            session.execute(
                "DECLARE c NO SCROLL CURSOR FOR SELECT * FROM q WHERE id > 0 ORDER BY id"
            )
            session.execute("FETCH 10 FROM c")
            session.execute("CLOSE c")
        dead.append(int(scalar(session, DEAD_ITEMS)))
    assert dead[1] == pytest.approx(dead[0], rel=TOLERANCE)
    assert dead[0] >= (ROWS - LEFT) * 0.98


@pytest.mark.parametrize("arm", ["mid_scan", "deep", "tiny_ring"])
def test_pages_are_pruned_as_stock_prunes_them(session: Connection, arm: str) -> None:
    """Two full updates leave HOT chains; reading by index shortens them page by page."""
    redirects = []
    for setting in (OFF, ARMS[arm]):
        session.execute("RESET ALL")
        session.execute("DROP TABLE IF EXISTS h")
        session.execute("CREATE TABLE h (id int PRIMARY KEY, v int) WITH (fillfactor = 50)")
        session.execute("INSERT INTO h SELECT i, 0 FROM generate_series(1, 20000) i")
        session.execute("UPDATE h SET v = 1")
        session.execute("UPDATE h SET v = 2")
        session.execute(INDEX_SCANS_ONLY)
        session.execute(setting)
        plan = explain(session, "SELECT sum(v) FROM h WHERE id > 0")
        assert streamed_scans(plan) == (setting != OFF)
        redirects.append(
            scalar(
                session,
                "SELECT count(*) FROM generate_series(0, pg_relation_size('h') / 8192 - 1) b, "
                "heap_page_items(get_raw_page('h', b)) WHERE lp_flags = 2",
            )
        )
    assert redirects[0] < 19_000  # the scan itself does shorten chains
    assert redirects[1] == pytest.approx(redirects[0], rel=TOLERANCE)


# An index type, the column with it, and conditions that find the dead rows and the living ones.
_OTHER_TYPES = {
    "hash": ("USING hash (kind)", "kind = 1"),
    "gist": ("USING gist (place)", "place <@ box '((0,0),(1,1))'"),
}


@pytest.mark.parametrize("method", _OTHER_TYPES)
def test_other_index_types_are_marked_from_the_first_dead_item_on(
    session: Connection, method: str
) -> None:
    """What the ring holds when the first dead entry turns up stays unmarked, and no more."""
    definition, condition = _OTHER_TYPES[method]
    query = f"SELECT count(p) FROM q WHERE {condition}"
    third_reads = []
    for arm in (OFF, ARMS["mid_scan"]):
        session.execute("RESET ALL")
        session.execute("DROP TABLE IF EXISTS q")
        session.execute("CREATE TABLE q (kind int, place point, p text)")
        session.execute(
            "INSERT INTO q SELECT 1, point(i % 2, i % 2), repeat('x', 900) "
            "FROM generate_series(1, 4000) i"
        )
        session.execute(f"CREATE INDEX ON q {definition}")
        session.execute("VACUUM ANALYZE q")
        session.execute("DELETE FROM q WHERE ctid > '(20,0)'")
        session.execute(INDEX_SCANS_ONLY)
        session.execute(arm)
        plans = [explain(session, query, "ANALYZE, BUFFERS, LOOKAHEAD") for _ in range(3)]
        third_reads.append(buffers(plans[2]))
        if arm != OFF:
            assert all(streamed_scans(plan) == 1 for plan in plans)
    stock, ours = third_reads
    assert stock < 100
    assert ours - stock <= 2 * 64
