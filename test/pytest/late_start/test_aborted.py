"""Queries that are aborted while their memory stays, and indexes that a child needs a lock on."""

from collections.abc import Iterator

import pytest
from extension.probes import Connection
from server_log import WatchedServer

from late_start.tables import execute_kept, late_starts

# A function in SQL is executed in the memory of the expression that calls it.
_FUNCTION = """
CREATE FUNCTION checked(n int) RETURNS bool LANGUAGE sql AS
    'SELECT count(*) >= 0 FROM p WHERE k >= (SELECT n) AND 1 / (k - 305) < 2';
CREATE DOMAIN checked_number AS int CHECK (checked(VALUE));
"""
_CURSOR = (
    "DECLARE c CURSOR FOR SELECT checked(i) FROM generate_series(310, 300, -10) i",
    "FETCH 1 FROM c",
    "SAVEPOINT s",
)
_BLOCK = """
DO $$ BEGIN
  BEGIN
    PERFORM pg_input_is_valid('300', 'checked_number');
  EXCEPTION WHEN division_by_zero THEN NULL;
  END;
  CREATE TEMP TABLE made ();
END $$
"""


@pytest.fixture
def calling(server: WatchedServer) -> Iterator[Connection]:
    """A session that has the function, and plans that end with their query."""
    with server.connect() as connection:
        connection.execute("SET pg_lookahead.enable_late_start = on")
        connection.execute("SET plan_cache_mode = force_custom_plan")
        connection.execute(_FUNCTION)
        yield connection
        connection.execute("DROP DOMAIN checked_number; DROP FUNCTION checked")


def test_cursor_outlives_what_it_called(calling: Connection) -> None:
    """A savepoint is rolled back to; the cursor keeps the memory of what was executed in it."""
    before = late_starts(calling)
    with calling.transaction(force_rollback=True):
        for statement in _CURSOR:
            calling.execute(statement)
        with pytest.raises(Exception, match="division by zero"), calling.transaction():
            calling.execute("FETCH 1 FROM c")
        calling.execute("ROLLBACK TO s")
        calling.execute("CLOSE c")
        calling.execute("CREATE TEMP TABLE made ()")
    assert late_starts(calling) > before


def test_check_of_a_domain_outlives_its_query(calling: Connection) -> None:
    before = late_starts(calling)
    calling.execute(_BLOCK)
    assert late_starts(calling) > before
    calling.execute("DROP TABLE made")


def test_bitmaps_start_with_the_query(session: Connection) -> None:
    """Without a lock on its index from the start on, a BRIN index could be built anew meanwhile."""
    query = "SELECT count(*) FROM p WHERE k >= (SELECT 50) AND k < (SELECT 60) AND v = 5"
    session.execute("SET enable_seqscan = off")
    with session.transaction(force_rollback=True):
        session.execute("DROP INDEX p_k_idx, p_v_k_idx; CREATE INDEX ON p (v)")
        for plans, late in (("indexscan", False), ("bitmapscan", True)):
            session.execute(f"RESET enable_bitmapscan; SET enable_{plans} = off")
            before = late_starts(session)
            assert execute_kept(session, query) == [(1,)]
            assert (late_starts(session) > before) is late
            session.execute(f"RESET enable_{plans}")
