"""Rows that leave the default partition, as a crash and subscribers see it."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from threading import Timer

import psycopg
import pytest
from extension.probes import QUIET, Connection, scalar
from interrupting import Moments
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from intervals.moving import IN_DEFAULT, MOVE, fill, move, moved
from lookahead.extension import Stage

_SETTINGS = {**QUIET, "fsync": "on", "wal_level": "logical"}
_CHANGES = """
    SELECT chr(get_byte(data, 0)) FROM pg_logical_slot_get_binary_changes(
        'slot', NULL, NULL, 'proto_version', '1', 'publication_names', 'pub')"""


@pytest.fixture
def logged(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage, settings=_SETTINGS) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
        yield started


def _fill(session: Connection) -> None:
    session.execute("DROP TABLE IF EXISTS s.p")
    fill(session, "int", "SELECT i, repeat('x', 500) FROM generate_series(0, 2999) i", "100, 0")


def test_a_commit_that_waits_for_the_disk(server_factory: ServerFactory, stage: Stage) -> None:
    """Between the last look at others' snapshots and the commit: refused."""
    settings = {**QUIET, "wal_level": "minimal", "max_wal_senders": "0"}
    with server_factory(stage=stage, settings=settings) as started, started.connect() as session:
        session.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
        _fill(session)
        with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
            session.execute(MOVE)
        assert "wal_level" in str(caught.value)
        assert scalar(session, IN_DEFAULT) == 3000


@pytest.mark.parametrize("root", ["false", "true"])
def test_a_publication(logged: WatchedServer, root: str) -> None:
    """Each row is deleted and inserted."""
    with logged.connect() as session:
        _fill(session)
        session.execute("ALTER TABLE s.p ADD PRIMARY KEY (k)")
        options = f"WITH (publish_via_partition_root = {root})"
        session.execute(f"CREATE PUBLICATION pub FOR TABLE s.p {options}")
        session.execute("SELECT pg_create_logical_replication_slot('slot', 'pgoutput')")
        assert move(session) == [moved(3000, 30)]
        kinds = Counter(row[0] for row in session.execute(_CHANGES).fetchall())
        assert (kinds["D"], kinds["I"], kinds["U"]) == (3000, 3000, 0)
        session.execute("SELECT pg_drop_replication_slot('slot')")


def test_a_publication_without_identity(logged: WatchedServer) -> None:
    """Core's error: a row that is deleted could not be named."""
    with logged.connect() as session:
        _fill(session)
        session.execute("CREATE PUBLICATION pub FOR TABLE s.p")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
            session.execute(MOVE)
        assert scalar(session, IN_DEFAULT) == 3000


@pytest.mark.expects_in_log("was terminated by signal")
@pytest.mark.parametrize("victim", ["session", "server"])
def test_kills_at_random(logged: WatchedServer, seed: int, victim: str) -> None:
    """All rows are there, each once, in the default partition or in that of its range."""
    moments = Moments(seed)
    with logged.connect() as session:
        _fill(session)
    for _ in range(8):
        with suppress(psycopg.OperationalError), logged.connect() as own:
            pid = own.info.backend_pid
            timer = Timer(moments.draw(MOVE) * 4, os.kill, (pid, signal.SIGKILL))
            if victim == "session":
                timer.start()
            else:
                timer = Timer(moments.draw(MOVE) * 4, logged.crash)
                timer.start()
            try:
                own.execute(MOVE)
            finally:
                timer.join()
        if victim == "session":
            logged.crash()
        logged.start()
        with logged.connect() as session:
            assert scalar(session, "SELECT count(DISTINCT k) FROM s.p") == 3000
            assert scalar(session, "SELECT count(*) FROM s.p") == 3000
            ranges = "SELECT count(*) FROM pg_inherits WHERE inhparent = 's.p'::regclass"
            kept = scalar(session, IN_DEFAULT)
            assert scalar(session, ranges) == 1 + (3000 - kept) // 100
            if kept == 0:
                _fill(session)
    with logged.connect() as session:
        move(session)
        assert scalar(session, IN_DEFAULT) == 0


@pytest.mark.parametrize(
    "tables", [["rest"], ["first"], ["rest", "first", "second"]], ids=["rest", "first", "all"]
)
def test_an_autovacuum_gives_way(logged: WatchedServer, tables: list[str]) -> None:
    """Though no lock is waited for long while others are held, and lock_timeout is short."""
    with logged.connect() as session:
        _fill(session)
        for other in ("first", "second"):
            session.execute(f"DROP TABLE IF EXISTS s.{other}")
            session.execute(f"CREATE TABLE s.{other} AS SELECT * FROM s.p")
            session.execute(f"ALTER TABLE s.{other} ADD PRIMARY KEY (k)")
            session.execute(f"ALTER TABLE s.p ADD FOREIGN KEY (k) REFERENCES s.{other}")
        for table in tables:
            session.execute(
                f"ALTER TABLE s.{table} SET (autovacuum_vacuum_cost_delay = 100, "
                "autovacuum_vacuum_cost_limit = 1, autovacuum_vacuum_threshold = 1)"
            )
            session.execute(f"UPDATE s.{table} SET t = 'y' WHERE k < 100")
        logged.restart({"autovacuum": "on", "autovacuum_naptime": "1s"})
    with logged.connect() as session:
        wanted = ", ".join(f"'s.{table}'::regclass" for table in tables)
        works = f"SELECT count(*) FROM pg_stat_progress_vacuum WHERE relid IN ({wanted})"
        wait_until(lambda: scalar(session, works) == len(tables), "the tables are vacuumed")
        session.execute("ALTER SYSTEM SET autovacuum = off")  # no further ones
        session.execute("SELECT pg_reload_conf()")
        session.execute("SET lock_timeout = '200ms'; SET deadlock_timeout = '400ms'")
        assert move(session) == [moved(3000, 30)]
