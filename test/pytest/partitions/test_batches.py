"""The procedures, which commit in between: what is there after each end, and locks."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import psycopg
import pytest
from bulk_insert.memory import address_space
from extension.probes import QUIET, Connection, scalar
from replication import standby_of, wait_for_replay
from server_log import ServerFactory, WatchedServer

from lookahead.extension import Stage
from partitions.asking import RANGES, children, make, run

_CALL = "CALL pg_lookahead_create_range_partitions_batched('s.p', 0, 10, "
# The lock table of this server has 20 entries for each of ten processes, and some in reserve.
_FEW_LOCKS = {
    **QUIET,
    "max_connections": "3",
    "superuser_reserved_connections": "0",
    "max_wal_senders": "2",
    "max_locks_per_transaction": "20",
    "autovacuum_worker_slots": "1",
    "max_worker_processes": "2",
}


def _notices(session: Connection) -> list[str]:
    heard: list[str] = []
    session.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
    session.execute("SET client_min_messages = notice")
    return heard


@pytest.mark.parametrize("way", ["direct", "attached", "native"])
def test_batches(session: Connection, way: str) -> None:
    make(session, "int")
    session.execute("CREATE TABLE s.mine PARTITION OF s.p FOR VALUES FROM (30) TO (40)")
    heard = _notices(session)
    assert run(session, f"{_CALL} 10, 4, way => '{way}')")[:3] == (9, 1, way)
    assert [text for text in heard if "statement each" not in text] == [
        'partitions of "p": 5 of 10 are there',
        'partitions of "p": 9 of 10 are there',
    ]
    assert len(children(session)) == 10
    transactions = "SELECT count(DISTINCT xmin::text) FROM pg_class WHERE relname LIKE 'p\\_%'"
    assert scalar(session, transactions) == 3


def test_lists_in_batches(session: Connection) -> None:
    make(session, "int", "LIST ((k % 7))")
    call = "CALL pg_lookahead_create_list_partitions_batched('s.p', modulus => 7, batch_size => 3)"
    assert run(session, call) == (7, 0, "direct", None)
    assert run(session, call) == (0, 7, "direct", None)
    call = "CALL pg_lookahead_create_list_partitions_batched('s.p', ARRAY[-1, NULL], NULL, 1)"
    assert run(session, call)[:2] == (2, 0)


def test_an_error_leaves_whole_batches(session: Connection) -> None:
    make(session, "int")
    session.execute("CREATE DOMAIN s.p_70 AS int")
    with pytest.raises(psycopg.errors.DuplicateObject):
        run(session, f"{_CALL} 10, 3)")
    assert len(children(session)) == 6
    session.execute("DROP DOMAIN s.p_70")
    assert run(session, f"{_CALL} 10, 3)")[:2] == (4, 6)


def test_not_within_a_transaction(session: Connection) -> None:
    make(session, "int")
    call = f"{_CALL} 10, 3)"
    with pytest.raises(psycopg.errors.InvalidTransactionTermination), session.transaction():
        session.execute(call)
    session.execute(
        "CREATE FUNCTION s.called() RETURNS void LANGUAGE plpgsql AS "
        f"$$ DECLARE n int; p int; w text; r text; BEGIN {call[:-1]},"
        " created => n, present => p, way_taken => w, reason => r); END $$"
    )
    with pytest.raises(psycopg.errors.InvalidTransactionTermination):
        session.execute("SELECT s.called()")
    assert children(session) == []


def test_within_a_block_of_plpgsql(session: Connection) -> None:
    make(session, "int")
    body = f"""
        DECLARE n int; p int; w text; r text; one record;
        BEGIN
            FOR one IN SELECT * FROM generate_series(4, 8, 2) i LOOP
                {_CALL} one.i, 3, created => n, present => p, way_taken => w, reason => r);
                RAISE NOTICE '% and %', n, p;
            END LOOP;
        END"""
    heard = _notices(session)
    session.execute(f"DO $$ {body} $$")
    assert [text for text in heard if "and" in text] == ["4 and 0", "2 and 4", "2 and 6"]


def test_the_table_is_dropped_between_batches(server: WatchedServer, session: Connection) -> None:
    make(session, "int")
    with server.connect() as other:
        other.execute("SET lock_timeout = '60s'")

        def drop(notice: psycopg.errors.Diagnostic) -> None:
            if "are there" in (notice.message_primary or ""):
                other.execute("DROP TABLE IF EXISTS s.q")
                other.execute("CREATE TABLE s.q (k int)")

        session.add_notice_handler(drop)
        session.execute("SET client_min_messages = notice")
        assert run(session, f"{_CALL} 6, 2)")[:2] == (6, 0)


@pytest.mark.expects_in_log("was terminated by signal")
@pytest.mark.parametrize("way", ["direct", "attached"])
def test_killed_between_two_commits(server_factory: ServerFactory, stage: Stage, way: str) -> None:
    """Whole batches survive, and the next call completes them."""
    with server_factory(stage=stage, settings={**QUIET, "fsync": "on"}) as server:
        with server.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
            make(session, "int")
            session.execute("ALTER TABLE s.p ADD PRIMARY KEY (k)")
            heard = _notices(session)

            def kill(_: psycopg.errors.Diagnostic) -> None:
                if len(heard) == 4:
                    os.kill(session.info.backend_pid, signal.SIGKILL)

            session.add_notice_handler(kill)
            with pytest.raises(psycopg.OperationalError):
                run(session, f"{_CALL} 600, 20, way => '{way}')")
        server.crash()
        server.start()
        with server.connect() as session:
            survivors = len(children(session))
            assert 80 <= survivors < 600 and survivors % 20 == 0
            created, present = run(session, f"{_CALL} 600, 200, way => '{way}')")[:2]
            assert (created, present) == (600 - survivors, survivors)
            session.execute("INSERT INTO s.p SELECT generate_series(0, 5999)")


@pytest.fixture
def narrow(server_factory: ServerFactory, stage: Stage) -> Iterator[Connection]:
    """A session of a server with a small lock table."""
    with server_factory(stage=stage, settings=_FEW_LOCKS) as server, server.connect() as session:
        session.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
        yield session


@pytest.mark.parametrize("way", ["direct", "attached", "native"])
def test_room_in_the_lock_table(narrow: Connection, way: str) -> None:
    make(narrow, "int")
    narrow.execute("ALTER TABLE s.p ADD PRIMARY KEY (k); SET client_min_messages = warning")
    with pytest.raises(psycopg.errors.ConfigurationLimitExceeded) as caught:
        run(narrow, f"{RANGES} 0, 10, 1000, way => '{way}')")
    assert "_batched" in str(caught.value)
    assert "max_locks_per_transaction" in str(caught.value)
    assert children(narrow) == []
    # So many at a time as there is room for half of.
    assert run(narrow, f"{_CALL} 300, 300, way => '{way}')")[:2] == (300, 0)
    most = """
        SELECT max(count) FROM (SELECT count(*) FROM pg_class
        WHERE relname ~ '^p_[0-9]+$' GROUP BY xmin::text) b"""
    assert 5 < scalar(narrow, most) < 100


def test_on_a_standby_without_the_library(server_factory: ServerFactory, stage: Stage) -> None:
    settings = {**QUIET, "wal_consistency_checking": "all"}
    with server_factory(stage=stage, settings=settings) as primary, primary.connect() as session:
        session.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
        make(session, "int")
        session.execute("ALTER TABLE s.p ADD PRIMARY KEY (k)")
        with standby_of(primary, server_factory, QUIET) as standby, standby.connect() as reader:
            run(session, f"{_CALL} 40, 15)")
            session.execute("INSERT INTO s.p SELECT generate_series(0, 399)")
            wait_for_replay(session, reader)
            assert scalar(reader, "SELECT count(*) FROM s.p WHERE k >= 390") == 10
            assert children(reader) == children(session)


def test_refused_by_a_standby(server_factory: ServerFactory, stage: Stage) -> None:
    with server_factory(stage=stage, settings=QUIET) as primary, primary.connect() as session:
        session.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
        make(session, "int")
        with (
            standby_of(primary, server_factory, QUIET, stage) as standby,
            standby.connect() as reader,
            pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match="CREATE TABLE"),
        ):
            run(reader, f"{RANGES} 0, 10, 1)")


def test_memory_of_many_batches(session: Connection) -> None:
    """What is known of the partitions is forgotten after each batch."""
    make(session, "int")
    session.execute("SET client_min_messages = warning")
    run(session, f"{_CALL} 1000, 500)")
    before = address_space(session, peak=True)
    run(session, f"{_CALL} 1400, 5)")
    assert address_space(session, peak=True) - before < 20 * 1024 * 1024
