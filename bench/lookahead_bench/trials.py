"""Trials beyond the lab's: of several sessions at once, of cached data, executed in other ways.

Samples of a millisecond are not turned round but rotated: A B C, B C A, C A B, ... There the same
backend twice in a row, on both sides of the seam of two rounds, was half as slow again the second
time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from threading import Barrier, Thread
from typing import TypeVar

from lookahead.device.counters import IoMeter, Rates
from lookahead.experiments import trials as lab
from lookahead.experiments.arms import NOT_LOADED, connect_arm
from lookahead.experiments.runner import Run
from lookahead.experiments.trials import ArmT, check_counts, cpu_ms_since, explain_trial
from lookahead.machine import backend_cpu_ms
from lookahead.measurements import Arm, ColdRecord, NodeEvidence, Sample
from lookahead.server import Session
from lookahead.terminal import ProgressBar

ResultT = TypeVar("ResultT")
Execute = Callable[[Session, str, Arm], tuple[float, NodeEvidence | None]]
"""Runs a statement in an arm; the time in ms, and the evidence where there is a plan."""


def rotate(arms: Sequence[ArmT], rounds: int) -> Iterator[tuple[int, ArmT]]:
    """(round, arm) for each sample, rounds counted from 0; round N begins with the Nth arm.

    Drift cancels out when the number of rounds is a multiple of the number of arms.
    """
    for number in range(rounds):
        first = number % len(arms)
        for arm in (*arms[first:], *arms[:first]):
            yield number, arm


def client_environment(arm: Arm) -> dict[str, str]:
    """Variables by which the sessions of a client program are those of the arm."""
    switched = f"-c pg_lookahead.enabled={arm.library}"
    options = [NOT_LOADED if arm.library == "not loaded" else switched]
    options += [f"-c {name}={value}" for name, value in arm.settings.items()]
    return {"PGOPTIONS": " ".join(options)}


@dataclass(frozen=True)
class Trial(lab.Trial):
    """A scenario with its statement and arms.

    `statements` replace the statement in the arms that they name; `sessions` are the statements of
    several sessions at once. `references` are times by name that stand beside every round, known
    before: computed, or of the device. Not `cold`: the server runs already, and its data is cached.
    `execute` executes the statement; a sample is the fastest of its `executions`, before several of
    which comes one more, in which sessions meet the caches. Of the arms `elsewhere` it is another
    process that executes. `surroundings` are entered while the trial is measured, such as a changed
    read-ahead.
    """

    statements: Mapping[str, str] = field(default_factory=dict)
    references: Mapping[str, float] = field(default_factory=dict)
    cold: bool = True
    sessions: tuple[str, ...] = ()
    execute: Execute = explain_trial
    executions: int = 1
    elsewhere: tuple[str, ...] = ()
    surroundings: Callable[[], AbstractContextManager[object]] = nullcontext

    def statement_of(self, arm: Arm, number: int = 0) -> str:
        if arm.name in self.statements:
            return self.statements[arm.name]
        return super().statement_of(arm, number)


class Trials(lab.Trials[Trial]):
    """The trials of one run. `on_start` is called after each cold restart."""

    def __init__(self, run: Run, *, on_start: Callable[[], None] | None = None) -> None:
        super().__init__(run)
        self._on_start = on_start

    def measure(self, trial: Trial, rounds: int, bar: ProgressBar) -> None:
        with trial.surroundings():
            super().measure(trial, rounds, bar)
        for name, time_ms in trial.references.items():
            if name not in {arm.name for arm in self.data.arms}:
                self.record(arms=(*self.data.arms, Arm(name, "not loaded", "", {})))
            self.add_samples(
                Sample(trial.scenario, number, 0, name, time_ms, (time_ms,))
                for number in range(rounds)
            )

    def cool(self, settings: Mapping[str, str]) -> ColdRecord:
        record = super().cool(settings)
        if self._on_start:
            self._on_start()
        return record

    def sample(self, trial: Trial, arm: Arm, number: int) -> Sample:
        """The fastest of the executions by all sessions at once."""
        cold = self.cool(trial.server) if trial.cold else None
        statements = trial.sessions or (trial.statement_of(arm, number),)
        with ExitStack() as sessions:
            connections = [
                sessions.enter_context(connect_arm(self.run.server, arm)) for _ in statements
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
        return Sample(
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
            counts=trial.counts_of(number),
        )

    def _watch(
        self, calls: Sequence[Callable[[], "_Execution"]]
    ) -> tuple[list["_Execution"], Rates]:
        """Let all sessions execute their statements once; what the machine did meanwhile."""
        with IoMeter(self.device) as meter:
            done = run_together(calls)
        return done, meter.rates


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
    spent_ms = cpu_ms_since(before, backend)
    alone = arm.name not in trial.elsewhere and (evidence is None or evidence.workers == 0)
    return _Execution(time_ms, evidence, spent_ms if alone else None)


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
