"""What errors, rollbacks and read-only transactions leave behind: nothing."""

from __future__ import annotations

import psycopg
import pytest
from extension.probes import Connection, scalar

from partitions.asking import RANGES, children, make, run

_WAYS = ("direct", "attached", "native")


def _block(session: Connection, number: int) -> None:
    """Let the creation of this partition fail, in the middle of core's code."""
    session.execute(f"CREATE DOMAIN s.p_{number} AS int")


@pytest.mark.parametrize("blocked", [0, 20])
@pytest.mark.parametrize("way", _WAYS)
def test_an_error_in_the_middle(session: Connection, way: str, blocked: int) -> None:
    make(session, "int")
    session.execute("CREATE TABLE s.old PARTITION OF s.p FOR VALUES FROM (-10) TO (0)")
    _block(session, blocked)
    with pytest.raises(psycopg.errors.DuplicateObject):
        run(session, f"{RANGES} 0, 10, 4, way => '{way}')")
    assert [name for name, _ in children(session)] == ["old"]
    session.execute("INSERT INTO s.p VALUES (-5)")
    with pytest.raises(psycopg.errors.CheckViolation, match="no partition of relation"):
        session.execute("INSERT INTO s.p VALUES (5)")


@pytest.mark.parametrize("blocked", [0, 20])
@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("made", ["before", "in the transaction", "in the subtransaction"])
def test_an_error_in_a_subtransaction(
    session: Connection, way: str, made: str, blocked: int
) -> None:
    _block(session, blocked)
    parent = "CREATE TABLE s.p (k int) PARTITION BY RANGE (k)"
    old = "CREATE TABLE s.old PARTITION OF s.p FOR VALUES FROM (-10) TO (0)"
    if made == "before":
        session.execute(f"{parent}; {old}")
    with session.transaction():
        if made == "in the transaction":
            session.execute(f"{parent}; {old}")
        with pytest.raises(psycopg.errors.DuplicateObject), session.transaction():
            if made == "in the subtransaction":
                session.execute(f"{parent}; {old}")
            run(session, f"{RANGES} 0, 10, 4, way => '{way}')")
        if made == "in the subtransaction":
            session.execute(f"{parent}; {old}")
        session.execute("INSERT INTO s.p VALUES (-5)")
        session.execute(f"DROP DOMAIN s.p_{blocked}")
        assert run(session, f"{RANGES} -10, 10, 5, way => '{way}')")[:2] == (4, 1)
        session.execute("INSERT INTO s.p SELECT generate_series(0, 39)")
    assert scalar(session, "SELECT count(*) FROM s.p") == 41


@pytest.mark.parametrize("way", _WAYS)
def test_rollback(session: Connection, way: str) -> None:
    make(session, "int")
    with pytest.raises(ZeroDivisionError), session.transaction():
        run(session, f"{RANGES} 0, 10, 4, way => '{way}')")
        session.execute("INSERT INTO s.p SELECT generate_series(0, 39)")
        raise ZeroDivisionError
    assert children(session) == []
    has_children = "SELECT relhassubclass FROM pg_class WHERE oid = 's.p'::regclass"
    assert scalar(session, has_children) is False
    with pytest.raises(psycopg.errors.CheckViolation, match="no partition of relation"):
        session.execute("INSERT INTO s.p VALUES (5)")
    assert run(session, f"{RANGES} 0, 10, 4, way => '{way}')")[:2] == (4, 0)


@pytest.mark.parametrize("way", _WAYS)
def test_rows_right_after_in_the_same_transaction(session: Connection, way: str) -> None:
    make(session, "int")
    with session.transaction():
        session.execute("PREPARE fill AS INSERT INTO s.p SELECT generate_series(0, $1)")
        for count in (2, 4):
            run(session, f"{RANGES} 0, 10, {count}, way => '{way}')")
            session.execute(f"EXECUTE fill ({count * 10 - 1})")
    assert scalar(session, "SELECT count(*) FROM s.p_30") == 10
    assert scalar(session, "SELECT count(*) FROM s.p_10") == 20


