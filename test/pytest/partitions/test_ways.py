"""Which way partitions are created, why, and who gets to know."""

from __future__ import annotations

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from partitions.asking import LISTS, RANGES, children, make, run

_FUNCTION = """
    CREATE FUNCTION s.note() RETURNS event_trigger LANGUAGE plpgsql AS $$
    BEGIN {body} END $$;
    CREATE EVENT TRIGGER noticed ON {event} {condition} EXECUTE FUNCTION s.note()"""
_NOTE = """
    INSERT INTO s.seen SELECT object_identity, command_tag, current_query()
    FROM pg_event_trigger_ddl_commands();"""


def _on(session: Connection, event: str, body: str, condition: str = "") -> None:
    session.execute("CREATE TABLE s.seen (identity text, tag text, query text)")
    session.execute(_FUNCTION.format(event=event, body=body, condition=condition))


@pytest.mark.parametrize(
    ("statement", "way", "reason"),
    [
        ("SELECT", "direct", None),
        ("SET pg_lookahead.enabled = off", "native", "pg_lookahead.enabled"),
        (
            "CREATE TRIGGER r AFTER INSERT ON s.p FOR EACH ROW EXECUTE FUNCTION around.noticed()",
            "native",
            "row triggers",
        ),
        (
            "CREATE TRIGGER r AFTER INSERT ON s.p EXECUTE FUNCTION around.noticed()",
            "direct",
            None,
        ),
        (
            # As Citus makes one for a table that it distributes.
            "CREATE TRIGGER r AFTER TRUNCATE ON s.p EXECUTE FUNCTION around.noticed(); "
            "SET allow_system_table_mods = on; "
            "UPDATE pg_trigger SET tgisinternal = true WHERE tgname = 'r'",
            "native",
            "other extension",
        ),
        (
            "ALTER TABLE s.p ADD FOREIGN KEY (k) REFERENCES around.target",
            "native",
            "foreign keys",
        ),
        (
            "ALTER TABLE s.p ADD FOREIGN KEY (k) REFERENCES around.target NOT ENFORCED",
            "native",
            "foreign keys",
        ),
        (
            "ALTER TABLE s.p ADD UNIQUE (k); CREATE TABLE s.other (k int REFERENCES s.p (k))",
            "native",
            "foreign keys",
        ),
    ],
)
def test_way_and_reason(session: Connection, statement: str, way: str, reason: str | None) -> None:
    make(session, "int")
    session.execute(statement)
    assert run(session, f"{RANGES} 0, 10, 2)") == (2, 0, way, reason)
    # Nothing is to be done, and the way is told all the same.
    assert run(session, f"{RANGES} 0, 10, 2)") == (0, 2, way, reason)
    fill = "INSERT INTO around.target SELECT generate_series(0, 19) ON CONFLICT DO NOTHING"
    session.execute(fill)
    session.execute("INSERT INTO s.p SELECT generate_series(0, 19)")
    assert scalar(session, "SELECT count(*) FROM s.p_10") == 10


def test_a_way_that_is_not_possible(session: Connection) -> None:
    make(session, "int")
    with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
        run(session, f"{RANGES} 0, 10, 2, subpartition_by => 'LIST (k)', way => 'direct')")
    assert "The reason is: subpartitions." in str(caught.value)
    assert children(session) == []
    _on(session, "ddl_command_start", "NULL;")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        run(session, f"{RANGES} 0, 10, 2, way => 'attached')")


def test_event_triggers_at_the_end_see_each_partition(session: Connection) -> None:
    make(session, "int")
    session.execute("ALTER TABLE s.p ADD PRIMARY KEY (k)")
    _on(session, "ddl_command_end", _NOTE)
    assert run(session, f"{RANGES} 0, 10, 2)") == (
        2,
        0,
        "native",
        "event trigger",
    )
    seen = session.execute("SELECT identity, tag FROM s.seen").fetchall()
    assert seen == [("s.p_0", "CREATE TABLE"), ("s.p_10", "CREATE TABLE")]


