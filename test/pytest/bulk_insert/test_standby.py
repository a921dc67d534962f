"""A standby without the library, and one whose backup was taken in the middle of an insert."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random

import pytest
from extension.probes import QUIET, Connection, need_extension, scalar
from replication import standby_of, wait_for_replay
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from bulk_insert.arms import DEFAULT, EXTENTS, ONE_PAGE, SWITCH, Counters, choose
from bulk_insert.copying import prompt_copy
from bulk_insert.ways import COPY_PARTITIONS, INSERT, INSERT_PARTITIONS, WAYS, Way, check_sound
from lookahead.extension import Stage

# Fillfactor, and length of a text, of tables that are partitioned or not.
_FILLED = {
    "plain": (100, "i % 60"),
    "narrow": (20, "300"),
    "wide": (100, "CASE i % 9 WHEN 0 THEN 4000 ELSE 900 END"),
}
_NEW = ("made", "emptied")
_ARMS = (DEFAULT, ONE_PAGE, EXTENTS, EXTENTS.with_settings(bulk_extend_size=300))
_COLUMNS = "i int, s text STORAGE EXTERNAL"
_ROWS = "SELECT i, repeat('x', {}) FROM generate_series({}, {}) i"


@pytest.fixture
def primary(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    settings = {**QUIET, SWITCH: "on", "wal_consistency_checking": "all", "max_wal_size": "4GB"}
    with server_factory(stage=test_stage, settings=settings) as server:
        with server.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            need_extension(session, "amcheck")
            for way in (INSERT, INSERT_PARTITIONS):
                for table, (fillfactor, _) in _FILLED.items():
                    session.execute(_making(way, table, fillfactor))
                session.execute(_making(way, "emptied"))
                for table in ("plain", "wide"):
                    session.execute(f"CREATE INDEX ON {_name(way, table)} (i)")
        yield server


def _name(way: Way, table: str) -> str:
    return f"partitioned_{table}" if way.partitioned else table


def _making(way: Way, table: str, fillfactor: int = 100) -> str:
    return way.making(_name(way, table), _COLUMNS, "i", f" WITH (fillfactor = {fillfactor})")


def _insert(session: Connection, rng: Random) -> None:
    """Into each table but those that are new in their transaction, in each way by each arm."""
    for arm in _ARMS:
        choose(session, arm)
        for table, (_, width) in _FILLED.items():
            for way in WAYS:
                first = rng.randrange(10**6)
                rows = _ROWS.format(width, first, first + rng.choice((1, 30, 400, 1000)))
                session.execute(way.statement(session, _name(way, table), rows))


def _contents(session: Connection, table: str) -> tuple[int, str]:
    row = session.execute(
        f"SELECT count(*), md5(string_agg(ctid::text || i || s, '' ORDER BY tableoid, ctid)) "
        f"FROM {table}"
    ).fetchone()
    assert row is not None
    check_sound(session, table)
    return int(row[0]), str(row[1])


def _new_files(session: Connection) -> None:
    """Tables whose files the transaction of the insert has made."""
    choose(session, EXTENTS)
    rows = _ROWS.format("CASE i % 50 WHEN 0 THEN 4000 ELSE 90 END", 1, 3000)
    with session.transaction():
        for way in (INSERT, COPY_PARTITIONS):
            made, emptied = (_name(way, table) for table in _NEW)
            session.execute(_making(way, "made"))
            session.execute(f"TRUNCATE {emptied}")
            for table in (made, emptied):
                session.execute(way.statement(session, table, rows))
            session.execute(f"CREATE INDEX ON {made} (i)")


def _equal(primary: Connection, standby: Connection) -> None:
    wait_for_replay(primary, standby)
    for table in (*_FILLED, *_NEW):
        for way in (INSERT, INSERT_PARTITIONS):
            there = _contents(primary, _name(way, table))
            assert there[0]
            assert _contents(standby, _name(way, table)) == there, table


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
        for way in (INSERT, INSERT_PARTITIONS):
            plain, wide = _name(way, "plain"), _name(way, "wide")
            session.execute(f"DELETE FROM {plain} WHERE i % 3 = 0; UPDATE {wide} SET i = i + 1")
            session.execute(f"VACUUM {plain}, {wide}")
        _insert(session, rng)
        _equal(session, copy)
        assert "inconsistent page found" not in standby.read_log()
        assert scalar(copy, "SELECT pg_promote(true, 60)")
        copy.execute(f"INSERT INTO made {_ROWS.format('9', 1, 500)}")
        assert _contents(copy, "made")[0] == 3500


@contextmanager
def _in_mid_statement(
    primary: WatchedServer, session: Connection, way: Way, before: str
) -> Iterator[None]:
    """Run `before`, give 4,000 rows, and commit: the body runs when it has had most of them.

    An INSERT waits for a row of its source, and a COPY for its client.
    """
    table = _name(way, "plain")
    session.execute(f"BEGIN; {before}")
    if way.copies:
        rows = [f"{i}\t{'y' * 200}\n" for i in range(1, 4001)]
        with prompt_copy(session, table) as stream:
            for row in rows[:3000]:
                stream.write(row)
            with primary.connect() as watcher:
                read = "SELECT coalesce(sum(tuples_processed), 0) FROM pg_stat_progress_copy"
                wait_until(lambda: scalar(watcher, read) == 3000, "rows are read")
            yield
            for row in rows[3000:]:
                stream.write(row)
        session.execute("COMMIT")
        return
    with primary.connect() as holder:
        holder.execute("BEGIN; SELECT FROM source WHERE i = 3000 FOR UPDATE")
        insert = f"INSERT INTO {table} SELECT i, repeat('y', 200) FROM source FOR UPDATE; COMMIT"
        thread = threading.Thread(target=session.execute, args=(insert,))
        thread.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        wait_until(lambda: scalar(holder, waiting) == 1, "the insert waits")
        yield
        holder.execute("ROLLBACK")
        thread.join()


def _fill(session: Connection, way: Way) -> str:
    """Rows that are there before; returns the name of the table whose insert is disturbed."""
    _new_files(session)
    session.execute("CREATE TABLE source AS SELECT generate_series(1, 4000) AS i")
    for one in (INSERT, INSERT_PARTITIONS):
        for table in _FILLED:
            session.execute(f"INSERT INTO {_name(one, table)} {_ROWS.format('20', 1, 100)}")
    choose(session, EXTENTS.with_settings(bulk_extend_size=64))
    return _name(way, "plain")


@pytest.mark.parametrize(
    ("way", "new_file"),
    [(way, False) for way in WAYS] + [(INSERT, True), (COPY_PARTITIONS, True)],
    ids=lambda value: value.name if isinstance(value, Way) else "new file" if value else "extent",
)
def test_backup_in_mid_statement(
    primary: WatchedServer, server_factory: ServerFactory, way: Way, *, new_file: bool
) -> None:
    """The insert waits while the backup is taken."""
    with primary.connect() as session, ExitStack() as stack:
        table = _fill(session, way)
        batched = Counters.of(session).rows
        before = f"TRUNCATE {table}" if new_file else ""
        with _in_mid_statement(primary, session, way, before):
            standby = stack.enter_context(standby_of(primary, server_factory, QUIET))
            copy = stack.enter_context(standby.connect())
            # A standby has the lock on a table that is truncated, too.
            assert new_file or _contents(copy, table)[0] == 100
        assert Counters.of(session).rows >= batched + 3900
        assert scalar(session, f"SELECT count(*) FROM {table}") == 4000 + 100 * (not new_file)
        _equal(session, copy)
        assert "inconsistent page found" not in standby.read_log()


@pytest.mark.parametrize("way", [INSERT, COPY_PARTITIONS], ids=lambda way: way.name)
def test_recovery_to_a_moment_in_mid_statement(
    primary: WatchedServer, server_factory: ServerFactory, way: Way
) -> None:
    """What was recovered has none of the rows, and takes others."""
    settings = {**QUIET, "recovery_target_name": "moment", "recovery_target_action": "promote"}
    with (
        primary.connect() as session,
        standby_of(primary, server_factory, settings, start=False) as copy,
    ):
        table = _fill(session, way)
        with _in_mid_statement(primary, session, way, ""), primary.connect() as other:
            other.execute("SELECT pg_create_restore_point('moment')")
        assert scalar(session, f"SELECT count(*) FROM {table}") == 4100
        copy.start()
        with copy.connect() as recovered:
            promoted = "SELECT NOT pg_is_in_recovery()"
            wait_until(lambda: bool(scalar(recovered, promoted)), "recovery has ended")
            assert _contents(recovered, table)[0] == 100
            recovered.execute(f"VACUUM {table}")
            recovered.execute(f"INSERT INTO {table} {_ROWS.format('200', 1, 4000)}")
            assert _contents(recovered, table)[0] == 4100
        assert "inconsistent page found" not in copy.read_log()
