"""Partitions that are detached, dropped and made while rows come: each row is in one table."""

import threading

from extension.probes import Connection, scalar
from server_log import WatchedServer

from bulk_insert.arms import DEFAULT, EXTENTS, choose

_PARTITIONS = 8
_INSERTS = 10
_ROWS = 1000
_PATIENT = "SET deadlock_timeout = '100ms'; SET lock_timeout = '60s'"


def _insert(session: Connection, number: int) -> None:
    for turn in range(_INSERTS):
        step = 1 + turn % 5  # in order, or in turn among the partitions
        session.execute(
            f"INSERT INTO t SELECT i * {step} % {_PARTITIONS}, repeat('x', i % 50) "
            f"FROM generate_series({number}, {number + _ROWS - 1}) i"
        )


def _exchange(session: Connection, key: int) -> int:
    """Takes a partition out, makes it anew, and says how many rows are gone with the old one."""
    session.execute(f"ALTER TABLE t DETACH PARTITION t_{key}")
    gone = int(scalar(session, f"SELECT count(*) FROM t_{key}"))
    session.execute(
        f"DROP TABLE t_{key}; BEGIN; LOCK t; CREATE TABLE t_{key} (LIKE t); "
        f"WITH moved AS (DELETE FROM others WHERE k = {key} RETURNING *) "
        f"INSERT INTO t_{key} SELECT * FROM moved; "
        f"ALTER TABLE t ATTACH PARTITION t_{key} FOR VALUES IN ({key}); COMMIT"
    )
    return gone


def test_no_row_is_lost(server: WatchedServer, connection: Connection) -> None:
    connection.execute(
        "CREATE TABLE t (k int, s text) PARTITION BY LIST (k); "
        "CREATE TABLE others PARTITION OF t DEFAULT"
    )
    for key in range(_PARTITIONS):
        connection.execute(f"CREATE TABLE t_{key} PARTITION OF t FOR VALUES IN ({key})")
    connection.execute(_PATIENT)
    gone = 0
    with server.connect() as one, server.connect() as other:
        for session, arm in ((one, DEFAULT), (other, EXTENTS)):
            choose(session, arm)
            session.execute(_PATIENT)
        threads = [
            threading.Thread(target=_insert, args=(session, number))
            for number, session in enumerate((one, other))
        ]
        for thread in threads:
            thread.start()
        turn = 0
        while any(thread.is_alive() for thread in threads):
            gone += _exchange(connection, turn % _PARTITIONS)
            turn += 1
        for thread in threads:
            thread.join()
    assert gone + scalar(connection, "SELECT count(*) FROM t") == 2 * _INSERTS * _ROWS
    strays = (
        "SELECT count(*) FROM t WHERE tableoid NOT IN ('others'::regclass, ('t_' || k)::regclass)"
    )
    assert scalar(connection, strays) == 0
