"""Writers, VACUUM and scans at once: sums that every snapshot must see.

Accounts are moved between keys, split, joined and vacuumed while readers add them up through index
scans that look ahead. Whatever a snapshot sees, it sees all of the money once.
"""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from server_log import ServerFactory, WatchedServer

from extension.probes import INDEX_SCANS_ONLY, QUIET, STREAM_ALWAYS, scalar
from lookahead.extension import Stage

_ACCOUNTS = 600
_MONEY = _ACCOUNTS * 100
_READS = 300
# A conflict that stock would report too: the transaction is given up.
_CONFLICTS = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    settings = {**QUIET, "shared_buffers": "1MB", "max_connections": "20"}
    with server_factory(stage=test_stage, settings=settings) as started:
        with started.connect() as session:
            session.execute("CREATE TABLE ledger (k int, amount int, pad text)")
            session.execute(
                f"INSERT INTO ledger SELECT i, 100, repeat('x', 700) "
                f"FROM generate_series(1, {_ACCOUNTS}) i ORDER BY hashint4(i)"
            )
            session.execute("CREATE INDEX ON ledger (k)")
        yield started


def _change(server: WatchedServer, seed: str, stop: threading.Event) -> None:
    """Move money about in small transactions, some of which fail or are rolled back."""
    rng = random.Random(seed)
    with server.connect() as session:
        session.execute(INDEX_SCANS_ONLY)
        while not stop.is_set():
            one, two = rng.sample(range(1, _ACCOUNTS + 1), 2)
            try:
                with session.transaction(force_rollback=rng.random() < 0.2):
                    done = session.execute(
                        "UPDATE ledger SET amount = amount - 7 WHERE ctid = "
                        "(SELECT ctid FROM ledger WHERE k = %s LIMIT 1 FOR UPDATE)",
                        [one],
                    )
                    session.execute(
                        "INSERT INTO ledger VALUES (%s, %s, repeat('y', 700))",
                        [two, 7 * done.rowcount],
                    )
                    session.execute(
                        "WITH gone AS (DELETE FROM ledger WHERE k = %s RETURNING amount) "
                        "INSERT INTO ledger SELECT %s, sum(amount), repeat('z', 700) FROM gone "
                        "HAVING count(*) > 0",
                        [two, two],
                    )
            except _CONFLICTS:
                continue


def _vacuum(server: WatchedServer, stop: threading.Event) -> None:
    with server.connect() as session:
        while not stop.is_set():
            session.execute("VACUUM ledger")


def _read(server: WatchedServer, level: str) -> int:
    """Add up in index order, several times within one snapshot; returns the scans streamed."""
    with server.connect() as session:
        session.execute("CREATE EXTENSION IF NOT EXISTS pg_lookahead")
        session.execute(INDEX_SCANS_ONLY)
        session.execute(STREAM_ALWAYS)
        for _ in range(_READS):
            try:
                with session.transaction():
                    session.execute(f"SET TRANSACTION ISOLATION LEVEL {level} READ ONLY")
                    for order in ("", "DESC"):
                        rows = session.execute(
                            f"SELECT k, amount FROM ledger WHERE k > 0 ORDER BY k {order}"
                        ).fetchall()
                        keys = [key for key, _ in rows]
                        assert keys == sorted(keys, reverse=bool(order))
                        assert sum(amount for _, amount in rows) == _MONEY
            except psycopg.errors.SerializationFailure:
                continue
        return int(scalar(session, "SELECT scans FROM pg_stat_lookahead"))


def test_all_of_the_money_is_seen_once(server: WatchedServer, seed: int) -> None:
    with server.connect() as session:
        session.execute("CREATE EXTENSION IF NOT EXISTS pg_lookahead")
    stop = threading.Event()
    with ThreadPoolExecutor(6) as pool:
        work = [pool.submit(_change, server, f"{seed}:{n}", stop) for n in range(2)]
        work.append(pool.submit(_vacuum, server, stop))
        levels = ("REPEATABLE READ", "SERIALIZABLE")
        readers = [pool.submit(_read, server, level) for level in levels]
        try:
            scans = [reader.result(240) for reader in readers]
        finally:
            stop.set()
        for one in work:
            one.result(60)
    assert all(count > _READS for count in scans)
