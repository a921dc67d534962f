"""The experiment "controls": what must not become slower, cached in shared buffers.

Prepared pgbench of three statements that never look ahead: LIMIT 1, a point lookup, an insert
whose foreign key is checked. Three arms: backends without the library, with it and switched off,
with it and switched on. The order is turned round from one alternation to the next.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg

from lookahead.errors import LabError
from lookahead.experiments.pgbench_output import parse_pgbench
from lookahead.experiments.request import ControlsRequest, Size
from lookahead.experiments.runner import Run, open_run
from lookahead.experiments.scan_plan import parse_lookahead
from lookahead.experiments.schedule import alternate
from lookahead.measurements import (
    CONTROL_ARMS,
    ControlArm,
    ControlEvidence,
    ControlSample,
    ControlsData,
)
from lookahead.render import Terminal
from lookahead.results import Parameters

# What each arm's backends start with. An empty list of libraries leaves ours out of the process
# altogether: not even its hooks are there.
_ARM_OPTIONS: dict[ControlArm, str] = {
    "not loaded": "-c session_preload_libraries=",
    "off": "-c pg_lookahead.enabled=off",
    "on": "-c pg_lookahead.enabled=on",
}
_SETTINGS = {
    "shared_buffers": "256MB",
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
ROWS = 200_000
_NEEDED_BYTES = 2_000_000_000
# k is id through a permutation (7919 is a prime that does not divide ROWS), so neighbours in k lie
# pages apart.
_TABLES = f"""
    CREATE TABLE control_parent (id int PRIMARY KEY, k int NOT NULL, pad text);
    INSERT INTO control_parent
        SELECT id, (id::bigint * 7919 % {ROWS})::int, repeat('x', 100)
        FROM generate_series(0, {ROWS - 1}) AS id;
    CREATE INDEX control_parent_k ON control_parent (k);
    CREATE TABLE control_child (parent int NOT NULL REFERENCES control_parent, value int);
"""


@dataclass(frozen=True)
class Workload:
    """A pgbench script and the statement whose plan is verified (None: made by the server)."""

    name: str
    statement: str
    explained: str
    reset: str | None = None


_FROM_PARENT = "SELECT id, k, pad FROM control_parent WHERE"
WORKLOADS = (
    Workload(
        "limit-1",
        f"{_FROM_PARENT} k >= :key ORDER BY k LIMIT 1;",
        f"{_FROM_PARENT} k >= 1000 ORDER BY k LIMIT 1",
    ),
    Workload("point-lookup", f"{_FROM_PARENT} id = :key;", f"{_FROM_PARENT} id = 1000"),
    Workload(
        "fk-insert",
        "INSERT INTO control_child VALUES (:key, 0);",
        # What the foreign key's trigger asks for each row.
        "SELECT 1 FROM ONLY control_parent x WHERE id = 1000 FOR KEY SHARE OF x",
        reset="TRUNCATE control_child",
    ),
)


@dataclass(frozen=True)
class SizeDefaults:
    """Alternations per workload and seconds per pgbench run."""

    alternations: int
    seconds: int


DEFAULTS: dict[Size, SizeDefaults] = {
    "demo": SizeDefaults(2, 1),
    "quick": SizeDefaults(10, 1),
    "full": SizeDefaults(40, 2),
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
        io_methods=(),
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
        _Controls(run, defaults.seconds).measure()
        path = run.path
    terminal.control_table(run.document.controls.comparisons if run.document.controls else ())
    return path


class _Controls:
    """One run of the experiment."""

    def __init__(self, run: Run, seconds: int) -> None:
        self._run = run
        self._server = run.server
        self._seconds = seconds

    def measure(self) -> None:
        """Make the tables, verify the plans, then take all samples."""
        self._server.start()
        with self._server.connect() as connection:
            self._run.record_settings(connection)
            connection.execute(_TABLES)
            connection.execute("VACUUM (ANALYZE) control_parent")
            connection.execute("CHECKPOINT")
        evidence = tuple(self._verify(workload) for workload in WORKLOADS)
        self._run.record(controls=ControlsData(ROWS, self._seconds, evidence, (), ()))
        alternations = self._run.document.parameters.repetitions
        total = len(WORKLOADS) * len(CONTROL_ARMS) * alternations
        with self._run.terminal.progress(total) as bar:
            for workload in WORKLOADS:
                self._run.terminal.log_only(workload.name)
                script = self._script(workload)
                self._pgbench(script, "not loaded")  # fills the shared buffers
                for alternation, arm in alternate(CONTROL_ARMS, alternations):
                    bar.describe(f"{workload.name}, {arm}")
                    self._sample(workload, script, alternation, arm)
                    bar.advance()

    def _script(self, workload: Workload) -> Path:
        path = self._server.directory / f"{workload.name}.sql"
        path.write_text(f"\\set key random(0, {ROWS - 1})\n{workload.statement}\n")
        path.chmod(0o644)  # the server's account reads it
        return path

    def _sample(self, workload: Workload, script: Path, alternation: int, arm: ControlArm) -> None:
        if workload.reset:
            with self._server.connect() as connection:
                connection.execute(workload.reset)
        data = self._run.document.controls
        assert data is not None
        transactions, tps = self._pgbench(script, arm)
        sample = ControlSample(
            workload.name, alternation, len(data.samples), arm, transactions, tps
        )
        self._run.record(controls=replace(data, samples=(*data.samples, sample)))

    def _pgbench(self, script: Path, arm: ControlArm) -> tuple[int, float]:
        seed = self._run.document.parameters.seed
        options = ["-n", "-M", "prepared", "-c", "1", "-T", str(self._seconds)]
        done = self._server.run_client(
            "pgbench",
            *options,
            f"--random-seed={seed}",
            "-f",
            script,
            env={"PGOPTIONS": _ARM_OPTIONS[arm]},
        )
        return parse_pgbench(done.stdout)

    def _verify(self, workload: Workload) -> ControlEvidence:
        """That the plan is an index scan and that only the arm "on" has it attached."""
        attached, node_types = [], set()
        for arm in CONTROL_ARMS:
            with self._server.connect(options=_ARM_OPTIONS[arm]) as connection:
                scan = _find_scan(_explain(connection, workload, arm))
            node_types.add(str(scan["Node Type"]))
            if parse_lookahead(scan.get("Lookahead")).status in ("eligible", "prefetch"):
                attached.append(arm)
        if attached != ["on"] or node_types != {"Index Scan"}:
            raise LabError(
                f"workload {workload.name} cannot be compared: plans {sorted(node_types)}, "
                f"attached in arms {attached}",
                "The experiment needs an index scan, attached in arm on only; report this.",
            )
        return ControlEvidence(workload.name, node_types.pop(), tuple(attached))


def _explain(
    connection: psycopg.Connection[Any], workload: Workload, arm: ControlArm
) -> dict[str, Any]:
    # Without the library its option of EXPLAIN is unknown.
    option = "" if arm == "not loaded" else "LOOKAHEAD, "
    statement = f"EXPLAIN ({option}FORMAT JSON) {workload.explained}"
    row = connection.execute(statement).fetchone()
    assert row is not None
    plan: dict[str, Any] = row[0][0]["Plan"]
    return plan


def _find_scan(plan: dict[str, Any]) -> dict[str, Any]:
    """The scan below the nodes that only limit or lock rows."""
    while plan["Node Type"] in ("Limit", "LockRows") and plan.get("Plans"):
        plan = plan["Plans"][0]
    return plan
