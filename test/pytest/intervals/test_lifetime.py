"""What becomes of a policy when its table, the extension or the whole database changes."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from intervals.policies import bounds, maintain, make, names, set_policy, state

_POLICIES = "SELECT count(*) FROM pg_lookahead_interval_policy"


def test_renaming(session: Connection) -> None:
    make(session, "int")
    set_policy(session, "10, premake => 1")
    session.execute("ALTER TABLE s.p RENAME TO q; CREATE SCHEMA t; ALTER TABLE s.q SET SCHEMA t")
    maintain(session)
    assert names(session, "t.q") == ["q_0", "q_10"]
    session.execute("DROP SCHEMA t CASCADE")


def test_hostile_names(session: Connection) -> None:
    """63 bytes of quotes and characters of several bytes."""
    table = 's."a""b\';\\ ' + "ä" * 26 + '"'
    session.execute(f"CREATE TABLE {table} (k int) PARTITION BY RANGE (k)")
    quoted = table.replace("'", "''")
    set_policy(session, "10, premake => 2, retention => 10, retention_action => 'drop'", quoted)
    assert maintain(session) == []
    session.execute(f"INSERT INTO {table} VALUES (25)")
    assert maintain(session) == []
    assert bounds(session, table)[0] == ("10", "20")


def test_a_dropped_table(session: Connection) -> None:
    make(session, "int")
    set_policy(session, "10, premake => 1")
    maintain(session)
    session.execute("DROP TABLE s.p")
    assert scalar(session, "SELECT count(*) FROM pg_lookahead_intervals") == 0
    assert maintain(session) == []
    assert scalar(session, _POLICIES) == 0
    assert scalar(session, "SELECT count(*) FROM pg_lookahead_interval_state") == 0


def test_a_table_of_the_same_name(session: Connection) -> None:
    make(session, "int")
    set_policy(session, "10, premake => 1")
    session.execute("DROP TABLE s.p")
    make(session, "int")
    maintain(session)
    assert bounds(session) == []


def test_a_table_of_the_same_oid(session: Connection) -> None:
    """OIDs come again; the row type's is another one then."""
    make(session, "int")
    set_policy(session, "10, premake => 1")
    maintain(session)
    session.execute("CREATE TABLE s.q (k int) PARTITION BY RANGE (k)")
    for table in ("policy", "state"):
        session.execute(
            f"ALTER TABLE pg_lookahead_interval_{table} DISABLE TRIGGER USER;"
            f"UPDATE pg_lookahead_interval_{table} SET parent = 's.q'::regclass;"
            f"ALTER TABLE pg_lookahead_interval_{table} ENABLE TRIGGER USER"
        )
    assert scalar(session, "SELECT count(*) FROM pg_lookahead_intervals") == 0
    assert maintain(session) == []
    assert bounds(session, "s.q") == []
    assert scalar(session, _POLICIES) == 0


def test_another_type_of_the_key(session: Connection) -> None:
    """Core refuses to change it; a table made anew by hand has no policy that fits."""
    make(session, "int")
    set_policy(session, "10, premake => 1")
    with pytest.raises(psycopg.errors.InvalidTableDefinition):
        session.execute("ALTER TABLE s.p ALTER k TYPE bigint")
    assert maintain(session) == []


def test_a_policy_that_makes_no_sense(session: Connection) -> None:
    """Written by a superuser, or for another version: said in the state, and nobody is stopped."""
    make(session, "int")
    set_policy(session, "10, premake => 1")
    session.execute("UPDATE pg_lookahead_interval_policy SET step = 'often'")
    assert len(maintain(session)) == 1
    assert state(session, "last_sqlstate") == "22P02"
    assert state(session, "partitions") is None


def test_a_locked_table_in_the_view(session: Connection, server: WatchedServer) -> None:
    """Monitoring does not wait."""
    make(session, "int")
    set_policy(session, "10, premake => 1")
    with server.connect(autocommit=False) as other:
        other.execute("LOCK TABLE s.p")
        assert (state(session, "step"), state(session, "ahead")) == ("10", None)
        other.rollback()
    assert state(session, "ahead") == -1


