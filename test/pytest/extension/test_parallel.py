"""Parallel index scans: every worker streams its share, and together they return each row once."""

from pathlib import Path

import pytest
from server_log import WatchedServer
from waiting import wait_until

from extension.probes import STREAM_ALWAYS, Connection, explain, make_shuffled, nodes, scalar

# Pages that cost nothing and rows that cost much make every plan worth a worker.
_PARALLEL = (
    "SET random_page_cost = 0; SET seq_page_cost = 0; SET cpu_tuple_cost = 1; "
    "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; "
    "SET min_parallel_index_scan_size = 0; SET min_parallel_table_scan_size = 0"
)
_QUERY = "SELECT count(*), sum(k), sum(k::bigint * k), min(pad) FROM p WHERE k >= 100"


@pytest.fixture(autouse=True)
def _table(connection: Connection) -> None:
    if scalar(connection, "SELECT to_regclass('p') IS NULL"):
        make_shuffled(connection, "p", 20_000)
    connection.execute(_PARALLEL)
    connection.execute(STREAM_ALWAYS)


@pytest.mark.parametrize(
    ("workers", "leader"), [(0, "on"), (1, "on"), (2, "on"), (4, "on"), (2, "off"), (4, "off")]
)
def test_each_row_once(connection: Connection, workers: int, leader: str) -> None:
    connection.execute(f"SET max_parallel_workers_per_gather = {workers}")
    connection.execute(f"SET parallel_leader_participation = {leader}")
    connection.execute("SET pg_lookahead.enabled = off")
    expected = connection.execute(_QUERY).fetchone()
    connection.execute("SET pg_lookahead.enabled = on")
    plan = explain(connection, _QUERY)
    assert any(node["Node Type"].startswith("Gather") for node in nodes(plan)) == (workers > 0)
    for _ in range(5):
        assert connection.execute(_QUERY).fetchone() == expected


def test_no_worker_to_be_had(connection: Connection) -> None:
    """The plan counts on workers that the server does not grant: the leader does it all."""
    connection.execute("SET max_parallel_workers = 0")
    assert scalar(connection, _QUERY) == 19_900


def test_order_is_kept_under_gather_merge(connection: Connection) -> None:
    connection.execute("SET max_parallel_workers_per_gather = 2")
    query = "SELECT k FROM p WHERE k >= 100 AND pad > '' ORDER BY k"
    plan = explain(connection, query)
    assert any(node["Node Type"] == "Gather Merge" for node in nodes(plan))
    assert [row[0] for row in connection.execute(query).fetchall()] == list(range(100, 20_000))


def test_gather_is_rescanned(connection: Connection) -> None:
    """A parallel scan on the inner side of a nested loop starts again for each outer row."""
    connection.execute(
        "SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off; "
        "SET enable_memoize = off; SET max_parallel_workers_per_gather = 2"
    )
    query = (
        "SELECT g, x.n FROM generate_series(1, 12) g LEFT JOIN "
        "(SELECT count(pad) AS n FROM p WHERE k < 3000) x ON true ORDER BY g"
    )
    gathers = [
        node["Actual Loops"]
        for node in nodes(explain(connection, query))
        if node["Node Type"].startswith("Gather")
    ]
    assert gathers == [12]
    assert connection.execute(query).fetchall() == [(g, 3000) for g in range(1, 13)]


def test_scans_inside_workers_are_streamed(server: WatchedServer, connection: Connection) -> None:
    """Each worker says at its end what it did; with the leader left out they did everything."""
    path = server.work_directory / "worker_counters"
    connection.execute("SET max_parallel_workers_per_gather = 2")
    connection.execute("SET parallel_leader_participation = off")
    connection.execute(f"SET pg_lookahead.test_counter_file = '{path}'")
    assert scalar(connection, _QUERY) == 19_900
    wait_until(lambda: path.exists() and len(_counted(path)) >= 2, "both workers have ended")
    counters = _counted(path)
    assert sum(line["index_scan.scans"] for line in counters) >= 1
    # 20,000 rows in random order on some 900 pages: nearly every row is on another page than the
    # row before it.
    assert (
        sum(line["index_scan.prefetched"] + line["index_scan.direct"] for line in counters) > 15_000
    )


def _counted(path: Path) -> list[dict[str, int]]:
    lines = path.read_text().splitlines()
    pairs = [[field.split("=") for field in line.split()] for line in lines]
    return [{name: int(value) for name, value in line} for line in pairs]
