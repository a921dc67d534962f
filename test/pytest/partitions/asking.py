"""How partitions are asked for, and what is there afterwards."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from extension.probes import Connection

CHILDREN = """
    SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_class c
    JOIN pg_inherits ON inhrelid = c.oid WHERE inhparent = 's.p'::regclass ORDER BY c.oid"""
RANGES = "SELECT * FROM pg_lookahead_create_range_partitions('s.p', "
LISTS = "SELECT * FROM pg_lookahead_create_list_partitions('s.p', "


def run(session: Connection, query: str) -> tuple[Any, ...]:
    """The one row of a query."""
    dynamic: Any = query
    row = session.execute(dynamic).fetchone()
    assert row is not None
    return tuple(row)


def children(session: Connection) -> list[tuple[str, str]]:
    """Names and bounds of the partitions, in the order in which they were made."""
    return [
        (name, bound.removeprefix("FOR VALUES "))
        for name, bound in session.execute(CHILDREN).fetchall()
    ]


def make(session: Connection, column: str, by: str = "RANGE (k)") -> None:
    dynamic: Any = f"CREATE TABLE s.p (k {column}, t text) PARTITION BY {by}"
    session.execute(dynamic)


def ends(*bounds: str) -> list[str]:
    """The bounds of adjacent ranges, as PostgreSQL writes them."""
    return [f"FROM ({low}) TO ({high})" for low, high in pairwise(bounds)]
