"""What table scans keep in memory: scans of many partitions, one after the other, add up little."""

import pytest
from extension.probes import PINNED, Connection, scalar
from waiting import wait_until

from heap_scan.probes import BITMAP_SCANS, FORCED, OFF, make_cold, make_pages

_PARTS = 200
_ROWS = 20  # of a partition, one on each page
_BYTES_A_SCAN = 4_096  # of ours, for a scan that is over


_ALL = "SELECT k, part FROM m WHERE k > 0"
_LEFT_EARLY = f"SELECT k FROM generate_series(1, {_PARTS}) g, LATERAL ({_ALL} AND part = g LIMIT 2)"
_STATEMENT_BYTES = 4 * 2**20  # for whatever looks ahead


def _used_by_executor(connection: Connection, settings: str, query: str, rows: int) -> int:
    """Bytes that a statement holds when it comes to the end of the last partition."""
    connection.execute(settings)
    with connection.transaction():
        connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {query}")
        assert len(connection.execute(f"FETCH {rows - 1} FROM c").fetchall()) == rows - 1
        used = connection.execute(
            "SELECT max(used_bytes) FROM pg_backend_memory_contexts WHERE name = 'ExecutorState'"
        ).fetchone()
        assert used is not None
        return int(used[0])


@pytest.fixture
def parted(connection: Connection) -> Connection:
    """A session that scans the partitions of m by bitmaps."""
    connection.execute("DROP TABLE IF EXISTS m")
    connection.execute("CREATE TABLE m (k int, part int, pad text) PARTITION BY LIST (part)")
    connection.execute("ALTER TABLE m ALTER pad SET STORAGE PLAIN")
    connection.execute(
        f"DO $$ BEGIN FOR i IN 1..{_PARTS} LOOP "
        "EXECUTE format('CREATE TABLE m_%s PARTITION OF m FOR VALUES IN (%s)', i, i); "
        "END LOOP; END $$"
    )
    connection.execute(
        "INSERT INTO m SELECT i, p, repeat('x', 7000) "
        f"FROM generate_series(1, {_ROWS}) i, generate_series(1, {_PARTS}) p"
    )
    connection.execute("CREATE INDEX ON m (k)")
    connection.execute("ANALYZE m")
    connection.execute(BITMAP_SCANS)
    return connection


def test_scans_of_many_partitions(parted: Connection) -> None:
    rows = _PARTS * _ROWS
    stock = _used_by_executor(parted, OFF, _ALL, rows)
    for settings in ("SET jit = off", FORCED):
        on = f"SET pg_lookahead.enabled = on; {settings}"
        assert _used_by_executor(parted, on, _ALL, rows) - stock < _PARTS * _BYTES_A_SCAN


def test_scans_that_are_left_early(parted: Connection) -> None:
    """Each keeps what it has taken from its bitmap, as it may be gone on with."""
    stock = _used_by_executor(parted, OFF, _LEFT_EARLY, 2 * _PARTS)
    on = f"SET pg_lookahead.enabled = on; {FORCED}"
    ours = _used_by_executor(parted, on, _LEFT_EARLY, 2 * _PARTS)
    # Most of what there is, and no more.
    assert _STATEMENT_BYTES / 2 < ours - stock < _STATEMENT_BYTES + _PARTS * _BYTES_A_SCAN


def test_a_scan_that_finds_no_memory_reads_ahead_as_stocks(connection: Connection) -> None:
    """The ring of an index scan has all; what core's stream has read ahead stays pinned."""
    make_pages(connection, "n", 1_200)
    connection.execute("SET enable_seqscan = off; SET enable_sort = off; SET enable_material = off")
    connection.execute(f"{FORCED}; SET pg_lookahead.test_ring_size = {2**19}")
    make_cold(connection, "n")
    with connection.transaction():
        connection.execute(
            "DECLARE c NO SCROLL CURSOR FOR SELECT a.k, b.k FROM n a, n b "
            "WHERE a.k >= 0 AND a.pad > '' AND (b.r < 200 OR b.r > 2200) ORDER BY a.k"
        )
        assert len(connection.execute("FETCH 70 FROM c").fetchall()) == 70
        # Pages that are not read yet are not shown.
        wait_until(lambda: scalar(connection, PINNED) > 8, "pages read ahead", 20)
