"""Who may create partitions: whoever may by a statement, and with the same effect."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from partitions.asking import RANGES, make, run

_WAYS = ("direct", "attached", "native")


@pytest.fixture
def owner(session: Connection) -> Iterator[Connection]:
    """A session of a role that owns schema s, a table, and nothing else."""
    session.execute("CREATE ROLE someone; GRANT ALL ON SCHEMA s TO someone")
    session.execute("GRANT USAGE ON SCHEMA around TO someone; SET ROLE someone")
    make(session, "int")
    yield session
    session.execute("RESET ROLE; SET event_triggers = off; DROP SCHEMA s CASCADE; CREATE SCHEMA s")
    session.execute("DROP OWNED BY someone; DROP ROLE someone")


@pytest.mark.parametrize("way", _WAYS)
def test_the_owner(owner: Connection, way: str) -> None:
    assert run(owner, f"{RANGES} 0, 10, 2, way => '{way}')")[:2] == (2, 0)
    who = "SELECT DISTINCT relowner::regrole::text FROM pg_class WHERE relname LIKE 'p\\_%'"
    assert owner.execute(who).fetchall() == [("someone",)]


@pytest.mark.parametrize("way", _WAYS)
def test_another_role(owner: Connection, way: str) -> None:
    owner.execute("RESET ROLE; GRANT ALL ON s.p TO reader; GRANT ALL ON SCHEMA s TO reader")
    owner.execute("SET ROLE reader")
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as caught:
        run(owner, f"{RANGES} 0, 10, 2, way => '{way}')")
    assert "must be owner of" in str(caught.value)


@pytest.mark.parametrize("way", _WAYS)
def test_a_member_of_the_owner(owner: Connection, way: str) -> None:
    """As with a statement, the partitions belong to who creates them."""
    owner.execute("RESET ROLE; GRANT someone TO reader; GRANT ALL ON SCHEMA s TO reader")
    owner.execute("SET ROLE reader")
    run(owner, f"{RANGES} 0, 10, 1, way => '{way}')")
    assert scalar(owner, "SELECT relowner::regrole::text FROM pg_class WHERE relname = 'p_0'") == (
        "reader"
    )


@pytest.mark.parametrize("right", ["CREATE", "USAGE"])
@pytest.mark.parametrize("way", _WAYS)
def test_without_a_right_on_the_schema(owner: Connection, way: str, right: str) -> None:
    number = scalar(owner, "SELECT 's.p'::regclass::oid")
    call = RANGES.replace("'s.p'", str(number))
    owner.execute(f"RESET ROLE; REVOKE {right} ON SCHEMA s FROM someone; SET ROLE someone")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="denied for schema s"):
        run(owner, f"{call} 0, 10, 1, way => '{way}')")


@pytest.mark.parametrize("way", _WAYS)
def test_without_a_right_on_the_tablespace(owner: Connection, way: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="tablespace elsewhere"):
        run(owner, f"{RANGES} 0, 10, 1, way => '{way}', tablespace => 'elsewhere')")
    owner.execute("SET default_tablespace = elsewhere")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="tablespace elsewhere"):
        run(owner, f"{RANGES} 0, 10, 1, way => '{way}')")


@pytest.mark.parametrize("way", _WAYS)
def test_without_a_right_on_a_type(owner: Connection, way: str) -> None:
    owner.execute("RESET ROLE; ALTER TABLE s.p ADD d around.positive")
    owner.execute("REVOKE USAGE ON TYPE around.positive FROM PUBLIC; SET ROLE someone")
    try:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="denied for type"):
            run(owner, f"{RANGES} 0, 10, 1, way => '{way}')")
    finally:
        owner.execute("RESET ROLE; GRANT USAGE ON TYPE around.positive TO PUBLIC")


def test_others_do_not_wait_for_a_lock(server: WatchedServer, owner: Connection) -> None:
    """Nobody holds up a table's sessions with a call that fails for want of rights."""
    owner.execute("RESET ROLE")
    number = scalar(owner, "SELECT 's.p'::regclass::oid")
    with server.connect() as other, owner.transaction():
        owner.execute("LOCK TABLE s.p IN ACCESS EXCLUSIVE MODE")
        other.execute("SET lock_timeout = '60s'; SET ROLE reader")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            run(other, f"SELECT pg_lookahead_create_range_partitions({number}, 0, 10, 1)")


