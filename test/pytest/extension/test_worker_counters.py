"""What parallel workers did, as their leader shows it."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from interrupting import limited
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from extension.probes import (
    INDEX_SCANS_ONLY,
    QUIET,
    STREAM_ALWAYS,
    Connection,
    Plan,
    explain,
    lookahead,
    make_shuffled,
    nodes,
    scalar,
)
from lookahead.extension import Stage

_PARALLEL = (
    "SET random_page_cost = 0; SET seq_page_cost = 0; SET cpu_tuple_cost = 1; "
    "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; "
    "SET min_parallel_index_scan_size = 0; SET min_parallel_table_scan_size = 0; "
    "SET max_parallel_workers_per_gather = 2; SET parallel_leader_participation = off"
)
_ROWS = 5_000
_QUERY = "SELECT count(pad) FROM w WHERE k >= 0"
_SLOW = b"SELECT count(pad) FROM w WHERE k >= 0 AND pg_sleep(0.1) IS NOT NULL"
_FAILING = "SELECT sum(1 / (k - 4999)) FROM w WHERE k >= 0 AND pad > ''"
_INNER_COUNT = (
    "CREATE OR REPLACE FUNCTION inner_count(n int) RETURNS bigint LANGUAGE plpgsql "
    "STABLE PARALLEL RESTRICTED SET enable_seqscan = off AS $$ DECLARE found bigint; BEGIN "
    "EXECUTE 'SELECT k, pad FROM w WHERE k >= 0'; GET DIAGNOSTICS found = ROW_COUNT; "
    "RETURN found; END $$"
)
# Entries that look-ahead handled, page by page or on the page of the entry before.
_SEEN = ("Prefetched Blocks", "Direct Blocks", "Repeated Blocks")
_SEEN_COLUMNS = "prefetched_blocks + direct_blocks + repeated_blocks"
_ALL = {"shared_preload_libraries": "pg_lookahead", "session_preload_libraries": ""}


@pytest.fixture(scope="module", params=[{}, _ALL], ids=["backend", "cluster"])
def parallel_server(
    request: pytest.FixtureRequest, server_factory: ServerFactory, test_stage: Stage
) -> Iterator[WatchedServer]:
    """A server on which each test finds all workers free; its statistics have either scope."""
    settings = {**QUIET, "max_parallel_workers": "16", "max_worker_processes": "24"}
    with server_factory(stage=test_stage, settings={**settings, **request.param}) as server:
        with server.connect() as session:
            _prepare(session)
        yield server


def _prepare(session: Connection) -> None:
    session.execute("CREATE EXTENSION pg_lookahead")
    make_shuffled(session, "w", _ROWS)
    session.execute("ALTER TABLE w SET (parallel_workers = 2)")


@pytest.fixture
def leader(parallel_server: WatchedServer) -> Iterator[Connection]:
    with parallel_server.connect() as session:
        session.execute(f"{INDEX_SCANS_ONLY}; {_PARALLEL}; {STREAM_ALWAYS}")
        yield session
        # Whatever the test did, the next query has its own workers' counters.
        (after,) = lookahead(explain(session, _QUERY))
        assert _seen(after) == _ROWS


def _seen(group: dict[str, Any]) -> int:
    return sum(group[name] for name in _SEEN)


def _counted(session: Connection) -> int:
    return int(scalar(session, f"SELECT {_SEEN_COLUMNS} FROM pg_stat_lookahead"))


def _await_workers(session: Connection, leader_pid: int, count: int) -> None:
    query = f"SELECT count(*) FROM pg_stat_activity WHERE leader_pid = {leader_pid}"
    wait_until(lambda: scalar(session, query) == count, f"{count} workers run")


def test_leader_shows_the_sum(leader: Connection) -> None:
    plan = explain(leader, _QUERY)
    (gather,) = [node for node in nodes(plan) if node["Node Type"] == "Gather"]
    assert gather["Workers Launched"] == 2
    (group,) = lookahead(plan)
    assert _seen(group) == _ROWS
    assert 1 <= group["Scans"] <= 2
    assert "Workers" not in group


@pytest.mark.parametrize("participation", ["on", "off"])
def test_leader_and_workers_together(leader: Connection, participation: str) -> None:
    """However the rows are shared out, each is counted once."""
    leader.execute(f"SET parallel_leader_participation = {participation}")
    for _ in range(5):
        (group,) = lookahead(explain(leader, _QUERY))
        # Which process meets two entries of one page in a row depends on the sharing, the sum not.
        assert _seen(group) == _ROWS


def test_text_format_sums_too(leader: Connection) -> None:
    lines = leader.execute(f"EXPLAIN (ANALYZE, LOOKAHEAD) {_QUERY}").fetchall()
    (line,) = [line for (line,) in lines if "Lookahead:" in line]
    fields = dict(field.split("=") for field in line.split()[1:])
    assert sum(int(fields[name]) for name in ("prefetched", "direct", "repeated")) == _ROWS


def test_gather_that_is_rescanned(leader: Connection) -> None:
    """Each rescan launches workers again, for the same plan nodes."""
    (group,) = lookahead(_rescanned(leader))
    assert _seen(group) == 7 * 500


def test_largest_distance_is_that_of_one_worker(leader: Connection) -> None:
    leader.execute("SET pg_lookahead.prefetch_distance = 8; RESET pg_lookahead.test_depth")
    (group,) = lookahead(_rescanned(leader))
    assert group["Mean Distance"] <= group["Max Distance"]
    # What is in flight, and the page that is handed out.
    assert 1 <= group["Max Distance"] <= 8 + 2


def _rescanned(leader: Connection, times: int = 7) -> Plan:
    """A plan whose Gather ran so many times, each time with new workers."""
    leader.execute(
        "SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off; "
        "SET enable_memoize = off"
    )
    plan = explain(
        leader,
        f"SELECT g, x.n FROM generate_series(1, {times}) g LEFT JOIN "
        "(SELECT count(pad) AS n FROM w WHERE k < 500) x ON true",
    )
    loops = [node["Actual Loops"] for node in nodes(plan) if node["Node Type"] == "Gather"]
    assert loops == [times]
    return plan


def test_nodes_are_told_apart(leader: Connection) -> None:
    plan = explain(
        leader,
        "SELECT (SELECT count(pad) FROM w WHERE k < 300), (SELECT count(pad) FROM w WHERE k < 70)",
    )
    assert sum(node["Node Type"] == "Gather" for node in nodes(plan)) == 2
    assert sorted(_seen(group) for group in lookahead(plan)) == [70, 300]


def test_parallel_queries_inside_a_parallel_query(leader: Connection) -> None:
    """A function above the Gather runs a parallel query with the plan of the one around it."""
    leader.execute(_INNER_COUNT)
    query = "SELECT k, inner_count(k) FROM w WHERE k < 3 AND pad > ''"
    assert sorted(leader.execute(query).fetchall()) == [(k, _ROWS) for k in range(3)]
    plan = explain(leader, query)
    assert any(node["Node Type"] == "Gather" for node in nodes(plan))
    (group,) = lookahead(plan)
    assert _seen(group) == 3


@pytest.mark.parametrize("kind", ["TABLE", "MATERIALIZED VIEW"])
def test_first_parallel_query_writes(leader: Connection, kind: str) -> None:
    """The statement has used its command id when it enters parallel mode."""
    (group,) = lookahead(explain(leader, f"CREATE {kind} made AS {_QUERY}"))
    assert _seen(group) == _ROWS
    leader.execute(f"DROP {kind} IF EXISTS made")
    leader.execute(f"CREATE {kind} made AS {_QUERY}")
    assert scalar(leader, "SELECT * FROM made") == _ROWS
    leader.execute(f"DROP {kind} made")


def test_pruning_at_the_start_runs_a_query(leader: Connection) -> None:
    """A worker's first query is then that of a function, within the start of its slice."""
    leader.execute(
        "CREATE TABLE parts (k int, pad text) PARTITION BY RANGE (k); "
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (1000); "
        "CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (1000) TO (2000); "
        "INSERT INTO parts SELECT k, pad FROM w WHERE k < 2000; "
        "CREATE INDEX ON parts (k); ANALYZE parts; "
        "CREATE FUNCTION least_key() RETURNS int LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$ BEGIN "
        "RETURN (SELECT min(k) + 1000 FROM w WHERE k >= 0 AND pad > ''); END $$"
    )
    try:
        groups = lookahead(
            explain(leader, "SELECT count(pad) FROM parts WHERE k >= least_key() AND k >= 0")
        )
        assert sum(map(_seen, groups)) == 1_000
        assert all("Workers" not in group for group in groups)
    finally:
        leader.execute("DROP FUNCTION least_key; DROP TABLE parts")


