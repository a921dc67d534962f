"""Stories: the same statements told by stock and by us, from nothing, leave the same indexes.

For statements that rewrite tables or build many indexes at once. Each telling begins in a new
schema `twin` and ends with all indexes read; what statements fail is part of the story.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from extension.probes import Connection

from index_build.twins import (
    ARMS,
    Arm,
    Build,
    Counters,
    Failure,
    Twins,
    check_tree,
    choose,
    complaint,
)

# Of the schema and of the session's temporary tables. Those of TOAST tables are core's own.
_INDEXES = """
    SELECT c.oid::regclass::text FROM pg_class c JOIN pg_am ON pg_am.oid = c.relam
    WHERE c.relkind = 'i' AND amname = 'btree'
      AND c.relnamespace IN ('twin'::regnamespace, pg_my_temp_schema())
    ORDER BY c.relname"""


@dataclass(frozen=True)
class Telling:
    """What one arm's telling left behind; `built` counts the indexes built by us."""

    failures: tuple[Failure | None, ...]
    indexes: dict[str, Build]
    built: int


def tell(twins: Twins, arm: Arm, statements: Sequence[str]) -> Telling:
    """Run the statements in order, each for itself, and read all indexes."""
    session = twins.connection
    session.execute("DROP SCHEMA IF EXISTS twin CASCADE; DISCARD TEMP; CREATE SCHEMA twin")
    session.execute("SET search_path = twin, public")
    choose(session, arm)
    before = Counters.of(session).built
    failures = [_attempt(session, statement) for statement in statements]
    built = Counters.of(session).built - before
    choose(session, "stock")
    # What later statements inserted is in shared buffers only.
    session.execute("CHECKPOINT")
    names = [str(row[0]) for row in session.execute(_INDEXES).fetchall()]
    return Telling(tuple(failures), {name: twins.read(name) for name in names}, built)


def _attempt(session: Connection, statement: str) -> Failure | None:
    try:
        session.execute(statement)
    except psycopg.Error as error:
        return Failure.of(error)
    return None


def compare(
    twins: Twins,
    statements: Sequence[str],
    *,
    built: int = 0,
    fails: Sequence[str] = (),
    exactly: bool = False,
) -> Telling:
    """Tell a story twice and hold the ends against each other; our arm's comes back.

    `built` is how many indexes our arm has to build at least; `fails` are the SQLSTATEs of the
    statements that fail, in order. With `exactly` errors may not even differ in which of several
    duplicates they name.
    """
    stock, ours = (tell(twins, arm, statements) for arm in ARMS)
    for statement, theirs, mine in zip(statements, stock.failures, ours.failures, strict=True):
        found = complaint(Build(failure=theirs), Build(failure=mine)) if theirs or mine else ""
        assert not found, f"{statement}: {found}"
    assert [one.sqlstate for one in ours.failures if one] == list(fails), ours.failures
    if exactly:
        assert stock.failures == ours.failures
    assert stock.indexes.keys() == ours.indexes.keys()
    for name, build in ours.indexes.items():
        assert not (found := complaint(stock.indexes[name], build)), f"{name}: {found}"
    assert stock.built == 0
    assert ours.built >= built, f"{ours.built} of {built} indexes were built by us"
    return ours


def check_trees(connection: Connection, telling: Telling) -> None:
    """amcheck's strictest look at all indexes that are valid."""
    for name in telling.indexes:
        valid = connection.execute(
            "SELECT indisvalid FROM pg_index WHERE indexrelid = %s::regclass", (name,)
        ).fetchone()
        if valid and valid[0]:
            check_tree(connection, name)
