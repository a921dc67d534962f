"""Executes the statement with the library switched on and off in alternation.

First both arms send all their rows within one snapshot, and the rows are compared by hash. Where
they differ, the arm without the library is asked again: of a statement whose rows vary by
themselves (a sum of floats by several processes, TABLESAMPLE) they say nothing. Then pairs of
EXPLAIN ANALYZE are timed on the server. Always in read-only transactions that are rolled back,
which does not undo what a function does beside tables: statement.py finds those that could.

A time limit holds for all executions together: each gets what is left of it as its
statement_timeout. The pairs that were finished by then are the measurement.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import monotonic
from typing import Any, Literal

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader

from lookahead.check.statement import StatementCancelled, explain, explained_errors, read_only
from lookahead.check.target import connect
from lookahead.errors import DifferentRowsError, LabError, UnavailableError, UsageError
from lookahead.experiments.trials import alternate
from lookahead.formats import milliseconds
from lookahead.guarded_connection import GuardedConnection
from lookahead.report.sentences import estimate_text
from lookahead.setting_source import system_reset
from lookahead.stats import RatioEstimate, ratio_of_medians

Arm = Literal["stock", "lookahead"]
ARMS: tuple[Arm, Arm] = ("stock", "lookahead")
# Values are made into text, as for a client, so TOAST tables are read, too. Not every type has a
# binary form. The buffers of that are not among the plan's.
_ANALYZE = "ANALYZE, TIMING OFF, BUFFERS, LOOKAHEAD, SERIALIZE TEXT"
_HASH_RANGE = 1 << 256
# Of rows that differ; a sum of floats has many values. Arbitrary.
_MORE_COMPARISONS = 4
# What psycopg calls a type for which nothing is registered, such as an enum.
_ANY_OTHER_TYPE = 0


@dataclass(frozen=True)
class CheckSample:
    """One execution as EXPLAIN (ANALYZE, BUFFERS) reports it; blocks are of 8 kB."""

    pair: int
    arm: Arm
    execution_ms: float
    shared_hit_blocks: int
    shared_read_blocks: int


@dataclass(frozen=True)
class Measurement:
    """Pairs of executions and what follows; `caches` says in what state they found the caches.

    `same_order` is whether the rows came in the same order too, None where they vary from one
    execution to the next without the library; other rows are an error. The statement was
    executed `executions` times in all, for `elapsed_s`; `wanted_pairs` were asked
    for, and fewer are there when `time_limit_s` ended them.
    """

    caches: str
    rows: int
    same_order: bool | None
    executions: int
    elapsed_s: float
    time_limit_s: float
    wanted_pairs: int
    samples: tuple[CheckSample, ...]
    estimate: RatioEstimate


@dataclass(frozen=True)
class MeasurePlan:
    """How often to measure, for how long at most, and what else was asked for."""

    pairs: int
    time_limit_s: float
    seed: int
    cold: bool
    allows_volatile: bool

    @property
    def executions(self) -> int:
        """Of the statement: one of each arm compares rows."""
        return len(ARMS) * (self.pairs + 1)


Report = Callable[[str], None]


@dataclass(frozen=True)
class _Digest:
    """Rows, SHA-256 in the order received, and a sum of hashes that knows no order."""

    rows: int
    ordered: str
    unordered: int

    def same_rows(self, other: "_Digest") -> bool:
        """In whatever order."""
        return (self.rows, self.unordered) == (other.rows, other.unordered)


class _RawLoader(Loader):
    """Leaves a value as the server wrote it: not every one has a counterpart in Python."""

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


def measure(
    dsn: str,
    statement: str,
    plan: MeasurePlan,
    make_cold: Callable[[float], str] | None,
    report: Report,
) -> Measurement:
    """Compare rows, then take pairs; `make_cold` precedes each of their executions if given.

    `report` is told before each execution which one it is. Raises LabError when the statement
    writes, fails or returns other rows, or when the time limit comes before the end of a pair.
    """
    run = _Run(dsn, statement, plan, report)
    rows, same_order = run.compare_rows()
    caches = run.take_pairs(make_cold)
    whole = len(run.samples) // len(ARMS)
    samples = tuple(item for item in run.samples if item.pair < whole)
    return Measurement(
        caches=caches,
        rows=rows,
        same_order=same_order,
        executions=run.executions,
        elapsed_s=run.elapsed_s,
        time_limit_s=plan.time_limit_s,
        wanted_pairs=plan.pairs,
        samples=samples,
        estimate=ratio_of_medians(
            *([item.execution_ms for item in samples if item.arm == arm] for arm in ARMS),
            seed=plan.seed,
        ),
    )


class _Run:
    """The executions of one measurement."""

    def __init__(self, dsn: str, statement: str, plan: MeasurePlan, report: Report) -> None:
        self._dsn = dsn
        self._statement = statement
        self._plan = plan
        self._report = report
        self._start = monotonic()
        self.executions = 0
        self._total = plan.executions
        self.samples: list[CheckSample] = []

    @property
    def elapsed_s(self) -> float:
        return monotonic() - self._start

    def compare_rows(self) -> tuple[int, bool | None]:
        """The number of rows, and whether both arms return them in the same order, None: vary."""
        with connect(self._dsn) as connection, read_only(connection):
            if connection.execute("SHOW pg_lookahead.disable").fetchone() == ("on",):
                raise UnavailableError(
                    "pg_lookahead.disable is on: there is nothing to compare",
                    f"{system_reset('pg_lookahead.disable')}.",
                )
            stock, ours = (self._rows(connection, arm, "compares rows") for arm in ARMS)
            if stock.same_rows(ours):
                return stock.rows, stock.ordered == ours.ordered
            self._total += _MORE_COMPARISONS
            for _ in range(_MORE_COMPARISONS):
                again = self._rows(connection, "stock", "do the rows vary by themselves")
                if not stock.same_rows(again):
                    self._total = self.executions + len(ARMS) * self._plan.pairs
                    return stock.rows, None
        raise DifferentRowsError(
            f"the rows differ: {stock.rows} with the library off, the same ones in "
            f"{1 + _MORE_COMPARISONS} executions; {ours.rows} with it on, of other content",
            "Does the statement ask for settings or counters? If not, this is a bug of "
            "pg_lookahead: please report it.",
        )

    def _rows(self, connection: GuardedConnection, arm: Arm, purpose: str) -> _Digest:
        with self._execution(connection, arm, purpose):
            return _digest(connection, self._statement)

    def take_pairs(self, make_cold: Callable[[float], str] | None) -> str:
        """As many as the time allows, one at least; returns the state of the caches."""
        caches = "as the executions before left them"
        for pair, arm in alternate(ARMS, self._plan.pairs):
            try:
                if make_cold is not None:
                    with self._in_time():
                        caches = make_cold(self._left_s())
                with (
                    connect(self._dsn) as connection,
                    read_only(connection),
                    self._execution(connection, arm, f"pair {pair + 1} of {self._plan.pairs}"),
                ):
                    self.samples.append(_sample(connection, self._statement, pair, arm))
            except _TimeIsOverError:
                if len(self.samples) < len(ARMS):
                    raise
                break
        return caches

    @contextmanager
    def _execution(self, connection: GuardedConnection, arm: Arm, purpose: str) -> Iterator[None]:
        """Of the statement by an arm; the end of our time is told from the user's own limits."""
        left_s = self._left_s()
        state = "on" if arm == "lookahead" else "off"
        connection.execute(f"SET LOCAL pg_lookahead.enabled = {state}")
        connection.limit_time(left_s)
        self.executions += 1
        self._report(f"execution {self.executions} of {self._total}: library {state}, {purpose}")
        with self._in_time():
            yield

    def _left_s(self) -> float:
        left_s = self._plan.time_limit_s - self.elapsed_s
        if left_s <= 0:
            raise self._time_is_over()
        return left_s

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        try:
            yield
        except StatementCancelled:
            if self.elapsed_s < self._plan.time_limit_s:
                raise
            raise self._time_is_over() from None

    def _time_is_over(self) -> "_TimeIsOverError":
        return _TimeIsOverError(
            f"the time limit of {self._plan.time_limit_s:g} s ended the measurement in execution "
            f"{max(1, self.executions)} of {self._total}",
            "Raise it with --time-limit.",
        )