@pytest.mark.parametrize("way", _WAYS)
def test_a_parent_in_use(session: Connection, way: str) -> None:
    make(session, "int")
    run(session, f"{RANGES} 0, 10, 2)")
    create = f"pg_lookahead_create_range_partitions('s.p', 20, 10, 1, way => '{way}')"
    with pytest.raises(psycopg.errors.ObjectInUse):
        session.execute(f"INSERT INTO s.p SELECT created FROM {create}")
    with session.transaction():
        # A plan that prunes while it runs has the parent open.
        session.execute("DECLARE c CURSOR FOR SELECT * FROM s.p WHERE k > (SELECT 0)")
        with pytest.raises(psycopg.errors.ObjectInUse), session.transaction():
            session.execute(f"SELECT {create}")
    session.execute(f"SELECT {create}")


def test_read_only_transactions(session: Connection) -> None:
    make(session, "int")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction) as caught, session.transaction():
        session.execute("SET TRANSACTION READ ONLY")
        run(session, f"{RANGES} 0, 10, 1)")
    assert "cannot execute CREATE TABLE in a read-only transaction" in str(caught.value)


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_older_snapshots(session: Connection, level: str) -> None:
    make(session, "int")
    with session.transaction():
        session.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        assert scalar(session, "SELECT count(*) FROM s.p") == 0
        run(session, f"{RANGES} 0, 10, 2)")
        session.execute("INSERT INTO s.p VALUES (5), (15)")
    assert scalar(session, "SELECT count(*) FROM s.p") == 2


@pytest.mark.parametrize("way", ["direct", "attached"])
def test_cancelled(session: Connection, way: str) -> None:
    make(session, "int")
    session.execute("SET statement_timeout = '150ms'")
    with pytest.raises(psycopg.errors.QueryCanceled):
        run(session, f"{RANGES} 0, 10, 1000, way => '{way}')")
    session.execute("RESET statement_timeout")
    assert children(session) == []
    assert run(session, f"{RANGES} 0, 10, 3)")[:2] == (3, 0)


@pytest.mark.parametrize("way", ["direct", "attached"])
def test_caches_thrown_away_at_every_moment(session: Connection, way: str) -> None:
    make(session, "int")
    session.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT")
    session.execute("ALTER TABLE s.p ADD PRIMARY KEY (k); INSERT INTO s.p VALUES (-1)")
    try:
        session.execute("SET debug_discard_caches = 1")
    except psycopg.errors.InvalidParameterValue:
        pytest.skip("this server has no assertions, and cannot throw its caches away")
    assert run(session, f"{RANGES} 0, 10, 2, way => '{way}')")[:2] == (2, 0)
    assert run(session, f"{RANGES} 0, 10, 3, way => '{way}')")[:2] == (1, 2)
    session.execute("SET debug_discard_caches = 0; INSERT INTO s.p VALUES (11), (31)")
    assert scalar(session, "SELECT k FROM s.p_10") == 11


@pytest.mark.parametrize("kind", ["VIEW s.p AS SELECT 1 AS k", "TABLE s.p (k int)", "SEQUENCE s.p"])
def test_what_is_no_partitioned_table(session: Connection, kind: str) -> None:
    session.execute(f"CREATE {kind}")
    with pytest.raises(psycopg.errors.InvalidObjectDefinition, match="is not partitioned"):
        run(session, f"{RANGES} 0, 10, 1)")


def test_what_is_no_table(session: Connection) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable, match="OID 4294967295 does not exist"):
        run(session, "SELECT pg_lookahead_create_range_partitions(4294967295, 0, 1, 1)")
    with pytest.raises(psycopg.errors.NullValueNotAllowed):
        run(session, "SELECT pg_lookahead_create_range_partitions(NULL, 0, 1, 1)")
    with pytest.raises(psycopg.errors.WrongObjectType):
        run(session, "SELECT pg_lookahead_create_range_partitions('pg_class_oid_index', 0, 1, 1)")
