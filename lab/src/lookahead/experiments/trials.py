"""Takes the samples of trials: every arm once in each round, the order turned round.

    trials = Trials(run)
    trials.measure_all(chosen, rounds)

A statement with a plan runs under EXPLAIN (ANALYZE, TIMING OFF), and a sample counts only with the
plan and the code of its arm. Cold: before each sample the server is stopped, its files are dropped
from the OS cache, it is started again; a plain EXPLAIN loads catalogs and the index root, but no
page of the table.

The arms of a round stand back to back, the order turned round from round to round: A B, B A, A B,
... (ABBA). Whatever drifts evenly during the run, or favours the second of two executions, favours
both arms alike, provided that the number of rounds is even. Samples of a millisecond are rotated
instead: A B C, B C A, C A B, ... There the same backend twice in a row, on both sides of the seam
of two rounds, was half as slow again the second time.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from threading import Barrier, Thread
from typing import Any, TypeVar

from lookahead.device.counters import IoMeter, Rates
from lookahead.errors import LabError
from lookahead.experiments.arms import BITMAP_SCAN, check_node, connect_arm, parse_node
from lookahead.experiments.conditions import fetch_row
from lookahead.experiments.runner import Run
from lookahead.machine import backend_cpu_ms
from lookahead.measurements import (
    Arm,
    Check,
    ColdRecord,
    Digest,
    Measurements,
    NodeEvidence,
    Question,
    Reference,
    Sample,
    Scenario,
    Table,
)
from lookahead.server import Session
from lookahead.terminal import ProgressBar

EXPLAIN_ANALYZE = "EXPLAIN (ANALYZE, TIMING OFF, BUFFERS, LOOKAHEAD, FORMAT JSON)"
# The option is the library's: without the library EXPLAIN refuses it.
_STOCK_EXPLAIN_ANALYZE = "EXPLAIN (ANALYZE, TIMING OFF, BUFFERS, FORMAT JSON)"
# The share of pages that must have come through look-ahead; of few pages all but the first ones,
# which stock's code reads: a scan is its own until one had to be read.
MIN_PREFETCHED_SHARE = 0.9
_FIRST_PAGES = 4

ArmT = TypeVar("ArmT")
ResultT = TypeVar("ResultT")

Execute = Callable[[Session, str, Arm], tuple[float, NodeEvidence | None]]
"""Runs a statement in an arm; the time in ms, and the evidence where there is a plan."""


def explain_trial(connection: Session, statement: str, arm: Arm) -> tuple[float, NodeEvidence]:
    """Execute the statement to its end under EXPLAIN; time and evidence, both checked."""
    explain = _STOCK_EXPLAIN_ANALYZE if arm.library == "not loaded" else EXPLAIN_ANALYZE
    (document,) = fetch_row(connection, f"{explain} {statement}")
    time_ms, evidence = parse_node(document, arm.plan)
    check_node(evidence, arm)
    return time_ms, evidence


@dataclass(frozen=True)
class Statement:
    """SQL, and what is known of it beside its text: see `Sample.counts`."""

    sql: str
    counts: Mapping[str, float]


@dataclass(frozen=True)
class Trial:
    """A scenario with its statement and arms.

    `statements` replace the statement in the arms that they name; `sessions` are the statements of
    several sessions at once; `rounds` those of the rounds, one for each. `server` are settings of
    the server's start. `rows` are what each arm's scan must return and `pages` what a bitmap must
    have, None where that is not known; of `prefetched` pages our arm must ask for nearly all. Not
    `cold`: the server runs already, and its data is cached. `compared` are the arms whose rows are
    received and compared first. `execute` executes the statement; a sample is the fastest of its
    `executions`, before several of which comes one more, in which sessions meet the caches. Of the
    arms `elsewhere` it is another process that executes. `surroundings` are entered while the trial
    is measured, such as a changed read-ahead.
    """

    scenario: Scenario
    statement: str
    arms: tuple[Arm, ...]
    questions: tuple[Question, ...]
    server: Mapping[str, str]
    rows: int | None = None
    pages: int | None = None
    statements: Mapping[str, str] = field(default_factory=dict)
    references: tuple[Reference, ...] = ()
    cold: bool = True
    sessions: tuple[str, ...] = ()
    rounds: tuple[Statement, ...] = ()
    prefetched: int = 0
    compared: tuple[str, ...] = ()
    execute: Execute = explain_trial
    executions: int = 1
    elsewhere: tuple[str, ...] = ()
    surroundings: Callable[[], AbstractContextManager[object]] = nullcontext

    def rounds_of(self, usual: int) -> int:
        """How many rounds are measured, where `usual` is how many without statements of its own."""
        return len(self.rounds) or usual

    def statement_of(self, arm: Arm, number: int = 0) -> str:
        """What the arm executes in a round, counted from 0."""
        if self.rounds:
            return self.rounds[number].sql
        return self.statements.get(arm.name, self.statement)


def alternate(arms: Sequence[ArmT], rounds: int) -> Iterator[tuple[int, ArmT]]:
    """(round, arm) for each sample, rounds counted from 0; odd rounds in reverse order."""
    for number in range(rounds):
        for arm in arms if number % 2 == 0 else tuple(reversed(arms)):
            yield number, arm


def rotate(arms: Sequence[ArmT], rounds: int) -> Iterator[tuple[int, ArmT]]:
    """(round, arm) for each sample, rounds counted from 0; round N begins with the Nth arm.

    Drift cancels out when the number of rounds is a multiple of the number of arms.
    """
    for number in range(rounds):
        first = number % len(arms)
        for arm in (*arms[first:], *arms[:first]):
            yield number, arm


class Trials:
    """The trials of one run; results are recorded as they come.

    `on_start` is called after each cold restart.
    """

    def __init__(self, run: Run, *, on_start: Callable[[], None] | None = None) -> None:
        self._run = run
        self._on_start = on_start
        self._device = run.device.name if run.device else None

    @property
    def data(self) -> Measurements:
        """What was recorded so far."""
        return self._run.document.measurements

    def add_table(self, table: Table) -> None:
        """Record a table."""
        self._record(tables=(*self.data.tables, table))

    def measure_all(self, trials: Sequence[Trial], rounds: int) -> None:
        """All samples of all trials, recorded one by one, with a bar of the progress."""
        total = sum(len(trial.arms) * trial.rounds_of(rounds) for trial in trials)
        with self._run.terminal.progress(total) as bar:
            for trial in trials:
                with trial.surroundings():
                    self._measure(trial, trial.rounds_of(rounds), bar)

    def _measure(self, trial: Trial, rounds: int, bar: ProgressBar) -> None:
        if trial.compared:
            bar.describe(f"{trial.scenario.label}: comparing rows")
            self._run.server.restart(trial.server)
            self.compare_rows(trial, [arm for arm in trial.arms if arm.name in trial.compared])
        self.begin(trial)
        for number, arm in alternate(trial.arms, rounds):
            bar.describe(f"{trial.scenario.label}: {arm.name}")
            self._sample(trial, arm, number)
            bar.advance()

    def begin(self, trial: Trial) -> None:
        """Record what is about to be measured: arms, questions, statement, references."""
        known = {arm.name for arm in self.data.arms}
        statement = {trial.scenario.label: trial.statement} if trial.statement else {}
        self._record(
            arms=(*self.data.arms, *(arm for arm in trial.arms if arm.name not in known)),
            questions=(*self.data.questions, *trial.questions),
            statements={**self.data.statements, **statement},
            references=(*self.data.references, *trial.references),
        )
        self._run.terminal.log_only(trial.scenario.label)

    def compare_rows(self, trial: Trial, arms: Sequence[Arm], *, ordered: bool = True) -> None:
        """Receive the rows in each of `arms` on the running server; LabError when they differ."""
        found = {}
        for arm in arms:
            with connect_arm(self._run.server, arm) as connection:
                if arm.plan:  # the arm's own code is about to return the rows
                    explain_trial(connection, trial.statement_of(arm), arm)
                found[arm.name] = digest_rows(connection, trial.statement_of(arm), ordered=ordered)
        if len(set(found.values())) != 1:
            raise LabError(
                f"the arms returned different rows for {trial.scenario.label}: "
                + ", ".join(f"{name} {rows} rows" for name, (rows, _) in found.items()),
                "This is a bug of pg_lookahead, report it.",
            )
        rows, sha256 = next(iter(found.values()))
        digest = Digest(trial.scenario, tuple(found), ordered, rows, sha256)
        self._record(digests=(*self.data.digests, digest))

    def cool(self, settings: Mapping[str, str]) -> ColdRecord:
        """Restart the server with these settings and an empty cache."""
        record = self._run.server.cold_restart(settings)
        if self._on_start:
            self._on_start()
        return record

    def add_check(self, trial: Trial, facts: Mapping[str, str]) -> None:
        """Keep what was verified of a trial."""
        self._record(checks=(*self.data.checks, Check(trial.scenario, dict(facts))))

    def add_samples(self, samples: Iterable[Sample]) -> None:
        """Keep samples, numbered; LabError for a second one of an arm in a round of a scenario."""
        known = self.data.samples
        numbered = (
            replace(sample, sequence=number) for number, sample in enumerate(samples, len(known))
        )
        kept = (*known, *numbered)
        if len({(one.scenario, one.arm, one.round) for one in kept}) < len(kept):
            raise LabError(
                f"an arm was measured twice in a round of {kept[-1].scenario.label}",
                "This is a bug, report it.",
            )
        self._record(samples=kept)

    def _sample(self, trial: Trial, arm: Arm, number: int) -> None:
        cold = self.cool(trial.server) if trial.cold else None
        statements = trial.sessions or (trial.statement_of(arm, number),)
        with ExitStack() as sessions:
            connections = [
                sessions.enter_context(connect_arm(self._run.server, arm)) for _ in statements
            ]
            for connection, statement in zip(connections, statements, strict=True):
                if arm.plan:  # loads catalogs, and nothing of the table
                    connection.execute(f"EXPLAIN {statement}")
                if trial.executions > 1:
                    trial.execute(connection, statement, arm)
            calls = [
                partial(_execute, trial, connection, statement, arm)
                for connection, statement in zip(connections, statements, strict=True)
            ]
            measured = [self._watch(calls) for _ in range(trial.executions)]
        done, use = min(measured, key=lambda one: _mean_ms(one[0]))
        evidence = done[0].evidence
        if evidence is not None:
            check_counts(trial, arm, evidence)
        spent = [one.cpu_ms for one in done if one.cpu_ms is not None]
        sample = Sample(
            scenario=trial.scenario,
            round=number,
            sequence=0,
            arm=arm.name,
            time_ms=_mean_ms(done),
            session_ms=tuple(one.time_ms for one in done),
            executions=trial.executions,
            evidence=evidence,
            backend_cpu_ms=sum(spent) if len(spent) == len(done) else None,
            cold=cold,
            use=use,
            counts=dict(trial.rounds[number].counts) if trial.rounds else {},
        )
        self.add_samples([sample])

    def _watch(
        self, calls: Sequence[Callable[[], "_Execution"]]
    ) -> tuple[list["_Execution"], Rates]:
        """Let all sessions execute their statements once; what the machine did meanwhile."""
        with IoMeter(self._device) as meter:
            done = run_together(calls)
        return done, meter.rates

    def _record(self, **changes: Any) -> None:
        self._run.record(measurements=replace(self.data, **changes))


@dataclass(frozen=True)
class _Execution:
    """What one session did; `cpu_ms` is None where other processes had a part in it."""

    time_ms: float
    evidence: NodeEvidence | None
    cpu_ms: float | None


def _mean_ms(sessions: Sequence[_Execution]) -> float:
    return fmean(one.time_ms for one in sessions)


def _execute(trial: Trial, connection: Session, statement: str, arm: Arm) -> _Execution:
    backend = connection.info.backend_pid
    before = backend_cpu_ms(backend)
    time_ms, evidence = trial.execute(connection, statement, arm)
    after = backend_cpu_ms(backend)
    alone = arm.name not in trial.elsewhere and (evidence is None or evidence.workers == 0)
    cpu_ms = after - before if alone and before is not None and after is not None else None
    return _Execution(time_ms, evidence, cpu_ms)


def run_together(calls: Sequence[Callable[[], ResultT]]) -> list[ResultT]:
    """The results of calls that begin together, each in a thread of its own.

    A single one is called as it is. Raises what one of them raised, when all have ended; when the
    wait for them is interrupted they are left to themselves.
    """
    if len(calls) == 1:
        return [calls[0]()]
    start = Barrier(len(calls))
    done: dict[int, ResultT] = {}
    failures: list[Exception] = []

    def begin(number: int) -> None:
        try:
            start.wait()
            done[number] = calls[number]()
        except Exception as error:
            failures.append(error)

    threads = [Thread(target=begin, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [done[number] for number in range(len(calls))]


def check_counts(trial: Trial, arm: Arm, evidence: NodeEvidence) -> None:
    """LabError when the arm returned other rows than there are, or its bitmap had other pages."""
    found = {"rows": (evidence.rows, trial.rows)}
    if arm.plan == BITMAP_SCAN:
        found["pages"] = (evidence.exact_blocks + evidence.lossy_blocks, trial.pages)
    for what, (number, expected) in found.items():
        if expected is not None and number != expected:
            raise LabError(
                f'arm "{arm.name}" had {number} {what} instead of {expected} '
                f"for {trial.scenario.label}",
                "This is a bug, report it.",
            )
    asked = evidence.lookahead.prefetched_blocks
    least = min(MIN_PREFETCHED_SHARE * trial.prefetched, trial.prefetched - _FIRST_PAGES)
    if arm.library == "on" and asked < least:
        raise LabError(
            f"our path did not run: only {asked} of {trial.prefetched} pages came through "
            "look-ahead",
            "Is the library one of another build? If not, this is a bug, report it.",
        )


def digest_rows(connection: Session, query: str, *, ordered: bool = True) -> tuple[int, str]:
    """Number and SHA-256 of the rows in the order the server sends them, or else sorted."""
    texts = ("\x1f".join(map(str, row)) for row in _stream(connection, query))
    digest, rows = hashlib.sha256(), 0
    for text in texts if ordered else sorted(texts):
        digest.update(text.encode())
        digest.update(b"\x1e")
        rows += 1
    return rows, digest.hexdigest()


def _stream(connection: Session, query: str) -> Iterator[tuple[Any, ...]]:
    # One execution to the end, not a cursor: a cursor that is fetched from in parts looks less
    # far ahead, and would not compare the path that is measured.
    with connection.cursor() as cursor:
        yield from cursor.stream(query.encode(), binary=True)
