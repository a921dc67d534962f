"""Rows are not moved out of the default partition where subscribers would lose or double them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from intervals.moving import IN_DEFAULT, fill, move, moved, stalled


@pytest.fixture
def filled(session: Connection) -> Iterator[Connection]:
    fill(session, "int", "SELECT generate_series(0, 29)", "10, 0")
    session.execute("ALTER TABLE s.p ADD PRIMARY KEY (k)")
    yield session
    session.execute("DROP PUBLICATION IF EXISTS one, beside")


@pytest.mark.parametrize("root", ["false", "true"])
@pytest.mark.parametrize("what", ["TABLE s.p", "TABLES IN SCHEMA s", "ALL TABLES"])
@pytest.mark.parametrize("actions", ["insert", "delete", "update, delete, truncate"])
def test_inserts_or_deletes_alone(filled: Connection, what: str, actions: str, root: str) -> None:
    """Also beside a publication of all."""
    filled.execute("CREATE PUBLICATION beside FOR TABLE s.p")
    filled.execute(f"CREATE PUBLICATION one FOR {what} WITH (publish = '{actions}')")
    filled.execute(f"ALTER PUBLICATION one SET (publish_via_partition_root = {root})")
    with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
        move(filled)
    assert 'It is published with either inserts or deletes, by publication "one"' in str(
        caught.value
    )
    filled.execute("ALTER PUBLICATION one SET (publish = 'insert, delete')")
    assert move(filled) == [moved(30, 3)]


@pytest.mark.parametrize("what", ["TABLE s.top", "TABLES IN SCHEMA elsewhere"])
def test_an_ancestor(filled: Connection, what: str) -> None:
    filled.execute("CREATE SCHEMA elsewhere")
    filled.execute("CREATE TABLE elsewhere.top (LIKE s.p) PARTITION BY RANGE (k)")
    filled.execute("ALTER TABLE elsewhere.top ATTACH PARTITION s.p DEFAULT")
    try:
        of = what.replace("s.top", "elsewhere.top")
        filled.execute(f"CREATE PUBLICATION one FOR {of} WITH (publish = 'insert')")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            move(filled)
    finally:
        filled.execute("DROP SCHEMA elsewhere CASCADE")


def test_neither(filled: Connection) -> None:
    filled.execute("CREATE PUBLICATION one FOR ALL TABLES WITH (publish = 'update, truncate')")
    filled.execute("CREATE PUBLICATION beside FOR TABLE s.p")
    assert move(filled) == [moved(30, 3)]


def test_a_publication_that_is_changed_meanwhile(filled: Connection, server: WatchedServer) -> None:
    """It was looked at before the rows were on their way."""
    filled.execute("CREATE PUBLICATION one FOR TABLE s.p")
    with stalled(filled, server) as moving:
        filled.execute("ALTER PUBLICATION one SET (publish = 'insert')")
        filled.execute("SELECT pg_advisory_unlock(1)")
        assert 'by publication "one"' in moving.result(100)
    assert scalar(filled, IN_DEFAULT) == 30


def test_a_subscription(filled: Connection) -> None:
    """Of the default partition alone; that of the table puts rows where they belong."""
    filled.execute(
        "CREATE SUBSCRIPTION one CONNECTION '' PUBLICATION one "
        "WITH (connect = false, slot_name = NONE)"
    )
    filled.execute(
        "INSERT INTO pg_subscription_rel SELECT oid, 's.rest'::regclass, 'r' FROM pg_subscription"
    )
    try:
        with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
            move(filled)
        assert "It is subscribed to by itself" in str(caught.value)
        filled.execute("UPDATE pg_subscription_rel SET srrelid = 's.p'::regclass")
        assert move(filled) == [moved(30, 3)]
    finally:
        filled.execute("DROP SUBSCRIPTION one")
