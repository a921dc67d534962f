"""Every memory from the least on, with any number of workers: a build as by stock, or stock's own.

A table's `parallel_workers` has PostgreSQL take workers whatever memory there is for them.
"""

from collections.abc import Iterator

import pytest
from server_log import WatchedServer

from index_build.twins import Counters, Twins, complaint

# More than 2 MB of entries.
_ROWS = 150_000
_WORKERS = (0, 1, 2, 4)
_SMALLEST_KB = (64, 272, 2047, 2048, 4096)


@pytest.fixture(scope="module", autouse=True)
def _table(server: WatchedServer) -> Iterator[None]:
    with server.connect() as session:
        session.execute(
            "CREATE TABLE l WITH (autovacuum_enabled = off) AS "
            "SELECT i AS id, hashint8(i) AS r, md5(i::text) AS s "
            f"FROM generate_series(1, {_ROWS}) i"
        )
        yield
        session.execute("DROP TABLE l")


def _settings(memory_kb: int, workers: int) -> str:
    return (
        f"SET maintenance_work_mem = {memory_kb}; SET max_parallel_workers = 8; "
        f"ALTER TABLE l SET (parallel_workers = {workers}); "
        f"SET max_parallel_maintenance_workers = {max(workers, 1)}"
    )


@pytest.mark.parametrize("workers", _WORKERS)
@pytest.mark.parametrize("keys", ["r", 's COLLATE "C", id'])
def test_every_memory(twins: Twins, keys: str, workers: int) -> None:
    session = twins.connection
    create = f"CREATE INDEX l_i ON l ({keys})"
    session.execute(_settings(65536, 0))
    stock = twins.build("stock", create, "l_i")
    session.execute("DROP INDEX l_i")
    for memory_kb in _SMALLEST_KB:
        session.execute(_settings(memory_kb, workers))
        assert complaint(stock, twins.build("ours", create, "l_i")) == "", f"{memory_kb} kB"
        session.execute("DROP INDEX l_i")


# Queues and pages that wait to be written take some of the memory.
@pytest.mark.parametrize(
    ("workers", "too_little_mb", "enough_mb"),
    [(0, 0, 2), (1, 8, 9), (2, 12, 14), (3, 16, 19), (4, 20, 24)],
)
def test_who_builds_the_index(
    twins: Twins, workers: int, too_little_mb: int, enough_mb: int
) -> None:
    session = twins.connection
    for memory_kb, built in ((max(too_little_mb * 1024, 2047), 0), (enough_mb * 1024, 1)):
        session.execute(_settings(memory_kb, workers))
        before = Counters.of(session)
        twins.build("ours", "CREATE INDEX l_i ON l (r)", "l_i")
        session.execute("DROP INDEX l_i")
        after = Counters.of(session)
        assert after.built - before.built == built
        left = after.left.get("memory", 0) - before.left.get("memory", 0)
        assert left == 1 - built
