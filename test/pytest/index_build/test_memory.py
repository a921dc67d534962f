"""Memory stays below maintenance_work_mem, whatever the rows; more goes through temporary files.

With 2 MB, the least, PostgreSQL's sort and the pages that are written may take up to a half more.
"""

from collections.abc import Iterator
from statistics import median

import pytest
from extension.probes import Connection, need_extension, need_own_memory
from server_log import WatchedServer

from index_build.twins import Counters, Twins, check_tree, choose, complaint
from lookahead_bench.build_watch import BuildWatch

_ROWS = 200_000
_MB = 1 << 20
# Of one index, where what is measured differs from build to build.
_BUILDS = 7
_KEYS = ("id", "r", "few", "few, s", 's COLLATE "C"', "n", "u", "lower(s), id")


@pytest.fixture(scope="module", autouse=True)
def _table(server: WatchedServer) -> Iterator[None]:
    with server.connect() as session:
        session.execute(
            "CREATE TABLE m AS SELECT i AS id, hashint8(i) AS r, i % 20 AS few, "
            "md5(i::text) AS s, (hashint4(i) * 0.01)::numeric AS n, md5(i::text)::uuid AS u "
            f"FROM generate_series(1, {_ROWS}) i"
        )
        yield
        session.execute("DROP TABLE m")


@pytest.mark.parametrize("keys", _KEYS)
@pytest.mark.parametrize("memory", ["2MB", "3MB"])
def test_little_memory_builds_the_same_index(twins: Twins, memory: str, keys: str) -> None:
    session = twins.connection
    create = f"CREATE INDEX m_i ON m ({keys})"
    session.execute("SET maintenance_work_mem = '256MB'")
    stock = twins.build("stock", create, "m_i")
    session.execute(f"DROP INDEX m_i; SET maintenance_work_mem = '{memory}'")
    ours = twins.build("ours", create, "m_i")
    assert complaint(stock, ours) == ""
    assert twins.tally.built == 1
    need_extension(session, "amcheck")
    check_tree(session, "m_i")
    session.execute("DROP INDEX m_i")


# Moved from files to files: by one more word, and by two where the first rows mislead.
_NESTED = "((id % 2)::int8), s"
_MISLED = f"((CASE WHEN id < {_ROWS // 10} THEN r ELSE id % 2 END)::int8), ((id % 3)::int8), s"


@pytest.mark.parametrize("megabytes", [2, 3, 4])
@pytest.mark.parametrize(
    "keys", ["r", "few, s", "s", "n", _NESTED, pytest.param(_MISLED, id="misled")]
)
def test_memory_limit_is_kept(
    server: WatchedServer, connection: Connection, keys: str, megabytes: int
) -> None:
    """Up to ten times the limit has to be sorted.

    With 2 MB up to 1.43 of it is used, where PostgreSQL sorts a part; else up to 1.03, and with
    more memory 1.01.
    """
    need_own_memory(connection)
    limit = megabytes * _MB
    choose(connection, "ours")
    connection.execute(f"SET maintenance_work_mem = '{limit // 1024}kB'")
    # What a session needs besides: the caches of catalogs, the executor.
    connection.execute(f"CREATE INDEX m_i ON m ({keys}) WHERE id < 100; DROP INDEX m_i")
    with server.connect() as watcher, BuildWatch(watcher, connection.info.backend_pid) as watch:
        connection.execute(f"CREATE INDEX m_i ON m ({keys})")
    connection.execute("DROP INDEX m_i")
    assert Counters.of(connection).built == 2
    assert watch.peak_memory_bytes is not None
    assert watch.peak_memory_bytes <= limit * (1.5 if megabytes == 2 else 1.05)


