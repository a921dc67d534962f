"""The experiment "controls": what must not become slower, because there is nothing to wait for.

Statements of every shape (control_shapes.py), executed in a loop within the server: in shared
buffers; on tables in the cache of the operating system only; and cold, in orders in which a page
is visited again and again. Three arms: backends without the library, with it and switched off, with
it and switched on. Each round begins with the next arm.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from lookahead.account import acting_as_owner
from lookahead.cold import resident_bytes
from lookahead.errors import UnavailableError
from lookahead.experiments.conditions import (
    available_methods,
    fetch_row,
    relation_path,
    touch_device,
)
from lookahead.experiments.experiment import (
    IO_METHOD,
    IO_METHODS,
    REPETITIONS,
    Choice,
    Experiment,
    Option,
    sized,
)
from lookahead.experiments.runner import Run
from lookahead.extension import LIBRARY
from lookahead.measurements import Arm, ColdRecord, Factor, Question, Sample, Scenario
from lookahead.server import Session
from lookahead.terminal import ProgressBar
from lookahead_bench.control_shape import (
    Shape,
    check_loaded,
    check_plans,
    prepared_statements,
    procedure,
    setup_of,
)
from lookahead_bench.control_shapes import SHAPES
from lookahead_bench.trials import Trial, Trials, rotate

BARE, OFF, ON = "not loaded", "off", "on"
ARMS = (Arm(BARE, "not loaded", "", {}), Arm(OFF, "off", "", {}), Arm(ON, "on", "", {}))
_NAMES = tuple(arm.name for arm in ARMS)
# What each arm's backends start with. An empty list of libraries leaves ours out of the process
# altogether: not even its hooks are there.
_ARM_OPTIONS = {
    BARE: "-c session_preload_libraries=",
    OFF: "-c pg_lookahead.enabled=off",
    ON: "-c pg_lookahead.enabled=on",
}
# The same where the library is the postmaster's, or nobody's.
_PRELOADED_ARM_OPTIONS = {
    BARE: "-c session_preload_libraries=",
    OFF: "-c session_preload_libraries= -c pg_lookahead.enabled=off",
    ON: "-c session_preload_libraries= -c pg_lookahead.enabled=on",
}
_SETTINGS = {
    "shared_buffers": "256MB",
    "plan_cache_mode": "force_generic_plan",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "autovacuum": "off",
    # The device is no part of the question: commits do not wait for it.
    "synchronous_commit": "off",
    "checkpoint_timeout": "1h",
    "max_wal_size": "4GB",
}
# Under one method only: nothing is read.
_CACHED_METHOD = "worker"
_NEEDED_BYTES = 2_000_000_000
# Of a table's bytes that must be in the OS cache.
_MIN_RESIDENT_SHARE = 0.99
# Somebody else may empty the cache of the system at any moment.
_ATTEMPTS = 3
_ALL_PAGES = 24_576  # of the largest table
# What estimates of a run's time go by: a sample with all executions of its shape, and one after a
# restart; measured on a virtual machine with two processors.
_CACHED_SECONDS, _RESTARTED_SECONDS = 0.4, 2.0


def workloads(max_pages: int) -> tuple[str, ...]:
    """All whose table, where it is not cached, has at most so many pages."""
    return tuple(shape.name for shape in SHAPES if shape.pages <= max_pages)


@dataclass(frozen=True)
class Controls:
    """What is wanted: `repetitions` of cached controls, `page_repetitions` of the others.

    `divisor` is by how much fewer executions than its own a sample of a shape has. Short samples,
    of a few milliseconds, find gaps between other work on the machine; many, the least time.
    """

    repetitions: int = REPETITIONS.sized(60, demo=12, full=120)
    io_method: tuple[str, ...] = IO_METHOD.sized(("worker",), full=IO_METHODS)
    workload: tuple[str, ...] = Option(
        Choice(workloads(_ALL_PAGES)),
        "Names of statements; a wrong one lists them.",
        default="all, in the smaller sizes without the largest tables",
    ).sized(workloads(4096), demo=workloads(1280), full=workloads(_ALL_PAGES))
    page_repetitions: int = sized(6, full=12)
    divisor: int = sized(10, demo=20)


def _settle(wanted: Controls, explicit: frozenset[str]) -> Controls:
    """A number of repetitions that was named is that of all controls."""
    if "repetitions" in explicit:
        return replace(wanted, page_repetitions=wanted.repetitions)
    return wanted


class _Controls:
    """One run of the experiment."""

    def __init__(self, run: Run, wanted: Controls) -> None:
        self._run = run
        self._server = run.server
        self._trials = Trials(run)
        self._divisor = wanted.divisor
        self._rounds = wanted.repetitions
        self._page_rounds = wanted.page_repetitions
        self._shapes = [shape for shape in SHAPES if shape.name in wanted.workload]
        self._io_methods = available_methods(run, wanted.io_method)

    def measure(self) -> None:
        """Make the tables, then verify and measure one shape after the other."""
        preloaded = [shape for shape in self._shapes if shape.preloaded]
        cached = [s for s in self._shapes if s.state == "cached" and not s.preloaded]
        others = [shape for shape in self._shapes if shape.state != "cached"]
        samples = len(cached) * self._rounds + len(preloaded) * self._page_rounds
        samples += len(others) * len(self._io_methods) * self._page_rounds
        self._server.start({"io_method": _CACHED_METHOD})
        self._make_tables()
        with self._run.terminal.progress(samples * len(ARMS)) as bar:
            for shape in cached:
                self._measure_cached(shape, bar)
            for shape in preloaded:
                self._measure_preloaded(shape, bar)
            for io_method in self._io_methods:
                for shape in others:
                    self._measure_pages(shape, io_method, bar)

    def _make_tables(self) -> None:
        self._run.terminal.log_only("making the tables")
        with self._server.connect() as connection:
            self._run.record_settings(connection)
            # VACUUM finds pages all-visible only when the commit that filled them is on disk.
            connection.execute("SET synchronous_commit = on")
            # Cached is what is in shared buffers, which batches write past.
            connection.execute("SET pg_lookahead.enable_bulk_insert = off")
            for statement in setup_of(self._shapes):
                connection.execute(statement)
            for shape in self._shapes:
                if shape.statements:
                    connection.execute(procedure(shape))
            connection.execute("CHECKPOINT")

    def _measure_cached(self, shape: Shape, bar: ProgressBar) -> None:
        executions = max(1, shape.executions // self._divisor)
        trial, samples = trial_of(shape, _CACHED_METHOD), []
        self._trials.begin(trial)
        with self._sessions(shape) as sessions:
            if shape.statements:
                for connection in sessions.values():
                    _call(connection, shape, 0, executions)
            self._trials.add_check(trial, check_plans(sessions, shape))
            for number, arm in rotate(_NAMES, self._rounds):
                bar.describe(f"{shape.name}, {arm}")
                first = number * executions
                if shape.reset:
                    with self._server.connect() as connection:
                        connection.execute(shape.reset)
                    _call(sessions[arm], shape, first, 1)  # plans again
                elapsed_ms = self._execute(sessions[arm], shape, arm, first + 1, executions)
                samples.append(_sample(trial, number, arm, executions, elapsed_ms))
                bar.advance()
        # Recorded together: no file is written between one and the next.
        self._trials.add_samples(samples)

    def _measure_preloaded(self, shape: Shape, bar: ProgressBar) -> None:
        """As cached, but the server restarts before each sample, with the library or without."""
        executions = max(1, shape.executions // self._divisor)
        trial = trial_of(shape, _CACHED_METHOD)
        self._trials.begin(trial)
        for number, arm in rotate(_NAMES, self._page_rounds):
            bar.describe(f"{shape.name}, {arm}")
            libraries = "" if arm == BARE else LIBRARY
            self._server.restart(
                {"io_method": _CACHED_METHOD, "shared_preload_libraries": libraries}
            )
            with self._session(shape, arm) as connection:
                check_loaded(connection, shape, arm, wanted=arm != BARE)
                self._execute(connection, shape, arm, 0, 3)
                elapsed_ms = self._execute(connection, shape, arm, 3, executions)
            self._trials.add_samples([_sample(trial, number, arm, executions, elapsed_ms)])
            bar.advance()

    def _measure_pages(self, shape: Shape, io_method: str, bar: ProgressBar) -> None:
        settings, trial = {"io_method": io_method}, trial_of(shape, io_method)
        self._trials.begin(trial)
        self._check_pages(trial, shape, settings)
        for number, arm in rotate(_NAMES, self._page_rounds):
            bar.describe(f"{shape.name}, {io_method}, {arm}")
            cold, elapsed_ms = self._sample_pages(shape, arm, settings)
            sample = _sample(trial, number, arm, shape.executions, elapsed_ms, cold)
            self._trials.add_samples([sample])
            bar.advance()

    def _check_pages(self, trial: Trial, shape: Shape, settings: dict[str, str]) -> None:
        self._restart(shape, settings)
        with self._sessions(shape) as sessions:
            facts = check_plans(sessions, shape)
        if shape.state == "os-cached":
            facts["in the OS cache"] = f"{self._resident_share(shape):.1%}"
        self._trials.add_check(trial, facts)

    def _sample_pages(
        self, shape: Shape, arm: str, settings: dict[str, str]
    ) -> tuple[ColdRecord | None, float]:
        """Taken again when the cache of the system was emptied meanwhile; LabError after that."""
        for _ in range(_ATTEMPTS):
            cold = self._restart(shape, settings)
            with self._session(shape, arm) as connection:
                for prepare, execute in prepared_statements(shape):
                    connection.execute(prepare)
                    connection.execute(f"EXPLAIN {execute}")  # loads catalogs
                elapsed_ms = _call(connection, shape, 0, shape.executions)
            if shape.state == "cold" or self._resident_share(shape) >= _MIN_RESIDENT_SHARE:
                return cold, elapsed_ms
        raise UnavailableError(
            f"control {shape.name}: its table does not stay in the cache of the operating system",
            "Free memory, take a smaller size, or wait for what else empties that cache.",
        )

    def _restart(self, shape: Shape, settings: dict[str, str]) -> ColdRecord | None:
        """Empty shared buffers, and unless the data is to stay there, the cache of the system."""
        if shape.state == "cold":
            return self._server.cold_restart(settings)
        self._server.restart(settings)
        table = f"control_page_{shape.pages}"
        with self._server.connect() as connection:
            indexes = connection.execute(
                "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = %s::regclass",
                (table,),
            ).fetchall()
            names = (table, *(str(index) for (index,) in indexes))
            touch_device(connection, self._server.data_directory, names)
        return None

    def _session(self, shape: Shape, arm: str) -> Session:
        connection = self._server.connect(options=_options(shape, arm))
        for name, value in shape.settings.items():
            connection.execute(f"SET {name} = '{value}'")
        return connection

    @contextmanager
    def _sessions(self, shape: Shape) -> Iterator[dict[str, Session]]:
        """One of each arm, all open at once."""
        with ExitStack() as stack:
            yield {arm: stack.enter_context(self._session(shape, arm)) for arm in _NAMES}

    def _execute(
        self, connection: Session, shape: Shape, arm: str, first_number: int, executions: int
    ) -> float:
        """Milliseconds that so many executions take, or connections where that is the shape."""
        if shape.statements:
            return _call(connection, shape, first_number, executions)
        return self._connect(shape, arm, executions)

    def _connect(self, shape: Shape, arm: str, count: int) -> float:
        """Milliseconds that so many connections take, one after the other."""
        started = time.perf_counter()
        for _ in range(count):
            self._server.connect(options=_options(shape, arm)).close()
        return (time.perf_counter() - started) * 1000

    def _resident_share(self, shape: Shape) -> float:
        """The share of the table in the OS cache."""
        with self._server.connect() as connection:
            path = relation_path(
                connection, self._server.data_directory, f"control_page_{shape.pages}"
            )
        with acting_as_owner(self._server.data_directory):
            return resident_bytes(path) / path.stat().st_size


def trial_of(shape: Shape, io_method: str) -> Trial:
    """The library switched on against each of the other arms."""
    scenario = Scenario((Factor("workload", shape.name), Factor("I/O method", io_method)))
    return Trial(
        scenario=scenario,
        statement=";\n".join(shape.statements),
        arms=ARMS,
        questions=tuple(Question(scenario, name, (name,), (ON,)) for name in (BARE, OFF)),
        server={"io_method": io_method},
        cold=shape.state == "cold",
    )


def _sample(
    trial: Trial,
    number: int,
    arm: str,
    executions: int,
    elapsed_ms: float,
    cold: ColdRecord | None = None,
) -> Sample:
    time_ms = elapsed_ms / executions
    return Sample(
        scenario=trial.scenario,
        round=number,
        sequence=0,
        arm=arm,
        time_ms=time_ms,
        session_ms=(time_ms,),
        executions=executions,
        cold=cold,
    )


def _options(shape: Shape, arm: str) -> str:
    return (_PRELOADED_ARM_OPTIONS if shape.preloaded else _ARM_OPTIONS)[arm]


def _call(connection: Session, shape: Shape, first_number: int, executions: int) -> float:
    """Milliseconds that the executions took, by the server's clock."""
    call = f"CALL {shape.procedure_name}({first_number}, {executions}, NULL)"
    (elapsed_ms,) = fetch_row(connection, call)
    return float(elapsed_ms)


def _estimated_seconds(wanted: Controls) -> float:
    shapes = [shape for shape in SHAPES if shape.name in wanted.workload]
    cached = [one for one in shapes if one.state == "cached" and not one.preloaded]
    restarted = sum(one.preloaded for one in shapes) + len(wanted.io_method) * sum(
        one.state != "cached" for one in shapes
    )
    return len(ARMS) * (
        len(cached) * wanted.repetitions * _CACHED_SECONDS / wanted.divisor
        + restarted * wanted.page_repetitions * _RESTARTED_SECONDS
    )


EXPERIMENT = Experiment(
    name="controls",
    summary="Statements that gain nothing, which must not become slower.",
    description="Short statements, joins, writes, partitions, parallel queries, connecting and "
    "long scans in shared buffers; scans of tables in the cache of the operating system only, and "
    "cold ones that visit pages again and again, under each --io-method. Against backends without "
    "the library and with it switched off.",
    asked=Controls,
    settings=lambda wanted: _SETTINGS,
    needed_bytes=lambda wanted: _NEEDED_BYTES,
    estimated_seconds=_estimated_seconds,
    measure=lambda run, wanted: _Controls(run, wanted).measure(),
    settle=_settle,
)
