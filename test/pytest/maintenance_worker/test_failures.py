"""Policies and processes that fail, and that nobody else waits for them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from extension.probes import Connection, scalar
from intervals.policies import make, set_policy, state
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from lookahead.extension import Stage
from maintenance_worker.workers import (
    INTERVAL,
    LAUNCHER,
    SETTINGS,
    WORKER,
    await_hanging,
    await_partitions,
    count,
    hold_worker,
    is_on,
    look,
    pause,
    processes,
    release,
    resume,
)


def _other(session: Connection, table: str = "s.z") -> None:
    """A table with a policy, which is maintained after those before."""
    session.execute(f"CREATE TABLE {table} (k int) PARTITION BY RANGE (k)".encode())
    set_policy(session, "10", table)


def test_a_policy_that_cannot_be_obeyed(session: Connection, server: WatchedServer) -> None:
    make(session, "int")
    session.execute("CREATE VIEW s.p_0 AS SELECT 1")
    set_policy(session, "10, premake => 0")
    _other(session)
    look(session)
    await_partitions(session, "s.z")
    assert 'relation "p_0" already exists' in state(session, "last_error")
    assert state(session, "attempts") == 1
    assert 'could not maintain the partitions of "p"' in server.read_log()


def test_settings_of_a_database_hinder_nobody(session: Connection) -> None:
    """Locks are waited for neither forever nor not at all, and no statement is timed."""
    for setting in ("lock_timeout", "statement_timeout", "transaction_timeout"):
        session.execute(f"ALTER DATABASE postgres SET {setting} = '1ms'".encode())
    session.execute("ALTER DATABASE postgres SET default_transaction_isolation = serializable")
    make(session, "int")
    set_policy(session, "10, premake => 200")
    look(session)
    await_partitions(session, partitions=201)
    session.execute("ALTER DATABASE postgres RESET ALL")
    assert state(session, "last_error") is None


def test_a_lock_that_is_not_to_be_had(session: Connection, server: WatchedServer) -> None:
    """However long the database wants to wait for locks."""
    session.execute("ALTER DATABASE postgres SET lock_timeout = '1h'")
    pause(session, server)
    make(session, "int")
    set_policy(session, "10")
    _other(session)
    with server.connect(autocommit=False) as other:
        other.execute("LOCK TABLE s.p IN ACCESS EXCLUSIVE MODE")
        resume(session, server)
        await_partitions(session, "s.z")
        other.rollback()
    session.execute("ALTER DATABASE postgres RESET ALL")
    assert state(session, "last_sqlstate") == "55P03"


def test_a_cancel_ends_the_maintenance_of_one_table(
    session: Connection, server: WatchedServer
) -> None:
    worker = hold_worker(session)
    _other(session)
    session.execute(f"SELECT pg_cancel_backend({worker})".encode())
    # The table is tried again, and now another one is due, too.
    second = await_hanging(session, but=worker)
    session.execute(f"SELECT pg_cancel_backend({second})".encode())
    await_partitions(session, "s.z")
    assert f"(PID {second}) exited with exit code" not in server.read_log()
    release(session)
    await_partitions(session, "s.a")


def test_the_table_at_which_a_worker_died_comes_last(session: Connection) -> None:
    worker = hold_worker(session)
    _other(session)
    session.execute(f"SELECT pg_terminate_backend({worker})".encode())
    await_partitions(session, "s.z")
    assert count(session, "s.a") == 0
    release(session)
    await_partitions(session, "s.a")


def test_a_launcher_that_dies(session: Connection) -> None:
    """It comes again, and its workers do not outlive it."""
    worker = hold_worker(session)
    (launcher,) = processes(session, LAUNCHER)
    session.execute(f"SELECT pg_terminate_backend({launcher})".encode())
    wait_until(lambda: worker not in processes(session, WORKER), "the worker ends")
    # The one that dies may still be there, and say that it is on, when its worker has ended.
    wait_until(lambda: launcher not in processes(session, LAUNCHER), "the launcher ends")
    wait_until(lambda: processes(session, LAUNCHER) != [], "another launcher is there")
    wait_until(lambda: is_on(session), "it is at work")
    release(session)
    await_partitions(session, "s.a")


def test_switched_off_and_on_again(session: Connection, server: WatchedServer) -> None:
    """By reloads."""
    pause(session, server)
    make(session, "int")
    set_policy(session, "10")
    assert state(session, "automatic") is False
    resume(session, server)
    await_partitions(session)
    assert state(session, "automatic") is True


@pytest.fixture
def own_server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    """A server of the test's own."""
    with server_factory(stage=stage, settings=SETTINGS) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
        yield started


