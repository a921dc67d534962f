"""Maintenance without a session: the same as by a call, where it is on."""

from __future__ import annotations

from extension.probes import Connection, scalar
from intervals.policies import bounds, maintain, make, set_policy, state
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from lookahead.extension import Stage
from maintenance_worker.workers import (
    INTERVAL,
    LAUNCHER,
    PRELOADED,
    WORKER,
    await_partitions,
    is_on,
    look,
    processes,
)


def test_off_by_default(server_factory: ServerFactory, stage: Stage) -> None:
    """No process, and a reload that would need one says so."""
    with server_factory(stage=stage, settings=PRELOADED) as server:
        with server.connect() as session:
            assert processes(session, LAUNCHER) == []
            server.configure({INTERVAL: "1s"})
            session.execute("SELECT pg_reload_conf()")
            wait_until(lambda: "there is no launcher" in server.read_log(), "that is told")
            assert processes(session, LAUNCHER) == []
            assert not is_on(session)
        server.restart()
        with server.connect() as session:
            wait_until(lambda: is_on(session), "a launcher is at work")
            assert len(processes(session, LAUNCHER)) == 1


def test_nothing_without_preloading(server_factory: ServerFactory, stage: Stage) -> None:
    """A session that loads the library finds the setting, and nobody obeys it."""
    settings = {INTERVAL: "1s"}
    with server_factory(stage=stage, settings=settings) as server, server.connect() as session:
        session.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
        assert scalar(session, f"SHOW {INTERVAL}") == "1s"
        assert processes(session, LAUNCHER) == []
        make(session, "int")
        set_policy(session, "10")
        assert state(session, "automatic") is False
        assert "launcher" not in server.read_log()


def test_the_same_as_by_a_call(session: Connection) -> None:
    """Created, taken out and analyzed, in the table's own zone; the state says when."""
    session.execute("SET ROLE owner")
    for table in ("s.p", "s.q"):
        session.execute(f"CREATE TABLE {table} (k date) PARTITION BY RANGE (k)".encode())
        session.execute(
            f"""SELECT pg_lookahead_create_range_partitions('{table}', current_date - 10,
                '1 day', 11, names => '{{parent}}_{{bound}}')""".encode()
        )
        arguments = "'1 day', retention => '3 days', time_zone => 'Asia/Kolkata', "
        drops = "retention_action => 'drop', analyze_every => '1 day'"
        if table == "s.q":
            # Nobody else is to maintain it.
            session.execute("RESET ROLE")
            with session.transaction():
                set_policy(session, arguments + drops, table)
                session.execute(
                    "UPDATE pg_lookahead_interval_state SET next_run = now() + interval '1 hour' "
                    "WHERE parent = 's.q'::regclass"
                )
            maintain(session, "s.q")
        else:
            set_policy(session, arguments + drops)
    look(session)
    wait_until(lambda: state(session, "last_run"), "s.p is maintained")
    assert bounds(session) == bounds(session, "s.q")
    columns = "(partitions, ahead, behind, last_error, blocked, attempts, last_analyze IS NOT NULL)"
    assert state(session, columns) == state(session, columns, "s.q")
    assert state(session, "next_run > last_run AND automatic AND NOT running")
    owners = "SELECT count(DISTINCT relowner) FROM pg_class WHERE relname LIKE 'p\\_%'"
    assert scalar(session, owners) == 1


def test_it_works_as_the_owner(session: Connection) -> None:
    """Functions of the key run as in a call: with the owner's rights."""
    session.execute(
        """CREATE TABLE s.seen (who text, path text); GRANT ALL ON s.seen TO PUBLIC;
        SET ROLE owner;
        CREATE FUNCTION s.spy(int) RETURNS int LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO s.seen VALUES (current_user, current_setting('search_path'));
            RETURN $1;
        END $$;
        CREATE DOMAIN s.watched AS int CHECK (s.spy(VALUE) IS NOT NULL);
        CREATE TABLE s.p (k s.watched) PARTITION BY RANGE (k)"""
    )
    set_policy(session, "10")
    session.execute("RESET ROLE; DELETE FROM s.seen")
    look(session)
    await_partitions(session)
    seen = session.execute("SELECT DISTINCT * FROM s.seen").fetchall()
    assert seen == [("owner", "pg_catalog, pg_temp")]


def _look_twice(session: Connection) -> None:
    """Those that are due come first, so it takes a second worker to know what the first one did."""
    for table in ("s.q", "s.r"):
        session.execute(f"CREATE TABLE {table} (k int) PARTITION BY RANGE (k)".encode())
        set_policy(session, "10", table)
        look(session)
        await_partitions(session, table)


def test_what_is_not_due_is_left(session: Connection) -> None:
    make(session, "int")
    with session.transaction():
        set_policy(session, "10")
        session.execute(
            "UPDATE pg_lookahead_interval_state SET next_run = now() + interval '1 hour'"
        )
    _look_twice(session)
    assert bounds(session) == []


def test_a_clock_that_has_gone_back(session: Connection) -> None:
    """No run says that the next one is due so late."""
    make(session, "int")
    set_policy(session, "10")
    session.execute("UPDATE pg_lookahead_interval_state SET next_run = now() + interval '1 day'")
    look(session)
    await_partitions(session)


def test_a_policy_from_a_dump_waits_for_a_call(session: Connection) -> None:
    """It has no state, which dumps do not contain."""
    make(session, "int")
    with session.transaction():
        set_policy(session, "10")
        session.execute("DELETE FROM pg_lookahead_interval_state")
    _look_twice(session)
    assert bounds(session) == []
    assert state(session, "automatic") is False
    assert state(session, "automatic", "s.q") is True
    maintain(session)
    session.execute("DROP TABLE s.p_0; UPDATE pg_lookahead_interval_state SET next_run = NULL")
    look(session)
    await_partitions(session)
    assert state(session, "automatic") is True


def test_it_is_seen_at_work(session: Connection, server: WatchedServer) -> None:
    """It waits for the table, which another session has locked."""
    make(session, "int")
    set_policy(session, "10")
    with server.connect(autocommit=False) as other:
        other.execute("LOCK TABLE s.p IN SHARE UPDATE EXCLUSIVE MODE")
        look(session)
        wait_until(lambda: state(session, "running"), "the view shows that somebody is at work")
        shown = session.execute(
            """SELECT application_name, query FROM pg_stat_activity WHERE backend_type = %s""",
            (WORKER,),
        ).fetchall()
        assert shown == [("pg_lookahead maintenance", "maintain partitions of s.p")]
        wait_until(lambda: not state(session, "running"), "it gives up")
        assert "lock timeout" in state(session, "last_error")
        other.rollback()
    maintain(session)
    assert len(bounds(session)) == 5


def test_policies_of_tables_that_are_no_more(session: Connection) -> None:
    make(session, "int")
    set_policy(session, "10")
    session.execute("DROP TABLE s.p")
    look(session)
    policies = "SELECT count(*) FROM pg_lookahead_interval_policy"
    wait_until(lambda: scalar(session, policies) == 0, "the policy is gone")