def test_a_rollback(session: Connection) -> None:
    make(session, "int")
    session.execute("BEGIN")
    set_policy(session, "10, premake => 1")
    session.execute("ROLLBACK")
    assert scalar(session, _POLICIES) == 0


def test_a_table_of_this_transaction(session: Connection) -> None:
    session.execute("BEGIN")
    make(session, "int")
    set_policy(session, "10, premake => 1")
    session.execute("COMMIT")
    maintain(session)
    assert len(bounds(session)) == 2


def test_a_second_policy_replaces_the_first(session: Connection) -> None:
    make(session, "int")
    set_policy(session, "10, premake => 1")
    maintain(session)
    set_policy(session, "7, premake => 2")
    assert (state(session, "step"), state(session, "origin")) == ("7", "20")
    assert scalar(session, _POLICIES) == 1
    session.execute("INSERT INTO s.p VALUES (15)")
    maintain(session)
    assert bounds(session)[-2:] == [("20", "27"), ("27", "34")]


@pytest.fixture
def dumped(server: WatchedServer, session: Connection) -> Iterator[str]:
    """A dump of a database with policies: of two tables, and one that is no more."""
    session.execute("DROP DATABASE IF EXISTS source WITH (FORCE)")
    session.execute("CREATE DATABASE source")
    with server.connect("source") as source:
        source.execute("CREATE SCHEMA la; CREATE EXTENSION pg_lookahead SCHEMA la; CREATE SCHEMA s")
        source.execute("SET search_path = la; GRANT ALL ON SCHEMA s TO PUBLIC")
        source.execute("CREATE TABLE s.gone (k int) PARTITION BY RANGE (k)")
        set_policy(source, "10", "s.gone")
        source.execute("DROP TABLE s.gone; SET ROLE owner; GRANT USAGE ON SCHEMA s TO PUBLIC")
        source.execute("RESET ROLE; GRANT USAGE ON SCHEMA la TO PUBLIC; SET ROLE owner")
        make(source, "timestamptz")
        set_policy(
            source, "'1 day', premake => 2, time_zone => 'Asia/Tokyo', retention => '1 year'"
        )
        source.execute("CREATE TABLE s.q (k int) PARTITION BY RANGE (k)")
        set_policy(source, "10, premake => 1, names => 'n_{bound}'", "s.q")
        source.execute("SELECT pg_lookahead_change_interval('s.q', 5, 20)")
        maintain(source)
    yield server.run_client("pg_dump", "source").stdout
    session.execute("DROP DATABASE source WITH (FORCE)")


def _check_copy(copy: Connection) -> None:
    copy.execute("SET search_path = la")
    assert scalar(copy, _POLICIES) == 2
    assert state(copy, "time_zone") == "Asia/Tokyo"
    assert state(copy, "change_starts", "s.q") == ["20"]
    assert (len(bounds(copy)), len(bounds(copy, "s.q"))) == (3, 2)
    assert state(copy, "last_run") is None
    copy.execute("INSERT INTO s.q VALUES (19)")
    assert maintain(copy) == []
    assert names(copy, "s.q") == ["n_0", "n_10", "n_20"]
    assert scalar(copy, "SELECT count(*) FROM pg_lookahead_intervals WHERE behind") == 0


def test_dump_and_restore(server: WatchedServer, session: Connection, dumped: str) -> None:
    session.execute("CREATE DATABASE copy")
    server.run_client("psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", "copy", input=dumped)
    with server.connect("copy") as copy:
        _check_copy(copy)
    session.execute("DROP DATABASE copy WITH (FORCE)")


