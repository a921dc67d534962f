"""A campaign of hostile index data: each build by stock and by us, with every memory and workers.

Both arms make the same index or report the same error; ours within ten times stock's time and a
second, a limit that catches what grows with the square of something and says nothing about speed.
A busy machine may halt one build for longer, so it has to be exceeded by the same build each time.
A round depends on the seed and its own number only, so that any round replays alone.
"""

from __future__ import annotations

import re
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from random import Random

import psycopg
from extension.probes import Connection

from index_build.campaign import Sessions, TwinsDifferError
from index_build.hostile_tables import random_hostile_table
from index_build.indexes import INDEX, random_index
from index_build.tables import Table, random_history
from index_build.twins import ARMS, SWITCH, Arm, Build, Tally, Twins, choose, complaint
from lookahead_bench.build_watch import BuildWatch

_MB = 1 << 20
_INDEXES_PER_ROUND = 2
# From the least that PostgreSQL takes on. Most builds are ours, alone, and have to use files.
_LITTLE_KB = (64, 272, 1024, 2047, *(2048, 2200, 3072, 4096) * 2, 9216, 20_480)
# Everything is sorted in memory.
_MUCH_KB = (65_536, 262_144)
_WORKERS = (0, 0, 0, 1, 2, 3, 4)
_MAX_KEYS = 32
_ONLOOKER = 0.4
_TIMES_STOCK = 10
_MORE_SECONDS = 1.0
_STOCK_SECONDS = 1200.0
_TRIES = 3
_TOO_LONG = "57014"
_TOO_LARGE = "54000"  # an index row
# Beside the limit: caches of catalogs, the executor, a value and its sort key; for each process.
_OTHER_BYTES = 12 * _MB
# How much slower than stock a build is worth a word, and how often it has to show that.
_SLOWER = 1.2
_REPEATS = 5
_MEASURABLE_SECONDS = 0.01  # below, one system call more makes a difference


@dataclass(frozen=True)
class Bounds:
    """How much work a table is, whether memory is watched, whether slow builds are looked for."""

    table_bytes: int = 8 * _MB
    watch_memory: bool = True
    find_slower: bool = False


@dataclass
class Findings:
    """What a campaign has seen: builds by arm, and those that stock does faster."""

    tally: Tally = field(default_factory=Tally)
    slower: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Resources:
    """What a build has: memory, and the workers that the table asks for."""

    memory_kb: int
    workers: int

    def __str__(self) -> str:
        return f"{self.memory_kb} kB, {self.workers} workers"

    @property
    def most_bytes(self) -> int:
        """How much private memory all processes of the build may have."""
        return self.memory_kb * 1024 + (1 + self.workers) * _OTHER_BYTES

    def settings(self, table: str) -> str:
        """SQL that gives a build of an index on the table just that."""
        return (
            f"SET maintenance_work_mem = {self.memory_kb}; "
            f"SET max_parallel_maintenance_workers = {max(self.workers, 1)}; "
            f"ALTER TABLE {table} SET (parallel_workers = {self.workers})"
        )


