"""docs/convert.md where rows or others would come to harm: it refuses, or it is in nobody's way."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer
from waiting import wait_until

from intervals.policies import execute, names
from intervals.recipes import (
    AT_ONCE,
    BACK,
    BESIDE,
    BOUND,
    CHANGE,
    KEYS,
    ROWS,
    blocks,
    content,
    insist,
    make_events,
    run,
    settle,
    work_as_owner,
)

_AT_ONCE, _CATCH_UP, _EXCHANGE, _BACK = (
    blocks(heading)[0] for heading in (AT_ONCE, BESIDE[3], BESIDE[4], BACK)
)
_FORCE = "ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"


@pytest.fixture
def events(session: Connection) -> Iterator[Connection]:
    """The table is partitioned."""
    make_events(session)
    insist(session, KEYS, BOUND, CHANGE)
    yield session
    session.rollback()


@pytest.fixture
def other(server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as connection:
        settle(connection)
        yield connection
        connection.rollback()


def test_policies_that_filter_the_owner(events: Connection) -> None:
    """Each block that moves rows fails, and none is lost."""
    whole = content(events)
    for table in ("events", *names(events, "s.events")):
        execute(events, f"CREATE POLICY few ON {table} USING (customer = 1)")
        execute(events, f"ALTER TABLE {table} {_FORCE}")
    work_as_owner(events)
    assert scalar(events, "SELECT count(*) FROM events") == ROWS // 10
    insist(events, *BESIDE[:2])
    for block in (_AT_ONCE, blocks(BESIDE[2])[0], _CATCH_UP, _EXCHANGE, _BACK):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            run(events, block)
        events.rollback()
    events.execute("RESET ROLE")
    assert content(events) == whole


def test_a_temporary_table_takes_no_notes(events: Connection, other: Connection) -> None:
    """What a session changes that has a table events_changed of its own is noted all the same."""
    insist(events, *BESIDE[:3])
    execute(events, "GRANT SELECT, UPDATE ON events TO other")
    execute(other, "SET ROLE other; CREATE TEMP TABLE events_changed (id bigint, at timestamptz)")
    done = other.execute("UPDATE events SET body = 'late' WHERE customer = 1")
    assert done.rowcount == ROWS // 10
    assert scalar(other, "SELECT count(*) FROM events_changed") == 0
    insist(events, BESIDE[3], BESIDE[4])
    assert scalar(events, "SELECT count(*) FROM events WHERE body = 'late'") == ROWS // 10


@pytest.mark.parametrize(
    ("table", "block"),
    [
        ("customers", _AT_ONCE),
        ("events_20270101", _AT_ONCE),
        ("customers", _EXCHANGE),
        ("events_split", _EXCHANGE),
        ("events_old", _EXCHANGE),
        ("customers", _BACK),
        ("events_old", _BACK),
    ],
)
def test_nothing_is_waited_for_under_a_lock(
    events: Connection, other: Connection, table: str, block: str
) -> None:
    """Who has the other table, or one partition, and wants the whole goes on."""
    insist(events, *BESIDE[:4])
    execute(other, f"BEGIN; LOCK TABLE {table} IN ROW EXCLUSIVE MODE")
    with pytest.raises(psycopg.errors.LockNotAvailable, match=rf'not obtain lock on .*"{table}"'):
        run(events, block)
    events.rollback()
    assert scalar(other, "SELECT count(*) FROM events") == ROWS


def test_the_change_waits_for_one_table(session: Connection, other: Connection) -> None:
    make_events(session)
    insist(session, KEYS, BOUND)
    execute(other, "BEGIN; SELECT FROM customers")
    with pytest.raises(psycopg.errors.LockNotAvailable, match=r'not obtain lock .*"customers"'):
        run(session, blocks(CHANGE)[0])
    session.rollback()
    assert scalar(other, "SELECT count(*) FROM events") == ROWS


def test_a_copy_that_goes_on_without_its_client(events: Connection, other: Connection) -> None:
    """Nobody catches up beside it: a row that it has read may have changed since."""
    insist(events, *BESIDE[:3])
    execute(other, "BEGIN; INSERT INTO events_split SELECT * FROM events ON CONFLICT DO NOTHING")
    with pytest.raises(psycopg.errors.LockNotAvailable, match="lock timeout"):
        run(events, _CATCH_UP)
    events.rollback()
    other.rollback()
    run(events, _CATCH_UP)


def test_customers_can_be_deleted_after_the_exchange(events: Connection) -> None:
    """The table that was split does not reference them any more."""
    insist(events, *BESIDE[:5])
    assert scalar(events, "SELECT count(*) FROM events_old WHERE customer = 1") == ROWS // 10
    events.execute("DELETE FROM events WHERE customer = 1")
    events.execute("DELETE FROM customers WHERE id = 1")


def test_back_with_a_detach_that_is_pending(events: Connection, other: Connection) -> None:
    """It is refused: the rows of that partition would go with the partitioned table."""
    events.execute("INSERT INTO events (at) VALUES ('2027-03-05')")
    execute(other, "BEGIN; SELECT FROM events")
    events.execute("SET lock_timeout = '100ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        events.execute("ALTER TABLE events DETACH PARTITION events_20270301 CONCURRENTLY")
    other.rollback()
    with pytest.raises(psycopg.errors.RaiseException, match="FINALIZE"):
        run(events, _BACK)
    events.rollback()
    events.execute("ALTER TABLE events DETACH PARTITION events_20270301 FINALIZE")
    run(events, _BACK)
    assert scalar(events, "SELECT count(*) FROM events_20270301") == 1


def test_a_publication_of_all_tables(events: Connection) -> None:
    """Who catches up may delete notes."""
    events.execute("SET client_min_messages = error")
    events.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    try:
        insist(events, *BESIDE[:3])
        events.execute("UPDATE events SET body = 'late'")
        insist(events, BESIDE[3])
        assert scalar(events, "SELECT count(*) FROM events_split WHERE body = 'late'") == ROWS
    finally:
        events.rollback()
        events.execute("DROP PUBLICATION everything")


_SET_KEY = """
    CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN NEW.at := NEW.at + interval '1 year'; RETURN NEW; END$$;
    CREATE TRIGGER later BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION later()"""


@pytest.mark.parametrize(
    ("before", "statement", "state"),
    [
        ("", "INSERT INTO events (at) VALUES ('2027-01-05') RETURNING xmin", "0A000"),
        ("", "COPY events TO '/dev/null'", "42809"),
        ("", "SELECT id, body FROM events GROUP BY id", "42803"),
        ("", "SELECT lastval()", "55000"),
        (_SET_KEY, "INSERT INTO events (at) VALUES ('2026-01-05')", "0A000"),
        ("", "CREATE INDEX CONCURRENTLY ON events (body)", "0A000"),
    ],
)
def test_what_others_find_different(
    session: Connection, before: str, statement: str, state: str
) -> None:
    """It works on a plain table, and is refused on the partitioned one."""
    make_events(session)
    for change in ((), (KEYS, BOUND, CHANGE)):
        insist(session, *change)
        execute(session, before)
        error = _error(session, statement)
        assert error == (state if change else None)
        execute(session, "DROP FUNCTION IF EXISTS later CASCADE")
        execute(session, "DELETE FROM events WHERE at >= '2027-01-01'")


def _error(session: Connection, statement: str) -> str | None:
    try:
        execute(session, statement)
    except psycopg.Error as error:
        session.rollback()
        return error.sqlstate
    return None


def test_a_row_that_was_moved(events: Connection, other: Connection) -> None:
    """Who waited for it has to repeat."""
    execute(other, "BEGIN; UPDATE events SET at = '2027-03-05' WHERE id = 1")
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(execute, events, "UPDATE events SET body = 'late' WHERE id = 1")
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        wait_until(lambda: scalar(other, waiting), "the other waits")
        other.commit()
        with pytest.raises(psycopg.errors.SerializationFailure, match="moved to another"):
            late.result()