def test_event_triggers_that_use_the_table(session: Connection) -> None:
    make(session, "int")
    body = "INSERT INTO s.p SELECT count(*) FROM s.p;"
    _on(session, "ddl_command_end", body)
    assert run(session, f"{RANGES} 0, 100, 3)")[:3] == (3, 0, "native")
    assert session.execute("SELECT k FROM s.p_0 ORDER BY k").fetchall() == [(0,), (1,), (2,)]


def test_event_triggers_before_the_statement(session: Connection) -> None:
    make(session, "int")
    session.execute("CREATE TABLE s.first PARTITION OF s.p FOR VALUES FROM (-1) TO (0)")
    _on(session, "ddl_command_start", "INSERT INTO s.p VALUES (-1);")
    assert run(session, f"{RANGES} 0, 10, 3)") == (
        3,
        0,
        "native",
        "event trigger",
    )
    assert scalar(session, "SELECT count(*) FROM s.first") == 3


@pytest.mark.parametrize(
    ("event", "condition", "setting", "way"),
    [
        ("ddl_command_end", "WHEN TAG IN ('CREATE INDEX')", "", "direct"),
        ("ddl_command_end", "WHEN TAG IN ('CREATE TABLE', 'DROP TABLE')", "", "native"),
        ("ddl_command_end", "", "SET event_triggers = off", "direct"),
        ("ddl_command_end", "", "SET session_replication_role = replica", "direct"),
        ("sql_drop", "", "", "direct"),
    ],
)
def test_event_triggers_that_do_not_fire(
    session: Connection, event: str, condition: str, setting: str, way: str
) -> None:
    make(session, "int")
    _on(session, event, "NULL;", condition)
    session.execute(setting or "SELECT")
    assert run(session, f"{RANGES} 0, 10, 2)")[2] == way


def test_an_event_trigger_that_adds_a_partition(session: Connection) -> None:
    make(session, "int")
    body = """
        IF to_regclass('s.intruder') IS NULL THEN
            CREATE TABLE s.intruder PARTITION OF s.p FOR VALUES FROM (15) TO (17);
        END IF;"""
    _on(session, "ddl_command_end", body)
    with pytest.raises(psycopg.errors.InvalidObjectDefinition, match="would overlap"):
        run(session, f"{RANGES} 0, 10, 2)")
    assert children(session) == []


def test_an_event_trigger_that_puts_rows_into_the_default_partition(session: Connection) -> None:
    make(session, "int")
    session.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT")
    _on(session, "ddl_command_end", "INSERT INTO s.p VALUES (12);")
    with pytest.raises(psycopg.errors.CheckViolation, match="would be violated by some row"):
        run(session, f"{RANGES} 0, 10, 2)")
    assert [name for name, _ in children(session)] == ["rest"]


def test_functions_of_the_key_see_the_partitions(session: Connection) -> None:
    session.execute(
        "CREATE TABLE s.found (count int);"
        "CREATE FUNCTION s.noted(int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO s.found SELECT count(*) FROM s.p; RETURN true; END $$;"
        "CREATE DOMAIN s.kept AS int CHECK (s.noted(VALUE))"
    )
    make(session, "s.kept")
    session.execute("CREATE TABLE s.first PARTITION OF s.p FOR VALUES FROM (-1) TO (0)")
    session.execute("INSERT INTO s.p VALUES (-1); DELETE FROM s.found")
    assert run(session, f"{RANGES} 0, 10, 2, way => 'attached')")[2:] == (
        "native",
        "functions of users",
    )
    assert session.execute("SELECT DISTINCT count FROM s.found").fetchall() == [(1,)]


_READER = """
    CREATE TABLE s.found (count int);
    CREATE FUNCTION s.put(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
    IF current_setting('s.inside', true) IS DISTINCT FROM 'yes' THEN
        PERFORM set_config('s.inside', 'yes', true); {body}
        PERFORM set_config('s.inside', 'no', true);
    END IF; RETURN $1; END $$;
    CREATE FUNCTION s.kept(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
    RETURN s.put($1); END $$;
    CREATE FUNCTION s.inlined(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + s.kept(1)';
    CREATE DOMAIN s.checked AS int CHECK (s.kept(VALUE) IS NOT NULL);
    CREATE TYPE s.pair AS (a s.checked, b int)"""


