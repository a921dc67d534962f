"""A standby without the library, and one whose backup was taken in the middle of an insert."""

import threading
from collections.abc import Iterator
from random import Random

import pytest
from extension.probes import QUIET, Connection, need_extension, scalar
from replication import standby_of, wait_for_replay
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from bulk_insert.arms import DEFAULT, EXTENTS, ONE_PAGE, SWITCH, choose
from lookahead.extension import Stage

_TABLES = ("plain", "narrow", "wide", "made", "emptied")
_ARMS = (DEFAULT, ONE_PAGE, EXTENTS, EXTENTS.with_settings(bulk_extend_size=300))
_COLUMNS = "(i int, s text STORAGE EXTERNAL) WITH (fillfactor = {})"
_ROWS = "SELECT i, repeat('x', {}) FROM generate_series({}, {}) i"


@pytest.fixture
def primary(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    settings = {**QUIET, SWITCH: "on", "wal_consistency_checking": "all", "max_wal_size": "4GB"}
    with server_factory(stage=test_stage, settings=settings) as server:
        with server.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            need_extension(session, "amcheck")
            session.execute(f"CREATE TABLE plain {_COLUMNS.format(100)}")
            session.execute(f"CREATE TABLE narrow {_COLUMNS.format(20)}")
            session.execute(f"CREATE TABLE wide {_COLUMNS.format(100)}")
            session.execute(f"CREATE TABLE emptied {_COLUMNS.format(100)}")
            session.execute("CREATE INDEX plain_i ON plain (i); CREATE INDEX wide_i ON wide (i)")
        yield server


def _insert(session: Connection, rng: Random) -> None:
    """Into each table but those that are new in their transaction, several times by each arm."""
    widths = {
        "plain": "i % 60",
        "narrow": "300",
        "wide": "CASE i % 9 WHEN 0 THEN 4000 ELSE 900 END",
    }
    for arm in _ARMS:
        choose(session, arm)
        for table, width in widths.items():
            for _ in range(2):
                first = rng.randrange(10**6)
                rows = _ROWS.format(width, first, first + rng.choice((1, 30, 400, 2000)))
                session.execute(f"INSERT INTO {table} {rows}")


def _contents(session: Connection, table: str) -> tuple[object, ...]:
    row = session.execute(
        f"SELECT count(*), md5(string_agg(ctid::text || i || s, '' ORDER BY ctid)), "
        f"(SELECT count(*) FROM verify_heapam('{table}', check_toast => true)) FROM {table}"
    ).fetchone()
    assert row is not None
    return tuple(row)


def _new_files(session: Connection) -> None:
    """Tables whose files the transaction of the insert has made."""
    choose(session, EXTENTS)
    rows = _ROWS.format("CASE i % 50 WHEN 0 THEN 4000 ELSE 90 END", 1, 3000)
    with session.transaction():
        session.execute(f"CREATE TABLE made {_COLUMNS.format(100)}; INSERT INTO made {rows}")
        session.execute(f"TRUNCATE emptied; INSERT INTO emptied {rows}")
        session.execute("CREATE INDEX made_i ON made (i)")


def _equal(primary: Connection, standby: Connection) -> None:
    wait_for_replay(primary, standby)
    for table in _TABLES:
        there = _contents(primary, table)
        assert there[0] and there[2] == 0
        assert _contents(standby, table) == there, table


def test_standby_replays_what_was_inserted(
    primary: WatchedServer, server_factory: ServerFactory, seed: int
) -> None:
    rng = Random(seed)
    with (
        primary.connect() as session,
        standby_of(primary, server_factory, QUIET) as standby,
        standby.connect() as copy,
    ):
        _insert(session, rng)
        _new_files(session)
        _equal(session, copy)
        # Later changes of the same pages refer to what was replayed.
        session.execute("DELETE FROM plain WHERE i % 3 = 0; UPDATE wide SET i = i + 1")
        session.execute("VACUUM plain, wide")
        _insert(session, rng)
        _equal(session, copy)
        for index in ("plain_i", "wide_i", "made_i"):
            copy.execute("SELECT bt_index_check(%s, heapallindexed => true)", (index,))
        assert "inconsistent page found" not in standby.read_log()
        assert scalar(copy, "SELECT pg_promote(true, 60)")
        copy.execute(f"INSERT INTO made {_ROWS.format('9', 1, 500)}")
        assert _contents(copy, "made")[2] == 0


@pytest.mark.parametrize("new_file", [False, True], ids=["extent", "new file"])
def test_backup_in_mid_statement(
    primary: WatchedServer, server_factory: ServerFactory, *, new_file: bool
) -> None:
    """The insert waits for a row of its source while the backup is taken."""
    with primary.connect() as session, primary.connect() as holder:
        _new_files(session)
        session.execute("CREATE TABLE source AS SELECT generate_series(1, 4000) AS i")
        for table in ("narrow", "wide", "plain"):
            session.execute(f"INSERT INTO {table} {_ROWS.format('20', 1, 100)}")
        holder.execute("BEGIN; SELECT FROM source WHERE i = 3000 FOR UPDATE")
        choose(session, EXTENTS.with_settings(bulk_extend_size=64))
        rows = "SELECT i, repeat('y', 200) FROM source FOR UPDATE"
        before = "TRUNCATE plain; " if new_file else ""
        insert = f"BEGIN; {before}INSERT INTO plain {rows}; COMMIT"
        thread = threading.Thread(target=lambda: session.execute(insert))
        thread.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        wait_until(lambda: scalar(holder, waiting) == 1, "the insert waits")
        with standby_of(primary, server_factory, QUIET) as standby, standby.connect() as copy:
            # A standby has the lock on a table that is truncated, too.
            assert new_file or _contents(copy, "plain")[0::2] == (100, 0)
            holder.execute("ROLLBACK")
            thread.join()
            assert scalar(session, "SELECT count(*) FROM plain") == 4000 + 100 * (not new_file)
            _equal(session, copy)
            assert "inconsistent page found" not in standby.read_log()