@pytest.mark.parametrize("way", _WAYS)
def test_hostile_search_path(owner: Connection, way: str) -> None:
    """Somebody's objects with names of PostgreSQL's come first, and are not called."""
    owner.execute("RESET ROLE")
    owner.execute(
        "CREATE FUNCTION s.boom(int, int) RETURNS bool LANGUAGE plpgsql AS"
        " 'BEGIN RAISE ''called''; END'"
    )
    owner.execute("CREATE OPERATOR s.< (LEFTARG = int, RIGHTARG = int, FUNCTION = s.boom)")
    owner.execute("CREATE DOMAIN s.int4 AS text; CREATE TABLE s.pg_class (oid int)")
    owner.execute('CREATE SCHEMA "s.x"; CREATE TABLE "s.x"."p" (k int)')
    owner.execute('SET search_path = "s.x", s, pg_catalog')
    number = scalar(owner, "SELECT 's.p'::regclass::oid")
    try:
        run(
            owner,
            "SELECT pg_catalog.count(*) FROM public.pg_lookahead_create_range_partitions("
            f"{number}, 0, 10, 3, way => '{way}')",
        )
        owner.execute("RESET search_path")
        assert (
            scalar(owner, "SELECT count(*) FROM pg_inherits WHERE inhparent = 's.p'::regclass") == 3
        )
    finally:
        owner.execute('RESET search_path; DROP SCHEMA "s.x" CASCADE')


@pytest.mark.parametrize("way", _WAYS)
def test_hostile_names(session: Connection, way: str) -> None:
    schema = 'S"; DROP SCHEMA s; --'
    table = "t'\\\\" + "ß" * 28 + "--"
    session.execute('CREATE SCHEMA "S""; DROP SCHEMA s; --"')
    quoted = f'"S""; DROP SCHEMA s; --"."{table}"'
    try:
        session.execute(f'CREATE TABLE {quoted} ("a b" text, k int) PARTITION BY RANGE (k)')
        call = (
            "SELECT created FROM pg_lookahead_create_range_partitions("
            f"%s, -7, 7, 2, names => %s, way => '{way}')"
        )
        assert session.execute(call, (quoted, '{parent}"; --{bound}')).fetchone() == (2,)
        found = session.execute(
            "SELECT relname FROM pg_class WHERE relnamespace::regnamespace::text = quote_ident(%s)"
            " AND relkind = 'r' ORDER BY oid",
            (schema,),
        ).fetchall()
        assert [len(name.encode()) <= 63 and name[-9:] for (name,) in found] == [
            'ßß"; --m7',
            'ßßß"; --0',
        ]
    finally:
        session.execute('DROP SCHEMA "S""; DROP SCHEMA s; --" CASCADE')


@pytest.mark.parametrize("way", _WAYS)
def test_security_restricted_operations(owner: Connection, way: str) -> None:
    """Within the building of an index, core lets nobody create temporary tables."""
    owner.execute("CREATE TEMP TABLE passing (k int) PARTITION BY RANGE (k)")
    owner.execute("CREATE TABLE s.rows (k int); INSERT INTO s.rows VALUES (1)")
    owner.execute(
        "CREATE FUNCTION s.sneaky(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM"
        " public.pg_lookahead_create_range_partitions('pg_temp.passing', 0, 10, 1,"
        f" way => '{way}'); RETURN 1; END $$"
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="security-restricted"):
        owner.execute("CREATE INDEX ON s.rows (s.sneaky(k))")
