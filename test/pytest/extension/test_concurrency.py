"""Two sessions at once: row locks with rechecks, and serializable conflicts."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from server_log import WatchedServer
from waiting import wait_until

from extension.probes import INDEX_SCANS_ONLY, STREAM_ALWAYS, Connection, make_shuffled, scalar


@contextmanager
def _session(server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as session:
        session.execute(INDEX_SCANS_ONLY)
        session.execute(STREAM_ALWAYS)
        yield session


class Background:
    """Runs something that will wait for a lock, in a thread of its own."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._result: list[Any] = []
        self._error: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(work,))
        self._thread.start()

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self._result.append(work())
        except psycopg.Error as error:
            self._error.append(error)

    def result(self) -> Any:
        """What the work returned, once it has ended; its error is raised here."""
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self._error:
            raise self._error[0]
        return self._result[0]


def _waits_for_lock(watcher: Connection, session: Connection) -> Callable[[], bool]:
    pid = session.info.backend_pid
    return lambda: scalar(watcher, f"SELECT cardinality(pg_blocking_pids({pid})) > 0")


def _updated_meanwhile(server: WatchedServer, change: str, query: str) -> list[tuple[Any, ...]]:
    """Rows of a locking query that had to wait for ``change`` in another transaction."""
    with _session(server) as one, _session(server) as two, server.connect() as watcher:
        one.execute("DROP TABLE IF EXISTS e")
        one.execute("CREATE TABLE e (id int, k int, v int)")
        one.execute("INSERT INTO e SELECT i, i * 10, 0 FROM generate_series(1, 200) i")
        one.execute("CREATE INDEX ON e (k)")
        one.execute("VACUUM ANALYZE e")
        one.execute("BEGIN")
        one.execute(change)
        work = Background(lambda: two.execute(query).fetchall())
        wait_until(_waits_for_lock(watcher, two), "the second session waits for the row")
        one.execute("COMMIT")
        rows: list[tuple[Any, ...]] = work.result()
        return rows


def test_row_moved_out_of_the_index_range_vanishes(server: WatchedServer) -> None:
    """The index condition is tested again on the new version of a row that was waited for."""
    rows = _updated_meanwhile(
        server,
        "UPDATE e SET k = k + 1000 WHERE id = 1",
        "SELECT id FROM e WHERE k < 500 ORDER BY k FOR UPDATE",
    )
    assert rows == [(number,) for number in range(2, 50)]


def test_row_that_still_fits_is_returned_once(server: WatchedServer) -> None:
    rows = _updated_meanwhile(
        server,
        "UPDATE e SET k = k + 5, v = 7 WHERE id = 20",
        "SELECT id, v FROM e WHERE k < 500 ORDER BY k FOR UPDATE",
    )
    assert rows == [(number, 7 if number == 20 else 0) for number in range(1, 50)]


def test_update_follows_the_new_version(server: WatchedServer) -> None:
    rows = _updated_meanwhile(
        server,
        "UPDATE e SET v = 7 WHERE id IN (3, 30)",
        "UPDATE e SET v = v + 1 WHERE k BETWEEN 10 AND 400 RETURNING id, v",
    )
    assert rows == [(number, 8 if number in (3, 30) else 1) for number in range(1, 41)]


def test_join_is_rechecked_with_its_other_side(server: WatchedServer) -> None:
    """EvalPlanQual builds a plan tree of its own: there the index scan is stock's."""
    rows = _updated_meanwhile(
        server,
        "UPDATE e SET v = 1 WHERE id = 5",
        "SELECT a.id, b.id FROM e a JOIN e b ON b.k = a.k AND b.v = 0 "
        "WHERE a.k BETWEEN 10 AND 100 AND a.v < 2 ORDER BY a.k FOR UPDATE OF a",
    )
    assert rows == [(number, number) for number in range(1, 11)]


def _crossed_reads(server: WatchedServer, first: str, second: str, writes: tuple[str, str]) -> int:
    """How many of two serializable transactions that read before the other wrote may commit."""
    commits = 0
    with _session(server) as one, _session(server) as two:
        for session, read in ((one, first), (two, second)):
            session.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
            session.execute(read)
        for session, write in zip((one, two), writes, strict=True):
            try:
                session.execute(write)
                session.execute("COMMIT")
                commits += 1
            except psycopg.errors.SerializationFailure:
                session.execute("ROLLBACK")
    return commits


@pytest.fixture
def _serializable_tables(server: WatchedServer) -> None:
    with server.connect() as session:
        session.execute("DROP TABLE IF EXISTS s1, s2, s3")
        session.execute("CREATE TABLE s1 (k int PRIMARY KEY, v int)")
        session.execute("CREATE TABLE s2 (k int PRIMARY KEY, v int)")
        make_shuffled(session, "s3", 5000)


@pytest.mark.usefixtures("_serializable_tables")
def test_missing_keys_of_empty_tables_conflict(server: WatchedServer) -> None:
    commits = _crossed_reads(
        server,
        "SELECT * FROM s1 WHERE k = 1",
        "SELECT * FROM s2 WHERE k = 1",
        ("INSERT INTO s2 VALUES (1, 1)", "INSERT INTO s1 VALUES (1, 1)"),
    )
    assert commits == 1


@pytest.mark.usefixtures("_serializable_tables")
def test_streamed_ranges_conflict_with_insertions(server: WatchedServer) -> None:
    read = "SELECT sum(k), count(pad) FROM s3 WHERE k BETWEEN {} AND {}"
    commits = _crossed_reads(
        server,
        read.format(1000, 1999),
        read.format(3000, 3999),
        ("INSERT INTO s3 VALUES (3500, 'n')", "INSERT INTO s3 VALUES (1500, 'n')"),
    )
    assert commits == 1


@pytest.mark.usefixtures("_serializable_tables")
def test_streamed_rows_conflict_with_updates(server: WatchedServer) -> None:
    read = "SELECT count(pad) FROM s3 WHERE k BETWEEN {} AND {}"
    commits = _crossed_reads(
        server,
        read.format(1000, 1099),
        read.format(3000, 3099),
        ("UPDATE s3 SET pad = 'n' WHERE k = 3050", "UPDATE s3 SET pad = 'n' WHERE k = 1050"),
    )
    assert commits == 1


@pytest.mark.usefixtures("_serializable_tables")
def test_predicate_locks_equal_those_of_stock(server: WatchedServer) -> None:
    """A finished scan has locked the same tuples and pages, whoever fetched the rows."""
    locks = []
    for setting in ("SET pg_lookahead.enabled = off", STREAM_ALWAYS):
        with _session(server) as session:
            session.execute(setting)
            session.execute("SET max_parallel_workers_per_gather = 0")
            session.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
            session.execute("SELECT count(pad) FROM s3 WHERE k BETWEEN 700 AND 709")
            locks.append(
                session.execute(
                    "SELECT relation, page, tuple FROM pg_locks WHERE mode = 'SIReadLock' "
                    "AND pid = pg_backend_pid() ORDER BY 1, 2, 3"
                ).fetchall()
            )
            session.execute("ROLLBACK")
    assert len(locks[0]) >= 10  # one for each row, not one for the whole table
    assert locks[1] == locks[0]
