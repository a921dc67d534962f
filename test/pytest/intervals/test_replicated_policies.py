"""Policies and states are a server's own: those of a publisher change nothing at a subscriber."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from extension.probes import QUIET, Connection, scalar
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from intervals.policies import (
    execute,
    maintain,
    make,
    set_policy,
    state,
)
from lookahead.extension import Stage

_LOGICAL = {**QUIET, "wal_level": "logical", "wal_retrieve_retry_interval": "100ms"}
_KEPT = (
    "SELECT p::text, p.ctid::text FROM pg_lookahead_interval_policy p",
    "SELECT s::text, s.ctid::text FROM pg_lookahead_interval_state s",
)
_MARKER = "CREATE TABLE s.marker (k int PRIMARY KEY)"
# Commands that a subscriber executes, as tools that replicate them do.
_COMMANDS = """
    CREATE TABLE s.commands (k int PRIMARY KEY, command text);
    CREATE FUNCTION s.follow() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN EXECUTE NEW.command; RETURN NEW; END $$;
    CREATE TRIGGER follow AFTER INSERT ON s.commands FOR EACH ROW EXECUTE FUNCTION s.follow();
    ALTER TABLE s.commands ENABLE REPLICA TRIGGER follow"""


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage, settings=_LOGICAL) as started:
        yield started


@pytest.fixture
def pair(server: WatchedServer) -> Iterator[tuple[Connection, Connection]]:
    """Sessions in a publisher's database and in a subscriber's, a copy of it with the same OIDs."""
    with server.connect() as session:
        session.execute("CREATE DATABASE publisher")
        with server.connect("publisher") as publisher:
            publisher.execute("CREATE SCHEMA s; CREATE EXTENSION pg_lookahead")
            make(publisher, "int PRIMARY KEY")
            publisher.execute(_MARKER)
            publisher.execute(_COMMANDS)
        session.execute("CREATE DATABASE subscriber TEMPLATE publisher")
        with server.connect("publisher") as publisher, server.connect("subscriber") as subscriber:
            yield publisher, subscriber
        session.execute("DROP DATABASE subscriber WITH (FORCE)")
        session.execute("DROP DATABASE publisher WITH (FORCE)")


@contextmanager
def _subscribed(
    server: WatchedServer, pair: tuple[Connection, Connection], options: str = ""
) -> Iterator[None]:
    """All tables of the first are subscribed to by the second, and copied."""
    publisher, subscriber = pair
    publisher.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    publisher.execute("SELECT pg_create_logical_replication_slot('subscribed', 'pgoutput')")
    place = f"host={server.socket_directory} port={server.port} user=postgres dbname=publisher"
    execute(
        subscriber,
        f"CREATE SUBSCRIPTION everything CONNECTION '{place}' PUBLICATION everything "
        f"WITH (create_slot = false, slot_name = 'subscribed'{options})",
    )
    unready = "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'"
    try:
        wait_until(lambda: scalar(subscriber, unready) == 0, "all tables are copied", 30)
        yield
    finally:
        subscriber.execute("ALTER SUBSCRIPTION everything DISABLE")
        active = "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ '^logical replication'"
        of_workers = f"{active} AND datname = 'subscriber'"
        wait_until(lambda: scalar(subscriber, of_workers) == 0, "nobody applies")
        subscriber.execute("ALTER SUBSCRIPTION everything SET (slot_name = NONE)")
        subscriber.execute("DROP SUBSCRIPTION everything")
        wait_until(lambda: _drop_slot(publisher), "the slot is dropped")


def _drop_slot(publisher: Connection) -> bool:
    idle = "SELECT NOT active FROM pg_replication_slots WHERE slot_name = 'subscribed'"
    if not scalar(publisher, idle):
        return False
    publisher.execute("SELECT pg_drop_replication_slot('subscribed')")
    return True


def _await_applied(pair: tuple[Connection, Connection]) -> None:
    """Return once the subscriber has applied what the publisher has committed."""
    publisher, subscriber = pair
    number = scalar(publisher, "SELECT count(*) FROM s.marker")
    execute(publisher, f"INSERT INTO s.marker VALUES ({number})")
    arrived = f"SELECT count(*) FROM s.marker WHERE k = {number}"
    wait_until(lambda: scalar(subscriber, arrived), "changes are applied", 30)


def _kept(session: Connection) -> list[Any]:
    """What a server has by its own, and which versions of rows."""
    found: list[Any] = []
    for query in _KEPT:
        dynamic: Any = query
        found.append(session.execute(dynamic).fetchall())
    return found


@pytest.mark.parametrize("way", ["one by one", "while they go on"])
def test_the_subscribers_own_stays(
    server: WatchedServer, pair: tuple[Connection, Connection], way: str
) -> None:
    """By the first copy, and by each change, also of transactions that are applied in parallel."""
    publisher, subscriber = pair
    options = ", streaming = off" if way == "one by one" else ", streaming = parallel"
    if way != "one by one":
        server.configure({"debug_logical_replication_streaming": "immediate"})
        publisher.execute("SELECT pg_reload_conf()")
    set_policy(publisher, "10, retention => 10, retention_action => 'drop'")
    set_policy(subscriber, "5, premake => 1")
    maintain(subscriber)
    before = _kept(subscriber)
    try:
        with _subscribed(server, pair, options):
            for statement in (
                "SELECT pg_lookahead_change_interval('s.p', 20)",
                "CALL pg_lookahead_maintain_partitions()",
                "SELECT pg_lookahead_unset_interval('s.p')",
                "SELECT pg_lookahead_set_interval('s.p', 7, retention => 7)",
                "UPDATE pg_lookahead_interval_policy SET step = '8'",
            ):
                execute(publisher, statement)
                _await_applied(pair)
                assert _kept(subscriber) == before
    finally:
        server.configure({"debug_logical_replication_streaming": "buffered"})
        publisher.execute("SELECT pg_reload_conf()")


def test_none_comes(server: WatchedServer, pair: tuple[Connection, Connection]) -> None:
    """Where the subscriber has no policy, it gets none, by the copy or later."""
    publisher, subscriber = pair
    set_policy(publisher, "10, retention => 10, retention_action => 'drop'")
    with _subscribed(server, pair):
        assert _kept(subscriber) == [[], []]
        publisher.execute("CREATE TABLE s.q (k int PRIMARY KEY) PARTITION BY RANGE (k)")
        subscriber.execute("CREATE TABLE s.q (k int PRIMARY KEY) PARTITION BY RANGE (k)")
        set_policy(publisher, "10", "s.q")
        maintain(publisher, "s.p")
        _await_applied(pair)
        assert _kept(subscriber) == [[], []]


def test_commands_that_are_replicated(
    server: WatchedServer, pair: tuple[Connection, Connection]
) -> None:
    """A policy that is set by a trigger of the subscriber's is the subscriber's own."""
    publisher, subscriber = pair
    set_policy(subscriber, "5")
    with _subscribed(server, pair):
        for number, step in enumerate(("20", "30")):
            command = f"SELECT public.pg_lookahead_set_interval('s.p', {step})"
            publisher.execute("INSERT INTO s.commands VALUES (%s, %s)", (number, command))
            _await_applied(pair)
            assert state(subscriber, "step") == step
        command = "SELECT public.pg_lookahead_unset_interval('s.p')"
        publisher.execute("INSERT INTO s.commands VALUES (2, %s)", (command,))
        _await_applied(pair)
        assert _kept(subscriber) == [[], []]


def test_a_table_that_the_subscriber_has_not(
    server: WatchedServer, pair: tuple[Connection, Connection]
) -> None:
    """Applying stops as for any row of such a table, and goes on once it is there."""
    publisher, subscriber = pair
    table = "CREATE TABLE s.r (k int PRIMARY KEY) PARTITION BY RANGE (k)"
    with _subscribed(server, pair):
        execute(publisher, table)
        set_policy(publisher, "10", "s.r")
        told = 'ERROR:  relation "s.r" does not exist'
        wait_until(lambda: told in server.read_log(), "it stops")
        execute(subscriber, table)
        _await_applied(pair)
        assert _kept(subscriber) == [[], []]