@pytest.mark.parametrize(
    ("column", "by", "made", "call"),
    [
        ("int", "RANGE (k)", "CREATE INDEX ON s.p ((length(t) + s.kept(1)))", f"{RANGES} 0, 10, 2"),
        (
            "int",
            "RANGE (k)",
            "CREATE INDEX ON s.p (k) WHERE k > s.kept(1)",
            f"{RANGES} 0, 10, 2, way => 'attached'",
        ),
        ("int", "RANGE (k)", "CREATE INDEX ON s.p (s.inlined(k))", f"{RANGES} 0, 10, 2"),
        ("int", "RANGE ((k + s.kept(1)))", "SELECT", f"{RANGES} 0, 10, 2"),
        ("s.checked[]", "LIST (k)", "SELECT", f"{LISTS} ARRAY['{{1}}', '{{2}}']"),
        ("s.pair", "LIST (k)", "SELECT", f"{LISTS} ARRAY['(1,1)', '(2,1)']"),
        ("int", "RANGE (k)", "SELECT", f"{RANGES} 0, 10, 2, subpartition_by => 'LIST ((k + 1))'"),
    ],
)
def test_functions_of_users_see_the_partitions(
    session: Connection, column: str, by: str, made: str, call: str
) -> None:
    # PostgreSQL fails an assertion where a key's own expression reads the table.
    body = "" if "kept" in by else "INSERT INTO s.found SELECT count(*) FROM s.p;"
    session.execute(_READER.format(body=body))
    make(session, column, by)
    session.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT")
    session.execute("INSERT INTO s.p (t) VALUES ('in the default partition')")
    session.execute(made)
    session.execute("DELETE FROM s.found")
    reason = "subpartitions" if "subpartition_by" in call else "functions of users"
    assert run(session, f"{call})")[2:] == ("native", reason)
    assert session.execute("SELECT FROM s.found WHERE count <> 1").fetchall() == []


@pytest.mark.parametrize(
    ("check", "found"),
    [
        ("s.kept(1) = 1 OR length(t) > 0", True),
        ("s.inlined(k) > -9", True),
        ("s.kept(k) = k", False),
        ("k > -9", False),
    ],
)
def test_checks_are_planned_when_a_table_is_attached(
    session: Connection, check: str, found: bool
) -> None:
    session.execute(_READER.format(body="INSERT INTO s.found VALUES (1);"))
    make(session, "int")
    session.execute(f"ALTER TABLE s.p ADD CHECK ({check})")
    session.execute(
        "CREATE FUNCTION s.done() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
        "CREATE TRIGGER done AFTER INSERT ON s.p FOR EACH ROW EXECUTE FUNCTION s.done();"
        "DELETE FROM s.found"
    )
    call = f"{RANGES} 0, 10, 2, way => 'attached')"
    if found:
        with pytest.raises(psycopg.errors.FeatureNotSupported) as error:
            run(session, call)
        assert error.value.diag.message_detail == "The reason is: functions of users."
    else:
        assert run(session, call)[2] == "attached"
    assert session.execute("SELECT FROM s.found").fetchall() == []


def test_a_function_of_an_index_that_inserts(session: Connection) -> None:
    """Its row goes to the default partition before there is one for it, or to that."""
    session.execute(_READER.format(body="INSERT INTO s.p VALUES (15), (35);"))
    make(session, "int")
    session.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT")
    session.execute("SET s.inside = 'yes'; CREATE INDEX ON s.p ((length(t) + s.kept(1)))")
    session.execute("SET s.inside = 'no'")
    with pytest.raises(psycopg.errors.CheckViolation, match="would be violated by some row"):
        run(session, f"{RANGES} 0, 10, 4)")