def test_wide_entries_are_sorted_in_memory(server: WatchedServer, connection: Connection) -> None:
    """Three in a chunk of 8 kB, which has room for nearly four.

    Buckets of them are what memory holds, or a little more: each is as large as it is in chunks,
    and leaves all the memory there is to the next. PostgreSQL's sort gets none.
    """
    need_own_memory(connection)
    limit = 4 * _MB
    heard: list[str] = []
    connection.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
    choose(connection, "ours")
    connection.execute(
        'CREATE TABLE w (s text STORAGE EXTERNAL COLLATE "C") WITH (autovacuum_enabled = off);'
        "INSERT INTO w SELECT left((SELECT string_agg(md5(i || ':' || j), '') "
        "FROM generate_series(1, 64) j), 2020) FROM generate_series(1, 36000) i;"
        f"SET maintenance_work_mem = '{limit // 1024}kB';"
        "CREATE INDEX w_i ON w (s) WHERE s < '01'; DROP INDEX w_i;"
        "SET trace_sort = on; SET client_min_messages = log"
    )
    with server.connect() as watcher, BuildWatch(watcher, connection.info.backend_pid) as watch:
        connection.execute("CREATE INDEX w_i ON w (s)")
    connection.execute("DROP TABLE w")
    assert Counters.of(connection).built == 2
    assert [text for text in heard if text.startswith("begin index sort")] == []
    assert watch.peak_memory_bytes is not None
    assert watch.peak_memory_bytes <= limit * 1.05


@pytest.mark.parametrize("megabytes", [2, 4])
def test_memory_limit_is_kept_where_postgresql_judges_the_rows(
    server: WatchedServer, connection: Connection, megabytes: int
) -> None:
    """A concurrent build of what VACUUM has not seen: no page is read by the library.

    There are more of them than are left to PostgreSQL at once, and the last ones make a run of
    their own. The rows of 64 such pages have entries of 26 MB. Beyond the limit is at most a page.
    """
    need_own_memory(connection)
    limit = megabytes * _MB
    choose(connection, "ours")
    connection.execute(
        'CREATE TABLE w (s text STORAGE EXTERNAL COLLATE "C") WITH (autovacuum_enabled = off);'
        "INSERT INTO w SELECT left((SELECT string_agg(md5(i || ':' || j), '') "
        "FROM generate_series(1, 84) j), 2600) FROM generate_series(1, 15000) i;"
        f"SET maintenance_work_mem = '{limit // 1024}kB';"
        "CREATE INDEX w_i ON w (s) WHERE s < '01'; DROP INDEX w_i"
    )
    with server.connect() as watcher, BuildWatch(watcher, connection.info.backend_pid) as watch:
        connection.execute("CREATE INDEX CONCURRENTLY w_i ON w (s)")
    connection.execute("DROP TABLE w")
    assert Counters.of(connection).built == 2
    assert watch.peak_memory_bytes is not None
    assert watch.peak_memory_bytes <= limit * 1.05


def test_memory_limit_is_kept_by_processes_that_share_it(
    server: WatchedServer, connection: Connection
) -> None:
    """Also where all that has gone to files are rows whose first column is NULL.

    How the rows fall to the two processes differs from build to build, and with it the peak, which
    has memory of the worker in it that any process has: so none is far above the limit, and the
    median is where it is when no byte is given out twice (0.68 to 0.83; beside other work 0.94,
    and once 1.06; else 0.89 to 1.17, mostly over 1).
    """
    need_own_memory(connection)
    limit = 32 * _MB
    choose(connection, "ours")
    connection.execute(
        f"SET maintenance_work_mem = '{limit // 1024}kB'; SET max_parallel_maintenance_workers = 1;"
        "CREATE TABLE p WITH (autovacuum_enabled = off, parallel_workers = 1) AS "
        "SELECT NULL::int AS n, repeat(md5(i::text), 3) AS s FROM generate_series(1, 270000) i"
    )
    create = 'CREATE INDEX p_i ON p (n, s COLLATE "C")'
    connection.execute(f"{create} WHERE left(s, 3) = '123'; DROP INDEX p_i")
    peaks = []
    for _ in range(_BUILDS):
        with server.connect() as watcher, BuildWatch(watcher, connection.info.backend_pid) as watch:
            connection.execute(create)
        connection.execute("DROP INDEX p_i")
        peaks.append(watch.peak_memory_bytes or 0)
    connection.execute("DROP TABLE p; RESET max_parallel_maintenance_workers")
    assert Counters.of(connection).built == 1 + _BUILDS
    assert min(peaks) > 0
    assert max(peaks) <= limit * 1.1
    assert median(peaks) <= limit * 0.97
