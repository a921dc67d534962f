"""Another schema takes the name of the extension's, and what is in its schema beforehand."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer
from waiting import wait_until

from intervals.policies import bounds, maintain, make, set_policy

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


# Operators for all pairs of types that the extension's tables and the catalogs have, but for those
# of pg_catalog, which come first. Whoever may create in a schema can have them there beforehand.
_CAPTURE = """
    CREATE SCHEMA h;
    DO $$
    DECLARE
        types regtype[] := ARRAY['oid', 'regclass', 'regtype', 'regrole', 'int2', 'int4', 'int8',
            'text', 'name', '"char"', 'bool', 'xid', 'timestamptz', 'interval', 'text[]'];
        one regtype;
        two regtype;
        operator text;
    BEGIN
        FOREACH one IN ARRAY types LOOP
            FOREACH two IN ARRAY types LOOP
                EXECUTE format($f$CREATE FUNCTION h.capture(%1$s, %2$s) RETURNS bool
                    LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $m$%1$s, %2$s$m$; END'$f$, one, two);
                FOREACH operator IN ARRAY ARRAY['=', '<>', '<', '<=', '>', '>=', '||', '~'] LOOP
                    EXECUTE format('CREATE OPERATOR h.%s (LEFTARG = %s, RIGHTARG = %s, '
                        'FUNCTION = h.capture)', operator, one, two);
                END LOOP;
            END LOOP;
        END LOOP;
    END $$;
    CREATE FUNCTION h.pg_lookahead_device_profile(regclass) RETURNS int RETURN 1;
    CREATE FUNCTION h.pg_lookahead_interval_status(oid) RETURNS int RETURN 1"""
# What of the extension needs an operator that is not the server's own.
_CAPTURED = """
    SELECT pg_describe_object(classid, objid, objsubid), pg_describe_object(refclassid, refobjid, 0)
      FROM pg_depend
     WHERE refclassid = 'pg_operator'::regclass AND classid <> 'pg_operator'::regclass"""


def test_operators_and_functions_that_were_there_before(
    session: Connection, server: WatchedServer
) -> None:
    """Views and checks would call their functions as whoever reads or writes."""
    session.execute("CREATE DATABASE captured")
    with server.connect("captured") as captured:
        captured.execute(_CAPTURE)
        captured.execute("CREATE EXTENSION pg_lookahead SCHEMA h; CREATE SCHEMA s")
        assert captured.execute(_CAPTURED).fetchall() == []
        captured.execute("SET search_path = h")
        make(captured, "int")
        set_policy(captured, "10, premake => 1")
        assert maintain(captured) == []
        captured.execute("RESET search_path")
        assert len(bounds(captured)) == 2
        assert scalar(captured, "SELECT ahead FROM h.pg_lookahead_intervals") == 1
        for view in ("pg_stat_lookahead", "pg_lookahead_device", "pg_lookahead_intervals"):
            captured.execute(f"TABLE h.{view}".encode())
        assert "pg_lookahead_interval_policy" in server.run_client("pg_dump", "captured").stdout
    session.execute("DROP DATABASE captured WITH (FORCE)")
