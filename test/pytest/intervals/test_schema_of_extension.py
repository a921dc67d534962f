"""Another schema takes the name of the extension's while its tables are looked up."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer
from waiting import wait_until

from intervals.policies import make, set_policy

_WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'"
# What stands there instead, and says who has read it.
_FAKE = """
CREATE SCHEMA fake;
CREATE FUNCTION fake.called() RETURNS boolean LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'called as %', current_user; END $$;
CREATE VIEW fake.pg_lookahead_interval_policy AS
    SELECT p.*, '(0,1)'::tid AS ctid, '3'::xid AS xmin
      FROM public.pg_lookahead_interval_policy p WHERE fake.called();
"""
_SWAP = "ALTER SCHEMA public RENAME TO renamed; ALTER SCHEMA fake RENAME TO public"
_SWAP_BACK = "ALTER SCHEMA public RENAME TO fake; ALTER SCHEMA renamed RENAME TO public"


def test_another_table_of_policies_is_not_read(session: Connection, server: WatchedServer) -> None:
    """Whose functions would be called by the owner of the extension."""
    make(session, "int")
    set_policy(session, "10")
    session.execute(_FAKE)

    def ask() -> str:
        with server.connect() as own:
            with pytest.raises(psycopg.Error) as caught:
                own.execute("SELECT pg_lookahead_interval_status('s.p')")
            return str(caught.value.diag.message_primary)

    with ThreadPoolExecutor(1) as pool, server.connect(autocommit=False) as locker:
        locker.execute("LOCK TABLE pg_lookahead_interval_policy IN ACCESS EXCLUSIVE MODE")
        asked = pool.submit(ask)
        wait_until(lambda: asked.done() or scalar(session, _WAITING), "the question waits")
        session.execute(_SWAP)
        try:
            locker.rollback()
            message = asked.result(100)
        finally:
            session.execute(_SWAP_BACK)
    session.execute("DROP SCHEMA fake CASCADE")
    assert message == 'the schema of extension "pg_lookahead" was renamed meanwhile'
