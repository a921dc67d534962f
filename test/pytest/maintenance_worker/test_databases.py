"""Which databases are looked at, and how a worker gets out of the way of one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from extension.probes import Connection, scalar
from intervals.policies import maintain, state
from server_log import WatchedServer
from waiting import wait_until

from maintenance_worker.workers import (
    LAUNCHER,
    WORKER,
    await_hanging,
    await_partitions,
    count,
    hold_worker,
    look,
    pause,
    policy_elsewhere,
    processes,
    release,
    resume,
)

_POLICY = """
    CREATE TABLE s.{name} (k int) PARTITION BY RANGE (k);
    SELECT pg_lookahead_set_interval('s.{name}', 10)"""


@pytest.fixture
def elsewhere(session: Connection, server: WatchedServer) -> Iterator[Connection]:
    """A session in another database, with a policy for s.p, not maintained yet."""
    session.execute("CREATE DATABASE elsewhere")
    with server.connect("elsewhere") as database, policy_elsewhere(session, database):
        yield database


def _await_round(session: Connection) -> None:
    """Return once a whole round has passed: each maintains a table, in a database that comes last.

    The first one may be in the round that goes on.
    """
    for name in ("one", "two"):
        session.execute(_POLICY.format(name=name).encode())
        look(session)
        await_partitions(session, f"s.{name}")


def test_two_databases(session: Connection, elsewhere: Connection) -> None:
    session.execute(_POLICY.format(name="p").encode())
    look(session)
    await_partitions(session)
    await_partitions(elsewhere)


def test_a_renamed_database(
    session: Connection, elsewhere: Connection, server: WatchedServer
) -> None:
    look(session)
    await_partitions(elsewhere)
    elsewhere.close()
    session.execute("ALTER DATABASE elsewhere RENAME TO renamed")
    with server.connect("renamed") as renamed:
        renamed.execute(_POLICY.format(name="q").encode())
        look(session)
        await_partitions(renamed, "s.q")
    session.execute("DROP DATABASE renamed")


@pytest.mark.parametrize("kind", ["ALLOW_CONNECTIONS false", "IS_TEMPLATE true"])
def test_databases_that_are_left(session: Connection, server: WatchedServer, kind: str) -> None:
    """Nobody connects to them, and nothing is in the log."""
    pause(session, server)
    session.execute("CREATE DATABASE closed")
    with server.connect("closed") as database:
        database.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
        database.execute(_POLICY.format(name="p").encode())
    session.execute(f"ALTER DATABASE closed {kind}".encode())
    resume(session, server)
    _await_round(session)
    session.execute("ALTER DATABASE closed ALLOW_CONNECTIONS true IS_TEMPLATE true")
    with server.connect("closed") as database:
        assert count(database) == 0
        session.execute("ALTER DATABASE closed IS_TEMPLATE false")
        look(session)
        await_partitions(database)
    session.execute("DROP DATABASE closed")
    assert "not currently accepting connections" not in server.read_log()


@pytest.mark.parametrize(
    "command",
    [
        "DROP DATABASE elsewhere",
        "ALTER DATABASE elsewhere RENAME TO renamed",
        "CREATE DATABASE renamed TEMPLATE elsewhere",
    ],
)
def test_commands_on_a_database_with_a_worker(
    session: Connection, server: WatchedServer, command: str
) -> None:
    """PostgreSQL refuses each after five seconds in which somebody is connected."""
    session.execute("CREATE DATABASE elsewhere")
    with server.connect("elsewhere") as database:
        database.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
        first = hold_worker(database)
    session.execute(command.encode())
    session.execute("DROP DATABASE IF EXISTS renamed")
    if "TEMPLATE" in command:
        with server.connect("elsewhere") as database:
            await_hanging(database, but=first)
            release(database)
            await_partitions(database, "s.a")
    session.execute("DROP DATABASE IF EXISTS elsewhere")
    # The launcher has survived it.
    session.execute(_POLICY.format(name="p").encode())
    look(session)
    await_partitions(session)


def test_a_copy_of_a_database(
    session: Connection, elsewhere: Connection, server: WatchedServer
) -> None:
    """May be kept for what becomes old in it: it waits for a call, as a dump does."""
    look(session)
    await_partitions(elsewhere)
    pause(session, server)
    elsewhere.close()
    session.execute("CREATE DATABASE copied TEMPLATE elsewhere")
    with server.connect("copied") as copied:
        copied.execute("DROP TABLE s.p_0; UPDATE pg_lookahead_interval_state SET next_run = NULL")
        resume(session, server)
        _await_round(session)
        assert state(copied, "(automatic, last_run IS NULL)") == ("f", "t")
        assert count(copied) == 4
        maintain(copied)
        assert state(copied, "(automatic, last_run IS NULL)") == ("t", "f")
        copied.execute("UPDATE pg_lookahead_interval_state SET next_run = NULL, last_run = NULL")
        look(session)
        wait_until(lambda: state(copied, "last_run"), "the copy is maintained")
    session.execute("DROP DATABASE copied")
    with server.connect("elsewhere") as database:
        assert state(database, "automatic") is True


def test_a_dropped_extension(session: Connection) -> None:
    """While a worker is in the middle of a table; with a new one all begins anew."""
    launchers = processes(session, LAUNCHER)
    hold_worker(session)
    session.execute("CREATE TABLE s.b (k int) PARTITION BY RANGE (k)")
    release(session)
    session.execute("DROP EXTENSION pg_lookahead CASCADE")
    wait_until(lambda: not processes(session, WORKER), "no worker is there")
    session.execute("CREATE EXTENSION pg_lookahead")
    session.execute("SELECT pg_lookahead_set_interval('s.b', 10)")
    look(session)
    await_partitions(session, "s.b")
    assert processes(session, LAUNCHER) == launchers


def test_how_often_a_database_is_looked_at(session: Connection, server: WatchedServer) -> None:
    """With a policy in each round; without one rarely; ever more rarely where workers die."""
    oids = {}
    for name in ("postgres", "without", "broken"):
        if name != "postgres":
            session.execute(f"CREATE DATABASE {name}".encode())
        oids[name] = scalar(session, f"SELECT oid FROM pg_database WHERE datname = '{name}'")
    session.execute(_POLICY.format(name="p").encode())
    with server.connect("broken") as database:
        database.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
        database.execute(_POLICY.format(name="p").encode())
        database.execute("ALTER DATABASE broken SET default_transaction_read_only = on")
    server.configure({"log_min_messages": "debug1"})
    look(session)

    def starts(name: str) -> int:
        started = f'starting background worker process "{WORKER} for database {oids[name]}"'
        return server.read_log().count(started)

    # In rounds 1, 3, 7, 15 and 31; one without a policy in 1, 11 and 21; the others in each in
    # which none is still at work: on a busy machine eight of theirs take more rounds.
    wait_until(lambda: starts("broken") >= 3, "three workers have died")
    wait_until(lambda: starts("postgres") >= 8, "eight rounds are over")
    assert starts("broken") <= 5
    assert starts("without") * 3 <= starts("postgres")
    server.configure({"log_min_messages": "warning"})
    look(session)
    session.execute("DROP DATABASE without")
    session.execute("DROP DATABASE broken")
    told = "cannot execute maintenance of partitions in a read-only transaction"
    assert told in server.read_log()
