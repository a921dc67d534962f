"""What event triggers do to a partition that is new, before rows move there."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest
from extension.probes import Connection, scalar

from intervals.moving import IN_DEFAULT, fill, move, moved, places

_MADE = """
    CREATE FUNCTION s.made() RETURNS event_trigger LANGUAGE plpgsql AS $f$
    DECLARE made record; bound text;
    BEGIN
        FOR made IN SELECT objid::regclass AS name, relname FROM pg_event_trigger_ddl_commands()
                JOIN pg_class ON oid = objid WHERE relispartition LOOP
            {}
        END LOOP;
    END$f$;
    CREATE EVENT TRIGGER made ON ddl_command_end WHEN TAG IN ('CREATE TABLE')
        EXECUTE FUNCTION s.made()"""
_RENAMED = "EXECUTE format('ALTER TABLE %s RENAME TO %I', made.name, 'new_' || made.relname);"


@pytest.fixture
def made(session: Connection) -> Iterator[Connection]:
    """Also a table like s.p, and its partition."""
    fill(session, "int", "SELECT generate_series(0, 29)", "10, 0")
    session.execute("CREATE TABLE s.other (LIKE s.p) PARTITION BY RANGE (k)")
    session.execute("CREATE TABLE s.other_20 PARTITION OF s.other FOR VALUES FROM (20) TO (30)")
    yield session
    session.execute("DROP EVENT TRIGGER IF EXISTS made; DROP SCHEMA IF EXISTS archive CASCADE")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (_RENAMED, "s.new_p_20"),
        ("EXECUTE format('ALTER TABLE %s SET SCHEMA archive', made.name);", "archive.p_20"),
        (_RENAMED + "ALTER TABLE IF EXISTS s.other_20 RENAME TO p_20;", "s.new_p_20"),
    ],
    ids=["renamed", "moved", "another has the name"],
)
def test_partitions_that_an_event_trigger_changes(
    made: Connection, change: str, place: str
) -> None:
    """A new one is known by its bound."""
    made.execute("CREATE SCHEMA archive")
    made.execute(_MADE.format(change))
    assert move(made) == [moved(30, 3)]
    assert (place, 10) in places(made)
    assert scalar(made, "SELECT count(*) FROM s.other") == 0


def test_a_partition_that_an_event_trigger_detaches(made: Connection) -> None:
    made.execute(_MADE.format("EXECUTE 'ALTER TABLE s.p DETACH PARTITION ' || made.name;"))
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as caught:
        move(made)
    assert 'new partition "p_20" of "p" is gone' in str(caught.value)
    assert scalar(made, IN_DEFAULT) == 30


_ON_IT = "EXECUTE format('CREATE TRIGGER f {} ON %s {} EXECUTE FUNCTION s.f()', made.name);"
_RULE = "EXECUTE format('CREATE RULE r AS ON INSERT TO %s DO ALSO NOTIFY r', made.name);"
_AWAY = """
    bound := (SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = made.name);
    EXECUTE 'ALTER TABLE s.p DETACH PARTITION ' || made.name;
"""
_FOREIGN = "EXECUTE 'CREATE FOREIGN TABLE s.far PARTITION OF s.p ' || bound || ' SERVER w';"
_PARTITIONED = "EXECUTE 'ALTER TABLE s.p ATTACH PARTITION s.sub ' || bound;"


@pytest.fixture
def changed(made: Connection) -> Iterator[Connection]:
    """Also what an event trigger can use: a function, a server and a partitioned table."""
    made.execute(
        """CREATE FUNCTION s.f() RETURNS trigger LANGUAGE plpgsql AS
            $f$BEGIN NEW.t := 'changed'; RETURN NEW; END$f$;
        CREATE FOREIGN DATA WRAPPER w; CREATE SERVER w FOREIGN DATA WRAPPER w;
        CREATE TABLE s.sub (LIKE s.p) PARTITION BY RANGE (k);
        CREATE TABLE s.leaf PARTITION OF s.sub DEFAULT"""
    )
    yield made
    made.execute("DROP EVENT TRIGGER IF EXISTS made; DROP FOREIGN DATA WRAPPER w CASCADE")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_ON_IT.format("BEFORE INSERT OR UPDATE", "FOR EACH ROW"), '"p_20".*It has trigger "f"'),
        (_ON_IT.format("AFTER INSERT", "FOR EACH STATEMENT"), '"p_20".*It has trigger "f"'),
        (_RULE, '"p_20".*It has rules'),
        (_AWAY + _FOREIGN, '"far".*It is a foreign table'),
        (_AWAY + _PARTITIONED, '"leaf".*It has trigger "f"'),
    ],
    ids=["row", "statement", "rule", "foreign", "partitioned"],
)
def test_partitions_in_which_rows_would_be_changed(
    changed: Connection, change: str, why: str
) -> None:
    """By a trigger or a rule that an event trigger has made; or they would be elsewhere."""
    changed.execute("CREATE TRIGGER f BEFORE INSERT ON s.leaf FOR EACH ROW EXECUTE FUNCTION s.f()")
    changed.execute(_MADE.format(change))
    with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
        move(changed)
    assert re.search(why, str(caught.value), re.DOTALL)
    assert scalar(changed, IN_DEFAULT) == 30


@pytest.mark.parametrize(
    "change",
    [_ON_IT.format("BEFORE UPDATE OR DELETE", "FOR EACH ROW"), _AWAY + _PARTITIONED],
    ids=["update", "partitioned"],
)
def test_partitions_in_which_rows_are_the_same(changed: Connection, change: str) -> None:
    changed.execute(_MADE.format(change))
    assert move(changed, "'s.p', 1") == [moved(10, 1)]
    assert scalar(changed, "SELECT count(*) FROM s.p WHERE k >= 20 AND t IS NULL") == 10
