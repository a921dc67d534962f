"""Rows of partitions that PostgreSQL has to insert itself."""

from __future__ import annotations

import psycopg
import pytest
from extension.probes import Connection, explain, lookahead, need_extension, scalar

from bulk_insert.arms import DEFAULT, EXTENTS, ONE_PAGE, Arm, Counters, choose
from bulk_insert.partitioned import from_to, make, series

_ARMS = [DEFAULT, ONE_PAGE, EXTENTS]
_TRIGGER = (
    "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$; "
    "CREATE TRIGGER g {} INSERT ON p1 FOR EACH ROW EXECUTE FUNCTION nothing()"
)
_LEFT = {
    "trigger of a partition": ("row trigger", _TRIGGER.format("BEFORE")),
    "later trigger of a partition": ("row trigger", _TRIGGER.format("AFTER")),
    "volatile check of a partition": (
        "volatile function",
        "CREATE FUNCTION rows_of_p() RETURNS bigint LANGUAGE sql VOLATILE "
        "AS 'SELECT count(*) FROM p'; ALTER TABLE p1 ADD CHECK (rows_of_p() = k - 1)",
    ),
}


def test_volatile_key_of_a_partition(connection: Connection) -> None:
    """It is looked for before a row waits, as a row's way is found by it."""
    with connection.transaction(force_rollback=True):
        choose(connection, ONE_PAGE)
        connection.execute(
            "CREATE FUNCTION many_rows(k int) RETURNS bool LANGUAGE plpgsql VOLATILE AS "
            "$$ BEGIN RETURN k <> 2 OR (SELECT count(*) FROM p) >= 50; END $$; "
            "CREATE DOMAIN late AS int CHECK (many_rows(VALUE))"
        )
        make(
            connection,
            "int",
            "LIST (((k::late)::int))",
            "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); "
            "CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)",
        )
        before = Counters.of(connection).rows
        connection.execute(series("CASE WHEN i = 60 THEN 2 ELSE 1 END", 100))
        assert scalar(connection, "SELECT count(*) FROM p") == 100
        assert Counters.of(connection).rows == before


def test_triggers_that_are_freed_meanwhile(connection: Connection) -> None:
    """What a table's triggers are is told by the relation cache, which can forget it any time.

    It does not forget tables of the same transaction.
    """
    if (
        scalar(connection, "SELECT setting FROM pg_settings WHERE name = 'debug_assertions'")
        != "on"
    ):
        pytest.skip("a build without assertions keeps its caches")
    choose(connection, DEFAULT)
    connection.execute(
        "CREATE DOMAIN d AS int; CREATE TABLE freed (k int); CREATE FUNCTION f() "
        "RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
    )
    for number in range(4):
        connection.execute(
            f"CREATE TRIGGER g{number} AFTER INSERT ON freed FOR EACH ROW "
            "WHEN (NEW.k::d > 1000000) EXECUTE FUNCTION f()"
        )
    connection.execute("SET debug_discard_caches = 1")
    connection.execute("INSERT INTO freed SELECT i FROM generate_series(1, 60) i")
    connection.execute("RESET debug_discard_caches")
    assert scalar(connection, "SELECT count(*) FROM freed") == 60
    connection.execute("DROP TABLE freed; DROP FUNCTION f; DROP DOMAIN d")


@pytest.mark.parametrize("arm", _ARMS, ids=lambda arm: arm.name)
@pytest.mark.parametrize("case", _LEFT)
def test_core_goes_on_at_a_partition(connection: Connection, case: str, arm: Arm) -> None:
    """The first rows are batched; from the first one of the partition on, core inserts."""
    reason, making = _LEFT[case]
    with connection.transaction(force_rollback=True):
        choose(connection, arm)
        make(connection, "int", "RANGE (k)", from_to("0", "500", "9999"))
        connection.execute(making)
        before = Counters.of(connection)
        connection.execute(series("i"))
        after = Counters.of(connection)
        assert after.left[reason] == before.left.get(reason, 0) + 1
        assert 400 < after.rows - before.rows < 500
        assert scalar(connection, "SELECT count(*) FROM p") == 2000
        assert lookahead(explain(connection, series("i + 2000"), "ANALYZE, LOOKAHEAD"))


@pytest.mark.parametrize("arm", _ARMS, ids=lambda arm: arm.name)
def test_triggers_of_statements_on_a_partition(connection: Connection, arm: Arm) -> None:
    """They are not called when rows come by way of the table, so the rows may wait."""
    with connection.transaction(force_rollback=True):
        choose(connection, arm)
        make(connection, "int", "RANGE (k)", from_to("0", "500", "9999"))
        connection.execute(
            "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE 'is called'; END $$; "
            "CREATE TRIGGER g AFTER INSERT ON p1 REFERENCING NEW TABLE AS n "
            "FOR EACH STATEMENT EXECUTE FUNCTION fails()"
        )
        before = Counters.of(connection)
        connection.execute(series("i"))
        after = Counters.of(connection)
        assert after.left == before.left
        assert after.rows - before.rows > 1900
        assert scalar(connection, "SELECT count(*) FROM p") == 2000
        with pytest.raises(psycopg.errors.RaiseException, match="is called"):
            connection.execute("INSERT INTO p1 SELECT 600, 'x' FROM generate_series(1, 100)")


def test_foreign_partition(connection: Connection) -> None:
    need_extension(connection, "file_fdw")
    with connection.transaction(force_rollback=True):
        choose(connection, ONE_PAGE)
        make(connection, "int", "RANGE (k)", from_to("0", "500"))
        connection.execute(
            "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw; CREATE FOREIGN TABLE f "
            "PARTITION OF p DEFAULT SERVER files OPTIONS (filename '/dev/null')"
        )
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="cannot insert into foreign"):
            connection.execute(series("i"))