@pytest.mark.parametrize("made", ["CREATE TYPE s.kind AS ENUM ('a', 'b')", "SELECT"])
def test_types_and_functions_of_the_server_need_no_statement(
    session: Connection, made: str
) -> None:
    session.execute(made)
    kind = "int" if made == "SELECT" else "s.kind"
    make(session, kind, "LIST (k)")
    # A function of a user that is given a column is not called while there are no rows.
    session.execute("CREATE INDEX ON s.p (lower(t), around.twice(length(t))) WHERE length(t) > 1")
    values = "1, 2" if made == "SELECT" else "'a', 'b'"
    assert run(session, f"{LISTS} ARRAY[{values}])")[2:] == ("direct", None)


@pytest.mark.parametrize("way", ["direct", "attached", "native"])
def test_rows_of_the_default_partition(session: Connection, way: str) -> None:
    make(session, "int")
    session.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT")
    session.execute("INSERT INTO s.p VALUES (25), (-1)")
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        run(session, f"{RANGES} 0, 10, 3, way => '{way}')")
    assert 'default partition "rest" would be violated by some row' in str(caught.value)
    assert run(session, f"{RANGES} 0, 10, 2, way => '{way}')")[:3] == (2, 0, way)
    # What the default partition is for has changed, for this session too.
    with pytest.raises(psycopg.errors.CheckViolation, match="violates partition constraint"):
        session.execute("INSERT INTO s.rest VALUES (13)")


def test_rows_of_the_default_partition_beside_a_gap(session: Connection) -> None:
    make(session, "int")
    session.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT")
    session.execute("CREATE TABLE s.mine PARTITION OF s.p FOR VALUES FROM (10) TO (20)")
    session.execute("INSERT INTO s.p VALUES (30)")
    assert run(session, f"{RANGES} 0, 10, 3)")[:2] == (2, 1)
    with pytest.raises(psycopg.errors.CheckViolation):
        run(session, f"{RANGES} 0, 10, 4)")


def test_rows_of_a_default_partition_of_lists(session: Connection) -> None:
    make(session, "text", "LIST (k)")
    session.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT")
    session.execute("INSERT INTO s.p VALUES (NULL), ('b')")
    call = "SELECT pg_lookahead_create_list_partitions('s.p', "
    for value in ("{a,NULL}", "{a,b}"):
        with pytest.raises(psycopg.errors.CheckViolation):
            run(session, f"{call} '{value}')")
    run(session, f"{call} '{{a,c}}')")
    assert [name for name, _ in children(session)] == ["rest", "p_a", "p_c"]


@pytest.mark.parametrize("way", ["direct", "attached"])
def test_temporary_parents(server: WatchedServer, session: Connection, way: str) -> None:
    session.execute("CREATE TEMP TABLE passing (k int PRIMARY KEY) PARTITION BY RANGE (k)")
    call = f"SELECT pg_lookahead_create_range_partitions('passing', 0, 10, 3, way => '{way}')"
    run(session, call)
    session.execute("INSERT INTO passing SELECT generate_series(0, 29)")
    kinds = "SELECT DISTINCT relpersistence FROM pg_class WHERE relname LIKE 'passing%'"
    assert session.execute(kinds).fetchall() == [("t",)]
    number = scalar(session, "SELECT 'passing'::regclass::oid")
    with server.connect() as other, pytest.raises(psycopg.errors.WrongObjectType):
        run(other, f"SELECT pg_lookahead_create_range_partitions({number}, 90, 10, 3)")


def test_row_security_and_publications_of_partitions(session: Connection) -> None:
    make(session, "int")
    session.execute("CREATE PUBLICATION told_all FOR ALL TABLES")
    session.execute("CREATE PUBLICATION told FOR TABLE s.p")
    run(session, f"{RANGES} 0, 10, 2)")
    tables = "SELECT tablename FROM pg_publication_tables WHERE pubname = %s AND schemaname = 's'"
    for name in ("told", "told_all"):
        found = session.execute(tables, (name,)).fetchall()
        assert sorted(found) == [("p_0",), ("p_10",)]
