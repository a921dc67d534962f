"""The experiment "controls": what must not become slower, because there is nothing to wait for.

pgbench with prepared statements, see `control_workloads`: short ones and a long scan on a table in
shared buffers, and scans of a table that lies in the cache of the operating system only, in three
orders under each I/O method. Three arms: backends without the library, with it and switched off,
with it and switched on. The order is turned round from one alternation to the next.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg

from lookahead.cold import resident_bytes
from lookahead.errors import ExitStatus, LabError
from lookahead.experiments.control_plan import find_index_scan, read_blocks
from lookahead.experiments.control_workloads import (
    CACHED_WORKLOADS,
    OS_CACHED_NAMES,
    ROWS,
    WORKLOAD_NAMES,
    Workload,
    make_cached_tables,
    os_cached_workloads,
    warm_up,
)
from lookahead.experiments.io_methods import IO_METHODS, available_methods
from lookahead.experiments.pgbench_output import parse_pgbench
from lookahead.experiments.request import ControlsRequest, Size
from lookahead.experiments.runner import Run, open_run
from lookahead.experiments.scan_plan import parse_lookahead
from lookahead.experiments.scan_table import TABLE, build_table, table_bytes, touch_device
from lookahead.experiments.schedule import alternate
from lookahead.measurements import (
    CONTROL_ARMS,
    ControlArm,
    ControlEvidence,
    ControlSample,
    ControlsData,
)
from lookahead.render import ProgressBar, Terminal
from lookahead.results import Parameters

# What each arm's backends start with. An empty list of libraries leaves ours out of the process
# altogether: not even its hooks are there.
_ARM_OPTIONS: dict[ControlArm, str] = {
    "not loaded": "-c session_preload_libraries=",
    "off": "-c pg_lookahead.enabled=off",
    "on": "-c pg_lookahead.enabled=on",
}
_SETTINGS = {
    "max_parallel_workers_per_gather": "0",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_indexonlyscan": "off",
    "jit": "off",
    "autovacuum": "off",
    # The device is no part of the question: commits do not wait for it.
    "synchronous_commit": "off",
    "checkpoint_timeout": "1h",
    "max_wal_size": "4GB",
}
# Under one method only: nothing is read.
_CACHED_SETTINGS = {"shared_buffers": "256MB", "io_method": "worker"}
# A small part of the table. Few connections, since a backend may pin about shared_buffers divided
# by their number: as many pages as look-ahead has requests in flight.
_OS_CACHED_SETTINGS = {"shared_buffers": "32MB", "max_connections": "10"}
_OTHER_BYTES = 2_000_000_000
# Of the table's bytes that must be in the OS cache, and of its pages that must come from there.
_MIN_RESIDENT_SHARE = 0.99
_MIN_READ_SHARE = 0.75


@dataclass(frozen=True)
class SizeDefaults:
    """Alternations per workload and seconds per pgbench run; pages of the OS-cached table."""

    alternations: int
    os_cached_alternations: int
    seconds: int
    os_cached_pages: int
    io_methods: tuple[str, ...]


DEFAULTS: dict[Size, SizeDefaults] = {
    "demo": SizeDefaults(2, 2, 1, 20_000, ("worker",)),
    "quick": SizeDefaults(10, 6, 1, 50_000, IO_METHODS),
    "full": SizeDefaults(40, 12, 2, 50_000, IO_METHODS),
}


def run_controls(request: ControlsRequest, terminal: Terminal) -> Path:
    """Measure and write the result; returns its path. Raises LabError."""
    defaults = DEFAULTS[request.run.size]
    parameters = Parameters(
        size=request.run.size,
        seed=request.run.seed,
        repetitions=request.repetitions or defaults.alternations,
        pages=(),
        limits=(),
        heap_shares_percent=(),
        io_methods=request.io_methods or defaults.io_methods,
        read_aheads_kb=(),
    )
    needed = _OTHER_BYTES + 2 * table_bytes(defaults.os_cached_pages)
    with open_run(
        request.run, "controls", parameters, terminal, settings=_SETTINGS, needed_bytes=needed
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
        self._request = request
        self._defaults = defaults
        self._names = request.workloads or WORKLOAD_NAMES
        explicit = request.io_methods is not None
        methods = run.document.parameters.io_methods
        self._io_methods = available_methods(run, methods, explicit=explicit)

    def measure(self) -> None:
        """Make the tables, then verify and measure one workload after the other."""
        cached = [workload for workload in CACHED_WORKLOADS if workload.name in self._names]
        os_cached = [name for name in OS_CACHED_NAMES if name in self._names]
        alternations = self._run.document.parameters.repetitions
        runs = len(cached) * alternations
        runs += len(os_cached) * len(self._io_methods) * self._os_cached_alternations
        data = ControlsData(
            ROWS, self._defaults.os_cached_pages, self._defaults.seconds, (), (), ()
        )
        self._run.record(controls=data)
        with self._run.terminal.progress(runs * len(CONTROL_ARMS)) as bar:
            if cached:
                self._measure_cached(cached, alternations, bar)
            if os_cached:
                self._measure_os_cached(bar)

    @property
    def _os_cached_alternations(self) -> int:
        return self._request.repetitions or self._defaults.os_cached_alternations

    def _measure_cached(
        self, workloads: list[Workload], alternations: int, bar: ProgressBar
    ) -> None:
        self._server.start(_CACHED_SETTINGS)
        with self._server.connect() as connection:
            self._run.record_settings(connection)
            make_cached_tables(connection)
            warm_up(connection)
        for workload in workloads:
            evidence = self._verify(workload, _CACHED_SETTINGS["io_method"])
            self._measure_workload(workload, evidence, alternations, bar)
        self._server.stop()

    def _measure_os_cached(self, bar: ProgressBar) -> None:
        pages = self._defaults.os_cached_pages
        seed = self._run.document.parameters.seed
        self._server.start({**_CACHED_SETTINGS, "work_mem": "256MB"})
        with self._server.connect() as connection:
            # VACUUM finds pages all-visible only when the commit that filled them is on disk.
            connection.execute("SET synchronous_commit = on")
            build_table(connection, pages, seed)
            workloads = os_cached_workloads(connection, pages, seed)
        for io_method in self._io_methods:
            self._server.restart({**_OS_CACHED_SETTINGS, "io_method": io_method})
            with self._server.connect() as connection:
                if not self._run.document.settings:
                    self._run.record_settings(connection)
                touch_device(connection, self._server.data_directory)
            for workload in workloads:
                if workload.name in self._names:
                    evidence = self._verify(workload, io_method)
                    self._measure_workload(workload, evidence, self._os_cached_alternations, bar)
                    self._check_resident(workload)

    def _measure_workload(
        self, workload: Workload, evidence: ControlEvidence, alternations: int, bar: ProgressBar
    ) -> None:
        name = f"{workload.name}, {evidence.io_method}"
        self._run.terminal.log_only(name)
        self._run.record(controls=replace(self._data, evidence=(*self._data.evidence, evidence)))
        script = self._script(workload)
        for alternation, arm in alternate(CONTROL_ARMS, alternations):
            bar.describe(f"{name}, {arm}")
            self._sample(workload, evidence.io_method, script, (alternation, arm))
            bar.advance()

    @property
    def _data(self) -> ControlsData:
        data = self._run.document.controls
        assert data is not None
        return data

    def _script(self, workload: Workload) -> Path:
        path = self._server.directory / f"{workload.name}.sql"
        path.write_text(workload.script)
        path.chmod(0o644)  # the server's account reads it
        return path

    def _sample(
        self, workload: Workload, io_method: str, script: Path, place: tuple[int, ControlArm]
    ) -> None:
        alternation, arm = place
        if workload.reset:
            with self._server.connect() as connection:
                connection.execute(workload.reset)
        transactions, tps = self._pgbench(workload, script, arm)
        sample = ControlSample(
            workload=workload.name,
            io_method=io_method,
            alternation=alternation,
            sequence=len(self._data.samples),
            arm=arm,
            transactions=transactions,
            tps=tps,
        )
        self._run.record(controls=replace(self._data, samples=(*self._data.samples, sample)))

    def _pgbench(self, workload: Workload, script: Path, arm: ControlArm) -> tuple[int, float]:
        seed = self._run.document.parameters.seed
        options = ["-n", "-M", "prepared", "-c", "1", "-T", str(self._defaults.seconds)]
        done = self._server.run_client(
            "pgbench",
            *options,
            f"--random-seed={seed}",
            "-f",
            script,
            env={"PGOPTIONS": _options(workload, arm)},
        )
        return parse_pgbench(done.stdout)

    def _verify(self, workload: Workload, io_method: str) -> ControlEvidence:
        """That the plan is the expected scan and that only the arm "on" may have it attached."""
        attached, scans = [], []
        for arm in CONTROL_ARMS:
            with self._server.connect(options=_options(workload, arm)) as connection:
                scans.append(find_index_scan(_explain(connection, workload, arm)))
            if parse_lookahead(scans[-1].get("Lookahead")).status in ("eligible", "prefetch"):
                attached.append(arm)
        node_types = {str(scan["Node Type"]) for scan in scans}
        # Whether an index-only scan is worth attaching to is the library's own decision.
        permitted = ([], ["on"]) if workload.node_type == "Index Only Scan" else (["on"],)
        if attached not in permitted or node_types != {workload.node_type}:
            raise LabError(
                f"workload {workload.name} cannot be compared: plans {sorted(node_types)}, "
                f"attached in arms {attached}",
                f"The experiment needs {workload.node_type}, attached in arm on only; report this.",
            )
        blocks = max(map(read_blocks, scans))
        if workload.is_os_cached and blocks < _MIN_READ_SHARE * self._defaults.os_cached_pages:
            raise LabError(
                f"workload {workload.name} read only {blocks} pages from outside shared buffers"
            )
        share = self._check_resident(workload) if workload.is_os_cached else None
        return ControlEvidence(
            workload.name, io_method, workload.node_type, tuple(attached), blocks, share
        )

    def _check_resident(self, workload: Workload) -> float:
        """The share of the table in the OS cache; LabError when it does not lie there whole."""
        with self._server.connect() as connection:
            row = connection.execute(f"SELECT pg_relation_filepath('{TABLE}')").fetchone()
        assert row is not None
        path = self._server.data_directory / str(row[0])
        size = path.stat().st_size
        share: float = resident_bytes(path) / size
        if share < _MIN_RESIDENT_SHARE:
            raise LabError(
                f"workload {workload.name}: only {share:.0%} of the table's {size / 1e6:.0f} MB "
                "are in the cache of the operating system",
                "Free memory, or take a smaller size.",
                status=ExitStatus.ENVIRONMENT,
            )
        return share


def _options(workload: Workload, arm: ControlArm) -> str:
    return f"{_ARM_OPTIONS[arm]} {workload.options}".strip()


def _explain(
    connection: psycopg.Connection[Any], workload: Workload, arm: ControlArm
) -> dict[str, Any]:
    # Without the library its option of EXPLAIN is unknown.
    option = "" if arm == "not loaded" else "LOOKAHEAD, "
    statement = f"EXPLAIN ({option}ANALYZE, FORMAT JSON) {workload.explained_statement}"
    row = connection.execute(statement).fetchone()
    assert row is not None
    plan: dict[str, Any] = row[0][0]["Plan"]
    return plan
