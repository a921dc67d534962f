"""What others do while rows leave the default partition: no row is lost, doubled or hidden."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random
from threading import Event
from typing import Any

import psycopg
import pytest
from extension.probes import Connection, scalar
from interrupting import Moments
from server_log import WatchedServer
from waiting import wait_until

from intervals.moving import BESIDE_SNAPSHOTS, IN_DEFAULT, MOVE, fill, move, moved, stalled
from intervals.policies import hear, maintain

_REPEATABLE = "BEGIN ISOLATION LEVEL REPEATABLE READ"
_ONE_RANGE = "SELECT count(*) FROM s.p WHERE k BETWEEN 10 AND 19"
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
_LISTED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'relation'"


@pytest.fixture
def filled(session: Connection) -> Connection:
    fill(session, "int", "SELECT generate_series(0, 29)", "10, 0")
    return session


def _whole(session: Connection) -> bool:
    keys: list[int] = scalar(session, "SELECT array_agg(k ORDER BY k) FROM s.p")
    return keys == list(range(30))


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_an_older_snapshot(filled: Connection, server: WatchedServer, level: str) -> None:
    """Of whatever table: while there is one, nothing is moved."""
    filled.execute("SET lock_timeout = '50ms'")
    with server.connect() as other:
        other.execute(f"BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM pg_class")
        with pytest.raises(psycopg.errors.LockNotAvailable) as caught:
            filled.execute(MOVE)
        assert BESIDE_SNAPSHOTS in str(caught.value)
        assert f"process {other.info.backend_pid}" in str(caught.value)
        assert scalar(filled, IN_DEFAULT) == 30
        assert scalar(other, _ONE_RANGE) == 10
        other.execute("COMMIT")
    filled.execute("RESET lock_timeout")
    assert move(filled) == [moved(30, 3)]


def test_an_older_snapshot_is_waited_for(filled: Connection, server: WatchedServer) -> None:
    """Without a lock: it reads the table meanwhile."""
    with server.connect() as other, server.connect() as own, ThreadPoolExecutor(1) as pool:
        other.execute(f"{_REPEATABLE}; SELECT count(*) FROM pg_class")
        own.execute("SET lock_timeout = '60s'")
        running = pool.submit(move, own)
        wait_until(lambda: running.done() or scalar(filled, _WAITING), "the snapshot is waited for")
        assert not running.done()
        assert scalar(other, _ONE_RANGE) == 10
        other.execute("COMMIT")
        assert running.result(100) == [moved(30, 3)]


@pytest.mark.parametrize(
    "begin", [_REPEATABLE, "BEGIN", "PREPARE q AS " + _ONE_RANGE], ids=["rr", "rc", "execute"]
)
def test_a_reader_that_comes_meanwhile(
    filled: Connection, server: WatchedServer, begin: str
) -> None:
    """It waits for the table, with a snapshot that is older than the commit would be."""
    dynamic: Any = begin
    query = "EXECUTE q" if "q" in begin else _ONE_RANGE
    with server.connect() as other, ThreadPoolExecutor(1) as pool:
        other.execute(dynamic)
        with stalled(filled, server) as moving:
            reading = pool.submit(scalar, other, query)
            wait_until(lambda: scalar(filled, _LISTED), "the reader waits")
            filled.execute("SELECT pg_advisory_unlock(1)")
            assert reading.result(100) == 10
            other.execute("ROLLBACK")
        told = moving.result()
        assert told == "" or BESIDE_SNAPSHOTS in told or "lock timeout" in told
    assert _whole(filled)
    move(filled)
    assert scalar(filled, IN_DEFAULT) == 0


def test_a_writer_that_comes_meanwhile(filled: Connection, server: WatchedServer) -> None:
    """Its row gets into the default partition, or into the new one, and is not refused."""
    with server.connect() as other, ThreadPoolExecutor(1) as pool:
        with stalled(filled, server):
            writing = pool.submit(other.execute, "INSERT INTO s.p VALUES (30), (5)")
            wait_until(lambda: scalar(filled, _LISTED), "the writer waits")
        writing.result(100)
    move(filled)
    assert scalar(filled, "SELECT count(*) FROM s.p WHERE k IN (5, 30)") == 3
    assert scalar(filled, "SELECT count(*) FROM s.p") == 32
    assert scalar(filled, IN_DEFAULT) == 0


def test_a_snapshot_that_is_taken_meanwhile(filled: Connection, server: WatchedServer) -> None:
    """Of another table, when rows are on their way already."""
    with server.connect() as other:
        with stalled(filled, server) as moving:
            other.execute(f"{_REPEATABLE}; SELECT count(*) FROM pg_am")
        assert BESIDE_SNAPSHOTS in moving.result()
        assert scalar(other, _ONE_RANGE) == 10
    assert _whole(filled)
    assert scalar(filled, IN_DEFAULT) == 30


def _move_or_not(session: Connection, ranges: str = "") -> None:
    with suppress(psycopg.errors.LockNotAvailable):
        move(session, f"'s.p'{ranges}")


def test_rows_of_a_referenced_table_are_not_waited_for_long(
    filled: Connection, server: WatchedServer
) -> None:
    filled.execute("CREATE TABLE s.target (id int PRIMARY KEY)")
    filled.execute("INSERT INTO s.target SELECT generate_series(0, 29)")
    filled.execute("ALTER TABLE s.p ADD FOREIGN KEY (k) REFERENCES s.target")
    filled.execute("SET lock_timeout = '100ms'")
    with server.connect() as other:
        other.execute("BEGIN; SELECT FROM s.target WHERE id = 25 FOR UPDATE")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            move(filled)
        other.execute("COMMIT; BEGIN; UPDATE s.target SET id = id WHERE id = 25")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            move(filled)
        other.execute("COMMIT")
    filled.execute("RESET lock_timeout")
    assert move(filled) == [moved(30, 3)]


_CHANGES = [
    "SELECT pg_lookahead_unset_interval('s.p')",
    "SELECT pg_lookahead_set_interval('s.p', 7, 0)",
    "ALTER TABLE s.p OWNER TO other",
    "ALTER TABLE s.p DETACH PARTITION s.rest",
    "DROP TABLE s.rest",
    "DROP TABLE s.p",
    "ALTER TABLE s.p RENAME TO q",
    "ALTER TABLE s.rest RENAME TO remainder",
    "CREATE TABLE s.hand PARTITION OF s.p FOR VALUES FROM (40) TO (45)",
    "INSERT INTO s.p VALUES (8), (45)",
    "DELETE FROM s.p WHERE k < 10",
    "ALTER TABLE s.p ADD x int",
    "CREATE RULE r AS ON DELETE TO s.rest DO INSTEAD NOTHING",
]

_DETACHED = """
    SELECT NOT relispartition FROM pg_class
    WHERE relname ~ '^re' AND relnamespace = 's'::regnamespace"""


@pytest.mark.parametrize("change", _CHANGES)
def test_what_changes_before_the_lock(
    filled: Connection, server: WatchedServer, change: str
) -> None:
    """Ranges are listed; then somebody has the table locked, and changes it."""
    filled.execute("ALTER TABLE s.p OWNER TO owner; ALTER TABLE s.rest OWNER TO owner")
    filled.execute("GRANT USAGE, CREATE ON SCHEMA s TO owner, other")
    dynamic: Any = change
    with server.connect() as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN; LOCK TABLE ONLY s.p IN ACCESS SHARE MODE")
        running = pool.submit(_move_as_owner, server)
        wait_until(lambda: running.done() or scalar(filled, _WAITING), "the table is waited for")
        assert not running.done(), running.result()
        try:
            other.execute(dynamic)
            other.execute("COMMIT")
        except psycopg.errors.DeadlockDetected:  # it has asked for more than it had
            other.execute("ROLLBACK")
        running.result(100)
    keys = "SELECT array_agg(k ORDER BY k) FROM {}"
    wanted = list(range(30))
    if change.startswith("DROP"):
        return
    if change.startswith("INSERT"):
        wanted = sorted([*wanted, 8, 45])
    if change.startswith("DELETE"):
        wanted = wanted[10:]
    table = "s.q" if scalar(filled, "SELECT to_regclass('s.q')") else "s.p"
    detached = scalar(filled, _DETACHED)
    union = f"(SELECT k FROM {table} UNION ALL SELECT k FROM s.rest) u" if detached else table
    assert scalar(filled, keys.format(union)) == wanted


def _move_as_owner(server: WatchedServer) -> str:
    with server.connect() as own:
        own.execute("SET ROLE owner; SET lock_timeout = '30s'")
        try:
            own.execute(MOVE)
        except psycopg.Error as error:
            return str(error)
        return ""


def test_concurrent_writers(filled: Connection, server: WatchedServer, seed: int) -> None:
    """They insert, update across ranges and delete; what is left is what they left."""
    filled.execute("CREATE TABLE s.last PARTITION OF s.p FOR VALUES FROM (900) TO (910)")
    filled.execute("INSERT INTO s.p VALUES (900, '')")
    end = Event()
    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(_write, server, end, seed + i, 1 + i) for i in range(3)]
        for _ in range(20):
            wait_until(lambda: scalar(filled, IN_DEFAULT), "there are rows to be moved")
            _move_or_not(filled)
        end.set()
        kept = sorted(number for writer in writers for number in writer.result(100))
    move(filled)
    assert scalar(filled, "SELECT array_agg(t::int ORDER BY t::int) FROM s.p WHERE t <> ''") == kept
    assert scalar(filled, "SELECT count(*) FROM s.p WHERE t IS NULL") == 30
    assert scalar(filled, IN_DEFAULT) == 0


def _write(server: WatchedServer, end: Event, seed: int, writer: int) -> list[int]:
    """The texts of the rows that are left."""
    rng = Random(seed)
    mine: list[int] = []
    number = writer * 1000000
    with server.connect() as own:
        while not end.wait(rng.uniform(0.0, 0.08)):
            number += 1
            mine.append(number)
            put = "INSERT INTO s.p VALUES (%s, %s)"
            own.execute(put, (rng.randrange(900), str(number)))
            change = "UPDATE s.p SET k = %s WHERE t = %s"
            changed = own.execute(change, (rng.randrange(900), str(rng.choice(mine))))
            assert changed.rowcount == 1
            if rng.random() < 0.3:
                gone = mine.pop(rng.randrange(len(mine)))
                assert own.execute("DELETE FROM s.p WHERE t = %s", (str(gone),)).rowcount == 1
    return mine


def test_concurrent_readers(filled: Connection, server: WatchedServer, seed: int) -> None:
    """In each isolation level, of one range and of all: never a row too few or too many."""
    filled.execute("INSERT INTO s.p SELECT generate_series(30, 399)")
    end = Event()
    counts = [0] * 3
    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(_read, server, end, Random(seed + i), counts, i) for i in range(3)]
        wait_until(lambda: all(counts) or readers[0].done(), "all read")
        for _ in range(80):
            _move_or_not(filled, ", 1")
        end.set()
        for reader in readers:
            reader.result(100)
    assert scalar(filled, "SELECT count(*) FROM s.p") == 400


def _read(server: WatchedServer, end: Event, rng: Random, counts: list[int], reader: int) -> None:
    with server.connect() as own:
        while not end.wait(rng.uniform(0.0, 0.08)):
            level = rng.choice(["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
            begin: Any = f"SET TRANSACTION ISOLATION LEVEL {level}"
            low = rng.randrange(40) * 10
            with own.transaction():
                own.execute(begin)
                if rng.random() < 0.5:
                    own.execute("SELECT count(*) FROM pg_am")
                one = f"SELECT count(*) FROM s.p WHERE k BETWEEN {low} AND {low + 9}"
                assert scalar(own, one) == 10
                assert scalar(own, "SELECT count(*) FROM s.p") == 400
            counts[reader] += 1


def test_dumps(filled: Connection, server: WatchedServer) -> None:
    """Those that begin meanwhile have all rows."""
    filled.execute("INSERT INTO s.p SELECT generate_series(30, 299)")
    with ThreadPoolExecutor(1) as pool:
        for _ in range(5):
            dumping = pool.submit(server.run_client, "pg_dump", "--inserts", "postgres")
            while not dumping.done():
                _move_or_not(filled, ", 1")
            text = dumping.result(100).stdout
            rows = [line for line in text.splitlines() if line.startswith("INSERT INTO s.")]
            assert len({line.split("(", 1)[1] for line in rows}) == len(rows) == 300


def test_cancels_at_random(filled: Connection, server: WatchedServer, seed: int) -> None:
    moments = Moments(seed)
    for _ in range(20):
        with server.connect() as own:
            own.execute(f"SET statement_timeout = {1 + int(moments.draw(MOVE) * 1000)}")
            try:
                own.execute(MOVE)
            except psycopg.errors.QueryCanceled:
                locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = "
                assert scalar(filled, f"{locks}{own.info.backend_pid}") == 0
        assert _whole(filled)
        if scalar(filled, IN_DEFAULT) == 0:
            filled.execute("DROP TABLE s.p")
            fill(filled, "int", "SELECT generate_series(0, 29)", "10, 0")
    move(filled)
    assert (_whole(filled), scalar(filled, IN_DEFAULT)) == (True, 0)


def test_maintenance_at_once(filled: Connection, server: WatchedServer) -> None:
    """Whoever maintains the table keeps others from it."""
    with stalled(filled, server), server.connect() as other:
        heard = hear(other, MOVE) + maintain(other, "s.p")
    busy = 'the partitions of "p" are maintained by another session just now'
    assert heard == [busy, busy]
