"""Under SERIALIZABLE a bitmap scan reads pages that were added after it began, as stock's does.

Their rows are not visible to it, but that it did not see them may be half of a write skew.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer
from waiting import wait_until

from heap_scan.probes import BITMAP_SCANS, CHANGING, FORCED, OFF, TAKEN_OVER, make_pages

_PAGES = 64
# The bitmap is not built before the lock is free.
_SCAN = "SELECT count(pad) FROM w WHERE k > (SELECT waits())"
# The same in a second bitmap, of another leaf of a larger index.
_MANY_PAGES = 400
_RESCAN = (
    "SELECT n, (SELECT count(pad) FROM w WHERE k BETWEEN waits_for(n) AND n + 1000) "
    "FROM unnest(ARRAY[-995, 780]) n"
)


@pytest.fixture
def two(server: WatchedServer) -> Iterator[tuple[Connection, Connection]]:
    """Two sessions, and a scan of the first that waits for the second in mid-start."""
    with server.connect() as reader, server.connect() as writer:
        make_pages(writer, "w", _PAGES)
        writer.execute("DROP TABLE IF EXISTS flag")
        writer.execute("CREATE TABLE flag AS SELECT 0 AS raised")
        writer.execute(
            "CREATE OR REPLACE FUNCTION waits() RETURNS int LANGUAGE plpgsql AS $$ BEGIN "
            "PERFORM pg_advisory_xact_lock_shared(4711); RETURN 10; END $$"
        )
        reader.execute(BITMAP_SCANS)
        reader.execute("SET enable_seqscan = on")  # of table flag
        yield reader, writer


@pytest.mark.parametrize(
    "settings",
    [OFF, FORCED, f"{FORCED}; {CHANGING}", TAKEN_OVER, "SET jit = off"],
    ids=["stock", "ours", "changing", "taken_over", "default"],
)
def test_write_skew_with_a_page_added_meanwhile(
    two: tuple[Connection, Connection], settings: str
) -> None:
    reader, writer = two
    reader.execute(f"SET enable_seqscan = off; {settings}")
    writer.execute("SELECT pg_advisory_lock(4711)")
    reader.execute("BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE flag SET raised = 1")
    with ThreadPoolExecutor(1) as pool:
        scan = pool.submit(scalar, reader, _SCAN)
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        wait_until(lambda: scalar(writer, waiting) == 1, "the scan waits for its bitmap")
        # Does not see the reader's flag, and adds a row on a new page that the reader cannot see.
        writer.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        assert scalar(writer, "SELECT raised FROM flag") == 0
        writer.execute("INSERT INTO w SELECT 1000, 1000, repeat('x', 3900)")
        assert scalar(writer, "SELECT max(ctid) FROM w") >= f"({_PAGES},1)"
        writer.execute("COMMIT")
        writer.execute("SELECT pg_advisory_unlock(4711)")
        with pytest.raises(psycopg.errors.SerializationFailure):
            scan.result()
            reader.execute("COMMIT")
    reader.execute("ROLLBACK")


@pytest.fixture
def rescanning(server: WatchedServer) -> Iterator[tuple[Connection, Connection]]:
    """Two sessions, and a scan of the first whose second bitmap waits for the second."""
    with server.connect() as reader, server.connect() as writer:
        make_pages(writer, "w", _MANY_PAGES)
        writer.execute("DROP TABLE IF EXISTS flag; CREATE TABLE flag AS SELECT 0 AS raised")
        writer.execute(
            "CREATE OR REPLACE FUNCTION waits_for(n int) RETURNS int STABLE LANGUAGE plpgsql AS $$ "
            "BEGIN IF n > 700 THEN PERFORM pg_advisory_xact_lock_shared(4711); END IF; "
            "RETURN n; END $$"
        )
        reader.execute(BITMAP_SCANS)
        reader.execute(
            "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off; "
            "SET enable_material = off"
        )
        assert "Bitmap Heap Scan" in str(reader.execute(f"EXPLAIN {_RESCAN}").fetchall())
        yield reader, writer


@pytest.mark.parametrize("settings", [OFF, FORCED, TAKEN_OVER], ids=["stock", "ours", "taken_over"])
def test_write_skew_with_a_page_added_during_a_rescan(
    rescanning: tuple[Connection, Connection], settings: str
) -> None:
    """The size of the table is looked at before the second bitmap is built, which has the new page.

    The first scan is of another leaf of the index, so that only the page itself tells.
    """
    reader, writer = rescanning
    reader.execute(settings)
    writer.execute("SELECT pg_advisory_lock(4711)")
    reader.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
    reader.execute("SET LOCAL enable_seqscan = on; UPDATE flag SET raised = 1")
    reader.execute("SET LOCAL enable_seqscan = off")
    with ThreadPoolExecutor(1) as pool:
        scan = pool.submit(reader.execute, _RESCAN)
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        wait_until(lambda: scalar(writer, waiting) == 1, "the second scan waits")
        writer.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        assert scalar(writer, "SELECT raised FROM flag") == 0
        writer.execute("INSERT INTO w SELECT 1000, 1000, repeat('x', 3900)")
        assert scalar(writer, f"SELECT count(*) FROM w WHERE ctid >= '({_MANY_PAGES},1)'") == 1
        writer.execute("COMMIT")
        writer.execute("SELECT pg_advisory_unlock(4711)")
        with pytest.raises(psycopg.errors.SerializationFailure):
            assert scan.result().fetchall() == [(-995, 6), (780, 20)]
            reader.execute("COMMIT")
    reader.execute("ROLLBACK")


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
def test_such_a_page_has_no_row_for_the_scan(
    two: tuple[Connection, Connection], level: str
) -> None:
    reader, writer = two
    reader.execute(f"SET enable_seqscan = off; {FORCED}")
    writer.execute("SELECT pg_advisory_lock(4711)")
    reader.execute(f"BEGIN ISOLATION LEVEL {level}")
    with ThreadPoolExecutor(1) as pool:
        scan = pool.submit(scalar, reader, _SCAN)
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        wait_until(lambda: scalar(writer, waiting) == 1, "the scan waits for its bitmap")
        writer.execute("INSERT INTO w SELECT 1000, 1000, repeat('x', 3900)")
        writer.execute("SELECT pg_advisory_unlock(4711)")
        assert scan.result() == 2 * _PAGES - 11
    reader.execute("COMMIT")
