"""What depends on a table that becomes partitioned: docs/convert.md lists all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from intervals.recipes import (
    BOUND,
    CHANGE,
    KEYS,
    ROWS,
    blocks,
    execute,
    insist,
    make_events,
    page,
    run,
    settle,
    statements,
)

_LIST = "What stands in the way"
_FUNCTION = """
    CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN INSERT INTO told VALUES (NEW.id); RETURN NULL; END$$;
    CREATE TRIGGER g AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION f();"""
_EVERYTHING = f"""
    ALTER TABLE events ALTER at DROP NOT NULL, REPLICA IDENTITY FULL, SET (fillfactor = 50);
    CREATE TABLE child () INHERITS (events);
    CREATE TABLE referencing (event bigint REFERENCES events (id));
    CREATE SEQUENCE number OWNED BY events.body;
    {_FUNCTION}
    CREATE TRIGGER h AFTER INSERT ON events REFERENCING NEW TABLE AS n
        FOR EACH ROW EXECUTE FUNCTION f();
    CREATE POLICY p ON events;
    CREATE VIEW v AS SELECT id FROM events;
    CREATE TABLE holder (e events);
    CREATE PUBLICATION p FOR TABLES IN SCHEMA s;
    COMMENT ON TABLE events IS 'old';
    GRANT SELECT ON events TO other; GRANT UPDATE (body) ON events TO PUBLIC;
    UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'events_at_idx'::regclass;
    INSERT INTO pg_subscription_rel VALUES (1, 'events'::regclass, 'r')"""
_UNLOGGED = "DROP PUBLICATION p; DROP TABLE referencing, holder; ALTER TABLE events SET UNLOGGED"


@pytest.fixture
def events(session: Connection) -> Iterator[Connection]:
    make_events(session)
    yield session
    session.rollback()


def _listed(session: Connection) -> set[tuple[str, str]]:
    return set(execute(session, statements(blocks(_LIST)[0])[0]))


def test_all_of_it_is_listed(events: Connection) -> None:
    """Each kind is found on a table that has it, and has its row below."""
    events.execute("BEGIN")
    execute(events, _EVERYTHING)
    found = _listed(events)
    execute(events, _UNLOGGED)
    found |= _listed(events)
    table = page().partition("| what | what to do |")[2].partition("\n\n")[0]
    assert {what for what, _ in found} == set(re.findall(r"^\| `([^`]+)`", table, re.MULTILINE))
    assert ("privileges", "GRANT SELECT ON events TO other") in found
    assert ("privileges", "GRANT UPDATE (body) ON events TO PUBLIC") in found
    assert ("view, rule or function", "rule _RETURN on view v") in found


def test_a_table_by_itself(session: Connection) -> None:
    """Nothing is said of what is not there."""
    settle(session)
    session.execute("CREATE TABLE events (at timestamptz NOT NULL)")
    assert _listed(session) == set()


_BEFORE_ATTACH = """
    DROP TRIGGER g ON events_old;
    CREATE TRIGGER g AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION f();
    CREATE POLICY mine ON events USING (customer = 1);
    ALTER TABLE events ENABLE ROW LEVEL SECURITY"""
_BEFORE_COMMIT = """
    CREATE OR REPLACE VIEW v AS SELECT id FROM events;
    ALTER PUBLICATION p DROP TABLE events_old;
    ALTER PUBLICATION p ADD TABLE events;
    GRANT SELECT, INSERT ON events TO other"""


def test_what_the_page_says_to_do(events: Connection, server: WatchedServer) -> None:
    """Triggers, row security, views, publications and privileges are those of the new table."""
    execute(events, f"CREATE TABLE told (id bigint); {_FUNCTION}")
    execute(events, "CREATE VIEW v AS SELECT id FROM events; CREATE PUBLICATION p FOR TABLE events")
    execute(events, "CREATE POLICY mine ON events USING (customer = 1)")
    execute(events, "ALTER TABLE events ENABLE ROW LEVEL SECURITY")
    execute(events, "GRANT INSERT ON told TO other")
    insist(events, KEYS, BOUND)
    change = blocks(CHANGE)[0]
    attach = "ALTER TABLE events ATTACH"
    run(
        events,
        change.replace(attach, f"{_BEFORE_ATTACH};\n{attach}").replace(
            "COMMIT;", f"{_BEFORE_COMMIT};\nCOMMIT;"
        ),
    )
    with server.connect() as other:
        settle(other)
        other.execute("SET ROLE other")
        for month in ("2026-01", "2027-02"):
            execute(other, f"INSERT INTO events (at, customer) VALUES ('{month}-05', 1)")
        assert scalar(other, "SELECT count(*) FROM events") == ROWS // 10 + 2
    assert execute(events, "SELECT * FROM told ORDER BY id") == [(ROWS + 1,), (ROWS + 2,)]
    assert scalar(events, "SELECT count(*) FROM v") == ROWS + 2
    assert scalar(events, "SELECT count(*) FROM pg_publication_tables WHERE pubname = 'p'") == 5
    events.execute("DROP PUBLICATION p")
