"""A campaign: rounds of one random table each, into which each arm inserts or copies the same.

A round depends on the seed and its own number only, so that any round replays alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psycopg
from extension.probes import Connection, need_extension, scalar

from bulk_insert.arms import DEFAULT, EXTENTS, ONE_PAGE, STOCK, Arm, Counters
from bulk_insert.columns import TYPES
from bulk_insert.copies import random_copy
from bulk_insert.copying import noted
from bulk_insert.facts import (
    LEAVES,
    Facts,
    as_found_by_a_row,
    complaint,
    failure_of,
    is_failure,
)
from bulk_insert.sources import DIVISION, random_source
from bulk_insert.tables import TABLE, random_table
from bulk_insert.ways import check_sound, rows_file

_HAND_BACK = 0.25
_FAULT = 0.25
_SECOND_INSERT = 0.5
_NEW_FILE = 0.4
_COPY = 0.35
_FRESH = (
    "DROP TABLE IF EXISTS pg_temp.t, pg_temp.parent CASCADE; "
    "DROP SCHEMA IF EXISTS work CASCADE; CREATE SCHEMA work; SET search_path = work, public"
)
# In PL/pgSQL an insert says how many rows it had in two more ways.
_IN_A_FUNCTION = (
    "CREATE FUNCTION run() RETURNS text LANGUAGE plpgsql AS $run$ DECLARE n bigint; BEGIN {} ; "
    "GET DIAGNOSTICS n = ROW_COUNT; RETURN format('%s %s', FOUND, n); END $run$"
)


class ArmsDifferError(AssertionError):
    """Two arms did not do the same; the text replays it."""


@dataclass
class Tally:
    """What our arms were given, and what became of it."""

    failed: int = 0
    offered: int = 0  # rows of inserts that succeeded, and that nothing left to core
    batched: int = 0  # of those
    copied: int = 0  # batched by a COPY, also by one that failed
    extended: int = 0
    left: Counter[str] = field(default_factory=Counter)


def prepare(session: Connection) -> Sequence[str]:
    """Make what all rounds need; returns the methods of compression that the server has."""
    for name in ("amcheck", "pageinspect"):
        need_extension(session, name)
    for statement in TYPES:
        session.execute(statement)
    known = scalar(
        session, "SELECT enumvals FROM pg_settings WHERE name = 'default_toast_compression'"
    )
    return tuple(str(name) for name in known)


@dataclass(frozen=True)
class _Insert:
    """`making` comes before the statement, and makes what it reads.

    `kind` is that of a source of rows, or "copy". `new_file`: the transaction gives the table a
    new file before, as TRUNCATE does.
    """

    kind: str
    making: Sequence[str]
    statement: str
    in_a_function: bool
    new_file: bool


class Round:
    """One table. ``label`` is what a replay needs."""

    def __init__(
        self, session: Connection, compressions: Sequence[str], seed: int, number: int, tally: Tally
    ) -> None:
        self.label = f"LOOKAHEAD_ROUND={number} --seed {seed}"
        self._rng = Random(f"{seed}:insert:{number}")
        self._session = session
        self._tally = tally
        self._table = random_table(self._rng, compressions)
        self._inserts = self._random_inserts()
        self._script: list[str] = []

    def run(self) -> None:
        """Compare two arms of ours with stock."""
        stock = self._observe(STOCK)
        for arm in self._random_arms():
            ours = self._observe(arm)
            self._tally.failed += ours.failed
            # After an insert that failed, or a COPY, the last page has other room. What is left
            # when pages of ours are full goes where there is room, and is found there first.
            same_room = not (stock.failed or self._has("copy"))
            same_order = arm.same_places and (self._table.in_order or same_room)
            found = complaint(
                stock,
                ours,
                same_order=same_order,
                same_order_on_pages=self._table.in_order and not self._has("self"),
                same_places=arm.same_places and not self._has("copy"),
            )
            self._expect(not found, f"{arm.name}: {found}")
            self._look_through()

    def _has(self, kind: str) -> bool:
        return any(insert.kind == kind for insert in self._inserts)

    def _random_inserts(self) -> list[_Insert]:
        """Both come after the rows of before, whose keys are below 1,000."""
        inserts = []
        firsts = (1000, 8000)[: 1 + (self._rng.random() < _SECOND_INSERT)]
        for first in firsts:
            # Of rows that wait when an insert fails numbers are gone.
            may_fail = first == firsts[-1] or not self._table.numbered
            if self._rng.random() < _COPY:
                inserts.append(self._random_copy(first, may_fail=may_fail))
            else:
                inserts.append(self._random_insert(first, may_fail=may_fail))
        return inserts

    def _random_insert(self, first: int, *, may_fail: bool) -> _Insert:
        rng, table = self._rng, self._table
        fault = _random_fault(rng, first, table.rows, f"i {DIVISION}")
        source = random_source(rng, table, first, fault if may_fail else "i")
        names = ", ".join(column.name for column in table.inserted)
        statement = f"INSERT INTO {TABLE} ({names}) {source.query}"
        new_file = source.kind != "self" and rng.random() < _NEW_FILE
        return _Insert(source.kind, source.making, statement, rng.random() < 0.2, new_file)

    def _random_copy(self, first: int, *, may_fail: bool) -> _Insert:
        rng, table = self._rng, self._table
        new_file = rng.random() < _NEW_FILE
        fault = _random_fault(rng, first, table.rows, "NULL")
        copy = random_copy(
            rng,
            table,
            first,
            rows_file(self._session),
            fault=fault if may_fail else "i",
            new_file=new_file,
        )
        return _Insert("copy", [copy.writing], copy.statement, rng.random() < 0.2, new_file)

    def _random_arms(self) -> list[Arm]:
        rng = self._rng
        one = rng.choice((DEFAULT, ONE_PAGE))
        other = EXTENTS.with_settings(
            bulk_extend_size=rng.choice((2, 3, 16, 512)),
            test_insert_threshold=rng.choice((0, 0, 1, 5)),
            test_insert_single_rows=rng.choice((0, 0, -1, 3)),
        )
        arms = []
        for arm in (one, other):
            row = rng.randint(1, max(self._table.rows, 1)) if rng.random() < _HAND_BACK else 0
            arms.append(arm.with_settings(test_insert_hand_back=row))
        return arms

    def _observe(self, arm: Arm) -> Facts:
        """Make the table, let the arm insert, and look at what there is."""
        self._script = []
        self._do(f"{_FRESH}; {STOCK.statement}")
        for statement in self._table.making:
            self._do(statement)
        if self._table.has_room:
            names = ", ".join(column.name for column in self._table.inserted)
            values = ", ".join(str(column.value) for column in self._table.inserted)
            rows = min(self._table.rows, 400)
            self._do(
                f"INSERT INTO {TABLE} ({names}) SELECT {values} FROM generate_series(1, {rows}) i"
            )
            self._do(f"DELETE FROM {TABLE} WHERE k % 5 < 2")
            self._do(f"VACUUM {TABLE}")
        outcomes: list[Any] = []
        for insert in self._inserts:
            self._do("DROP TABLE IF EXISTS s")
            for statement in insert.making:
                self._do(statement)
            self._do(f"DROP FUNCTION IF EXISTS run(); {_IN_A_FUNCTION.format(insert.statement)}")
            self._do(f"{arm.statement}; SELECT pg_stat_force_next_flush()")
            with noted(self._session) as notices:
                before = Counters.of(self._session)
                outcome = self._insert(insert)
                if arm != STOCK:
                    self._count_insert(insert, before, arm, outcome)
            outcomes += [outcome, notices]
            self._do(STOCK.statement)
        return Facts.read(self._session, outcomes)

    def _insert(self, insert: _Insert) -> tuple[Any, ...]:
        """Tag or result, and the statistics' number of rows; or the error."""
        inserted = f"SELECT sum(pg_stat_get_xact_tuples_inserted(relid)) FROM ({LEAVES}) leaf"
        statement = "SELECT run()" if insert.in_a_function else insert.statement
        before = [f"TRUNCATE {TABLE}"] if insert.new_file else []
        self._script += ["BEGIN", *before, statement, "COMMIT"]
        try:
            with self._session.transaction():
                for other in before:
                    self._session.execute(other)
                cursor = self._session.execute(statement)
                result = cursor.fetchone() if insert.in_a_function else cursor.statusmessage
                counted = scalar(self._session, inserted)
        except psycopg.OperationalError as error:
            raise ArmsDifferError(self._replay(f"the server crashed: {error}")) from error
        except psycopg.Error as error:
            failure = failure_of(error)
            return self._as_in_any_file(failure) if insert.new_file else failure
        return (result, counted)

    @staticmethod
    def _as_in_any_file(failure: tuple[Any, ...]) -> tuple[Any, ...]:
        """A failure, whether its index finds a duplicate by a row or at the end."""
        return tuple(text and as_found_by_a_row(text) for text in failure)

    def _look_through(self) -> None:
        """What there is, is sound."""
        try:
            check_sound(self._session, TABLE)
        except (AssertionError, psycopg.Error) as error:
            raise ArmsDifferError(self._replay(str(error))) from error

    def _count_insert(
        self, insert: _Insert, before: Counters, arm: Arm, outcome: tuple[Any, ...]
    ) -> None:
        tally, after = self._tally, Counters.of(self._session)
        batched = after.rows - before.rows
        left = Counter(dict(after.left)) - Counter(dict(before.left))
        tally.copied += batched if insert.kind == "copy" else 0
        tally.extended += after.extended - before.extended
        tally.left += left
        if not (is_failure(outcome) or left or arm.hands_back):
            tally.offered += int(outcome[1] or 0)
            tally.batched += batched

    def _do(self, statement: str) -> None:
        self._script.append(statement)
        self._session.execute(statement)

    def _expect(self, condition: bool, complaint: str) -> None:
        if not condition:
            raise ArmsDifferError(self._replay(complaint))

    def _replay(self, complaint: str) -> str:
        script = ";\n".join(self._script)
        return f"{self.label}: {complaint}\nreplay with psql:\n{script};\n"


def _random_fault(rng: Random, first: int, rows: int, failing: str) -> str:
    """The key of a row; of one of them, maybe, one that makes the insert fail."""
    if rows < 2 or rng.random() >= _FAULT:
        return "i"
    row = first + rng.randrange(rows)
    wrong = rng.choice((failing, "NULL", f"{first + rng.randrange(rows)}", "-2000000"))
    return f"CASE WHEN i = {row} THEN {wrong} ELSE i END"
