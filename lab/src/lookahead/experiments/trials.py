"""Takes the samples of trials: every arm once in each round, the order turned round.

    trials = Trials(run)
    trials.measure(trial, rounds, bar)

A statement with a plan runs under EXPLAIN (ANALYZE, TIMING OFF), and a sample counts only with the
plan and the code of its arm. Cold: before each sample the server is stopped, its files are dropped
from the OS cache, it is started again; a plain EXPLAIN loads catalogs and the index root, but no
page of the table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg

from lookahead.device.io_sampler import IoSampler
from lookahead.errors import LabError
from lookahead.experiments.arms import BITMAP_SCAN, connect_arm
from lookahead.experiments.cold_restarts import restart_cold
from lookahead.experiments.runner import Run
from lookahead.experiments.scan_rows import digest_rows
from lookahead.experiments.schedule import alternate
from lookahead.experiments.trial_plan import check_trial, parse_trial
from lookahead.machine import backend_cpu_ms
from lookahead.measurements import ColdRecord
from lookahead.render import ProgressBar
from lookahead.trial_measurements import (
    EMPTY_TRIALS,
    LookupSample,
    NodeEvidence,
    Question,
    Reference,
    TrialArm,
    TrialData,
    TrialDigest,
    TrialSample,
    TrialScenario,
    TrialTable,
)

EXPLAIN_ANALYZE = "EXPLAIN (ANALYZE, TIMING OFF, BUFFERS, LOOKAHEAD, FORMAT JSON)"
# The option is the library's: without the library EXPLAIN refuses it.
_STOCK_EXPLAIN_ANALYZE = "EXPLAIN (ANALYZE, TIMING OFF, BUFFERS, FORMAT JSON)"

Execute = Callable[[psycopg.Connection[Any], str, TrialArm], tuple[float, NodeEvidence | None]]
"""Runs a statement in an arm; the time in ms, and the evidence where there is a plan."""


@dataclass(frozen=True)
class Trial:
    """A scenario with its statement and arms.

    `statements` replace the statement in the arms that they name. `server` are settings of the
    server's start. `rows` are what each arm's scan must return and `pages` what a bitmap must have,
    None where that is not known. Not `cold`: the server runs already, and its data is cached.
    """

    scenario: TrialScenario
    statement: str
    arms: tuple[TrialArm, ...]
    questions: tuple[Question, ...]
    server: Mapping[str, str]
    rows: int | None = None
    pages: int | None = None
    statements: Mapping[str, str] = field(default_factory=dict)
    references: tuple[Reference, ...] = ()
    cold: bool = True

    def statement_of(self, arm: TrialArm) -> str:
        """What the arm executes."""
        return self.statements.get(arm.name, self.statement)


class Trials:
    """The trials of one run; results are recorded as they come.

    `on_start` is called after each cold restart.
    """

    def __init__(self, run: Run, *, on_start: Callable[[], None] | None = None) -> None:

        self._run = run
        self._on_start = on_start
        self._device = run.device.name if run.device else None
        if run.document.trials is None:
            run.record(trials=EMPTY_TRIALS)

    @property
    def data(self) -> TrialData:
        """What was recorded so far."""
        data = self._run.document.trials
        assert data is not None
        return data

    def add_table(self, table: TrialTable) -> None:
        """Record a table."""
        self._record(tables=(*self.data.tables, table))

    def measure(
        self, trial: Trial, rounds: int, bar: ProgressBar, execute: Execute | None = None
    ) -> None:
        """All samples of a trial, recorded one by one; `execute` replaces EXPLAIN ANALYZE."""
        self.begin(trial)
        for number, arm in alternate([arm.name for arm in trial.arms], rounds):
            chosen = next(one for one in trial.arms if one.name == arm)
            bar.describe(f"{trial.scenario.label}: {arm}")
            self._sample(trial, chosen, number, execute or explain_trial)
            bar.advance()

    def begin(self, trial: Trial) -> None:
        """Record what is about to be measured: arms, questions, references."""
        known = {arm.name for arm in self.data.arms}
        self._record(
            arms=(*self.data.arms, *(arm for arm in trial.arms if arm.name not in known)),
            questions=(*self.data.questions, *trial.questions),
            references=(*self.data.references, *trial.references),
        )
        self._run.terminal.log_only(trial.scenario.label)

    def compare_rows(self, trial: Trial, arms: Sequence[TrialArm], *, ordered: bool = True) -> None:
        """Receive the rows in each of `arms` on the running server; LabError when they differ."""
        found = {}
        for arm in arms:
            with connect_arm(self._run.server, arm) as connection:
                found[arm.name] = digest_rows(connection, trial.statement_of(arm), ordered=ordered)
        if len(set(found.values())) != 1:
            raise LabError(
                f"the arms returned different rows for {trial.scenario.label}: "
                + ", ".join(f"{name} {rows} rows" for name, (rows, _) in found.items()),
                "This is a bug of pg_lookahead, report it.",
            )
        rows, sha256 = next(iter(found.values()))
        digest = TrialDigest(trial.scenario, tuple(found), ordered, rows, sha256)
        self._record(digests=(*self.data.digests, digest))

    def cool(self, settings: Mapping[str, str]) -> ColdRecord:
        """Restart the server with these settings and an empty cache."""
        record = restart_cold(self._run, settings)
        if self._on_start:
            self._on_start()
        return record

    def add_sample(self, sample: TrialSample) -> None:
        """Keep a sample, numbered."""
        numbered = replace(sample, sequence=len(self.data.samples))
        self._record(samples=(*self.data.samples, numbered))

    def add_lookups(self, sample: LookupSample) -> None:
        """Keep a sample of lookups, numbered."""
        numbered = replace(sample, sequence=len(self.data.lookups))
        self._record(lookups=(*self.data.lookups, numbered))

    def _sample(self, trial: Trial, arm: TrialArm, number: int, execute: Execute) -> None:
        cold = self.cool(trial.server) if trial.cold else None
        with connect_arm(self._run.server, arm) as connection:
            warm_up(connection, trial, arm)
            backend = connection.info.backend_pid
            cpu_before = backend_cpu_ms(backend)
            with IoSampler(self._device) as sampler:
                time_ms, evidence = execute(connection, trial.statement_of(arm), arm)
            cpu_after = backend_cpu_ms(backend)
        if evidence is not None:
            _check_counts(trial, arm, evidence)
        spent = None if cpu_before is None or cpu_after is None else cpu_after - cpu_before
        self.add_sample(
            TrialSample(
                scenario=trial.scenario,
                round=number,
                sequence=0,
                arm=arm.name,
                time_ms=time_ms,
                session_ms=(time_ms,),
                evidence=evidence,
                backend_cpu_ms=spent,
                cold=cold,
                use=sampler.timeline().overall(),
            )
        )

    def _record(self, **changes: Any) -> None:
        self._run.record(trials=replace(self.data, **changes))


def warm_up(connection: psycopg.Connection[Any], trial: Trial, arm: TrialArm) -> None:
    """Load catalogs, and nothing of the table."""
    if arm.plan:
        connection.execute(f"EXPLAIN {trial.statement_of(arm)}")


def explain_trial(
    connection: psycopg.Connection[Any], statement: str, arm: TrialArm
) -> tuple[float, NodeEvidence]:
    """Execute the statement to its end under EXPLAIN; time and evidence, both checked."""
    explain = _STOCK_EXPLAIN_ANALYZE if arm.library == "not loaded" else EXPLAIN_ANALYZE
    row = connection.execute(f"{explain} {statement}").fetchone()
    time_ms, evidence = parse_trial(row[0] if row else None, arm.plan)
    check_trial(evidence, arm)
    return time_ms, evidence


def _check_counts(trial: Trial, arm: TrialArm, evidence: NodeEvidence) -> None:
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