def test_first_parallel_query_inside_one_that_writes(leader: Connection) -> None:
    """The outer query launches workers, but has no scan of ours."""
    leader.execute(_INNER_COUNT)
    leader.execute("SET enable_seqscan = on")
    leader.execute("CREATE TABLE outer_rows AS SELECT 1 AS k FROM generate_series(1, 10)")
    leader.execute("ALTER TABLE outer_rows SET (parallel_workers = 2)")
    query = "SELECT inner_count(k) AS n FROM outer_rows"
    assert any(node["Node Type"] == "Gather" for node in nodes(explain(leader, query, "COSTS")))
    leader.execute(f"CREATE TABLE made AS {query}")
    assert leader.execute("SELECT DISTINCT n FROM made").fetchall() == [(_ROWS,)]
    leader.execute("DROP TABLE made, outer_rows; SET enable_seqscan = off")


def test_view_counts_workers_once(leader: Connection) -> None:
    leader.execute("SELECT pg_lookahead_stats_reset()")
    leader.execute(_QUERY)
    leader.execute("SELECT pg_stat_force_next_flush()")
    wait_until(lambda: _counted(leader) == _ROWS, "all workers have reported")
    assert scalar(leader, "SELECT nodes FROM pg_stat_lookahead") == 1


def test_query_that_fails_in_a_worker(leader: Connection) -> None:
    """Counted nevertheless, and the next query is not disturbed."""
    leader.execute("SELECT pg_lookahead_stats_reset()")
    with pytest.raises(psycopg.errors.DivisionByZero):
        leader.execute(_FAILING)
    leader.execute("SELECT pg_stat_force_next_flush()")
    wait_until(lambda: _counted(leader) > _ROWS / 3, "the workers have reported")
    assert _counted(leader) <= _ROWS