class _TimeIsOverError(LabError):
    """The time limit of the measurement has come."""


def _digest(connection: GuardedConnection, statement: str) -> _Digest:
    ordered, unordered, rows = hashlib.sha256(), 0, 0
    with (
        connection.cursor() as cursor,
        explained_errors(statement, done="the statement"),
        connection.users_names(),
    ):
        known = [oid for info in connection.adapters.types for oid in (info.oid, info.array_oid)]
        for oid in (*filter(None, known), _ANY_OTHER_TYPE):
            cursor.adapters.register_loader(oid, _RawLoader)
        for row in _stream(cursor, statement):
            one = hashlib.sha256(b"".join(map(_with_length, row))).digest()
            ordered.update(one)
            unordered = (unordered + int.from_bytes(one)) % _HASH_RANGE
            rows += 1
    return _Digest(rows, ordered.hexdigest(), unordered)


def _with_length(value: bytes | None) -> bytes:
    """No other values, one after the other, have the same bytes."""
    return b"N" if value is None else b"%d:%b" % (len(value), value)


def _stream(cursor: psycopg.Cursor[Any], statement: str) -> Iterator[Sequence[bytes | None]]:
    try:
        yield from cursor.stream(statement.encode())
    except psycopg.ProgrammingError as error:
        if error.sqlstate is not None:
            raise  # the server's
        raise UsageError(
            "the statement returns no rows that could be compared",
            "Only queries are measured; leave --measure out.",
        ) from None


