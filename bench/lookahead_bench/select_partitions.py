"""The experiment "select-partitions": queries whose partitions are pruned while they run.

A statement that was prepared once, as an application's: PostgreSQL starts the scans of all
partitions, and executes one; ours, with pg_lookahead.enable_late_start, starts that one. All is
cached. The times are those of one execution, the fastest of several in one session.

Two queries gain nothing and stand beside the others: one whose partition is known when it is
planned, and one that is planned for each execution.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

from lookahead.errors import LabError
from lookahead.experiments.arms import arm_of
from lookahead.experiments.bulk_insert_cases import OURS, against
from lookahead.experiments.conditions import fetch_row
from lookahead.experiments.experiment import REPETITIONS, Choice, Count, Experiment, Option
from lookahead.experiments.runner import Run
from lookahead.measurements import Arm, Factor, Library, Scenario
from lookahead.server import Session
from lookahead_bench.insert_trials import NOT_LOADED
from lookahead_bench.trials import Trial, Trials

_PARENT, _WANTED = "lookahead_parent", "lookahead_wanted"
_STEP, _ROWS_EACH = 1_000, 10
_FROM = f"FROM {_PARENT} WHERE k = (SELECT k FROM {_WANTED})"
_SUBSELECT = f"SELECT sum(length(pad)) {_FROM}"
SHAPES = {
    "subselect": _SUBSELECT,
    "ordered": f"SELECT id {_FROM} ORDER BY id LIMIT 1",
    "key": f"SELECT sum(length(pad)) FROM {_PARENT} WHERE k = 0",
    "planned": _SUBSELECT,
}
INDEXES = {
    "no-index": (),
    "key-and-index": (
        f"ALTER TABLE {_PARENT} ADD PRIMARY KEY (k, id)",
        f"CREATE INDEX ON {_PARENT} (id)",
    ),
}
_KEPT = {"plan_cache_mode": "force_generic_plan", "max_parallel_workers_per_gather": "0"}
_LATE = {**_KEPT, "pg_lookahead.enable_late_start": "on"}
_ARMS = (arm_of(NOT_LOADED, "", "not loaded", _KEPT), arm_of(OURS, "", "on", _LATE))
_EXECUTIONS = 20
_LEAF_BYTES = 60_000
# What estimates go by, of one partition; measured on a virtual machine with two processors.
_SERVER_SECONDS, _MAKE_SECONDS, _START_SECONDS = 10.0, 0.003, 0.00002


@dataclass(frozen=True)
class Selections:
    """What is wanted."""

    repetitions: int = REPETITIONS.sized(6)
    leaves: tuple[int, ...] = Option(Count(16, 20_000), "Numbers of partitions.").sized(
        (128, 1000), demo=(128,), full=(128, 1000, 10_000)
    )
    shape: tuple[str, ...] = Option(
        Choice(tuple(SHAPES)), f"Which queries: {', '.join(SHAPES)}."
    ).sized(tuple(SHAPES))
    indexes: tuple[str, ...] = Option(
        Choice(tuple(INDEXES)), "What the partitioned table has."
    ).sized(tuple(INDEXES))


def trials_of(wanted: Selections, leaves: int, indexes: str) -> Iterator[Trial]:
    """One for each query, of so many partitions."""
    for name in wanted.shape:
        scenario = Scenario(
            (
                Factor("partitions", f"{leaves:,}"),
                Factor("table", indexes.replace("-", " ")),
                Factor("query", name),
            )
        )
        yield Trial(
            scenario=scenario,
            statement=SHAPES[name],
            arms=_ARMS,
            questions=against(scenario, NOT_LOADED),
            server={},
            cold=False,
            execute=partial(_execute, name),
            executions=_EXECUTIONS,
        )


def _execute(shape: str, connection: Session, statement: str, arm: Arm) -> tuple[float, None]:
    """Planned once a session, which the first execution does; LabError where ours was not ours."""
    before = _late_starts(connection, arm.library)
    started = time.monotonic()
    connection.execute(statement, prepare=shape != "planned").fetchall()
    spent = time.monotonic() - started
    if shape != "key" and arm.library == "on" and _late_starts(connection, arm.library) == before:
        raise LabError(
            "our path did not run: all partitions started with the statement",
            "docs/settings.md says which queries start late.",
        )
    return spent * 1000, None


def _late_starts(connection: Session, library: Library) -> int:
    if library != "on":
        return 0
    (scans,) = fetch_row(
        connection,
        "SELECT scans FROM pg_lookahead_stats() WHERE feature = 'late_start' AND scope = 'backend'",
    )
    return int(scans)


def _make(connection: Session, leaves: int, indexes: str) -> None:
    """Both tables; a row of the small one names a partition."""
    connection.execute("CREATE EXTENSION IF NOT EXISTS pg_lookahead")
    connection.execute(f"DROP TABLE IF EXISTS {_PARENT}, {_WANTED}")
    connection.execute(f"CREATE TABLE {_PARENT} (k int, id int, pad text) PARTITION BY RANGE (k)")
    for statement in INDEXES[indexes]:
        connection.execute(statement)
    connection.execute(
        f"CALL pg_lookahead_create_range_partitions_batched('{_PARENT}', 0, {_STEP}, {leaves})"
    )
    connection.execute(
        f"INSERT INTO {_PARENT} SELECT leaf * {_STEP}, n, 'x' "
        f"FROM generate_series(0, {leaves - 1}) AS leaf, generate_series(1, {_ROWS_EACH}) AS n"
    )
    connection.execute(f"CREATE TABLE {_WANTED} AS SELECT {leaves // 2 * _STEP} AS k")
    connection.execute(f"ANALYZE {_PARENT}, {_WANTED}")


def _measure(run: Run, wanted: Selections) -> None:
    run.server.start({})
    trials = Trials(run)
    for leaves, indexes in product(wanted.leaves, wanted.indexes):
        run.terminal.step(f"making {leaves:,} partitions, {indexes.replace('-', ' ')}")
        with run.server.connect() as connection:
            connection.execute("SET client_min_messages = warning")
            _make(connection, leaves, indexes)
        trials.measure_all(list(trials_of(wanted, leaves, indexes)), wanted.repetitions)


def _estimated_seconds(wanted: Selections) -> float:
    leaves = sum(wanted.leaves) * len(wanted.indexes)
    executions = len(wanted.shape) * len(_ARMS) * wanted.repetitions * (_EXECUTIONS + 1)
    return _SERVER_SECONDS + leaves * (_MAKE_SECONDS + executions * _START_SECONDS)


EXPERIMENT = Experiment(
    name="select-partitions",
    summary="Queries that want one of many partitions, known only while they run.",
    description="`WHERE k = (SELECT ...)`, prepared once, with and without an order: stock starts "
    "all scans with the statement, ours, with pg_lookahead.enable_late_start, the one that is "
    "wanted. Beside them `WHERE k = 0`, and the first one planned for each execution.",
    asked=Selections,
    settings=lambda wanted: {"max_locks_per_transaction": "1024"},
    needed_bytes=lambda wanted: sum(wanted.leaves) * _LEAF_BYTES,
    estimated_seconds=_estimated_seconds,
    measure=_measure,
)
