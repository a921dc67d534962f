"""The experiment "controls": what must not become slower, because there is nothing to wait for.

Statements of every shape (control_shapes.py), executed in a loop within the server: in shared
buffers; on tables in the cache of the operating system only; and cold, in orders in which a page
is visited again and again. Three arms: backends without the library, with it and switched off, with
it and switched on. Each round begins with the next arm.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg

from lookahead.account import acting_as_owner
from lookahead.cold import resident_bytes
from lookahead.errors import ExitStatus, LabError
from lookahead.experiments.conditions import available_methods
from lookahead.experiments.control_evidence import prepared_statements, verify_control
from lookahead.experiments.control_shape import Shape, procedure, setup_of
from lookahead.experiments.control_shapes import SHAPES
from lookahead.experiments.options import IO_METHODS
from lookahead.experiments.request import ControlsRequest, Size
from lookahead.experiments.runner import Run, open_run
from lookahead.experiments.scan_table import touch_device
from lookahead.experiments.trials import restart_cold, rotate
from lookahead.extension import LIBRARY
from lookahead.measurements import ColdRecord
from lookahead.render import ProgressBar, Terminal
from lookahead.results import Parameters
from lookahead.scan_measurements import (
    CONTROL_ARMS,
    ControlArm,
    ControlEvidence,
    ControlSample,
    ControlsData,
)

# What each arm's backends start with. An empty list of libraries leaves ours out of the process
# altogether: not even its hooks are there.
_ARM_OPTIONS: dict[ControlArm, str] = {
    "not loaded": "-c session_preload_libraries=",
    "off": "-c pg_lookahead.enabled=off",
    "on": "-c pg_lookahead.enabled=on",
}
# The same where the library is the postmaster's, or nobody's.
_PRELOADED_ARM_OPTIONS: dict[ControlArm, str] = {
    "not loaded": "-c session_preload_libraries=",
    "off": "-c session_preload_libraries= -c pg_lookahead.enabled=off",
    "on": "-c session_preload_libraries= -c pg_lookahead.enabled=on",
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
# Of a table's bytes that must be in the OS cache, and of its pages that must come from outside.
_MIN_RESIDENT_SHARE = 0.99
_MIN_READ_SHARE = 0.99
# Somebody else may empty the cache of the system at any moment.
_ATTEMPTS = 3


@dataclass(frozen=True)
class SizeDefaults:
    """Rounds of cached and of other controls; the largest table that is not cached, in pages.

    `divisor` is by how much fewer executions than its own a sample of a shape has. Short samples,
    of a few milliseconds, find gaps between other work on the machine; many, the least time.
    """

    rounds: int
    page_rounds: int
    max_pages: int
    divisor: int
    io_methods: tuple[str, ...]


DEFAULTS: dict[Size, SizeDefaults] = {
    "demo": SizeDefaults(12, 4, 1280, 20, ("worker",)),
    "quick": SizeDefaults(60, 6, 4096, 10, IO_METHODS),
    "full": SizeDefaults(120, 12, 24_576, 10, IO_METHODS),
}


def run_controls(request: ControlsRequest, terminal: Terminal) -> Path:
    """Measure and write the result; returns its path. Raises LabError."""
    defaults = DEFAULTS[request.run.size]
    parameters = Parameters(
        size=request.run.size,
        seed=request.run.seed,
        repetitions=request.repetitions or defaults.rounds,
        pages=(),
        limits=(),
        heap_shares_percent=(),
        io_methods=request.io_methods or defaults.io_methods,
        read_aheads_kb=(),
    )
    with open_run(
        request.run,
        "controls",
        parameters,
        terminal,
        settings=_SETTINGS,
        needed_bytes=_NEEDED_BYTES,
    ) as run:
        _Controls(run, request, defaults).measure()
        path = run.path
    terminal.control_table(run.document.controls.comparisons if run.document.controls else ())
    return path


class _Controls:
    """One run of the experiment."""

    def __init__(self, run: Run, request: ControlsRequest, defaults: SizeDefaults) -> None:
        self._run = run
        self._server = run.server
        self._divisor = defaults.divisor
        self._rounds = run.document.parameters.repetitions
        self._page_rounds = request.repetitions or defaults.page_rounds
        self._shapes = [
            shape
            for shape in SHAPES
            if (
                shape.name in request.workloads
                if request.workloads
                else shape.pages <= defaults.max_pages
            )
        ]
        methods, explicit = run.document.parameters.io_methods, request.io_methods is not None
        self._io_methods = available_methods(run, methods, explicit=explicit)

    def measure(self) -> None:
        """Make the tables, then verify and measure one shape after the other."""
        preloaded = [shape for shape in self._shapes if shape.preloaded]
        cached = [s for s in self._shapes if s.state == "cached" and not s.preloaded]
        others = [shape for shape in self._shapes if shape.state != "cached"]
        samples = len(cached) * self._rounds + len(preloaded) * self._page_rounds
        samples += len(others) * len(self._io_methods) * self._page_rounds
        self._run.record(controls=ControlsData((), (), ()))
        self._server.start({"io_method": _CACHED_METHOD})
        self._make_tables()
        with self._run.terminal.progress(samples * len(CONTROL_ARMS)) as bar:
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
            for statement in setup_of(self._shapes):
                connection.execute(statement)
            for shape in self._shapes:
                if shape.statements:
                    connection.execute(procedure(shape))
            connection.execute("CHECKPOINT")

    def _measure_cached(self, shape: Shape, bar: ProgressBar) -> None:
        executions = max(1, shape.executions // self._divisor)
        samples = []  # recorded together: no file is written between one and the next
        with self._sessions(shape) as sessions:
            if shape.statements:
                for connection in sessions.values():
                    _call(connection, shape, 0, executions)
            evidence = verify_control(sessions, shape, _CACHED_METHOD)
            _check_read(shape, evidence)
            self._keep_evidence(evidence)
            for number, arm in rotate(CONTROL_ARMS, self._rounds):
                bar.describe(f"{shape.name}, {arm}")
                first = number * executions
                if shape.reset:
                    with self._server.connect() as connection:
                        connection.execute(shape.reset)
                    _call(sessions[arm], shape, first, 1)  # plans again
                elapsed_ms = self._execute(sessions[arm], shape, arm, first + 1, executions)
                samples.append(_cached_sample(shape, number, arm, executions, elapsed_ms))
                bar.advance()
        self._keep(samples)

    def _measure_preloaded(self, shape: Shape, bar: ProgressBar) -> None:
        """As cached, but the server restarts before each sample, with the library or without."""
        executions = max(1, shape.executions // self._divisor)
        samples = []
        for number, arm in rotate(CONTROL_ARMS, self._page_rounds):
            bar.describe(f"{shape.name}, {arm}")
            libraries = "" if arm == "not loaded" else LIBRARY
            self._server.restart(
                {"io_method": _CACHED_METHOD, "shared_preload_libraries": libraries}
            )
            with self._session(shape, arm) as connection:
                _check_loaded(connection, shape, arm)
                self._execute(connection, shape, arm, 0, 3)
                elapsed_ms = self._execute(connection, shape, arm, 3, executions)
            samples.append(_cached_sample(shape, number, arm, executions, elapsed_ms))
            bar.advance()
        self._keep(samples)

    def _measure_pages(self, shape: Shape, io_method: str, bar: ProgressBar) -> None:
        settings = {"io_method": io_method}
        evidence = self._verify_pages(shape, settings)
        self._keep_evidence(evidence)
        for number, arm in rotate(CONTROL_ARMS, self._page_rounds):
            bar.describe(f"{shape.name}, {io_method}, {arm}")
            cold, elapsed_ms = self._sample_pages(shape, arm, settings)
            sample = ControlSample(
                shape.name, io_method, number, 0, arm, shape.executions, elapsed_ms, cold
            )
            self._keep([sample])
            bar.advance()

    def _verify_pages(self, shape: Shape, settings: dict[str, str]) -> ControlEvidence:
        self._restart(shape, settings)
        with self._sessions(shape) as sessions:
            evidence = verify_control(sessions, shape, settings["io_method"])
        _check_read(shape, evidence)
        share = self._resident_share(shape) if shape.state == "os-cached" else None
        return replace(evidence, resident_share=share)

    def _sample_pages(
        self, shape: Shape, arm: ControlArm, settings: dict[str, str]
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
        raise LabError(
            f"control {shape.name}: its table does not stay in the cache of the operating system",
            "Free memory, take a smaller size, or wait for what else empties that cache.",
            status=ExitStatus.ENVIRONMENT,
        )

    def _restart(self, shape: Shape, settings: dict[str, str]) -> ColdRecord | None:
        """Empty shared buffers, and unless the data is to stay there, the cache of the system."""
        if shape.state == "cold":
            return restart_cold(self._run, settings)
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

    def _session(self, shape: Shape, arm: ControlArm) -> psycopg.Connection[Any]:
        connection = self._server.connect(options=_options(shape, arm))
        for name, value in shape.settings.items():
            connection.execute(f"SET {name} = '{value}'")
        return connection

    @contextmanager
    def _sessions(self, shape: Shape) -> Iterator[dict[ControlArm, psycopg.Connection[Any]]]:
        """One of each arm, all open at once."""
        with ExitStack() as stack:
            yield {arm: stack.enter_context(self._session(shape, arm)) for arm in CONTROL_ARMS}

    def _execute(
        self,
        connection: psycopg.Connection[Any],
        shape: Shape,
        arm: ControlArm,
        first_number: int,
        executions: int,
    ) -> float:
        """Milliseconds that so many executions take, or connections where that is the shape."""
        if shape.statements:
            return _call(connection, shape, first_number, executions)
        return self._connect(shape, arm, executions)

    def _connect(self, shape: Shape, arm: ControlArm, count: int) -> float:
        """Milliseconds that so many connections take, one after the other."""
        started = time.perf_counter()
        for _ in range(count):
            self._server.connect(options=_options(shape, arm)).close()
        return (time.perf_counter() - started) * 1000

    @property
    def _data(self) -> ControlsData:
        data = self._run.document.controls
        assert data is not None
        return data

    def _keep_evidence(self, evidence: ControlEvidence) -> None:
        self._run.terminal.log_only(f"{evidence.workload}, {evidence.io_method}")
        self._run.record(controls=replace(self._data, evidence=(*self._data.evidence, evidence)))

    def _keep(self, samples: Iterable[ControlSample]) -> None:
        """Record samples, numbered."""
        known = self._data.samples
        numbered = (
            replace(sample, sequence=number) for number, sample in enumerate(samples, len(known))
        )
        self._run.record(controls=replace(self._data, samples=(*known, *numbered)))

    def _resident_share(self, shape: Shape) -> float:
        """The share of the table in the OS cache."""
        with self._server.connect() as connection:
            row = connection.execute(
                "SELECT pg_relation_filepath(%s)", (f"control_page_{shape.pages}",)
            ).fetchone()
        assert row is not None
        path = self._server.data_directory / str(row[0])
        with acting_as_owner(self._server.data_directory):
            return resident_bytes(path) / path.stat().st_size


def _cached_sample(
    shape: Shape, number: int, arm: ControlArm, executions: int, elapsed_ms: float
) -> ControlSample:
    return ControlSample(
        shape.name, _CACHED_METHOD, number, 0, arm, executions, elapsed_ms, cold=None
    )


def _options(shape: Shape, arm: ControlArm) -> str:
    return (_PRELOADED_ARM_OPTIONS if shape.preloaded else _ARM_OPTIONS)[arm]


def _call(
    connection: psycopg.Connection[Any], shape: Shape, first_number: int, executions: int
) -> float:
    """Milliseconds that the executions took, by the server's clock."""
    row = connection.execute(
        f"CALL {shape.procedure_name}({first_number}, {executions}, NULL)"
    ).fetchone()
    assert row is not None
    return float(row[0])


def _check_loaded(connection: psycopg.Connection[Any], shape: Shape, arm: ControlArm) -> None:
    """LabError when the library is in a backend that should be without it, or the reverse."""
    row = connection.execute(
        "SELECT count(*) FROM pg_catalog.pg_settings WHERE name = 'pg_lookahead.enabled'"
    ).fetchone()
    assert row is not None
    if (row[0] > 0) is (arm == "not loaded"):
        raise LabError(f"control {shape.name}: the arm {arm!r} is not what it says", "Report this.")


def _check_read(shape: Shape, evidence: ControlEvidence) -> None:
    """LabError when cached data was read, or other data was not."""
    blocks = evidence.shared_read_blocks
    if (blocks > 0) if shape.state == "cached" else (blocks < _MIN_READ_SHARE * shape.pages):
        raise LabError(
            f"control {shape.name} read {blocks} blocks from outside shared buffers",
            "Is another session at work on this server? Repeat the run.",
        )