def test_rows_without_triggers(server: WatchedServer, session: Connection, dumped: str) -> None:
    """As pg_restore disables them, and as tools that copy rows do; policies come all the same."""
    session.execute("CREATE DATABASE copy")
    server.run_client("psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", "copy", input=dumped)
    rows = server.run_client("pg_dump", "-a", "--disable-triggers", "source").stdout
    with server.connect("copy") as copy:
        copy.execute("SET search_path = la; DELETE FROM pg_lookahead_interval_policy")
        server.run_client("psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", "copy", input=rows)
        assert scalar(copy, _POLICIES) == 2
        copy.execute("CREATE TABLE s.kept AS TABLE pg_lookahead_interval_policy")
        copy.execute("ALTER TABLE pg_lookahead_interval_policy ENABLE ALWAYS TRIGGER owner")
        copy.execute("SET session_replication_role = replica")
        copy.execute("DELETE FROM pg_lookahead_interval_policy")
        assert scalar(copy, _POLICIES) == 0
        copy.execute("INSERT INTO pg_lookahead_interval_policy TABLE s.kept")
        copy.execute("RESET session_replication_role")
        _check_copy(copy)
    session.execute("DROP DATABASE copy WITH (FORCE)")


def test_restore_by_the_owner_of_a_database(
    server: WatchedServer, session: Connection, dumped: str
) -> None:
    """The extension is there already, as it has to be; the owner of the tables restores."""
    del dumped
    session.execute("CREATE DATABASE copy OWNER owner")
    with server.connect("copy") as copy:
        copy.execute("CREATE SCHEMA la; CREATE EXTENSION pg_lookahead SCHEMA la")
        copy.execute("GRANT USAGE ON SCHEMA la TO PUBLIC")
    session.execute("GRANT CONNECT ON DATABASE source TO owner; ALTER ROLE owner LOGIN")
    options = ("--no-owner", "--no-comments", "-U", "owner", "source")
    with server.connect("source") as source:
        source.execute("ALTER SCHEMA s OWNER TO owner")
    text = server.run_client("pg_dump", *options).stdout
    kept = [line for line in text.splitlines() if not line.startswith("CREATE SCHEMA la")]
    script = "\n".join(kept)
    server.run_client("psql", "-Xq", "-U", "owner", "-d", "copy", input=script)
    with server.connect("copy") as copy:
        _check_copy(copy)
    session.execute("DROP DATABASE copy WITH (FORCE)")
    session.execute("ALTER ROLE owner NOLOGIN")


def test_others_tables_are_left_out_of_a_restore(
    server: WatchedServer, session: Connection
) -> None:
    """The owner of the database cannot give a policy to somebody else's table."""
    session.execute("CREATE DATABASE copy OWNER owner")
    with server.connect("copy") as copy:
        copy.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
        make(copy, "int")
        set_policy(copy, "10")
        row = "INSERT INTO pg_lookahead_interval_policy SELECT * FROM kept"
        copy.execute("CREATE TABLE kept AS TABLE pg_lookahead_interval_policy")
        copy.execute("SELECT pg_lookahead_unset_interval('s.p'); GRANT SELECT ON kept TO owner")
        copy.execute("SET ROLE owner")
        assert copy.execute(row).rowcount == 0
        copy.execute("RESET ROLE; ALTER TABLE s.p OWNER TO owner; SET ROLE owner")
        assert copy.execute(row).rowcount == 1
    session.execute("DROP DATABASE copy WITH (FORCE)")


def test_without_the_extension(session: Connection, server: WatchedServer) -> None:
    """Dropping it leaves partitions, and nothing else."""
    session.execute("CREATE DATABASE plain")
    with server.connect("plain") as plain:
        plain.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
        make(plain, "int")
        set_policy(plain, "10, premake => 1")
        maintain(plain)
        plain.execute("DROP EXTENSION pg_lookahead")
        assert len(bounds(plain)) == 2
        left = "SELECT count(*) FROM pg_class WHERE relname LIKE 'pg\\_lookahead%'"
        assert scalar(plain, left) == 0
    session.execute("DROP DATABASE plain WITH (FORCE)")
