"""COPY FROM beside other extensions that want to see utility commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from extension.probes import QUIET, Connection, need_extension
from server_log import ServerFactory, WatchedServer

from bulk_insert.arms import EXTENTS, STOCK, SWITCH, Arm, Counters
from bulk_insert.copying import MANY, Case, copy, lines, make
from lookahead.extension import Stage
from lookahead.installation import Installation

_SETTINGS = {
    **QUIET,
    SWITCH: "on",
    "pg_stat_statements.track": "all",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_nested_statements": "on",
    "pgaudit.log": "all",
    "compute_query_id": "on",
}
# Libraries of the server and of the session; the COPY is ours where no other hook comes after ours.
_FIRST = "after"
_LOADED = {
    "before": ("pg_stat_statements, {others}", "pg_lookahead"),
    "before, at server start": ("pg_stat_statements, {others}, pg_lookahead", ""),
    _FIRST: ("pg_lookahead, pg_stat_statements, {others}", ""),
    "around": ("pg_stat_statements, pg_lookahead, {others}", ""),
    "before and in the session": ("pg_stat_statements", "{others}, pg_lookahead"),
    "before, others after": ("pg_stat_statements", "pg_lookahead, {others}"),
}
_PARTS = """
    CREATE TABLE p (k int PRIMARY KEY, s text) PARTITION BY HASH (k);
    CREATE TABLE p0 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE TABLE p1 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 1);
    CREATE TABLE seen (n bigint);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO seen SELECT count(*) FROM t;
            RETURN NULL;
        END $$;
    CREATE TRIGGER noting AFTER INSERT ON t EXECUTE FUNCTION note()"""
_AGAIN = """
    CREATE FUNCTION again(times int) RETURNS bigint LANGUAGE plpgsql AS $$
        BEGIN
            FOR i IN 1 .. times LOOP
                COPY t FROM {path};
            END LOOP;
            RETURN count(*) FROM t;
        END $$"""
_COPIES = 11
_STATEMENTS = """
    SELECT query, toplevel, calls, rows, shared_blks_dirtied > 0, wal_records > 0,
           total_exec_time > 0
      FROM pg_stat_statements WHERE query ILIKE '%copy%' OR query ILIKE '%insert%'
     ORDER BY query COLLATE "C", toplevel"""


@pytest.fixture(scope="module")
def others(installation: Installation) -> tuple[str, ...]:
    """What is here of the libraries that look at statements; pg_stat_statements must be."""
    names = ("pg_stat_statements", "auto_explain", "pgaudit")
    found = [name for name in names if (installation.pkglibdir / f"{name}.so").exists()]
    if "pg_stat_statements" not in found:
        pytest.skip("this server comes without the contrib module pg_stat_statements")
    return tuple(found[1:])


@pytest.fixture(scope="module")
def watched(
    server_factory: ServerFactory, test_stage: Stage, others: tuple[str, ...]
) -> Iterator[WatchedServer]:
    """A server that is started anew for each order of the libraries."""
    with server_factory(stage=test_stage, settings=_SETTINGS) as server:
        yield server


@pytest.mark.parametrize("order", _LOADED)
def test_others_see_what_they_see_of_stock(
    watched: WatchedServer, others: tuple[str, ...], order: str
) -> None:
    """And it is we who copy where they were loaded after us."""
    named = [libraries.format(others=", ".join(others)) for libraries in _LOADED[order]]
    watched.restart(
        {
            "shared_preload_libraries": named[0].strip(", "),
            "session_preload_libraries": named[1].strip(", "),
        }
    )
    path = str(watched.write_file("watched.txt", lines()))
    with watched.connect() as session:
        need_extension(session, "pg_stat_statements")
        session.execute("CREATE EXTENSION IF NOT EXISTS pg_lookahead")
        first = order == _FIRST
        stock = _seen(session, watched, STOCK, path, batches=False)
        ours = _seen(session, watched, EXTENTS, path, batches=first)
    assert ours == stock
    assert len(stock["statements"]) == 6  # without those of tables that are not there


def _seen(
    session: Connection, server: WatchedServer, arm: Arm, path: str, *, batches: bool
) -> dict[str, Any]:
    """What the others show of some COPYs, which are ours if they go in `batches`."""
    case = Case(f"{Case.making}; {_PARTS}; {_AGAIN.format(path=repr(path))}")
    make(session, arm, case)
    session.execute("SELECT pg_stat_statements_reset()")
    before, logged = _counted(session), len(server.read_log())
    outcomes = [copy(session, case), *_copied(session, path)]
    after = _counted(session)
    seen = session.execute("TABLE seen").fetchall()
    copied = 7 * MANY  # a WHERE leaves one more to core
    left = after.left.get("other extension", 0) - before.left.get("other extension", 0)
    inserted = 0 if arm is STOCK else len(seen)  # by the trigger's INSERT
    assert after.rows - before.rows == inserted + (copied if batches else 0)
    assert left == (0 if arm is STOCK or batches else _COPIES)
    audited = [
        line[line.index("AUDIT:") :]
        for line in server.read_log()[logged:].splitlines()
        if "AUDIT:" in line and "COPY" in line
    ]
    numbers = [line.split(",", 3) for line in audited]
    return {
        "outcomes": outcomes,
        "statements": session.execute(_STATEMENTS).fetchall(),
        "audited": [(parts[0], parts[3]) for parts in numbers],
        "seen": seen,
    }


def _copied(session: Connection, path: str) -> Iterator[Any]:
    """Some more COPYs, `_COPIES` with those of functions and that of the caller."""
    for statement in (
        f"COPY p FROM '{path}'",
        f"COPY t FROM '{path}' WHERE k < 10",
        f"COPY t (k) FROM PROGRAM 'cut -f 1 {path}'",
        f"COPY p FROM '{path}'",
        "COPY nowhere FROM '/nonexistent'",
        "COPY t FROM '/nonexistent'",
        "SELECT again(3)",
        "SELECT again(1)",
    ):
        try:
            yield session.execute(statement).statusmessage
        except psycopg.Error as error:
            yield (error.sqlstate, str(error))


def _counted(session: Connection) -> Counters:
    """Also where the cluster counts, which learns of it at most once a second."""
    session.execute("SELECT pg_stat_force_next_flush()")
    return Counters.of(session)