class HostileRound:
    """One table and its indexes. ``label`` is what a replay needs."""

    def __init__(
        self, sessions: Sessions, watcher: Connection, seed: int, number: int, bounds: Bounds
    ) -> None:
        self.label = f"LOOKAHEAD_ROUND={number} --seed {seed}"
        self._rng = Random(f"{seed}:hostile:{number}")
        self._sessions = sessions
        self._session = sessions.builder
        self._watcher = watcher
        self._bounds = bounds
        self._findings = Findings()
        self._twins = Twins(sessions.builder, sessions.data_directory)
        self._script: list[str] = []

    def run(self, findings: Findings) -> None:
        """Make the table, compare its indexes, remove it; adds to the findings."""
        rng = self._rng
        self._findings, self._twins.tally = findings, findings.tally
        made = random_hostile_table(rng, "t", self._sessions.collations, self._bounds.table_bytes)
        for statement in made.statements():
            self._do(statement)
        if rng.random() < _ONLOOKER:
            self._script.append("-- another session holds a snapshot from here on")
            self._sessions.onlooker.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        try:
            for statement in random_history(rng, made.table, rng.randrange(3)):
                self._do(statement)
            for _ in range(_INDEXES_PER_ROUND):
                create = self._random_statement(made.table)
                for memories in (_LITTLE_KB, _LITTLE_KB, _MUCH_KB):
                    resources = Resources(rng.choice(memories), rng.choice(_WORKERS))
                    self._pair(made.table.name, create, resources)
        except psycopg.OperationalError as error:
            self._fail(f"the server crashed: {error}")
        self._sessions.onlooker.rollback()
        self._do(f"DROP TABLE {made.table.name}")

    def _random_statement(self, table: Table) -> str:
        """A random index, now and then one with as many columns as there can be."""
        if self._rng.random() > 0.15:
            return random_index(self._rng, table, self._sessions.collations).create()
        names = ["id", "payload", *(column.name for column in table.columns)]
        keys = [self._rng.choice(names) for _ in range(_MAX_KEYS)]
        return f"CREATE INDEX {INDEX} ON {table.name} ({', '.join(keys)})"

    def _pair(self, table: str, create: str, resources: Resources) -> None:
        """The same index by stock, and by us in limited time."""
        self._do(resources.settings(table))
        built_before = self._findings.tally.built
        for _ in range(_TRIES):
            stock, stock_seconds = self._build("stock", create, _STOCK_SECONDS)
            limit = _TIMES_STOCK * stock_seconds + _MORE_SECONDS
            watch = BuildWatch(self._watcher, self._session.info.backend_pid)
            with watch if self._bounds.watch_memory else nullcontext():
                ours, seconds = self._build("ours", create, limit)
            if (watch.peak_memory_bytes or 0) > resources.most_bytes:
                self._fail(f"{watch.peak_memory_bytes} bytes of private memory with {resources}")
            if not _took_too_long(ours):
                break
        else:
            self._fail(f"more than {limit:.1f} s with {resources}, stock {stock_seconds:.2f} s")
        found = complaint(stock, ours)
        if found and not (resources.workers and _same_but_for_numbers(stock, ours)):
            self._fail(f"{resources}: {found}")
        self._findings.tally.pairs += 1
        # What was left to stock takes as long as stock.
        is_ours = self._findings.tally.built > built_before
        if self._bounds.find_slower and is_ours and seconds > stock_seconds:
            self._measure(create, resources)

    def _build(self, arm: Arm, create: str, limit_seconds: float) -> tuple[Build, float]:
        self._script += [f"SET {SWITCH} = {'on' if arm == 'ours' else 'off'}", create]
        start = time.monotonic()
        built = self._twins.build(arm, create, INDEX, limit_seconds)
        seconds = time.monotonic() - start
        self._do(f"DROP INDEX IF EXISTS {INDEX}")
        return built, seconds

    def _measure(self, create: str, resources: Resources) -> None:
        """Build several times, in turn; a finding if even the best of ours is slower than stock."""
        best = dict.fromkeys(ARMS, _STOCK_SECONDS)
        for _ in range(_REPEATS):
            for arm in ARMS:
                choose(self._session, arm)
                start = time.monotonic()
                self._session.execute(create)
                best[arm] = min(best[arm], time.monotonic() - start)
                self._session.execute(f"DROP INDEX {INDEX}")
        choose(self._session, "stock")
        if best["ours"] > best["stock"] * _SLOWER > _MEASURABLE_SECONDS:
            ratio = best["stock"] / best["ours"]
            times = f"stock {best['stock']:.3f} s, ours {best['ours']:.3f} s ({ratio:.2f})"
            script = ";\n".join(self._script)
            self._findings.slower.append(f"{self.label}: {resources}: {times}\n{script};\n")

    def _do(self, statement: str) -> None:
        self._script.append(statement)
        self._session.execute(statement)

    def _fail(self, complaint: str) -> None:
        script = ";\n".join(self._script)
        raise TwinsDifferError(f"{self.label}: {complaint}\nreplay with psql:\n{script};\n")


def _took_too_long(build: Build) -> bool:
    return build.failure is not None and build.failure.sqlstate == _TOO_LONG


def _same_but_for_numbers(stock: Build, ours: Build) -> bool:
    """Rows of several lengths that are all too long: with workers either arm may meet any first."""
    if stock.failure is None or ours.failure is None:
        return False
    words = [
        (one.sqlstate, re.sub(r"\d+", "N", one.message + one.detail), one.names)
        for one in (stock.failure, ours.failure)
    ]
    return stock.failure.sqlstate == _TOO_LARGE and words[0] == words[1]
