"""Tables whose rows are not moved out of the default partition, and who may have them moved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from extension.probes import Connection, scalar

from intervals.moving import IN_DEFAULT, fill, move, moved
from intervals.policies import make, set_policy

_FUNCTION = """
    CREATE FUNCTION s.f() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN RAISE EXCEPTION 'fired'; END$$;"""


def _trigger(when: str, table: str, scope: str) -> str:
    return f"{_FUNCTION} CREATE TRIGGER f {when} ON s.{table} {scope} EXECUTE FUNCTION s.f()"


_ROW, _STATEMENT = "FOR EACH ROW", "FOR EACH STATEMENT"
_REFERENCED = """
    ALTER TABLE s.p ADD UNIQUE (k); CREATE TABLE s.f (r int REFERENCES s.p (k) ON DELETE CASCADE);
    INSERT INTO s.f VALUES (5)"""
_REST_REFERENCED = """
    ALTER TABLE s.rest ADD UNIQUE (k); CREATE TABLE s.f (r int REFERENCES s.rest (k))"""

_REFUSED = (
    "rule for delete",
    "rule for update",
    "delete row",
    "delete statement",
    "delete row of table",
    "before insert",
    "after insert",
    "referenced",
    "default referenced",
    "itself",
)


@pytest.fixture
def filled(session: Connection) -> Iterator[Connection]:
    fill(session, "int", "SELECT generate_series(0, 29)", "10, 0")
    yield session


@pytest.mark.parametrize(
    "statements",
    [
        "CREATE RULE r AS ON DELETE TO s.rest DO INSTEAD NOTHING",
        "CREATE RULE r AS ON UPDATE TO s.rest DO ALSO SELECT 1",
        _trigger("BEFORE DELETE", "rest", _ROW),
        _trigger("AFTER DELETE", "rest", _STATEMENT),
        _trigger("AFTER DELETE OR UPDATE", "p", _ROW),
        _trigger("BEFORE INSERT", "p", _ROW),
        _trigger("AFTER INSERT", "p", _ROW),
        _REFERENCED,
        _REST_REFERENCED,
        "ALTER TABLE s.p ADD UNIQUE (k), ADD FOREIGN KEY (k) REFERENCES s.p (k)",
    ],
    ids=_REFUSED,
)
def test_refused(filled: Connection, statements: str) -> None:
    dynamic: Any = statements
    filled.execute(dynamic)
    with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
        move(filled)
    assert 'moved out of the default partition because of "' in str(caught.value)
    assert scalar(filled, IN_DEFAULT) == 30


@pytest.mark.parametrize(
    "statements",
    [
        _trigger("AFTER INSERT", "p", _STATEMENT),
        _trigger("AFTER DELETE", "p", _STATEMENT),
        _trigger("BEFORE UPDATE", "p", _ROW),
        _trigger("BEFORE INSERT", "rest", _ROW),
        _trigger("BEFORE DELETE", "p", _ROW) + "; ALTER TABLE s.p DISABLE TRIGGER f",
        "ALTER TABLE s.p ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
    ],
)
def test_not_refused(filled: Connection, statements: str) -> None:
    """No such trigger fires."""
    dynamic: Any = statements
    filled.execute(dynamic)
    assert move(filled) == [moved(30, 3)]


@pytest.mark.parametrize(
    "what", ["TABLE s.rest", "TABLE s.p, s.rest", "TABLES IN SCHEMA elsewhere"]
)
def test_published_by_itself(filled: Connection, what: str) -> None:
    """Its subscribers would lose the rows."""
    filled.execute("CREATE SCHEMA elsewhere")
    try:
        if "SCHEMA" in what:
            filled.execute("ALTER TABLE s.rest SET SCHEMA elsewhere")
        filled.execute(f"CREATE PUBLICATION alone FOR {what}")
        with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
            move(filled)
        assert "It is published by itself" in str(caught.value)
        filled.execute("DROP PUBLICATION alone")
        assert move(filled) == [moved(30, 3)]
    finally:
        filled.execute("DROP SCHEMA elsewhere CASCADE; DROP PUBLICATION IF EXISTS alone")


@pytest.mark.parametrize("kind", ["PARTITIONED", "FOREIGN"])
def test_default_partitions_of_another_kind(session: Connection, kind: str) -> None:
    make(session, "int")
    if kind == "FOREIGN":
        session.execute("CREATE FOREIGN DATA WRAPPER w; CREATE SERVER w FOREIGN DATA WRAPPER w")
        session.execute("CREATE FOREIGN TABLE s.rest PARTITION OF s.p DEFAULT SERVER w")
    else:
        session.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT PARTITION BY RANGE (k)")
    set_policy(session, "10, 0")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        move(session)
    if kind == "FOREIGN":
        session.execute("DROP FOREIGN DATA WRAPPER w CASCADE")


def test_rows_that_a_policy_hides(filled: Connection) -> None:
    """The owner does not see them: an error, and not rows that are left out."""
    filled.execute("ALTER TABLE s.p OWNER TO owner; ALTER TABLE s.rest OWNER TO owner")
    filled.execute("ALTER TABLE s.rest ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
    filled.execute("CREATE POLICY few ON s.rest USING (false)")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        move(filled)
    filled.execute("ALTER TABLE s.rest NO FORCE ROW LEVEL SECURITY")
    assert move(filled) == [moved(30, 3)]


@pytest.mark.parametrize(
    "gives",
    [
        "CREATE OR REPLACE RULE r AS ON INSERT TO s.p_20 DO INSTEAD NOTHING",
        "CREATE OR REPLACE TRIGGER f BEFORE INSERT ON s.p_20 FOR EACH ROW EXECUTE FUNCTION s.f()",
        "CREATE OR REPLACE TRIGGER f AFTER INSERT ON s.p_20 EXECUTE FUNCTION s.f()",
    ],
    ids=["rule", "row", "statement"],
)
def test_partitions_in_which_rows_would_be_changed(filled: Connection, gives: str) -> None:
    """A function of an index, which is called while the partition is created, is not immutable."""
    dynamic: Any = f"""{_FUNCTION}
        CREATE FUNCTION s.give() RETURNS int LANGUAGE plpgsql VOLATILE AS $$BEGIN
            IF to_regclass('s.p_20') IS NOT NULL THEN {gives}; END IF;
            RETURN 1;
        END$$;
        CREATE FUNCTION s.one(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
            $$BEGIN RETURN s.give(); END$$;
        CREATE INDEX ON s.p ((k + s.one(1)))"""
    filled.execute(dynamic)
    with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
        move(filled)
    assert "while new partitions are changed" in str(caught.value)
    assert scalar(filled, IN_DEFAULT) == 30


def test_who_may(filled: Connection) -> None:
    """The owner; the right to maintain the table is not enough."""
    filled.execute("ALTER TABLE s.p OWNER TO owner; ALTER TABLE s.rest OWNER TO owner")
    filled.execute("GRANT ALL ON s.p, s.rest TO other; SET ROLE other")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        move(filled)
    filled.execute("RESET ROLE; SET ROLE owner")
    assert move(filled) == [moved(30, 3)]
    filled.execute("RESET ROLE")
    owners = "SELECT count(*) FROM pg_class WHERE relowner = 'owner'::regrole AND relkind = 'r'"
    assert scalar(filled, owners) == 4


def test_a_default_partition_of_somebody_else(filled: Connection) -> None:
    """Nothing is done there with other rights than the table's owner has."""
    filled.execute("ALTER TABLE s.p OWNER TO owner")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        move(filled)
    assert scalar(filled, IN_DEFAULT) == 30


def test_as_whom(filled: Connection) -> None:
    """A superuser calls: what the owner's CHECK does, it does as the owner."""
    filled.execute("ALTER TABLE s.p OWNER TO owner; ALTER TABLE s.rest OWNER TO owner")
    filled.execute(
        """CREATE FUNCTION s.seen(k int) RETURNS boolean LANGUAGE plpgsql AS
            $$BEGIN ASSERT current_user = 'owner'; RETURN true; END$$;
        ALTER TABLE s.p ADD CHECK (s.seen(k)) NOT VALID"""
    )
    assert move(filled) == [moved(30, 3)]
    assert scalar(filled, "SELECT current_user") == "postgres"


def test_a_check_that_reads_a_table_with_policies(filled: Connection) -> None:
    """It sees there what it sees when the owner inserts."""
    filled.execute("ALTER TABLE s.p OWNER TO owner; ALTER TABLE s.rest OWNER TO owner")
    filled.execute(
        """CREATE TABLE s.look (x int); INSERT INTO s.look VALUES (1);
        GRANT USAGE, CREATE ON SCHEMA s TO owner; GRANT SELECT ON s.look TO owner;
        ALTER TABLE s.look ENABLE ROW LEVEL SECURITY; CREATE POLICY a ON s.look USING (true);
        CREATE FUNCTION s.seen(k int) RETURNS boolean LANGUAGE plpgsql AS
            $$BEGIN RETURN (SELECT count(*) = 1 FROM s.look); END$$;
        ALTER TABLE s.p ADD CHECK (s.seen(k)) NOT VALID"""
    )
    assert move(filled) == [moved(30, 3)]


def test_names_of_another_schema(filled: Connection) -> None:
    """Nobody's search path decides which operators rows are chosen by."""
    filled.execute(
        """CREATE FUNCTION s.no(int, int) RETURNS boolean LANGUAGE sql AS 'SELECT false';
        CREATE OPERATOR s.>= (LEFTARG = int, RIGHTARG = int, FUNCTION = s.no);
        SET search_path = s, pg_catalog, public"""
    )
    filled.execute("SET search_path = s, pg_catalog; SET search_path = s, public")
    assert move(filled) == [moved(30, 3)]
    filled.execute("RESET search_path")
