"""The experiment "extend": in which steps a table grows.

It grows by INSERT ... SELECT of several sessions, each into a table of its own, and all into one;
and by pgbench -i, whose rows come by COPY, or from an INSERT ... SELECT. The step is
pg_lookahead.bulk_extend_size. After each sample the extents of the files are counted, and stock
reads them from a cold start: a sample of a scenario of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from time import monotonic

from lookahead.device.counters import IoMeter
from lookahead.errors import UsageError
from lookahead.experiments.arms import arm_of, connect_arm
from lookahead.experiments.bulk_insert_cases import (
    NARROW,
    OURS,
    SINGLE_ROWS,
    STOCK,
    STOCK_ARM,
    SWITCH,
    TARGET,
)
from lookahead.experiments.bulk_insert_trials import (
    INSERT_SETTINGS,
    INSERTED_SIZE,
    seconds_of,
    space_for,
)
from lookahead.experiments.conditions import COLD_RESTART_SECONDS
from lookahead.experiments.experiment import (
    REPETITIONS,
    Count,
    Experiment,
    MemorySize,
    Option,
    memory_label,
    memory_text,
    refuse_unused,
)
from lookahead.experiments.runner import Run
from lookahead.experiments.trials import alternate
from lookahead.measurements import Arm, Factor, Question, Sample, Scenario
from lookahead.server import Session
from lookahead_bench.insert_trials import SessionCase, SessionInserts
from lookahead_bench.trials import Trial, client_environment

_STEP, _ACCOUNTS = "pg_lookahead.bulk_extend_size", "pgbench_accounts"
_LOADS = {"pgbench -i, COPY": "g", "pgbench -i, INSERT ... SELECT": "G"}
_SCALE_KB = 13_120  # pgbench_accounts of 100,000 rows
_MAX_KB = 64 * 1024  # the step's own bound


@dataclass(frozen=True)
class Extensions:
    """What is wanted, sizes in kB."""

    repetitions: int = REPETITIONS.sized(6)
    extend_size: tuple[int, ...] = Option(MemorySize(0, _MAX_KB), f"Values of {_STEP}.").sized(
        (0, 64, 512, 4096, 16384), demo=(0, 4096)
    )
    table_size: int = INSERTED_SIZE.sized(64 * 1024, demo=32 * 1024, full=2048 * 1024)
    sessions: tuple[int, ...] = Option(
        Count(1, 64), "Sessions, which together insert the rows once.", may_be_none=True
    ).sized((1, 2, 4))
    scale: tuple[int, ...] = Option(Count(1, 100_000), "pgbench's scales.", may_be_none=True).sized(
        (10,), demo=(), full=(200,)
    )


class _Extend:
    """One run of the experiment."""

    def __init__(self, run: Run, wanted: Extensions) -> None:
        self._run, self._server = run, run.server
        self._wanted, self._arms = wanted, _arms(wanted)
        self._inserts = SessionInserts(run, wanted.table_size)
        self._trials = self._inserts.trials

    def measure(self) -> None:
        """Sessions, then pgbench."""
        self._inserts.start()
        if self._wanted.sessions:
            with self._server.connect() as connection:
                self._inserts.make(connection, NARROW)
        for case in _cases(self._wanted):
            with self._server.connect() as connection:
                self._inserts.begin(connection, case)
            self._measure(case.scenario, case.targets, partial(self._inserts.sample, case))
        for scale, (name, step) in product(map(str, self._wanted.scale), _LOADS.items()):
            scenario, load = _scenario(name, f"scale {scale}"), ("-i", "-s", scale, "-I", step)
            self._begin(scenario, " ".join(("pgbench", *load)))
            self._measure(scenario, (_ACCOUNTS,), partial(self._load, scenario, load))
        if not any("file_extents" in sample.counts for sample in self._trials.data.samples):
            self._run.find("note", "extents are not counted: the file system does not tell them")

    def _load(
        self, scenario: Scenario, load: Sequence[str], connection: Session, number: int, arm: Arm
    ) -> Sample:
        """Rows of pgbench, into tables made before."""
        self._server.run_client("pgbench", "-q", *load, "-I", "dt")
        connection.execute("CHECKPOINT")
        started = monotonic()
        self._server.run_client("pgbench", "-q", *load, env=client_environment(arm))
        time_ms = round((monotonic() - started) * 1000, 3)
        counts = self._inserts.sizes_of(connection, _ACCOUNTS, extents=True)
        return Sample(scenario, number, 0, arm.name, time_ms, (time_ms,), counts=counts)

    def _begin(self, scenario: Scenario, statement: str) -> None:
        questions = _questions(scenario, self._arms)
        self._trials.begin(Trial(scenario, statement, self._arms, questions, {}))

    def _measure(
        self,
        scenario: Scenario,
        tables: Sequence[str],
        insert: Callable[[Session, int, Arm], Sample],
    ) -> None:
        """In each round every arm lets the tables grow by `insert`, and has them read."""
        growing, _, rows = scenario.factors
        later = Scenario((growing, Factor("sample", "read cold"), rows))
        scan = f"SELECT {' + '.join(f'(SELECT count(*) FROM {table})' for table in tables)}"
        self._begin(later, scan)
        rounds = self._wanted.repetitions
        with self._run.terminal.progress(rounds * len(self._arms)) as bar:
            for number, arm in alternate(self._arms, rounds):
                bar.describe(f"{scenario.label}: {arm.name}")
                with self._server.connect() as connection:
                    grown = insert(connection, number, arm)
                self._trials.add_samples([grown, self._read(later, scan, number, arm)])
                bar.advance()

    def _read(self, scenario: Scenario, scan: str, number: int, arm: Arm) -> Sample:
        """Stock reads what the arm has written, one table after the other."""
        # The first scan of new rows writes hint bits, which is not what is to be measured.
        self._scan_ms(scan)
        cold = self._trials.cool({})
        with IoMeter(self._run.device.name if self._run.device else None) as meter:
            time_ms = self._scan_ms(scan)
        return Sample(
            scenario, number, 0, arm.name, time_ms, (time_ms,), cold=cold, use=meter.rates
        )

    def _scan_ms(self, scan: str) -> float:
        """What stock takes, without the loading of catalogs."""
        with connect_arm(self._server, STOCK_ARM) as session:
            session.execute(f"EXPLAIN {scan}")
            started = monotonic()
            session.execute(scan)
            return round((monotonic() - started) * 1000, 3)


def _arms(wanted: Extensions) -> tuple[Arm, ...]:
    """Stock, and ours by the step."""
    steps = {size: {_STEP: memory_text(size), **SWITCH} for size in wanted.extend_size}
    ours = (arm_of(f"{OURS}, {memory_label(size)}", "", "on", steps[size]) for size in steps)
    return STOCK_ARM, *ours


def _questions(scenario: Scenario, arms: Sequence[Arm]) -> tuple[Question, ...]:
    """Each step against stock."""
    return tuple(Question(scenario, STOCK, (STOCK,), (arm.name,)) for arm in arms[1:])


def _scenario(growing: str, rows: str) -> Scenario:
    return Scenario((Factor("growing", growing), Factor("sample", "insert"), Factor("rows", rows)))


def _cases(wanted: Extensions) -> Iterator[SessionCase]:
    """Sessions with a table each, and several with one."""
    rows, arms = NARROW.rows(wanted.table_size), _arms(wanted)
    for sessions in wanted.sessions:
        for tables in dict.fromkeys((sessions, 1)):
            growing = f"sessions {sessions}, tables {tables}"
            scenario = _scenario(growing, memory_text(wanted.table_size))
            names = tuple(f"{TARGET}_{number}" for number in range(tables))
            each = max(rows // sessions, 1)
            yield SessionCase(
                scenario=scenario,
                source=NARROW,
                statement=f"INSERT INTO {{target}} SELECT * FROM {NARROW.name} LIMIT {each}",
                rows=each,
                before=tuple(
                    f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({NARROW.columns})"
                    for name in names
                ),
                batched=each - SINGLE_ROWS,
                arms=arms,
                questions=_questions(scenario, arms),
                targets=names,
                sessions=sessions,
                counts_extents=True,
            )


def _settle(wanted: Extensions, explicit: frozenset[str]) -> Extensions:
    """As it is; LabError where nothing is measured, or values are named of what is not."""
    if not wanted.sessions:
        refuse_unused(explicit, ("table_size",), "--sessions")
        if not wanted.scale:
            raise UsageError("nothing is to be measured", "Name --sessions or a --scale.")
    return wanted


def _most_kb(wanted: Extensions) -> int:
    """What grows at once."""
    grown = wanted.table_size if wanted.sessions else 0
    return max(grown, *(_SCALE_KB * scale for scale in (0, *wanted.scale)))


def _estimated_seconds(wanted: Extensions) -> float:
    """Each sample with its cold scan; of sessions every arm once more."""
    scenarios = len(list(_cases(wanted))) + len(wanted.scale) * len(_LOADS)
    samples = scenarios * len(_arms(wanted)) * (wanted.repetitions + 1)
    return seconds_of(samples, _most_kb(wanted)) + samples * COLD_RESTART_SECONDS


EXPERIMENT = Experiment(
    name="extend",
    summary=f"Tables that grow by {_STEP}, and how they are read later.",
    description="Sessions that insert at once, each into "
    "a table of its own and all into one; pgbench -i, by COPY and on the server. Then the extents "
    "of the files are counted, and stock reads them cold.",
    asked=Extensions,
    settings=lambda wanted: INSERT_SETTINGS,
    needed_bytes=lambda wanted: space_for(_most_kb(wanted)),
    estimated_seconds=_estimated_seconds,
    measure=lambda run, wanted: _Extend(run, wanted).measure(),
    settle=_settle,
)
