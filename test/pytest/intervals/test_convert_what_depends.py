"""What depends on a table that becomes partitioned: docs/convert.md lists all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from intervals.policies import execute
from intervals.recipes import (
    BOUND,
    CHANGE,
    KEYS,
    ROWS,
    blocks,
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
    CREATE POLICY p ON events USING (id > 0);
    ALTER TABLE events ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
    CREATE VIEW v WITH (security_barrier) AS SELECT id FROM events;
    CREATE TABLE holder (e events);
    CREATE POLICY q ON holder USING (EXISTS (SELECT FROM events));
    CREATE DOMAIN d AS events;
    CREATE CAST (events AS text) WITH INOUT;
    ALTER TABLE referencing ALTER CONSTRAINT referencing_event_fkey DEFERRABLE;
    ALTER TABLE events ADD CONSTRAINT c CHECK (id > 0) NOT VALID;
    ALTER TABLE events ALTER body SET STATISTICS 500;
    ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO other;
    GRANT USAGE ON SEQUENCE events_id_seq TO other;
    ALTER EXTENSION plpgsql ADD TABLE events;
    CREATE PUBLICATION p FOR TABLES IN SCHEMA s;
    COMMENT ON TABLE events IS 'old';
    GRANT SELECT ON events TO other; GRANT UPDATE (body) ON events TO PUBLIC;
    UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'events_at_idx'::regclass;
    INSERT INTO pg_subscription_rel VALUES (1, 'events'::regclass, 'r')"""
_UNLOGGED = """
    DROP PUBLICATION p; DROP TABLE referencing, holder; DROP DOMAIN d;
    ALTER TABLE events SET UNLOGGED"""
_GENERATED = """
    UPDATE pg_attribute SET attgenerated = 's'
     WHERE attrelid = 'events'::regclass AND attname = 'at';
    SET LOCAL search_path = public, s"""
_PARTITIONED = """
    DROP TABLE events;
    CREATE TABLE events (id bigint, at timestamptz NOT NULL) PARTITION BY RANGE (at);
    CREATE TABLE turned (at timestamptz NOT NULL, id bigint);
    ALTER TABLE events ATTACH PARTITION turned DEFAULT;
    CREATE TABLE going PARTITION OF events FOR VALUES FROM ('2027-01-01') TO ('2028-01-01');
    UPDATE pg_inherits SET inhdetachpending = true WHERE inhrelid = 'going'::regclass"""


_USES = "view, policy, function or type"
_FOUND = {
    (_USES, "rule _RETURN on view v {security_barrier=true}"),
    (_USES, "policy q on table holder"),
    (_USES, "type d"),
    (_USES, "cast from events to text"),
    ("columns by name", "id, customer, body"),
    ("columns by name", "id, at"),
    ("constraint", "c CHECK ((id > 0)) NOT VALID"),
    ("other settings", "column body 500"),
    ("privileges", "GRANT SELECT ON events TO other"),
    ("privileges", "GRANT UPDATE (body) ON events TO PUBLIC"),
    ("privileges", "GRANT USAGE ON SEQUENCE events_id_seq TO other"),
    ("privileges", "REVOKE ALL ON events FROM other"),
    ("stop: detach", "going"),
    ("stop: default partition", "turned"),
}
_ITS_OWN = {(_USES, "policy p on table events"), (_USES, "type events[]")}


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
    for more in (_UNLOGGED, _GENERATED):
        execute(events, more)
        found |= _listed(events)
    events.execute("ROLLBACK; BEGIN")
    execute(events, _PARTITIONED)
    found |= _listed(events)
    events.execute("ROLLBACK")
    tables = page().partition("| what | what to do |")[2].partition("### Unique keys")[0]
    assert {what for what, _ in found} == set(re.findall(r"^\| `([^`]+)`", tables, re.MULTILINE))
    assert found >= _FOUND
    assert _ITS_OWN.isdisjoint(found)


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
_BY_ROOT = "publish_via_partition_root"
_BEFORE_COMMIT = """
    CREATE OR REPLACE VIEW v AS SELECT id FROM events;
    ALTER PUBLICATION p DROP TABLE events_old;
    ALTER PUBLICATION p ADD TABLE events;
    GRANT SELECT, INSERT ON events TO other"""


def test_what_the_page_says_to_do(events: Connection, server: WatchedServer) -> None:
    """Triggers, row security, views, publications and privileges are those of the new table."""
    execute(events, f"CREATE TABLE told (id bigint); {_FUNCTION}")
    execute(events, "CREATE VIEW v AS SELECT id FROM events")
    execute(events, f"CREATE PUBLICATION p FOR TABLE events WITH ({_BY_ROOT})")
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
    assert scalar(events, "SELECT count(*) FROM pg_publication_tables WHERE pubname = 'p'") == 1
    events.execute("DROP PUBLICATION p")
