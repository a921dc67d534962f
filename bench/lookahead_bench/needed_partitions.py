"""The experiment "needed-partitions": rows whose partition is not there yet.

With pg_lookahead.enable_interval_creation their partitions are created, by the policy of the table.
What the first row of an interval waits for, beside what users do without that; what sessions at a
moving edge see of it; what it costs rows that need none. Partitions that a sample has made are
dropped after it.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import monotonic

from lookahead.errors import LabError
from lookahead.experiments.arms import arm_of, connect_arm
from lookahead.experiments.bulk_insert_cases import OURS, against
from lookahead.experiments.bulk_insert_trials import INSERT_SETTINGS
from lookahead.experiments.conditions import fetch_row
from lookahead.experiments.experiment import REPETITIONS, Choice, Count, Experiment, Option
from lookahead.experiments.runner import Run
from lookahead.experiments.trials import alternate
from lookahead.measurements import Arm, Factor, Question, Sample, Scenario
from lookahead.server import Session
from lookahead_bench.insert_trials import NOT_LOADED
from lookahead_bench.trials import Trial, Trials, client_environment

_PARENT, _MADE, _EDGE = "lookahead_parent", "lookahead_made_", "lookahead_edge"
_STEP = 5000
# With a primary key, as users have one; each partition gets its index.
_MAKE = (
    "CREATE EXTENSION IF NOT EXISTS pg_lookahead",
    f"DROP TABLE IF EXISTS {_PARENT}",
    f"DROP SEQUENCE IF EXISTS {_EDGE}",
    f"CREATE SEQUENCE {_EDGE}",
    f"CREATE TABLE {_PARENT} (k bigint, id bigint, pad text, PRIMARY KEY (k, id)) "
    "PARTITION BY RANGE (k)",
    f"CALL pg_lookahead_create_range_partitions_batched('{_PARENT}', 0, {_STEP}, {{leaves}})",
    f"SELECT pg_lookahead_set_interval('{_PARENT}', {_STEP}, names => '{_MADE}{{{{bound}}}}')",
)
_ONE = f"CREATE TABLE {_MADE}{{low}} PARTITION OF {_PARENT} FOR VALUES FROM ({{low}}) TO ({{high}})"
_AHEAD = (
    f"SELECT pg_lookahead_create_range_partitions('{_PARENT}', {{edge}}, {_STEP}, {{count}}, "
    f"names => '{_MADE}{{{{bound}}}}')"
)
_FOUND = f"SELECT relname FROM pg_class WHERE relname LIKE '{_MADE}%' AND relkind = 'r'"
_INSERT = f"INSERT INTO {_PARENT} VALUES ({{k}}, {{id}}, 'x')"
_AT_EDGE = _INSERT.format(k=f"nextval('{_EDGE}')", id=1)
_ANYWHERE = _INSERT.format(k=":k", id=":id")
_LOOPED = "DO $$BEGIN FOR i IN 1..{executions} LOOP {insert}; END LOOP; END$$"

THERE, NATIVE, PREMADE = "row of a partition", "CREATE TABLE first", "ours, premade"
"""What ours is compared with: a row that has its partition; a user's own statement before the row.
And with creation on, but all partitions made ahead of time."""
FIRST_ROW, AT_EDGE = "first of an interval", "at the edge"
"""Values of the factor "rows"; others are of rows that need no partition."""
P50, P95, MEAN, SLOWEST = "p50", "p95", "mean", "slowest"
_SWITCH = {"pg_lookahead.enable_interval_creation": "on"}
# Commits of rows that come in a stream do not wait for the device: that would hide the rest.
_NO_WAIT = {"synchronous_commit": "off"}
_FIRST_ARMS = (
    arm_of(THERE, "", "not loaded"),
    arm_of(NATIVE, "", "not loaded"),
    arm_of(OURS, "", "on", _SWITCH),
)
_BARE = arm_of(NOT_LOADED, "", "not loaded", _NO_WAIT)
_ON = arm_of(OURS, "", "on", {**_SWITCH, **_NO_WAIT})
_EDGE_ARMS = (_BARE, arm_of(PREMADE, "", "on", {**_SWITCH, **_NO_WAIT}), _ON)
_TPS = re.compile(r"^tps = ([0-9.]+)", re.MULTILINE)
_LOG = "needed-log"
_EXECUTIONS = 10_000
PARTS = ("first-row", "edge", "single-row")
_LEAF_BYTES, _STREAM_BYTES = 80_000, 4_000_000_000
# What estimates go by; measured on a virtual machine with two processors.
_SERVER_SECONDS, _LEAF_SECONDS, _FIRST_ROW_SECONDS, _ROW_SECONDS = 10.0, 0.005, 0.04, 0.0002


@dataclass(frozen=True)
class Needs:
    """What is wanted."""

    repetitions: int = REPETITIONS.sized(6)
    parts: tuple[str, ...] = Option(Choice(PARTS), "What is measured, see above.").sized(PARTS)
    leaves: tuple[int, ...] = Option(
        Count(16, 20_000), "Numbers of partitions that are there."
    ).sized((128, 1000), demo=(128,), full=(128, 1000, 5000))
    rows: int = Option(Count(1, 500), "First rows of intervals in each sample.").sized(20, demo=5)
    sessions: int = Option(Count(1, 90), "Sessions at the edge.").sized(16)
    intervals: int = Option(
        Count(1, 500), f"Intervals, of {_STEP:,} rows each, that come at the edge in a sample."
    ).sized(4, demo=1, full=10)
    clients: tuple[int, ...] = Option(
        Count(1, 90), "Clients of pgbench in the part single-row."
    ).sized((1, 16))
    seconds: int = Option(Count(1, 3600), "How long each sample of that takes.").sized(1, full=5)


@dataclass(frozen=True)
class Taken:
    """What a sample found: times in ms by figure, what was counted beside it, of so many rows."""

    times: Mapping[str, float]
    counts: Mapping[str, float]
    rows: int


def trials_of(
    leaves: int,
    rows: str,
    figures: Sequence[str],
    statement: str,
    arms: tuple[Arm, ...],
    *,
    baselines: Sequence[str],
) -> list[Trial]:
    """One for each figure of the same rows: ours against each baseline, or all premade."""
    found = []
    for figure in figures:
        factors = (Factor("partitions", f"{leaves:,}"), Factor("rows", rows))
        scenario = Scenario((*factors, Factor("figure", figure)))
        questions = against(scenario, *baselines)
        if any(arm.name == PREMADE for arm in arms):
            premade = Question(scenario, f"{baselines[0]}, premade", (baselines[0],), (PREMADE,))
            questions = (premade, *questions)
        found.append(Trial(scenario, statement, arms, questions, server={}, cold=False))
    return found


class _Needed:
    """The parts, on a table of so many partitions; `connection` does what is around samples."""

    def __init__(self, run: Run, wanted: Needs, leaves: int, connection: Session) -> None:
        self._run, self._wanted, self._leaves = run, wanted, leaves
        self._server, self._connection = run.server, connection
        self._edge = leaves * _STEP

    def measure(self) -> None:
        """Make the table, and measure what is wanted."""
        self._run.terminal.step(f"making {self._leaves:,} partitions")
        for statement in _MAKE:
            self._connection.execute(statement.format(leaves=self._leaves))
        parts = {
            "first-row": self._measure_first_rows,
            "edge": self._measure_edge,
            "single-row": self._measure_single_rows,
        }
        for part in self._wanted.parts:
            parts[part]()

    def _measure_first_rows(self) -> None:
        trials = trials_of(
            self._leaves, FIRST_ROW, (P50, P95), _INSERT, _FIRST_ARMS, baselines=(NATIVE, THERE)
        )
        self._take(trials, self._first_rows)

    def _measure_edge(self) -> None:
        rows = f"{AT_EDGE}, {self._wanted.sessions} sessions"
        trials = trials_of(
            self._leaves, rows, (MEAN, SLOWEST), _AT_EDGE, _EDGE_ARMS, baselines=(NOT_LOADED,)
        )
        self._take(trials, self._at_edge)

    def _measure_single_rows(self) -> None:
        takes: dict[str, Callable[[Arm], Taken]] = {"in a loop of the server": self._looped}
        for clients in self._wanted.clients:
            takes[f"clients: {clients}"] = partial(self._anywhere, clients)
        for rows, take in takes.items():
            arms = (_BARE, _ON)
            trials = trials_of(
                self._leaves, rows, (MEAN,), _ANYWHERE, arms, baselines=(NOT_LOADED,)
            )
            self._take(trials, take)

    def _take(self, trials: Sequence[Trial], take: Callable[[Arm], Taken]) -> None:
        """All samples: each is one of every trial, which differ in their figure."""
        kept, arms = Trials(self._run), trials[0].arms
        for trial in trials:
            kept.begin(trial)
        with self._run.terminal.progress(len(arms) * self._wanted.repetitions) as bar:
            for number, arm in alternate(arms, self._wanted.repetitions):
                bar.describe(f"{trials[0].scenario.label}: {arm.name}")
                self._connection.execute("CHECKPOINT")
                taken = take(arm)
                kept.add_samples(_sample(trial, number, arm, taken) for trial in trials)
                bar.advance()

    def _first_rows(self, arm: Arm) -> Taken:
        """The time of each first row, in a session that has inserted before."""
        rows, there = self._wanted.rows, arm.name == THERE
        numbers = [row % self._leaves if there else self._leaves + row for row in range(rows)]
        with connect_arm(self._server, arm) as session:
            _insert(session, -1, _STEP - 1)
            times = [
                _first_row(session, arm, row, number * _STEP) for row, number in enumerate(numbers)
            ]
        self._drop_made(0 if there else rows)
        self._connection.execute(f"DELETE FROM {_PARENT} WHERE k < {rows * _STEP}")
        counts = {f"row_{row:03}_ms": time for row, time in enumerate(times)}
        return Taken({P50: median(times), P95: quantile(times, 0.95)}, counts, rows)

    def _at_edge(self, arm: Arm) -> Taken:
        """pgbench inserts ascending keys, so many for each session."""
        intervals, sessions = self._wanted.intervals, self._wanted.sessions
        each = intervals * _STEP // sessions
        self._connection.execute(f"ALTER SEQUENCE {_EDGE} RESTART WITH {self._edge}")
        if arm.name != OURS:
            self._connection.execute(_AHEAD.format(edge=self._edge, count=intervals))
        per_second, times = self._pgbench(arm, sessions, f"{_AT_EDGE};", "-t", str(each))
        self._drop_made(intervals, rows=each * sessions)
        counts = {"tps": per_second, "p99_ms": quantile(times, 0.99), "intervals": float(intervals)}
        mean_ms = sessions / per_second * 1000
        return Taken({MEAN: mean_ms, SLOWEST: max(times)}, counts, len(times))

    def _anywhere(self, clients: int, arm: Arm) -> Taken:
        """pgbench inserts keys of all partitions at random."""
        script = f"\\set k random(0, {self._edge - 1})\n\\set id random(1, {2**62})\n{_ANYWHERE};"
        seconds = str(self._wanted.seconds)
        per_second, times = self._pgbench(arm, clients, script, "-T", seconds)
        return Taken({MEAN: clients / per_second * 1000}, {"tps": per_second}, len(times))

    def _looped(self, arm: Arm) -> Taken:
        """The same by one statement: no client and no message dilutes what a row costs."""
        key = f"trunc(random() * {self._edge})::bigint"
        insert = _INSERT.format(k=key, id="(random() * 1e18)::bigint")
        with connect_arm(self._server, arm) as session:
            session.execute(_LOOPED.format(executions=self._leaves, insert=insert))
            started = monotonic()
            session.execute(_LOOPED.format(executions=_EXECUTIONS, insert=insert))
            time_ms = (monotonic() - started) * 1000 / _EXECUTIONS
        return Taken({MEAN: time_ms}, {}, _EXECUTIONS)

    def _pgbench(
        self, arm: Arm, clients: int, script: str, *limit: str
    ) -> tuple[float, list[float]]:
        """Transactions per second, and the time of each in ms; LabError after an error of one."""
        path = self._server.write_file("needed.sql", script + "\n")
        folder, many = self._server.work_directory, ("-c", str(clients), "-j", str(clients))
        options = ("-n", "-M", "prepared", *many, "-f", path, "-l", f"--log-prefix={folder / _LOG}")
        done = self._server.run_client("pgbench", *options, *limit, env=client_environment(arm))
        found = _TPS.search(done.stdout)
        if found is None or not float(found[1]):
            raise LabError("pgbench inserted nothing", "Give it more --seconds.")
        times = []
        for log in folder.glob(f"{_LOG}.*"):
            times += [float(line.split()[2]) / 1000 for line in log.read_text().splitlines()]
            log.unlink()
        return float(found[1]), times

    def _drop_made(self, wanted: int, rows: int | None = None) -> None:
        """LabError unless so many were made and, if that is known, have so many rows."""
        made = [name for (name,) in self._connection.execute(_FOUND).fetchall()]
        query = f"SELECT count(*) FROM {_PARENT} WHERE k >= {self._edge}"
        (found,) = fetch_row(self._connection, query)
        expected = wanted if rows is None else rows
        if len(made) != wanted or found != expected:
            raise LabError(
                f"{len(made)} partitions with {found} rows were made instead of {wanted} with "
                f"{expected}",
                "This is a bug of pg_lookahead, report it.",
            )
        if made:
            self._connection.execute(f"DROP TABLE {', '.join(made)}")


def _first_row(session: Session, arm: Arm, row: int, key: int) -> float:
    """The time of an insert with its commit, and of the statement before it, where there is one."""
    started = monotonic()
    if arm.name == NATIVE:
        session.execute(_ONE.format(low=key, high=key + _STEP))
    _insert(session, row, key)
    return (monotonic() - started) * 1000


def _insert(session: Session, row: int, key: int) -> None:
    session.execute(_INSERT.format(k="%s", id="%s"), (key, row), prepare=True)


def quantile(times: Sequence[float], share: float) -> float:
    """The least of the times that so large a share of all does not exceed."""
    return sorted(times)[max(math.ceil(share * len(times)) - 1, 0)]


def _sample(trial: Trial, number: int, arm: Arm, taken: Taken) -> Sample:
    figure = trial.scenario.value("figure") or ""
    return Sample(
        scenario=trial.scenario,
        round=number,
        sequence=0,
        arm=arm.name,
        time_ms=taken.times[figure],
        session_ms=(taken.times[figure],),
        executions=taken.rows,
        counts=dict(taken.counts),
    )


def _measure(run: Run, wanted: Needs) -> None:
    run.server.start()
    with run.server.connect() as connection:
        run.record_settings(connection)
        connection.execute("SET client_min_messages = warning")
        for leaves in wanted.leaves:
            _Needed(run, wanted, leaves, connection).measure()


def _estimated_seconds(wanted: Needs) -> float:
    first = wanted.rows * len(_FIRST_ARMS) * _FIRST_ROW_SECONDS
    edge = wanted.intervals * _STEP * len(_EDGE_ARMS) * _ROW_SECONDS
    single = 2 * (wanted.seconds * len(wanted.clients) + _EXECUTIONS * _ROW_SECONDS)
    seconds = {"first-row": first, "edge": edge, "single-row": single}
    each = wanted.repetitions * sum(seconds[part] for part in wanted.parts)
    return _SERVER_SECONDS + sum(leaves * _LEAF_SECONDS + each for leaves in wanted.leaves)


EXPERIMENT = Experiment(
    name="needed-partitions",
    summary="Rows whose partition is created when they need it.",
    description="The parts: the first row of an interval, beside CREATE TABLE before it and a row "
    "that has its partition (first-row); sessions that insert ascending keys, with partitions made "
    "ahead and made for them (edge); rows that need none, by a loop within the server and by "
    "pgbench (single-row).",
    asked=Needs,
    settings=lambda wanted: {**INSERT_SETTINGS, "max_locks_per_transaction": "1024"},
    needed_bytes=lambda wanted: sum(wanted.leaves) * _LEAF_BYTES + _STREAM_BYTES,
    estimated_seconds=_estimated_seconds,
    measure=_measure,
)