def test_leader_cancels(parallel_server: WatchedServer, leader: Connection) -> None:
    """By a timeout, again and again, at different moments."""
    statement = "SELECT sum(length(pad)), pg_sleep(1) FROM w WHERE k >= 0"
    for milliseconds in range(1, 30, 3):
        with pytest.raises(psycopg.errors.QueryCanceled):
            limited(leader, statement, milliseconds)
    (group,) = lookahead(explain(leader, _QUERY))
    assert _seen(group) == _ROWS


def test_leader_goes_away(parallel_server: WatchedServer, leader: Connection) -> None:
    """What its workers leave is nobody's."""
    for _ in range(3):
        other = parallel_server.connect()
        other.execute(f"{INDEX_SCANS_ONLY}; {_PARALLEL}; {STREAM_ALWAYS}")
        pid = other.info.backend_pid
        other.pgconn.send_query(_SLOW)
        _await_workers(leader, pid, 2)
        leader.execute(f"SELECT pg_terminate_backend({pid})")
        _await_workers(leader, pid, 0)
        other.close()


def test_no_worker_is_launched(leader: Connection) -> None:
    leader.execute("SET max_parallel_workers = 0")
    (group,) = lookahead(explain(leader, _QUERY))
    assert _seen(group) == _ROWS
    assert "Workers" not in group
    leader.execute("RESET max_parallel_workers")


