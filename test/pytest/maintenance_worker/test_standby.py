"""None on a standby; one as soon as it is promoted."""

from __future__ import annotations

from extension.probes import scalar
from intervals.policies import make, set_policy, state
from replication import standby_of, wait_for_replay
from server_log import ServerFactory, WatchedServer

from lookahead.extension import Stage
from maintenance_worker.workers import (
    LAUNCHER,
    SETTINGS,
    await_partitions,
    count,
    look,
    processes,
)


def test_a_standby_and_its_promotion(
    server: WatchedServer, server_factory: ServerFactory, stage: Stage
) -> None:
    with server.connect() as session:
        session.execute("CREATE SCHEMA s")
        make(session, "int")
        with standby_of(server, server_factory, SETTINGS, stage) as copy, copy.connect() as reader:
            set_policy(session, "10")
            look(session)
            await_partitions(session)
            wait_for_replay(session, reader)
            assert count(reader) == 5
            assert state(reader, "(automatic, running)") == ("f", "f")
            assert processes(reader, LAUNCHER) == []
            session.execute("CREATE TABLE s.q (k int) PARTITION BY RANGE (k)")
            with session.transaction():
                set_policy(session, "10", "s.q")
                session.execute(
                    "UPDATE pg_lookahead_interval_state SET next_run = now() + interval '1 hour' "
                    "WHERE parent = 's.q'::regclass"
                )
            wait_for_replay(session, reader)
            assert scalar(reader, "SELECT pg_promote()")
            reader.execute("UPDATE pg_lookahead_interval_state SET next_run = NULL")
            await_partitions(reader, "s.q")
            assert count(session, "s.q") == 0
            assert state(reader, "automatic", "s.q") is True