def _sample(connection: GuardedConnection, statement: str, pair: int, arm: Arm) -> CheckSample:
    explain(connection, statement, "LOOKAHEAD")  # loads catalogs
    (document,) = explain(connection, statement, _ANALYZE)
    plan = document["Plan"]
    return CheckSample(
        pair=pair,
        arm=arm,
        execution_ms=float(document["Execution Time"]),
        shared_hit_blocks=int(plan["Shared Hit Blocks"]),
        shared_read_blocks=int(plan["Shared Read Blocks"]),
    )


def measurement_lines(measurement: Measurement) -> Iterator[str]:
    """Times, ratio, what was read and executed, and the comparison of rows."""
    pairs = measurement.estimate.pairs
    times, read = (
        [
            median(getattr(one, name) for one in measurement.samples if one.arm == arm)
            for arm in ARMS
        ]
        for name in ("execution_ms", "shared_read_blocks")
    )
    yield (
        f"measured:   off {milliseconds(times[0])}, on {milliseconds(times[1])}: "
        f"{estimate_text(measurement.estimate)}"
    )
    pages = f"{read[0]:,.0f} read with the library off, {read[1]:,.0f} with it on, indexes included"
    nothing = "none read into shared buffers: there was nothing to read ahead (see --cold)"
    yield f"pages:      {pages if any(map(round, read)) else nothing}"
    yield f"caches:     {measurement.caches}"
    yield (
        f"executed:   {measurement.executions} times in {measurement.elapsed_s:.1f} s, "
        f"{pairs} pair{'s' if pairs > 1 else ''} timed, read-only, rolled back; "
        "what functions do beside tables is not undone"
    )
    if pairs < measurement.wanted_pairs:
        yield (
            f"            the time limit of {measurement.time_limit_s:g} s left time for "
            f"{pairs} of {measurement.wanted_pairs} pairs"
        )
    if measurement.same_order is None:
        yield f"rows:       {measurement.rows:,}, others in each execution, so they say nothing"
        return
    order = "in the same order" if measurement.same_order else "in another order"
    yield f"rows:       {measurement.rows:,}, the same with the library on and off, {order}"