def test_query_that_fails_in_a_subtransaction(leader: Connection) -> None:
    """Its workers end with the subtransaction, and the transaction goes on counting."""
    with leader.transaction():
        for _ in range(3):
            leader.execute(
                f"DO $do$ BEGIN PERFORM x FROM ({_FAILING}) AS f(x); "
                "EXCEPTION WHEN division_by_zero THEN NULL; END $do$"
            )
            (group,) = lookahead(explain(leader, _QUERY))
            assert _seen(group) == _ROWS


@pytest.mark.expects_in_log("was terminated by signal 9")
def test_worker_that_is_killed(server_factory: ServerFactory, test_stage: Stage) -> None:
    """The server restarts, as it always does, and the table begins anew."""
    settings = {**QUIET, "restart_after_crash": "on"}
    with server_factory(stage=test_stage, settings=settings) as server:
        with server.connect() as session:
            _prepare(session)
        for _ in range(2):
            with server.connect() as watcher:
                other = server.connect()
                other.execute(f"{INDEX_SCANS_ONLY}; {_PARALLEL}; {STREAM_ALWAYS}")
                (group,) = lookahead(explain(other, _QUERY))
                assert _seen(group) == _ROWS
                other.pgconn.send_query(_SLOW)
                pid = other.info.backend_pid
                _await_workers(watcher, pid, 2)
                worker = scalar(
                    watcher, f"SELECT min(pid) FROM pg_stat_activity WHERE leader_pid = {pid}"
                )
                os.kill(worker, signal.SIGKILL)
                with pytest.raises(psycopg.OperationalError):
                    wait_until(lambda: scalar(watcher, "SELECT 1") != 1, "the server restarts")
                other.close()
            wait_until(lambda: _answers(server), "the server is back")


def _answers(server: WatchedServer) -> bool:
    try:
        server.connect().close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.mark.parametrize("made", [True, False], ids=["exists", "first use"])
def test_without_shared_memory_the_query_runs(
    server_factory: ServerFactory, test_stage: Stage, made: bool
) -> None:
    """The table cannot be had: rows are right, and EXPLAIN says what is missing."""
    with (
        server_factory(stage=test_stage, settings=QUIET) as server,
        server.connect() as session,
        server.connect() as other,
    ):
        _prepare(session)
        for one in (session, other):
            one.execute(f"{INDEX_SCANS_ONLY}; {_PARALLEL}; {STREAM_ALWAYS}")
        if made:
            assert scalar(other, _QUERY) == _ROWS
        session.execute("SET pg_lookahead.test_fail_worker_table = on")
        with session.transaction():
            session.execute("SAVEPOINT s")
            assert scalar(session, _QUERY) == _ROWS
            session.execute("RELEASE s")
            assert scalar(session, _QUERY) == _ROWS
        (group,) = lookahead(explain(session, _QUERY))
        assert group["Workers"] == "uncounted"
        text = session.execute(f"EXPLAIN (ANALYZE, LOOKAHEAD) {_QUERY}").fetchall()
        assert any(line.endswith("workers=uncounted") for (line,) in text)
        # As soon as there is memory again, workers are counted.
        session.execute("RESET pg_lookahead.test_fail_worker_table")
        (group,) = lookahead(explain(session, _QUERY))
        assert _seen(group) == _ROWS


def test_more_reports_than_the_table_holds(leader: Connection) -> None:
    """A test build holds 64: EXPLAIN says that something is missing, and nothing is wrong."""
    (group,) = lookahead(_rescanned(leader, 40))
    assert 0 < _seen(group) < 40 * 500
    assert group["Workers"] == "uncounted"


def test_reports_of_others_are_passed_over(leader: Connection) -> None:
    """Several times as many as the table holds."""
    for _ in range(40):
        leader.execute(_QUERY)
    (group,) = lookahead(explain(leader, _QUERY))
    assert _seen(group) == _ROWS
    assert "Workers" not in group
