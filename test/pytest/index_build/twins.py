"""The oracle: an index built by stock and by us over the same heap is the same, byte for byte.

Both builds bear the same name, one after the other, so that messages are equal too. Nothing looks
at the heap in between: a scan could prune it and so change what the second build meets.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psycopg
from extension.probes import Connection, scalar
from psycopg.pq import TransactionStatus

from index_build.pages import first_difference, read_image

Arm = Literal["stock", "ours"]
ARMS: tuple[Arm, Arm] = ("stock", "ours")
SWITCH = "pg_lookahead.enable_index_build"


def with_workers(number: int) -> str:
    """SQL by which builds have so many parallel workers, if memory allows, whatever the table."""
    size = "0" if number else "'1TB'"
    return (
        f"SET max_parallel_maintenance_workers = {number or 1}; "
        f"SET min_parallel_table_scan_size = {size}"
    )


# A table with both faults, duplicates and rows that are too long, may be refused for either.
_EITHER_ERROR = {"23505", "54000"}

# What a build leaves in the catalogs: of the index, and of its table.
_FACTS = """
    SELECT indisvalid, indisready, indislive, indcheckxmin, indisunique, indimmediate,
           i.relpages, i.reltuples, i.relallvisible, t.relpages, t.reltuples, t.relallvisible,
           t.relhasindex
    FROM pg_index JOIN pg_class i ON i.oid = indexrelid JOIN pg_class t ON t.oid = indrelid
    WHERE indexrelid = %s::regclass"""


@dataclass(frozen=True)
class Failure:
    """An error as a client sees it."""

    sqlstate: str
    message: str
    detail: str
    names: tuple[str | None, ...]

    @classmethod
    def of(cls, error: psycopg.Error) -> Failure:
        diag = error.diag
        names = (diag.schema_name, diag.table_name, diag.column_name, diag.constraint_name)
        return cls(
            diag.sqlstate or "connection lost",
            diag.message_primary or str(error),
            diag.message_detail or "",
            names,
        )


@dataclass(frozen=True)
class Build:
    """What one arm left: the pages and the catalog's view of them, or an error."""

    image: bytes = b""
    facts: tuple[Any, ...] = ()
    failure: Failure | None = None


@dataclass
class Tally:
    """Which builds of the arm "ours" were really ours; the rest with the reason why not."""

    pairs: int = 0
    built: int = 0
    failed: int = 0
    left: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Counters:
    """Index builds of a session as `pg_stat_lookahead` counts them."""

    built: int
    left: dict[str, int]

    @classmethod
    def of(cls, connection: Connection) -> Counters:
        row = connection.execute(
            "SELECT scans, fallbacks FROM pg_stat_lookahead WHERE feature = 'index_build'"
        ).fetchone()
        assert row is not None, "pg_stat_lookahead has no row index_build"
        return cls(int(row[0]), {reason: int(count) for reason, count in row[1].items()})


class Twins:
    """Builds on one session. `data_directory` is the server's."""

    def __init__(
        self, connection: Connection, data_directory: Path, tally: Tally | None = None
    ) -> None:
        self.connection = connection
        self.tally = tally or Tally()
        self._data_directory = data_directory

    def build(self, arm: Arm, statement: str, index: str, limit_seconds: float = 0.0) -> Build:
        """Run a statement that builds `index`, in limited time, and read what it has made."""
        choose(self.connection, arm)
        before = Counters.of(self.connection)
        if limit_seconds:
            self.connection.execute(f"SET statement_timeout = {int(limit_seconds * 1000)}")
        try:
            self._execute(statement)
        except psycopg.Error as error:
            self.tally.failed += arm == "ours"
            return Build(failure=Failure.of(error))
        finally:
            if limit_seconds:
                self.connection.execute("RESET statement_timeout")
            choose(self.connection, "stock")
        self._count(arm, before, Counters.of(self.connection), statement)
        return self.read(index)

    def read(self, index: str) -> Build:
        """The index as it is in file and catalog."""
        facts = self.connection.execute(_FACTS, (index,)).fetchone()
        assert facts is not None
        file = scalar(self.connection, f"SELECT pg_relation_filepath('{index}')")
        return Build(read_image(self._data_directory / file), facts)

    def _execute(self, statement: str) -> None:
        """In a transaction block under a savepoint, else as it is (CONCURRENTLY)."""
        if self.connection.info.transaction_status == TransactionStatus.IDLE:
            self.connection.execute(statement)
            return
        with self.connection.transaction():
            self.connection.execute(statement)

    def _count(self, arm: Arm, before: Counters, after: Counters, statement: str) -> None:
        built = after.built - before.built
        if arm == "stock":
            assert built == 0, f"built by us although switched off: {statement}"
            return
        self.tally.built += built
        reasons = Counter(after.left)
        reasons.subtract(before.left)
        self.tally.left.update({reason: n for reason, n in reasons.items() if n})
        assert built or +reasons, f"neither built by us nor left to core: {statement}"


def choose(connection: Connection, arm: Arm) -> None:
    """Let the session build indexes by stock's code or by ours."""
    connection.execute(f"SET {SWITCH} = {'on' if arm == 'ours' else 'off'}")


def complaint(stock: Build, ours: Build) -> str:
    """How two builds differ, in words; "" when they do not."""
    if stock.failure or ours.failure:
        return _failure_complaint(stock.failure, ours.failure)
    difference = first_difference(stock.image, ours.image)
    if difference:
        return f"pages differ at {difference}"
    if stock.facts != ours.facts:
        return f"catalogs differ: stock {stock.facts}, ours {ours.facts}"
    return ""


def _failure_complaint(stock: Failure | None, ours: Failure | None) -> str:
    if stock is None or ours is None:
        return f"one arm failed: stock {stock}, ours {ours}"
    same = stock == ours or {stock.sqlstate, ours.sqlstate} == _EITHER_ERROR
    if not same and stock.sqlstate == ours.sqlstate == "23505":
        # Of several duplicates a sort finds any first: the columns are the same, the values not.
        same = (stock.message, stock.names) == (ours.message, ours.names)
        same = same and stock.detail.partition(")=(")[0] == ours.detail.partition(")=(")[0]
    return "" if same else f"errors differ: stock {stock}, ours {ours}"


def check_tree(connection: Connection, index: str) -> None:
    """amcheck's strictest look at an index; raises psycopg.Error when it is damaged."""
    connection.execute(
        "SELECT bt_index_parent_check(%s, heapallindexed => true, rootdescend => true, "
        "checkunique => true)",
        (index,),
    )


def count_rows(connection: Connection, table: str, predicate: str, order: str) -> tuple[int, ...]:
    """Rows of a table by sequential, index-only and index scan; the last two use its only index."""
    where = f"WHERE {predicate}" if predicate else ""
    rows = f"SELECT count(*) FROM {table} {where}"
    ordered = f"SELECT count(*) FROM (SELECT * FROM {table} {where} ORDER BY {order} OFFSET 0) o"
    scans = (
        (rows, ("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan")),
        (rows, ("enable_seqscan", "enable_bitmapscan", "enable_sort")),
        (ordered, ("enable_seqscan", "enable_bitmapscan", "enable_sort", "enable_indexonlyscan")),
    )
    counts = []
    for query, disabled in scans:
        # Rolled back: what is set locally would outlive a mere savepoint.
        with connection.transaction(force_rollback=True):
            for name in disabled:
                connection.execute(f"SET LOCAL {name} = off")
            counts.append(int(scalar(connection, query)))
    return tuple(counts)
