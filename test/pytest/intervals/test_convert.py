"""docs/convert.md as it stands: beside others, ended before each statement, and undone."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from intervals.crowd import crowd
from intervals.policies import bounds, execute, maintain, names, state
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
    repeat,
    run,
    settle,
    shape,
    statements,
    work_as_owner,
)

_TO_IT = "Foreign keys to the table"
_STANDS_IN_THE_WAY = "What stands in the way"
_BEFORE = {
    "keys": (),
    "change": (KEYS, BOUND),
    "merge": (KEYS, BOUND, CHANGE),
    "exchange": (KEYS, BOUND, CHANGE, *BESIDE[:4]),
    "back": (KEYS, BOUND, CHANGE),
}


@pytest.fixture
def events(session: Connection) -> Iterator[Connection]:
    make_events(session)
    yield session
    session.rollback()


def test_every_chapter_beside_others(events: Connection, server: WatchedServer, seed: int) -> None:
    """No row is lost or there twice, and nobody has an error; the owner is no superuser."""
    first = content(events)
    work_as_owner(events)
    with crowd(server, seed) as people:
        for chapters in ((KEYS,), (BOUND,), (CHANGE,), (AT_ONCE,), BESIDE[:3], (BESIDE[3],)):
            insist(events, *chapters)
            people.beyond = people.beyond or chapters == (CHANGE,)
            people.await_rounds()
        assert scalar(events, "SELECT count(*) FROM events_changed") > 0
        repeat(events, blocks(BESIDE[3])[0])
        people.await_rounds()
        insist(events, BESIDE[4], BESIDE[5])
        people.await_rounds()
    rows = content(events)
    assert rows[:ROWS] == first
    assert {row[0]: (row[1], row[3]) for row in rows[ROWS:]} == people.rows
    assert len(bounds(events, "s.events")) == 1 + 12 + 4
    assert scalar(events, "SELECT count(*) FROM events_before") > 0


def test_back_beside_others(events: Connection, server: WatchedServer, seed: int) -> None:
    """The table is what it was before, but for its primary key."""
    before = shape(events)
    with crowd(server, seed) as people:
        for chapters in ((KEYS,), (BOUND,), (CHANGE,), (BACK,)):
            insist(events, *chapters)
            people.beyond = chapters == (CHANGE,)
            people.await_rounds()
    rows = content(events)
    assert {row[0]: (row[1], row[3]) for row in rows[ROWS:]} == people.rows
    after = shape(events)
    assert after[0] == before[0]
    assert after[2:] == before[2:]
    assert {row[1]: row[3] for row in after[1]} == {row[1]: row[3] for row in before[1]} | {
        "events_pkey": "PRIMARY KEY (id, at)"
    }
    insert = "INSERT INTO events (at) VALUES ('2031-01-01') RETURNING id"
    assert execute(events, insert)[0][0] > max(people.rows)


# What the page says to change in the blocks of a split.
_GO = ("events_old", "events_20270101", "events_20270201")
_MERGE = (
    (
        r"CREATE TABLE events_before .*\n",
        "CREATE TABLE events_until PARTITION OF events_split "
        "FOR VALUES FROM (MINVALUE) TO ('2027-03-01');\n",
    ),
    (r"SELECT \* FROM pg_lookahead_create_range_partitions.*\n", ""),
    (r"((?:INSERT INTO|ALTER TABLE|DROP TRIGGER).*\b)events_old\b(.*\n)", _GO),
    (r"'2027-01-01'", "'2027-03-01'"),
)


def _merging(block: str) -> list[str]:
    """The block, or one for each partition where that has to be a transaction."""
    if "CREATE TRIGGER" in block:
        return [block.replace("events_old", name) for name in _GO]
    for old, new in _MERGE:
        lines = new if isinstance(new, str) else "".join(rf"\g<1>{name}\g<2>" for name in new)
        block = re.sub(old, lines, block)
    return [block]


def test_merged_beside_others(events: Connection, server: WatchedServer, seed: int) -> None:
    """Three partitions become one, by the blocks of a split with what the page says to change."""
    insist(events, KEYS, BOUND, CHANGE)
    with crowd(server, seed) as people:
        people.beyond = True
        people.await_rounds()
        for block in blocks(*BESIDE):
            for merging in _merging(block):
                repeat(events, merging)
            people.await_rounds()
    assert {row[0]: (row[1], row[3]) for row in content(events)[ROWS:]} == people.rows
    assert names(events, "s.events") == ["events_20270301", "events_20270401", "events_until"]


def end_after(session: Connection, server: WatchedServer, parts: list[str]) -> None:
    """Another session begins with a block and is ended by the server."""
    victim = server.connect()
    settle(victim)
    for statement in parts:
        execute(victim, statement)
    execute(session, f"SELECT pg_terminate_backend({victim.info.backend_pid}, 100000)")
    with pytest.raises(psycopg.OperationalError):
        victim.execute("SELECT")
    victim.close()


@pytest.mark.parametrize(
    ("before", "block"),
    [
        ("keys", blocks(KEYS)[1]),
        ("change", blocks(CHANGE)[0]),
        ("merge", blocks(AT_ONCE)[0]),
        ("exchange", blocks(BESIDE[4])[0]),
        ("back", blocks(BACK)[0]),
    ],
    ids=list(_BEFORE),
)
def test_killed_before_each_statement(
    events: Connection, server: WatchedServer, before: str, block: str
) -> None:
    """Nothing has changed; and the block works when it is repeated."""
    insist(events, *_BEFORE[before])
    if before == "keys":
        run(events, blocks(KEYS)[0])
    whole = shape(events), content(events)
    parts = statements(block)
    for count in range(1, len(parts)):
        end_after(events, server, parts[:count])
        assert (shape(events), content(events)) == whole
    run(events, block)
    assert content(events) == whole[1]


def test_a_copy_that_is_interrupted(events: Connection) -> None:
    """It goes on where it was; and all of it can be undone."""
    insist(events, KEYS, BOUND, CHANGE)
    whole = shape(events), content(events)
    insist(events, *BESIDE[:2])
    events.execute("ALTER TABLE events_20260301 ADD CONSTRAINT stop CHECK (false) NOT VALID")
    copy = blocks(BESIDE[2])[0]
    with pytest.raises(psycopg.errors.CheckViolation):
        run(events, copy)
    events.rollback()
    assert 0 < scalar(events, "SELECT count(*) FROM events_split") < ROWS
    events.execute("ALTER TABLE events_20260301 DROP CONSTRAINT stop")
    run(events, copy)
    assert content(events, "events_split") == content(events)
    with pytest.raises(psycopg.errors.RaiseException, match="is not truncated"):
        events.execute("TRUNCATE events")
    insist(events, BESIDE[5])
    assert (shape(events), content(events)) == whole


def test_no_row_is_read_under_the_lock(events: Connection) -> None:
    """Neither by the change nor by the exchange: the constraints are enough."""
    insist(events, KEYS, BOUND)
    for heading, table in ((CHANGE, "events_old"), (BESIDE[4], "events_20260501")):
        if heading == BESIDE[4]:
            insist(events, *BESIDE[:4])
        for statement in statements(blocks(heading)[0]):
            if statement.startswith("BEGIN"):
                events.execute("SELECT pg_stat_force_next_flush()")
            elif statement == "COMMIT":
                read = f"pg_stat_get_xact_tuples_returned('{table}'::regclass)"
                assert scalar(events, f"SELECT {read}") == 0
            execute(events, statement)


def test_a_row_beyond_the_bound_is_refused_meanwhile(events: Connection) -> None:
    insert = "INSERT INTO events (at) VALUES ('2027-01-01')"
    insist(events, KEYS, BOUND)
    with pytest.raises(psycopg.errors.CheckViolation, match="events_bound"):
        events.execute(insert)
    insist(events, CHANGE)
    events.execute(insert)


def test_a_statement_that_returns_rows_as_a_whole(
    events: Connection, server: WatchedServer
) -> None:
    """Of all prepared statements the only one that fails, once."""
    with server.connect() as other:
        settle(other)
        other.execute("PREPARE whole AS SELECT e FROM events e LIMIT 1")
        other.execute("PREPARE columns AS SELECT * FROM events LIMIT 1")
        insist(events, KEYS, BOUND, CHANGE)
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="must not change result type"):
            other.execute("EXECUTE whole")
        assert len(other.execute("EXECUTE columns").fetchall()) == 1


def test_foreign_keys_to_the_table(session: Connection) -> None:
    """They hold again from the commit on, for rows of all partitions."""
    settle(session)
    tables, bound, change, validation = blocks(_TO_IT)
    run(session, tables)
    session.execute("INSERT INTO orders (customer) SELECT generate_series(1, 100)")
    session.execute("INSERT INTO order_lines SELECT generate_series(1, 100)")
    run(session, bound)
    run(session, change)
    line = "INSERT INTO order_lines VALUES (%s)"
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        session.execute(line, (1500000,))
    run(session, validation)
    session.execute("SELECT setval('orders_id_seq', 1500000)")
    session.execute("INSERT INTO orders DEFAULT VALUES")
    session.execute(line, (1500001,))
    session.execute("SELECT setval('orders_id_seq', 2500000)")
    session.execute("INSERT INTO orders DEFAULT VALUES")
    maintain(session)
    assert [low for low, _ in bounds(session, "s.orders")][-1] == "4000000"
    with pytest.raises(psycopg.errors.ForeignKeyViolation, match="removing partition"):
        session.execute("ALTER TABLE orders DETACH PARTITION orders_old")
    assert scalar(session, "SELECT count(*) FROM orders_old") == 100


def test_retention_takes_the_old_table_as_a_whole(events: Connection) -> None:
    """When its upper bound is old, and not before."""
    insist(events, KEYS, BOUND, CHANGE)
    policy = "SELECT pg_lookahead_set_interval('events', '1 month', retention => '{}')"
    execute(events, policy.format("100 years"))
    assert execute(events, "SELECT * FROM pg_lookahead_retirement('events')") == []
    assert state(events, "oldest", "s.events") is None
    events.execute("ALTER TABLE events DETACH PARTITION events_old")
    events.execute("DELETE FROM events_old WHERE at >= '2025-07-01'")
    rows = scalar(events, "SELECT count(*) FROM events_old")
    events.execute(
        "ALTER TABLE events ATTACH PARTITION events_old "
        "FOR VALUES FROM (MINVALUE) TO ('2025-07-01')"
    )
    execute(events, policy.format("1 day"))
    maintain(events)
    assert "events_old" not in names(events, "s.events")
    assert scalar(events, "SELECT count(*) FROM events_old") == rows > 0


_REPEATABLE = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class LIMIT 1"
_MAY = "SELECT count(*) FROM events WHERE at >= '2026-05-01' AND at < '2026-06-01'"
_IN_MAY = "INSERT INTO events (at) VALUES ('2026-05-10')"


def test_old_snapshots(events: Connection, server: WatchedServer) -> None:
    """The change hides nothing from them; what is moved they see as it was copied before them."""
    there = scalar(events, _MAY)
    insist(events, KEYS, BOUND)
    with server.connect() as old, server.connect() as young, server.connect() as user:
        for session in (old, young, user):
            settle(session)
        execute(old, _REPEATABLE)
        events.execute(_IN_MAY.replace("2026-05-10", "2020-01-01"))
        insist(events, CHANGE)
        assert scalar(old, _MAY) == there
        assert scalar(old, "SELECT count(*) FROM events") == ROWS
        old.commit()
        execute(old, _REPEATABLE)
        insist(events, *BESIDE[:4])
        events.execute(_IN_MAY)
        execute(young, _REPEATABLE)
        execute(user, _REPEATABLE)
        events.execute("UPDATE events SET body = 'late'")
        assert scalar(user, _MAY) == there + 1
        with pytest.raises(psycopg.errors.LockNotAvailable):
            run(events, blocks(BESIDE[4])[0])
        events.rollback()
        user.commit()
        run(events, blocks(BESIDE[4])[0])
        assert scalar(old, _MAY) == 0
        assert scalar(young, _MAY) == there
        assert scalar(events, _MAY) == there + 1
