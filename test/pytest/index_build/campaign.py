"""A campaign: rounds of one random table each, on which random indexes are built in both arms.

A round depends on the seed and its own number only, so that any round replays alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import psycopg
from extension.probes import Connection

from index_build.indexes import INDEX, Index, random_index
from index_build.tables import random_changes, random_history, random_table
from index_build.twins import SWITCH, Arm, Build, Tally, Twins, check_tree, complaint, count_rows

INDEXES_PER_ROUND = 6
# Another session looks on from a snapshot taken before the rows change.
_ONLOOKER = 0.35
_OWN_TRANSACTION = 0.15
_CONCURRENTLY = 0.1
_REINDEX = 0.15
# Our arm mostly comes first: it is the one that shall meet rows without hint bits.
_OURS_FIRST = 0.7
# The first is too little for our sort, the second holds few rows.
_MEMORIES = ("1MB", "2MB", "2MB", "64MB")
# Allows three workers: plan_create_index_workers() wants 32 MB for each participant.
_PARALLEL_MEMORY = "128MB"


class TwinsDifferError(AssertionError):
    """Both arms did not make the same index; the text replays it."""


@dataclass(frozen=True)
class Sessions:
    """The session that builds, another one that may hold a snapshot, and where the files are."""

    builder: Connection
    onlooker: Connection
    data_directory: Path
    collations: tuple[str, ...]
    has_amcheck: bool


def prepare(builder: Connection, onlooker: Connection, data_directory: Path) -> Sessions:
    """Make what all rounds need: extensions, and every kind of collation that the server has."""
    builder.execute("CREATE EXTENSION IF NOT EXISTS pg_lookahead")
    found = builder.execute("SELECT FROM pg_available_extensions WHERE name = 'amcheck'").fetchone()
    if found is not None:
        builder.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
    return Sessions(builder, onlooker, data_directory, _collations(builder), found is not None)


def _collations(connection: Connection) -> tuple[str, ...]:
    """Quoted names: of ICU's hundreds a few, and one that takes different texts for equal."""
    libc = "SELECT quote_ident(collname) FROM pg_collation WHERE collprovider IN ('c', 'b', 'd')"
    names = [str(row[0]) for row in connection.execute(f"{libc} ORDER BY 1").fetchall()]
    usable = [name for name in names if _sorts(connection, name)]
    icu = ('"und-x-icu"', '"de-x-icu"', '"sv-x-icu"')
    if not all(_sorts(connection, name) for name in icu):
        return tuple(usable)
    connection.execute(
        "CREATE COLLATION IF NOT EXISTS caseless (provider = icu, locale = 'und-u-ks-level2', "
        "deterministic = false)"
    )
    return (*usable, *icu, "caseless")


def _sorts(connection: Connection, collation: str) -> bool:
    """Whether the collation is there and fits the encoding."""
    try:
        connection.execute(f"SELECT 'a' < 'b' COLLATE {collation}")
    except psycopg.Error:
        return False
    return True


