"""Takes the samples of trials: every arm once in each round, the order turned round.

    trials = Trials(run)
    trials.measure_all(chosen, rounds)

A statement runs under EXPLAIN (ANALYZE, TIMING OFF), and a sample counts only with the plan and the
code of its arm. Before each sample the server is stopped, its files are dropped from the OS cache,
it is started again; a plain EXPLAIN loads catalogs and the index root, but no page of the table.

The arms of a round stand back to back, the order turned round from round to round: A B, B A, A B,
... (ABBA). Whatever drifts evenly during the run, or favours the second of two executions, favours
both arms alike, provided that the number of rounds is even.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from lookahead.device.counters import IoMeter
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
    Sample,
    Scenario,
    Table,
)
from lookahead.report.sentences import labelling
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

    `rounds` are the statements of the rounds, one for each. `server` are settings of the server's
    start. `rows` are what each arm's scan must return and `pages` what a bitmap must have, None
    where that is not known; of `prefetched` pages our arm must ask for nearly all. `compared` are
    the arms whose rows are received and compared first.
    """

    scenario: Scenario
    statement: str
    arms: tuple[Arm, ...]
    questions: tuple[Question, ...]
    server: Mapping[str, str]
    rows: int | None = None
    pages: int | None = None
    rounds: tuple[Statement, ...] = ()
    prefetched: int = 0
    compared: tuple[str, ...] = ()

    def rounds_of(self, usual: int) -> int:
        """How many rounds are measured, where `usual` is how many without statements of its own."""
        return len(self.rounds) or usual

    def statement_of(self, arm: Arm, number: int = 0) -> str:
        return self.rounds[number].sql if self.rounds else self.statement

    def counts_of(self, number: int) -> dict[str, float]:
        return dict(self.rounds[number].counts) if self.rounds else {}


TrialT = TypeVar("TrialT", bound=Trial)


def alternate(arms: Sequence[ArmT], rounds: int) -> Iterator[tuple[int, ArmT]]:
    """(round, arm) for each sample, rounds counted from 0; odd rounds in reverse order."""
    for number in range(rounds):
        for arm in arms if number % 2 == 0 else tuple(reversed(arms)):
            yield number, arm


class Trials(Generic[TrialT]):
    """The trials of one run; results are recorded as they come.

    `label` is what a person is told of a scenario: what tells it from the run's others.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.label: Callable[[Scenario], str] = labelling(())
        self.device = run.device.name if run.device else None

    @property
    def data(self) -> Measurements:
        return self.run.document.measurements

    def add_table(self, table: Table) -> None:
        self.record(tables=(*self.data.tables, table))

    def measure_all(self, trials: Sequence[TrialT], rounds: int) -> None:
        """All samples of all trials, recorded one by one, with a bar of the progress."""
        total = sum(len(trial.arms) * trial.rounds_of(rounds) for trial in trials)
        self.label = labelling(trial.scenario for trial in trials)
        with self.run.terminal.progress(total) as bar:
            for trial in trials:
                self.measure(trial, trial.rounds_of(rounds), bar)

    def measure(self, trial: TrialT, rounds: int, bar: ProgressBar) -> None:
        if trial.compared:
            bar.describe(f"{self.label(trial.scenario)}: comparing rows")
            self.run.server.restart(trial.server)
            self.compare_rows(trial, [arm for arm in trial.arms if arm.name in trial.compared])
        self.begin(trial)
        for number, arm in alternate(trial.arms, rounds):
            bar.describe(f"{self.label(trial.scenario)}: {arm.name}")
            self.add_samples([self.sample(trial, arm, number)])
            bar.advance()

    def begin(self, trial: TrialT) -> None:
        """Record what is about to be measured: arms, questions, statement."""
        known = {arm.name for arm in self.data.arms}
        statement = {trial.scenario.label: trial.statement} if trial.statement else {}
        self.record(
            arms=(*self.data.arms, *(arm for arm in trial.arms if arm.name not in known)),
            questions=(*self.data.questions, *trial.questions),
            statements={**self.data.statements, **statement},
        )
        self.run.terminal.log_only(self.label(trial.scenario))

    def compare_rows(self, trial: TrialT, arms: Sequence[Arm]) -> None:
        """Receive the rows in each of `arms` on the running server; LabError when they differ."""
        found = {}
        for arm in arms:
            with connect_arm(self.run.server, arm) as connection:
                if arm.plan:  # the arm's own code is about to return the rows
                    explain_trial(connection, trial.statement_of(arm), arm)
                found[arm.name] = digest_rows(connection, trial.statement_of(arm))
        if len(set(found.values())) != 1:
            raise LabError(
                f"the arms returned different rows for {trial.scenario.label}: "
                + ", ".join(f"{name} {rows} rows" for name, (rows, _) in found.items()),
                "This is a bug of pg_lookahead, report it.",
            )
        rows, sha256 = next(iter(found.values()))
        digest = Digest(trial.scenario, tuple(found), rows, sha256)
        self.record(digests=(*self.data.digests, digest))

    def cool(self, settings: Mapping[str, str]) -> ColdRecord:
        """Restart the server with these settings and an empty cache."""
        return self.run.server.cold_restart(settings)

    def add_check(self, trial: TrialT, facts: Mapping[str, str]) -> None:
        self.record(checks=(*self.data.checks, Check(trial.scenario, dict(facts))))

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
        self.record(samples=kept)

    def sample(self, trial: TrialT, arm: Arm, number: int) -> Sample:
        """One execution from a cold start."""
        cold, statement = self.cool(trial.server), trial.statement_of(arm, number)
        with connect_arm(self.run.server, arm) as connection:
            connection.execute(f"EXPLAIN {statement}")  # loads catalogs, and nothing of the table
            backend = connection.info.backend_pid
            with IoMeter(self.device) as meter:
                before = backend_cpu_ms(backend)
                time_ms, evidence = explain_trial(connection, statement, arm)
                spent_ms = cpu_ms_since(before, backend)
        check_counts(trial, arm, evidence)
        return Sample(
            scenario=trial.scenario,
            round=number,
            sequence=0,
            arm=arm.name,
            time_ms=time_ms,
            session_ms=(time_ms,),
            evidence=evidence,
            backend_cpu_ms=spent_ms if evidence.workers == 0 else None,
            cold=cold,
            use=meter.rates,
            counts=trial.counts_of(number),
        )

    def record(self, **changes: Any) -> None:
        self.run.record(measurements=replace(self.data, **changes))


def cpu_ms_since(before: float | None, backend: int) -> float | None:
    """Processor time that a backend has used since then, None when unknown."""
    now = backend_cpu_ms(backend)
    return None if before is None or now is None else now - before


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


def digest_rows(connection: Session, query: str) -> tuple[int, str]:
    """Number and SHA-256 of the rows in the order the server sends them."""
    texts = ("\x1f".join(map(str, row)) for row in _stream(connection, query))
    digest, rows = hashlib.sha256(), 0
    for text in texts:
        digest.update(text.encode())
        digest.update(b"\x1e")
        rows += 1
    return rows, digest.hexdigest()


def _stream(connection: Session, query: str) -> Iterator[tuple[Any, ...]]:
    # One execution to the end, not a cursor: a cursor that is fetched from in parts looks less
    # far ahead, and would not compare the path that is measured.
    with connection.cursor() as cursor:
        yield from cursor.stream(query.encode(), binary=True)