@pytest.mark.expects_in_log("was terminated by signal")
@pytest.mark.parametrize("victim", [WORKER, LAUNCHER])
def test_a_process_that_is_killed(own_server: WatchedServer, victim: str) -> None:
    """PostgreSQL starts all over, and so does maintenance."""
    with own_server.connect() as session:
        worker = hold_worker(session)
        (launcher,) = processes(session, LAUNCHER)
        os.kill(worker if victim == WORKER else launcher, signal.SIGKILL)

    def answers() -> bool:
        try:
            with own_server.connect() as session:
                return processes(session, LAUNCHER) != [launcher]
        except psycopg.OperationalError:
            return False

    wait_until(answers, "the server answers again")
    with own_server.connect() as session:
        release(session)
        await_partitions(session, "s.a")


def test_a_shutdown_waits_for_nobody(own_server: WatchedServer) -> None:
    """A worker that never ends, in a function of a table's owner, ends at once."""
    with own_server.connect() as session:
        hold_worker(session)
    own_server.stop("fast", timeout_seconds=30)
    own_server.start()
    with own_server.connect() as session:
        release(session)
        await_partitions(session, "s.a")


def test_a_reload_while_a_worker_is_at_work(session: Connection, server: WatchedServer) -> None:
    """It has made its list before, so another one follows at once, not in the next round."""
    hold_worker(session)
    server.configure({INTERVAL: "0"})
    session.execute("SELECT pg_reload_conf()")
    wait_until(lambda: not is_on(session), "maintenance is off")
    _other(session)
    server.configure({INTERVAL: "1h"})
    session.execute("SELECT pg_reload_conf()")
    wait_until(lambda: is_on(session), "maintenance is on")
    release(session)
    await_partitions(session, "s.z")
    resume(session, server)


def test_a_step_that_never_ends(session: Connection) -> None:
    """PostgreSQL ends its worker after an hour, whatever the database says."""
    session.execute("ALTER DATABASE postgres SET transaction_timeout = 0")
    session.execute(
        """CREATE TABLE s.seen (timeout text);
        CREATE FUNCTION s.spy(int) RETURNS bool LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO s.seen VALUES (current_setting('transaction_timeout'));
            RETURN true;
        END $$;
        CREATE DOMAIN s.watched AS int CHECK (s.spy(VALUE));
        CREATE TABLE s.p (k s.watched) PARTITION BY RANGE (k)"""
    )
    set_policy(session, "10")
    session.execute("DELETE FROM s.seen")
    look(session)
    await_partitions(session)
    session.execute("ALTER DATABASE postgres RESET ALL")
    assert session.execute("SELECT DISTINCT timeout FROM s.seen").fetchall() == [("1h",)]


def test_no_worker_is_free(server_factory: ServerFactory, stage: Stage) -> None:
    """That is told once; what could not be done is done when one is."""
    few = {"max_worker_processes": "2", "max_logical_replication_workers": "0"}
    with server_factory(stage=stage, settings={**SETTINGS, **few}) as server:
        with server.connect() as session:
            session.execute("CREATE DATABASE elsewhere")
            session.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
            hold_worker(session)
            with server.connect("elsewhere") as database:
                database.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
                _other(database)
                told = "no background worker is free to maintain interval partitions"
                wait_until(lambda: told in server.read_log(), "that is told")
                release(session)
                await_partitions(session, "s.a")
                await_partitions(database, "s.z")
                # Now one is, but not for both at once.
                _other(database, "s.y")
                look(session)
                await_partitions(database, "s.y")
        assert server.read_log().count(told) == 1
        assert scalar_of(server, "SELECT count(*) FROM pg_lookahead_intervals WHERE automatic") == 1


def test_a_worker_that_becomes_free(server_factory: ServerFactory, stage: Stage) -> None:
    """It is taken long before the next round."""
    few = {"max_worker_processes": "2", "max_logical_replication_workers": "0", INTERVAL: "1h"}
    with (
        server_factory(stage=stage, settings={**SETTINGS, **few}) as server,
        server.connect() as session,
        server.connect() as other,
        ThreadPoolExecutor(1) as pool,
    ):
        session.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
        _other(session)
        other.execute("SET debug_parallel_query = on")
        sleeping = pool.submit(other.execute, "SELECT pg_sleep(600)")
        wait_until(lambda: processes(session, "parallel worker"), "the only worker is taken")
        look(session)
        told = "no background worker is free to maintain interval partitions"
        wait_until(lambda: told in server.read_log(), "that is told")
        other.cancel()
        with pytest.raises(psycopg.errors.QueryCanceled):
            sleeping.result(100)
        await_partitions(session, "s.z")


def scalar_of(server: WatchedServer, query: str) -> object:
    """The first column of a query's first row, by a session of its own."""
    with server.connect() as session:
        return scalar(session, query)
