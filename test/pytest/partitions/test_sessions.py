"""Several sessions at once: the same partitions, readers and writers, attach, detach and drop."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer
from waiting import wait_until

from partitions.asking import RANGES, children, make, run


def _wait_for_lock(watcher: Connection, waiter: Connection) -> None:
    blocked = f"SELECT cardinality(pg_blocking_pids({waiter.info.backend_pid})) > 0"
    wait_until(lambda: scalar(watcher, blocked), "a session that waits for a lock")


def _later(pool: ThreadPoolExecutor, connection: Connection, query: str) -> Future[Any]:
    return pool.submit(run, connection, query)


@pytest.mark.parametrize("way", ["direct", "attached", "native"])
def test_two_sessions_create_the_same(server: WatchedServer, session: Connection, way: str) -> None:
    make(session, "int")
    with server.connect() as other, server.connect() as watcher, ThreadPoolExecutor() as pool:
        with session.transaction():
            run(session, f"{RANGES} 0, 10, 4, way => '{way}')")
            second = _later(pool, other, f"{RANGES} 0, 10, 6, way => '{way}')")
            _wait_for_lock(watcher, other)
        assert second.result()[:2] == (2, 4)
    assert len(children(session)) == 6


def test_many_sessions_create_the_same(server: WatchedServer, session: Connection) -> None:
    make(session, "int")
    session.execute("ALTER TABLE s.p ADD PRIMARY KEY (k)")

    def create(number: int) -> int:
        way = ("direct", "attached", "native")[number % 3]
        with server.connect() as other:
            other.execute("SET client_min_messages = warning")
            return int(run(other, f"{RANGES} {number}, 1, 20, way => '{way}')")[0])

    with ThreadPoolExecutor(12) as pool:
        created = list(pool.map(create, range(12)))
    assert sum(created) == 31
    assert len(children(session)) == 31


def test_readers_and_writers_go_on_beside_the_direct_way(
    server: WatchedServer, session: Connection
) -> None:
    make(session, "int")
    run(session, f"{RANGES} 0, 10, 2)")
    with server.connect() as other:
        other.execute("SET lock_timeout = '60s'")
        other.execute("PREPARE read AS SELECT count(*) FROM s.p; EXECUTE read")
        with session.transaction():
            run(session, f"{RANGES} 0, 10, 4)")
            other.execute("INSERT INTO s.p VALUES (5)")
            assert other.execute("EXECUTE read").fetchone() == (1,)
            with pytest.raises(psycopg.errors.CheckViolation):
                other.execute("INSERT INTO s.p VALUES (35)")
            session.execute("INSERT INTO s.p VALUES (35)")
            assert scalar(other, "SELECT count(*) FROM s.p") == 1
        assert other.execute("EXECUTE read").fetchone() == (2,)
        other.execute("INSERT INTO s.p VALUES (36)")


def test_locks_of_the_parent(server: WatchedServer, session: Connection) -> None:
    make(session, "int")
    held = """
        SELECT mode FROM pg_locks
        WHERE relation = 's.p'::regclass AND pid = %s AND mode LIKE '%%ExclusiveLock'"""
    with server.connect() as watcher:
        for way, mode in (
            ("direct", "ShareUpdateExclusiveLock"),
            ("attached", "ShareUpdateExclusiveLock"),
            ("native", "AccessExclusiveLock"),
        ):
            with session.transaction():
                run(session, f"{RANGES} 0, 10, 4, way => '{way}')")
                locks = watcher.execute(held, (session.info.backend_pid,)).fetchall()
                assert (mode,) in locks
            session.execute("DROP TABLE s.p")
            make(session, "int")


@pytest.mark.parametrize(
    ("statement", "result"),
    [
        ("CREATE TABLE s.q PARTITION OF s.p FOR VALUES FROM (20) TO (30)", (3, 1)),
        ("ALTER TABLE s.p ATTACH PARTITION s.loose FOR VALUES FROM (20) TO (30)", (3, 1)),
        ("ALTER TABLE s.p DETACH PARTITION s.old", (4, 0)),
        ("DROP TABLE s.old", (4, 0)),
        ("TRUNCATE s.p", (4, 0)),
        ("ALTER TABLE s.p RENAME COLUMN t TO u", (4, 0)),
        ("ALTER TABLE s.p ADD FOREIGN KEY (k) REFERENCES around.target", (4, 0)),
        (
            "CREATE TRIGGER r AFTER INSERT ON s.p FOR EACH ROW EXECUTE FUNCTION around.noticed()",
            (4, 0),
        ),
        ("DROP TABLE s.p", "42P01"),
        ("ALTER TABLE s.p ATTACH PARTITION s.loose FOR VALUES FROM (25) TO (27)", "42P17"),
    ],
)
def test_changes_that_were_there_first(
    server: WatchedServer, session: Connection, statement: str, result: Any
) -> None:
    make(session, "int")
    session.execute("CREATE TABLE s.loose (k int, t text)")
    session.execute("CREATE TABLE s.old PARTITION OF s.p FOR VALUES FROM (-10) TO (0)")
    with server.connect() as other, server.connect() as watcher, ThreadPoolExecutor() as pool:
        with session.transaction():
            session.execute(statement)
            second = _later(pool, other, f"{RANGES} 0, 10, 4)")
            _wait_for_lock(watcher, other)
        if isinstance(result, str):
            with pytest.raises(psycopg.Error) as caught:
                second.result()
            assert caught.value.sqlstate == result
            return
        assert second.result()[:2] == result
        is_cloned = "SELECT tgname FROM pg_trigger WHERE tgrelid = 's.p_30'::regclass"
        assert bool(other.execute(is_cloned).fetchall()) == any(
            word in statement for word in ("TRIGGER", "FOREIGN KEY")
        )


def test_a_partition_that_is_being_detached(server: WatchedServer, session: Connection) -> None:
    make(session, "int")
    run(session, f"{RANGES} 0, 10, 3)")
    with server.connect() as reader, server.connect() as other, ThreadPoolExecutor() as pool:
        reader.execute("BEGIN; SELECT count(*) FROM s.p")
        detached = pool.submit(
            other.execute, "ALTER TABLE s.p DETACH PARTITION s.p_10 CONCURRENTLY"
        )
        _wait_for_lock(session, other)
        other.cancel()
        with pytest.raises(psycopg.errors.QueryCanceled):
            detached.result()
    with pytest.raises(psycopg.errors.InvalidObjectDefinition, match='overlap partition "p_10"'):
        run(session, f"{RANGES} 0, 10, 4, names => '{{parent}}{{number}}')")
    session.execute("ALTER TABLE s.p DETACH PARTITION s.p_10 FINALIZE")
    assert run(session, f"{RANGES} 0, 10, 4, names => '{{parent}}{{number}}')")[:2] == (2, 2)


def test_a_default_partition_in_use(server: WatchedServer, session: Connection) -> None:
    make(session, "int")
    session.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT")
    with server.connect() as other, server.connect() as watcher, ThreadPoolExecutor() as pool:
        other.execute("INSERT INTO s.p VALUES (-1)")
        with other.transaction():
            other.execute("INSERT INTO s.p VALUES (25)")
            waiting = _later(pool, session, f"{RANGES} 0, 10, 3)")
            _wait_for_lock(watcher, session)
        with pytest.raises(psycopg.errors.CheckViolation):
            waiting.result()
        assert run(session, f"{RANGES} 0, 10, 2)")[:2] == (2, 0)
        with pytest.raises(psycopg.errors.CheckViolation, match="violates partition constraint"):
            other.execute("INSERT INTO s.rest VALUES (13)")


def test_with_a_default_partition_a_writer_is_waited_for(
    server: WatchedServer, session: Connection
) -> None:
    """Of its later rows some go to the default partition, and it may create partitions itself."""
    make(session, "int")
    session.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT")
    with server.connect() as other, server.connect() as watcher, ThreadPoolExecutor() as pool:
        with session.transaction():
            session.execute("INSERT INTO s.p VALUES (9999)")
            waiting = _later(pool, other, f"{RANGES} 0, 10, 2)")
            _wait_for_lock(watcher, other)
            assert run(session, f"{RANGES} 100, 10, 2)")[:2] == (2, 0)
            session.execute("INSERT INTO s.p VALUES (5)")
        with pytest.raises(psycopg.errors.CheckViolation, match="would be violated by some row"):
            waiting.result()