class Round:
    """One table and its indexes. ``label`` is what a replay needs."""

    def __init__(self, sessions: Sessions, seed: int, number: int, tally: Tally) -> None:
        self.label = f"LOOKAHEAD_ROUND={number} --seed {seed}"
        self._rng = Random(f"{seed}:index:{number}")
        self._sessions = sessions
        self._session = sessions.builder
        self._tally = tally
        self._twins = Twins(sessions.builder, sessions.data_directory, tally)
        self._table = random_table(self._rng, "t", sessions.collations)
        self._script: list[str] = []

    def run(self, indexes: int) -> None:
        """Make the table, compare so many indexes, remove the table."""
        table, rng = self._table, self._rng
        for statement in [*table.definition(), table.insert(0, table.rows)]:
            self._do(statement)
        onlooker = rng.random() < _ONLOOKER
        if onlooker:
            self._script.append("-- another session holds a snapshot from here on")
            self._sessions.onlooker.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        try:
            self._history(rng.randrange(5))
            for _ in range(indexes):
                self._index(onlooker)
        except psycopg.OperationalError as error:
            self._expect(False, f"the server crashed: {error}")
        self._sessions.onlooker.rollback()
        self._do(f"DROP TABLE {table.name}")

    def _index(self, onlooker: bool) -> None:
        """One pair, perhaps among the changes of a transaction under way."""
        self._history(self._rng.choice((0, 0, 1, 2)))
        self._settings()
        own = self._rng.random() < _OWN_TRANSACTION
        if own:
            self._do("BEGIN")
            for statement in random_changes(self._rng, self._table):
                self._do(statement)
        # CONCURRENTLY waits for every snapshot, and for no transaction of its own.
        concurrently = not own and not onlooker and self._rng.random() < _CONCURRENTLY
        self._pair(random_index(self._rng, self._table, self._sessions.collations), concurrently)
        if own:
            self._do(self._rng.choice(("COMMIT", "ROLLBACK")))

    def _pair(self, index: Index, concurrently: bool) -> None:
        arms: tuple[Arm, Arm] = (
            ("ours", "stock") if self._rng.random() < _OURS_FIRST else ("stock", "ours")
        )
        create = index.create(concurrently=concurrently)
        first = self._build(arms[0], create)
        if first.failure is None and not concurrently and self._rng.random() < _REINDEX:
            create = f"REINDEX INDEX {INDEX}"
            first = self._build(arms[0], create)
        else:
            self._do(f"DROP INDEX IF EXISTS {INDEX}")
        second = self._build(arms[1], create)
        stock, ours = (second, first) if arms[0] == "ours" else (first, second)
        self._expect(not (found := complaint(stock, ours)), found)
        if second.failure is None:
            self._look_through(index)
        self._do(f"DROP INDEX IF EXISTS {INDEX}")
        self._tally.pairs += 1

    def _build(self, arm: Arm, statement: str) -> Build:
        self._script += [f"SET {SWITCH} = {'on' if arm == 'ours' else 'off'}", statement]
        return self._twins.build(arm, statement, INDEX)

    def _look_through(self, index: Index) -> None:
        """The index that is there works like one: amcheck, and rows by every kind of scan."""
        try:
            if self._sessions.has_amcheck:
                check_tree(self._session, INDEX)
            counts = count_rows(self._session, index.table, index.predicate, index.order)
        except psycopg.Error as error:
            self._expect(False, f"the index is damaged: {error}")
        self._expect(len(set(counts)) == 1, f"rows by sequential, index-only, index scan: {counts}")

    def _history(self, length: int) -> None:
        for statement in random_history(self._rng, self._table, length):
            self._do(statement)

    def _settings(self) -> None:
        rng = self._rng
        workers = rng.choice((0, 0, 0, 0, 1, 2, 3))
        memory = _PARALLEL_MEMORY if workers else rng.choice(_MEMORIES)
        for name, value in (
            ("maintenance_work_mem", memory),
            ("max_parallel_maintenance_workers", str(max(workers, 1))),
            ("min_parallel_table_scan_size", "0" if workers else "1TB"),
        ):
            self._do(f"SET {name} = '{value}'")

    def _do(self, statement: str) -> None:
        self._script.append(statement)
        self._session.execute(statement)

    def _expect(self, condition: bool, complaint: str) -> None:
        if not condition:
            script = ";\n".join(self._script)
            raise TwinsDifferError(f"{self.label}: {complaint}\nreplay with psql:\n{script};\n")


def rounds_of(indexes: int) -> Sequence[tuple[int, int]]:
    """(round, indexes) of a campaign."""
    full, rest = divmod(indexes, INDEXES_PER_ROUND)
    rounds = [(number, INDEXES_PER_ROUND) for number in range(full)]
    return [*rounds, (full, rest)] if rest else rounds
