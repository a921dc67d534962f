"""What core asks of any statement that inserts: rights, transactions, isolation, large values."""

from __future__ import annotations

import psycopg
import pytest
from extension.probes import Connection, need_own_memory, scalar
from server_log import WatchedServer

from bulk_insert.arms import DEFAULT, EXTENTS, STOCK, Arm, Counters, choose
from bulk_insert.facts import failure_of
from bulk_insert.memory import address_space
from bulk_insert.ways import COPY_PARTITIONS, INSERT, INSERT_PARTITIONS, WAYS, Way

_MB = 1 << 20
_QUERY = "SELECT i, 'x' || i FROM generate_series(1, 300) i"
# What comes before an insert that is refused, and its columns.
_REFUSED = {
    "no right": ("SET LOCAL ROLE nobody", ""),
    "right to one column": ("GRANT INSERT (k) ON t TO nobody; SET LOCAL ROLE nobody", " (k, s)"),
    "read only": ("SET TRANSACTION READ ONLY", ""),
    "generated": ("ALTER TABLE t ADD g int GENERATED ALWAYS AS (k) STORED", " (k, g)"),
}


@pytest.mark.parametrize("way", [INSERT, INSERT_PARTITIONS], ids=lambda way: way.name)
@pytest.mark.parametrize("name", _REFUSED)
def test_insert_is_refused(connection: Connection, name: str, way: Way) -> None:
    """COPY has its tests in test_copy_same.py."""
    before, columns = _REFUSED[name]
    failures = []
    for arm in (STOCK, EXTENTS):
        connection.execute(f"DROP TABLE IF EXISTS t; {way.making('t', 'k int, s text', 'k')}")
        connection.execute("DROP ROLE IF EXISTS nobody; CREATE ROLE nobody")
        choose(connection, arm)
        with (
            pytest.raises(psycopg.Error) as raised,
            connection.transaction(force_rollback=True),
        ):
            connection.execute(before)
            connection.execute(f"INSERT INTO t{columns} {_QUERY}")
        failures.append(failure_of(raised.value))
    assert failures[0] == failures[1]
    connection.execute("DROP TABLE t; DROP ROLE nobody")


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_serializable(server: WatchedServer, connection: Connection, way: Way) -> None:
    """Who has read what others insert, and inserts what they have read, fails as in stock."""
    found = []
    for arm in (STOCK, EXTENTS):
        for table in ("t", "u"):
            making = way.making(table, "k int, s text", "k")
            connection.execute(f"DROP TABLE IF EXISTS {table}; {making}")
        with server.connect() as other:
            states = []
            sessions = ((connection, "t", "u"), (other, "u", "t"))
            puts = []
            for session, _, written in sessions:
                choose(session, arm)
                puts.append(way.statement(session, written, _QUERY))
                session.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
            for session, read, _ in sessions:
                session.execute(f"SELECT count(*) FROM {read}")
            for (session, _, _), put in zip(sessions, puts, strict=True):
                states.append(_end_of(session, put))
            for session, _, _ in sessions:
                states.append(_end_of(session, "COMMIT"))
                session.rollback()
        counts = [scalar(connection, f"SELECT count(*) FROM {table}") for table in ("t", "u")]
        found.append((states, counts))
    assert found[0] == found[1]
    assert "40001" in found[0][0]
    connection.execute("DROP TABLE t, u")


def _end_of(session: Connection, statement: str) -> str:
    try:
        return str(session.execute(statement).statusmessage)
    except psycopg.Error as error:
        return str(error.sqlstate)


@pytest.mark.parametrize("arm", [DEFAULT, EXTENTS], ids=lambda arm: arm.name)
def test_temporal_keys(connection: Connection, arm: Arm) -> None:
    """A key WITHOUT OVERLAPS finds what overlaps among the rows of the same statement, too."""
    found = []
    for one in (STOCK, arm):
        connection.execute(
            "DROP TABLE IF EXISTS v; CREATE TABLE v (who int4range, during int4range, "
            "PRIMARY KEY (who, during WITHOUT OVERLAPS))"
        )
        choose(connection, one)
        rows = (
            "SELECT '[1,2)'::int4range, int4range(i * 2, i * 2 + {}) FROM generate_series(1, 700) i"
        )
        connection.execute(f"INSERT INTO v {rows.format(2)}")
        with pytest.raises(psycopg.errors.ExclusionViolation) as raised:
            connection.execute(
                f"TRUNCATE v; INSERT INTO v {rows.format('CASE i WHEN 500 THEN 3 ELSE 2 END')}"
            )
        found.append((failure_of(raised.value), scalar(connection, "SELECT count(*) FROM v")))
    assert found[0] == found[1]
    connection.execute("DROP TABLE v")


@pytest.mark.parametrize("storage", ["PLAIN", "MAIN", "EXTERNAL", "EXTENDED"])
@pytest.mark.parametrize("way", [INSERT, COPY_PARTITIONS], ids=lambda way: way.name)
def test_large_values(
    server: WatchedServer, connection: Connection, way: Way, storage: str
) -> None:
    """Up to 16 MB, among small ones: the same rows, or error; no more memory than for two rows."""
    need_own_memory(connection)
    found, peaks = [], []
    query = (
        "SELECT i, repeat('abcdefgh', CASE i % 25 WHEN 7 THEN 1 << (i / 19) ELSE 1 END) "
        "FROM generate_series(1, 430) i"
    )
    for arm in (STOCK, DEFAULT):
        making = way.making("v", f"i int, s text STORAGE {storage}", "i")
        connection.execute(f"DROP TABLE IF EXISTS v; {making}")
        put = way.statement(connection, "v", query)
        with server.connect() as session:
            choose(session, arm)
            before = Counters.of(session).rows
            outcome = _end_of(session, put)
            peaks.append(address_space(session, peak=True))
            batched = Counters.of(session).rows - before
        rows = "SELECT i, length(s), md5(s) FROM v ORDER BY i"
        found.append((outcome, connection.execute(rows).fetchall()))
    assert found[0] == found[1]
    assert (found[0][0] == "54000") == (storage == "PLAIN")
    assert batched > 0
    assert peaks[1] < peaks[0] + 2 * 16 * _MB + _MB
    connection.execute("DROP TABLE v")
