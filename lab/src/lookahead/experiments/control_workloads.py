"""The statements of the experiment "controls", and the tables that they read.

Those named os-... read a table that does not fit into shared buffers and lies in the cache of
the operating system as a whole; all others read one that is in shared buffers.
"""

from dataclasses import dataclass
from typing import Any

import psycopg

from lookahead.experiments.scan_statement import (
    ScanStatement,
    choose_heap_ordered,
    choose_periodic,
)
from lookahead.experiments.scan_table import TABLE

ROWS = 200_000
SCANNED_ROWS = 100_000
# k is id through a permutation (7919 is a prime that does not divide ROWS), so neighbours in k lie
# pages apart.
_STEP = 7919
_TABLES = f"""
    CREATE TABLE control_parent (id int PRIMARY KEY, k int NOT NULL, pad text);
    INSERT INTO control_parent
        SELECT id, (id::bigint * {_STEP} % {ROWS})::int, repeat('x', 100)
        FROM generate_series(0, {ROWS - 1}) AS id;
    CREATE INDEX control_parent_k ON control_parent (k);
    CREATE TABLE control_child (parent int NOT NULL REFERENCES control_parent, value int);
"""
# Through each index once: with the table both indexes come into shared buffers.
_WARM_UP = tuple(
    f"SELECT count(pad) FROM control_parent WHERE {column} >= 0" for column in ("id", "k")
)


@dataclass(frozen=True)
class Workload:
    """A pgbench statement, with :key where a random number is wanted, and what proves its plan.

    `explained` (default: the statement itself) is the statement whose plan is looked at; `options`
    are settings of its sessions. The random number is at most `last_key`.
    """

    name: str
    statement: str
    explained: str = ""
    node_type: str = "Index Scan"
    options: str = ""
    reset: str | None = None
    last_key: int = ROWS - 1

    @property
    def is_os_cached(self) -> bool:
        return self.name.startswith("os-")

    @property
    def script(self) -> str:
        """What pgbench runs."""
        return f"\\set key random(0, {self.last_key})\n{self.statement};\n"

    @property
    def explained_statement(self) -> str:
        """With a number in place of the random one."""
        return (self.explained or self.statement).replace(":key", "1000")


_FROM_PARENT = "SELECT id, k, pad FROM control_parent WHERE"
CACHED_WORKLOADS = (
    Workload("limit-1", f"{_FROM_PARENT} k >= :key ORDER BY k LIMIT 1"),
    Workload("limit-100", f"{_FROM_PARENT} k >= :key ORDER BY k LIMIT 100"),
    Workload("point-lookup", f"{_FROM_PARENT} id = :key"),
    Workload(
        "nested-loop",
        "SELECT count(pad) FROM generate_series(1, 20000) AS number JOIN control_parent "
        f"ON id = (number * {_STEP} + :key) % {ROWS}",
        options="-c enable_hashjoin=off -c enable_mergejoin=off -c enable_memoize=off",
    ),
    Workload(
        "index-only",
        "SELECT count(k) FROM control_parent WHERE k BETWEEN :key AND :key + 99",
        node_type="Index Only Scan",
        options="-c enable_indexonlyscan=on",
    ),
    Workload(
        "fk-insert",
        "INSERT INTO control_child VALUES (:key, 0)",
        # What the foreign key's trigger asks for each row.
        explained="SELECT 1 FROM ONLY control_parent x WHERE id = :key FOR KEY SHARE OF x",
        reset="TRUNCATE control_child",
    ),
    Workload(
        "scan-100k",
        f"SELECT count(pad) FROM control_parent WHERE k BETWEEN :key AND :key + {SCANNED_ROWS - 1}",
        last_key=ROWS - SCANNED_ROWS,
    ),
)
OS_CACHED_NAMES = ("os-random", "os-periodic", "os-sequential")
WORKLOAD_NAMES = (*(workload.name for workload in CACHED_WORKLOADS), *OS_CACHED_NAMES)


def make_cached_tables(connection: psycopg.Connection[Any]) -> None:
    """Make the tables for shared buffers."""
    connection.execute(_TABLES)
    connection.execute("VACUUM (ANALYZE) control_parent")
    connection.execute("CHECKPOINT")


def warm_up(connection: psycopg.Connection[Any]) -> None:
    """Read the table and both indexes into shared buffers."""
    for statement in _WARM_UP:
        connection.execute(statement)


def os_cached_workloads(
    connection: psycopg.Connection[Any], pages: int, seed: int
) -> tuple[Workload, ...]:
    """Scans of all `pages` pages of the scan table, one row on each, in three orders."""
    # The keys of one layer: one row on each page, in random order.
    layer = f"SELECT id, k, pad FROM {TABLE} WHERE k BETWEEN 0 AND {pages - 1} ORDER BY k"
    orders = (
        ScanStatement(0, pages - 1, pages, layer),
        choose_periodic(connection),
        choose_heap_ordered(connection, 100, seed),
    )
    return tuple(
        # A subquery keeps its order, and the client gets one row.
        Workload(name, f"SELECT count(pad) FROM ({statement.query}) AS ordered", last_key=0)
        for name, statement in zip(OS_CACHED_NAMES, orders, strict=True)
    )
