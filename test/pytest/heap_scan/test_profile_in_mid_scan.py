"""The device profile is read before a bitmap's stream begins, never in a callback of it: that may
take a subtransaction, whose error PostgreSQL does not expect between reads that it has begun."""

from extension.probes import QUIET, explain, scalar
from server_log import ServerFactory

from heap_scan.probes import BITMAP_SCANS, OFF, TAKEN_OVER, make_cold, make_pages, scans
from lookahead.extension import Stage

_QUERY = "SELECT k, r FROM t WHERE r BETWEEN 100 AND 900"


def test_unusable_profile_without_shared_memory(
    server_factory: ServerFactory, test_stage: Stage
) -> None:
    """The first scan of a session finds both out: what it reports goes through shared memory."""
    settings = {**QUIET, "pg_lookahead.device_profile": "/nonexistent/profile"}
    with server_factory(stage=test_stage, settings=settings) as server:
        with server.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead; CREATE EXTENSION pg_buffercache")
            make_pages(session, "t", 600)
            session.execute(f"{BITMAP_SCANS}; {OFF}")
            stock = session.execute(_QUERY).fetchall()
            make_cold(session, "t")
        with server.connect() as session:
            session.execute(f"{BITMAP_SCANS}; SET max_parallel_workers_per_gather = 0")
            session.execute(f"SET pg_lookahead.test_fail_worker_table = on; {TAKEN_OVER}")
            assert session.execute(_QUERY).fetchall() == stock
            (scan,) = scans(explain(session, _QUERY))
            assert scan["Scans"] == 1
            reason = "SELECT reason FROM pg_lookahead_device LIMIT 1"
            assert scalar(session, reason)
