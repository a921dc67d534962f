"""A campaign: rounds of random tables, each with a hundred random pairs of runs.

A round depends on the seed and its own number only, so that any round replays alone. Rounds
that share a server run (a *stint*) also share its settings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import psycopg
from waiting import wait_until

from differential import population
from differential.case import Case, Row
from differential.cursors import random_cursor
from differential.joins import EXECUTED, random_join
from differential.modifications import random_modification
from differential.procedures import TRACE_TABLE, random_procedure
from differential.queries import random_query
from differential.replay import explain_difference, script
from differential.runner import Runner, ServerLostError
from differential.schema import Table, random_table
from differential.settings import Profile, random_profile, server_settings

PAIRS_PER_ROUND = 100
ROUNDS_PER_STINT = 5
_PARALLEL_SHARE = 0.3
_FORGET = "DEALLOCATE ALL; CLOSE ALL"


@dataclass
class Tally:
    """What a campaign has done so far."""

    pairs: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    scans: Counter[str] = field(default_factory=Counter)
    prefetched_blocks: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)

    def pairs_noted(self, note: str) -> int:
        """How many pairs were compared less strictly for the reason ``note`` begins with."""
        return sum(count for text, count in self.notes.items() if text.startswith(note))


class DifferenceError(AssertionError):
    """The arms disagree, or a resource was left behind; the text replays it."""


def stint_settings(seed: int, stint: int, io_methods: Sequence[str]) -> dict[str, str]:
    """Server settings of a stint; the values of io_method take turns."""
    rng = Random(f"{seed}:stint:{stint}")
    settings = server_settings(rng)
    return {**settings, "io_method": io_methods[(seed + stint) % len(io_methods)]}


def random_case(rng: Random, tables: Sequence[Table], *, test_settings: bool) -> Case:
    """A case of any kind."""
    choice = rng.random()
    if choice < 0.5:
        return random_query(rng, tables)
    if choice < 0.62:
        return random_join(rng, tables)
    if choice < 0.78:
        return random_modification(rng, tables)
    if choice < 0.92:
        return random_cursor(rng, tables, test_settings=test_settings)
    return random_procedure(rng, tables)


def random_tables(rng: Random) -> list[Table]:
    """Two or three tables, small enough that a hundred pairs take about a second."""
    scale = rng.choice((1500, 2500, 4000))
    return [random_table(rng, f"t{number}", scale=scale) for number in range(rng.randint(2, 3))]


class Round:
    """One round on one connection. ``label`` (seed and number) is what a replay needs."""

    def __init__(
        self,
        connection: psycopg.Connection[object],
        seed: int,
        number: int,
        *,
        test_settings: bool,
        tally: Tally,
    ) -> None:
        self.rng = Random(f"{seed}:round:{number}")
        self.label = f"LOOKAHEAD_ROUND={number} --seed {seed}"
        self.runner = Runner(connection)
        self.connection = connection
        self.test_settings = test_settings
        self.tally = tally
        self.tables = random_tables(self.rng)
        self.build = ["CREATE SCHEMA d", "SET search_path = d, public", TRACE_TABLE, EXECUTED]
        for table in self.tables:
            self.build += population.build(table)

    def run(self, pairs: int) -> None:
        """Make the tables, run ``pairs`` pairs, look for leftovers, remove the tables."""
        for statement in self.build:
            self.runner.must(statement)
        self.runner = Runner(self.connection, self._index_oids())
        for position in range(pairs):
            self._pair(position)
        self._check_leftovers()
        self._count_streams()
        self.runner.must("DROP SCHEMA d CASCADE")
        for table in self.tables:
            self.runner.must(f"DROP TABLE IF EXISTS pg_temp.{table.name} CASCADE")

    def _index_oids(self) -> list[int]:
        rows = self.runner.must(
            "SELECT oid FROM pg_class WHERE relkind = 'i' "
            "AND relnamespace IN ('d'::regnamespace, pg_my_temp_schema())"
        ).rows
        return [int(row[0] or 0) for row in rows]

    def _pair(self, position: int) -> None:
        case = random_case(self.rng, self.tables, test_settings=self.test_settings)
        may_be_parallel = bool(case.explainable) and not (case.walks or case.counters)
        parallel = may_be_parallel and self.rng.random() < _PARALLEL_SHARE
        profile = random_profile(self.rng, parallel=parallel, test_settings=self.test_settings)
        where = f"{self.label} (pair {position}, {case.kind})"
        try:
            verdict = self.runner.run(case, profile)
        except (ServerLostError, AssertionError) as error:
            raise DifferenceError(f"{where}: {error}\n{self._replay(case, profile)}") from error
        if verdict.difference:
            text = explain_difference(verdict.difference)
            raise DifferenceError(f"{where}\n{text}\n{self._replay(case, profile)}")
        self.tally.pairs += 1
        self.tally.kinds[case.kind] += 1
        if verdict.note:
            self.tally.notes[verdict.note] += 1

    def _replay(self, case: Case, profile: Profile) -> str:
        return f"replay with psql:\n{script(case, profile, self.build)}"

    def _check_leftovers(self) -> None:
        """Nothing is pinned and no I/O is in flight once every transaction has ended."""
        self.runner.must(_FORGET)
        for table in self.tables:
            # A read that a failed statement left in flight stays there until somebody needs its
            # page, as with stock's own read streams (io_uring). Need all of them.
            self.runner.must(f"SELECT count(*) FROM {table.name}")
        try:
            wait_until(lambda: not self.leftovers(), "no pin and no I/O left behind")
        except AssertionError as error:
            raise DifferenceError(f"{self.label}: {error}: {self.leftovers()}") from error

    def leftovers(self) -> list[Row]:
        """Pages that somebody has pinned (the background writer may, for a moment) and I/O."""
        pins = "SELECT relfilenode, relblocknumber FROM pg_buffercache WHERE pinning_backends > 0"
        # A completed read whose statement failed keeps its slot until the backend reads again: so
        # it is after stock's own scans, and holds no page.
        flying = (
            "SELECT pid, operation, state, target_desc FROM pg_aios "
            "WHERE pid = pg_backend_pid() AND state NOT LIKE 'COMPLETED%'"
        )
        return [*self.runner.must(pins).rows, *self.runner.must(flying).rows]

    def _count_streams(self) -> None:
        """Add this backend's figures; without the extension there are none.

        A self-check that fails on a server the library was built for is a bug: from then on the
        backend would test nothing.
        """
        if not self.runner.must("SELECT 1 FROM pg_extension WHERE extname = 'pg_lookahead'").rows:
            return
        rows = self.runner.must(
            "SELECT feature, scans, prefetched_blocks, requests, fallbacks ->> 'self-check' "
            "FROM pg_stat_lookahead"
        ).rows
        for name, scans, blocks, requests, distrusted in rows:
            if distrusted:
                raise DifferenceError(f"{self.label}: look-ahead switched itself off")
            feature = (name or b"").decode()
            self.tally.scans[feature] += int(scans or 0)
            self.tally.prefetched_blocks[feature] += int(blocks or 0)
            self.tally.requests[feature] += int(requests or 0)


def run_stint(
    connect: Callable[[], psycopg.Connection[object]],
    seed: int,
    rounds: Sequence[tuple[int, int]],
    *,
    test_settings: bool,
    tally: Tally,
) -> None:
    """The given (round, pairs), each round in a backend of its own, on a running server."""
    for number, count in rounds:
        with connect() as connection:
            Round(connection, seed, number, test_settings=test_settings, tally=tally).run(count)
