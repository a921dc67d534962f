"""The procedure: transactions, errors that stop nobody, several sessions at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Any

import psycopg
import pytest
from extension.probes import QUIET, Connection, scalar
from interrupting import Moments
from replication import standby_of, wait_for_replay
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from intervals.policies import bounds, maintain, make, names, set_policy, state
from lookahead.extension import Stage

_DEFAULT = "CREATE TABLE s.rest PARTITION OF s.p DEFAULT"
_CALL = "CALL pg_lookahead_maintain_partitions()"


def test_not_in_a_transaction(session: Connection) -> None:
    with pytest.raises(psycopg.errors.InvalidTransactionTermination) as caught:
        session.execute(f"BEGIN; {_CALL}")
    assert "Use CALL outside of a transaction block." in str(caught.value)
    session.execute("ROLLBACK")


@pytest.mark.parametrize(("rest", "transactions"), [("SELECT", 3), (_DEFAULT, 251)])
def test_partitions_in_a_transaction(session: Connection, rest: str, transactions: int) -> None:
    """A hundred while others use the table, and one where they wait."""
    make(session, "int")
    dynamic: Any = rest
    session.execute(dynamic)
    set_policy(session, "10, premake => 250")
    maintain(session)
    assert len(bounds(session)) == 251
    created = "SELECT count(DISTINCT xmin::text) FROM pg_class WHERE relname ~ '^p_[0-9]'"
    assert scalar(session, created) == transactions


def test_no_policy(session: Connection) -> None:
    make(session, "int")
    with pytest.raises(psycopg.errors.UndefinedObject, match="has no interval policy"):
        maintain(session, "s.p")
    assert maintain(session) == []


def test_an_error_is_noted_and_others_go_on(session: Connection) -> None:
    make(session, "int")
    session.execute("CREATE TABLE s.q (LIKE s.p) PARTITION BY RANGE (k)")
    session.execute("CREATE VIEW s.p_10 AS SELECT 1")
    set_policy(session, "10, premake => 3")
    set_policy(session, "10, premake => 3", "s.q")
    heard = maintain(session)
    assert heard == ['could not maintain the partitions of "p": relation "p_10" already exists']
    assert (len(bounds(session)), len(bounds(session, "s.q"))) == (3, 4)
    assert state(session, "last_sqlstate") == "42P07"
    assert state(session, "last_error") == 'relation "p_10" already exists'
    assert (state(session, "attempts"), state(session, "behind")) == (1, True)
    waits = "extract(epoch FROM next_run - last_run)::int"
    assert state(session, waits) == 60
    maintain(session)
    assert (state(session, "attempts"), state(session, waits)) == (2, 120)
    session.execute("DROP VIEW s.p_10")
    assert maintain(session) == []
    assert (state(session, "attempts"), state(session, "last_error")) == (0, None)
    assert len(bounds(session)) == 4


def test_a_type_in_the_way_stops_no_other_range(session: Connection) -> None:
    make(session, "int")
    session.execute("CREATE DOMAIN s.p_10 AS int")
    set_policy(session, "10, premake => 3")
    assert len(maintain(session)) == 1
    assert [low for low, _ in bounds(session)] == ["0", "20", "30"]


def test_rows_in_the_default_partition(session: Connection) -> None:
    make(session, "int")
    session.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT; INSERT INTO s.p VALUES (15)")
    set_policy(session, "10, premake => 3")
    assert len(maintain(session)) == 1
    assert state(session, "last_sqlstate") == "23514"
    assert bounds(session) == [("0", "10"), ("20", "30"), ("30", "40")]
    assert (state(session, "ahead"), state(session, "wanted")) == (0, "10")
    session.execute("DELETE FROM s.p")
    maintain(session)
    assert len(bounds(session)) == 4


@pytest.mark.parametrize("sessions", [2, 6])
def test_several_at_once(session: Connection, server: WatchedServer, sessions: int) -> None:
    """Nothing is created twice, and nobody hears of an error."""
    for table in ("p", "q", "r"):
        session.execute(f"CREATE TABLE s.{table} (k int) PARTITION BY RANGE (k)")
        set_policy(session, "10, premake => 30", f"s.{table}")

    def run(_: int) -> list[str]:
        with server.connect() as own:
            return maintain(own)

    with ThreadPoolExecutor(sessions) as pool:
        heard = {text for texts in pool.map(run, range(sessions)) for text in texts}
    assert all("maintained by another session just now" in text for text in heard)
    maintain(session)
    for table in ("p", "q", "r"):
        assert len(bounds(session, f"s.{table}")) == 31
        assert state(session, "last_error", f"s.{table}") is None


def _waits(session: Connection) -> bool:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    return bool(scalar(session, waiting))


def test_a_lock_is_not_waited_for_long(session: Connection, server: WatchedServer) -> None:
    make(session, "int")
    set_policy(session, "10, premake => 3")
    with server.connect(autocommit=False) as other:
        other.execute("LOCK TABLE s.p IN SHARE UPDATE EXCLUSIVE MODE")
        assert len(maintain(session)) == 1
        other.rollback()
    assert state(session, "last_sqlstate") == "55P03"
    maintain(session)
    assert len(bounds(session)) == 4


def test_a_cancel_ends_it(session: Connection, server: WatchedServer) -> None:
    """What was committed stays; the lock on the work is given up."""
    make(session, "int")
    set_policy(session, "10, premake => 3")
    with server.connect(autocommit=False) as holder:
        holder.execute("LOCK TABLE s.p IN SHARE UPDATE EXCLUSIVE MODE")
        heard: list[str] = []
        with server.connect() as own:
            own.execute("SET lock_timeout = '100s'")
            thread = Thread(target=_cancelled, args=(own, heard))
            thread.start()
            wait_until(lambda: _waits(session), "the maintenance waits")
            own.cancel()
            thread.join()
            assert heard[-1].startswith("canceling statement due to user request")
            locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
            assert scalar(session, locks) == 0
        holder.rollback()
    maintain(session)
    assert len(bounds(session)) == 4


def _cancelled(session: Connection, heard: list[str]) -> None:
    try:
        session.execute(_CALL)
    except psycopg.Error as error:
        heard.append(str(error).splitlines()[0])


def test_cancels_at_random(session: Connection, server: WatchedServer, seed: int) -> None:
    moments = Moments(seed)
    make(session, "int")
    set_policy(session, "10, premake => 100")
    for _ in range(20):
        with server.connect() as own:
            own.execute(f"SET statement_timeout = {1 + int(moments.draw(_CALL) * 1000)}")
            try:
                own.execute(_CALL)
            except psycopg.errors.QueryCanceled:
                # By another session: the limit is this one's.
                left = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = "
                assert scalar(session, f"{left}{own.info.backend_pid}") == 0
    maintain(session)
    assert bounds(session) == [(str(i * 10), str(i * 10 + 10)) for i in range(101)]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_isolation_levels(session: Connection, level: str) -> None:
    make(session, "int")
    set_policy(session, "10, premake => 3, retention => 20, retention_action => 'drop'")
    session.execute(f"SET default_transaction_isolation = '{level}'")
    maintain(session)
    session.execute("INSERT INTO s.p VALUES (35)")
    maintain(session)
    session.execute("RESET default_transaction_isolation")
    assert bounds(session)[0] == ("10", "20")
    assert state(session, "last_error") is None


def test_a_change_of_the_step(session: Connection) -> None:
    make(session, "int")
    set_policy(session, "10, premake => 3")
    maintain(session)
    change = "SELECT pg_lookahead_change_interval('s.p', 100)"
    assert scalar(session, change) == "40"
    session.execute("INSERT INTO s.p VALUES (39)")
    maintain(session)
    assert bounds(session)[-3:] == [("40", "140"), ("140", "240"), ("240", "340")]
    assert scalar(session, "SELECT pg_lookahead_change_interval('s.p', 7, 250)") == "250"
    session.execute("INSERT INTO s.p VALUES (339)")
    maintain(session)
    assert bounds(session)[-3:] == [("340", "341"), ("341", "348"), ("348", "355")]
    assert state(session, "change_starts") == ["40", "250"]
    scalar(session, "SELECT pg_lookahead_change_interval('s.p', 50, 40)")
    assert (state(session, "change_starts"), state(session, "change_steps")) == (["40"], ["50"])


def test_a_change_of_the_step_of_times(session: Connection) -> None:
    """The day before is cut where months begin."""
    make(session, "date")
    set_policy(session, "'7 days', premake => 1")
    session.execute(
        "SELECT pg_lookahead_change_interval('s.p', '1 month', "
        "(date_trunc('month', current_date) + '1 month')::date)"
    )
    session.execute("SELECT pg_lookahead_set_interval('s.p', '7 days', premake => 10)")
    session.execute(
        "SELECT pg_lookahead_change_interval('s.p', '1 month', "
        "(date_trunc('month', current_date) + '1 month')::date)"
    )
    maintain(session)
    lows = [low for low, _ in bounds(session)]
    firsts = [low for low in lows if low.endswith("-01")]
    assert len(firsts) >= 6
    assert all(
        high == low
        for (_, high), (low, _) in zip(bounds(session), bounds(session)[1:], strict=False)
    )


@pytest.mark.parametrize(("end", "new"), [("510", ["p_510"]), ("MAXVALUE", [])])
def test_a_partition_that_may_be_in_use_is_locked(
    session: Connection, server: WatchedServer, end: str, new: list[str]
) -> None:
    """Nothing is created in the gap before it, and nothing is said of how many are missing."""
    make(session, "int")
    for low, high in ((0, "10"), (500, end)):
        session.execute(
            f"CREATE TABLE s.p{low} PARTITION OF s.p FOR VALUES FROM ({low}) TO ({high})"
        )
        session.execute(f"INSERT INTO s.p VALUES ({low})")
    set_policy(session, "10, 0, premake => 1")
    with server.connect() as other:
        other.execute("BEGIN; LOCK s.p500")
        maintain(session)
        assert scalar(session, "SELECT count(*) FROM pg_inherits") == 2
        assert state(session, "ROW(partitions, ahead, behind)::text") == "(2,,)"
        why = "no further partitions: a partition that may be the last one in use is locked"
        assert state(session, "ROW(blocked, last_error)::text") == f'("{why}",)'
        other.execute("COMMIT")
    maintain(session)
    assert names(session) == ["p0", "p500", *new]
    assert state(session, "ROW(ahead, blocked)::text") == "(1,)"


def test_a_partition_that_was_made_ahead_is_locked(
    session: Connection, server: WatchedServer
) -> None:
    """What follows it is wanted whether it is in use or not, and is in no gap."""
    make(session, "int")
    set_policy(session, "10, 0, premake => 2")
    maintain(session)
    session.execute("INSERT INTO s.p VALUES (15)")
    with server.connect() as other:
        other.execute("BEGIN; LOCK s.p_20")
        columns = "ROW(partitions, newest, wanted, ahead, behind, blocked)::text"
        assert state(session, columns) == "(3,30,,,,)"
        maintain(session)
        assert state(session, columns) == "(4,40,,,,)"
        other.execute("COMMIT")
    assert state(session, "ROW(ahead, behind)::text") == "(2,f)"


def test_the_origin_is_after_a_partition_that_is_locked(
    session: Connection, server: WatchedServer
) -> None:
    """Ranges follow that partition if it is in use, and the origin otherwise."""
    make(session, "int")
    session.execute("CREATE TABLE s.p0 PARTITION OF s.p FOR VALUES FROM (0) TO (10)")
    session.execute("INSERT INTO s.p VALUES (5)")
    set_policy(session, "10, 1000, premake => 1")
    with server.connect() as other:
        other.execute("BEGIN; LOCK s.p0")
        maintain(session)
        assert scalar(session, "SELECT count(*) FROM pg_inherits") == 1
        other.execute("COMMIT")
    maintain(session)
    assert names(session) == ["p0", "p_10"]


def test_statistics_of_the_table(session: Connection) -> None:
    make(session, "int")
    set_policy(session, "1000, premake => 0, analyze_every => '1 day'")
    maintain(session)
    session.execute("INSERT INTO s.p SELECT i FROM generate_series(1, 500) i")
    session.execute(
        "UPDATE pg_lookahead_interval_state SET last_analyze = now() - interval '2 days'"
    )
    maintain(session)
    found = "SELECT count(*) FROM pg_stats WHERE tablename = 'p' AND inherited AND attname = 'k'"
    assert scalar(session, found) == 1
    assert scalar(session, "SELECT count(*) FROM pg_stats WHERE tablename = 'p_0'") == 0
    before = state(session, "last_analyze")
    maintain(session)
    assert state(session, "last_analyze") == before


def test_names_tablespace_and_storage(session: Connection) -> None:
    session.execute("SET allow_in_place_tablespaces = on")
    session.execute("CREATE TABLESPACE far LOCATION ''")
    make(session, "int")
    set_policy(
        session,
        "10, premake => 1, names => 'x_{bound}', tablespace => 'far', storage => 'fillfactor = 50'",
    )
    maintain(session)
    assert names(session) == ["x_0", "x_10"]
    made = """SELECT reloptions, spcname FROM pg_class JOIN pg_tablespace t
              ON t.oid = reltablespace WHERE relname = 'x_0'"""
    assert session.execute(made).fetchone() == (["fillfactor=50"], "far")
    session.execute("DROP TABLE s.p")
    session.execute("DROP TABLESPACE far")


@pytest.mark.parametrize("what", ["triggers", "event trigger", "off"])
def test_other_ways(session: Connection, what: str) -> None:
    """Where partitions cannot be created directly they are created all the same."""
    make(session, "int")
    session.execute(
        "CREATE FUNCTION s.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
        "CREATE FUNCTION s.e() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'"
    )
    if what == "triggers":
        session.execute("CREATE TRIGGER f AFTER INSERT ON s.p FOR EACH ROW EXECUTE FUNCTION s.f()")
    elif what == "off":
        session.execute("SET pg_lookahead.enabled = off")
    else:
        session.execute("CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION s.e()")
    try:
        set_policy(session, "10, premake => 3, retention => 10, retention_action => 'drop'")
        maintain(session)
        session.execute("INSERT INTO s.p VALUES (25)")
        maintain(session)
    finally:
        session.execute("DROP EVENT TRIGGER IF EXISTS e")
    assert (bounds(session)[0], len(bounds(session))) == (("10", "20"), 5)


def test_read_only(session: Connection) -> None:
    make(session, "int")
    set_policy(session, "10")
    session.execute("SET default_transaction_read_only = on")
    for statement in (
        _CALL,
        "SELECT pg_lookahead_set_interval('s.p', 20)",
        "SELECT pg_lookahead_unset_interval('s.p')",
        "SELECT pg_lookahead_change_interval('s.p', 20)",
    ):
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            session.execute(statement)
    assert state(session, "ahead") == -1
    session.execute("RESET default_transaction_read_only")


def test_a_standby(
    server_factory: ServerFactory, stage: Stage, session: Connection, server: WatchedServer
) -> None:
    """It has the policy and its state, and maintains nothing."""
    make(session, "int")
    set_policy(session, "10, premake => 2")
    maintain(session)
    with standby_of(server, server_factory, QUIET, stage) as standby, standby.connect() as reader:
        wait_for_replay(session, reader)
        assert (state(reader, "ahead"), state(reader, "behind")) == (2, False)
        with pytest.raises(psycopg.Error, match=r"read-only transaction|during recovery"):
            reader.execute(_CALL)
    scalar(session, "SELECT pg_drop_replication_slot('standby')")
