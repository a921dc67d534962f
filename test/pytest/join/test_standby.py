"""Joins that look ahead on a hot standby, beside what the primary does with their pages."""

from collections.abc import Iterator

import pytest
from extension.probes import QUIET, scalar
from replication import standby_of, wait_for_conflict, wait_for_replay
from server_log import ServerFactory, WatchedServer

from join.tables import LOOPS_ONLY, cold_loops, make_cold
from lookahead.extension import Stage

_QUERY = "SELECT o.id, m.k, m.g FROM outer_rows o JOIN many m ON m.k = o.id"


@pytest.fixture
def standby(
    server: WatchedServer, server_factory: ServerFactory, test_stage: Stage
) -> Iterator[WatchedServer]:
    """Cancels what stands in the way of replay at once."""
    settings = {**QUIET, "max_standby_streaming_delay": "0", "hot_standby_feedback": "off"}
    with standby_of(server, server_factory, settings, test_stage) as copy:
        yield copy


def test_rows_and_conflict(server: WatchedServer, standby: WatchedServer) -> None:
    """Leaves are split and emptied while rows are ahead; then rows go that the join needs."""
    ahead = "SET pg_lookahead.enable_join_prefetch = on; SET pg_lookahead.test_start_after = 0"
    with server.connect() as source, standby.connect() as copy, standby.connect() as watcher:
        source.execute(LOOPS_ONLY)
        copy.execute(f"{LOOPS_ONLY}; {ahead}")
        wait_for_replay(source, copy)
        (loop,) = cold_loops(standby, copy, _QUERY, "many")
        assert loop["Drawn Rows"] > 100
        rows = source.execute(_QUERY).fetchall()
        make_cold(standby, copy, "many")
        copy.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        copy.execute(f"DECLARE c NO SCROLL CURSOR FOR {_QUERY}")
        seen = copy.execute("FETCH 20 FROM c").fetchall()
        source.execute("INSERT INTO many SELECT k, -g, name FROM many, generate_series(1, 20)")
        wait_for_replay(source, watcher)
        seen += copy.execute("FETCH 100 FROM c").fetchall()
        assert seen == rows[:120]
        source.execute("DELETE FROM many WHERE g % 2 = 0")
        source.execute("VACUUM many")
        wait_for_conflict(copy, "FETCH 20 FROM c")
        wait_for_replay(source, watcher)
    with standby.connect() as copy, server.connect() as source:
        copy.execute(f"{LOOPS_ONLY}; {ahead}")
        source.execute(LOOPS_ONLY)
        assert scalar(copy, "SELECT pg_is_in_recovery()")
        assert copy.execute(_QUERY).fetchall() == source.execute(_QUERY).fetchall()
