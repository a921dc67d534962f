"""The experiment "cached-scan": a bitmap heap scan that has nothing to wait for, and in parallel.

Counting the rows of a bitmap scan, of which every page is in shared buffers: with a `work_mem` so
small that the bitmap is lossy and with one that keeps it exact; by up to four
parallel workers. There is nothing to wait for, so look-ahead can only cost. Beside it the same
numbers of workers with cold data.
"""

from dataclasses import dataclass
from itertools import chain
from typing import Literal

from lookahead.errors import LabError
from lookahead.experiments.arms import BITMAP_SCAN, arm_of, concurrency_arm, connect_arm
from lookahead.experiments.conditions import SCAN_SETTINGS
from lookahead.experiments.experiment import (
    REPETITIONS,
    TABLE_PAGES,
    Choice,
    Count,
    Experiment,
    MemorySize,
    Option,
    memory_text,
    refuse_unused,
)
from lookahead.experiments.page_table import (
    FILLER,
    TABLE,
    build_seconds,
    cold_scan_seconds,
    needed_bytes,
    page_table_bytes,
    prepare_page_table,
    select_value,
    selections_for,
)
from lookahead.experiments.runner import Run
from lookahead.experiments.trials import explain_trial
from lookahead.measurements import Arm, Factor, NodeEvidence, Question, Scenario
from lookahead.server import Session
from lookahead_bench.trials import Trial, Trials

Temperature = Literal["cached", "cold"]
TEMPERATURES: tuple[Temperature, ...] = ("cached", "cold")
# What the planner needs to take as many workers as it is given, and no more: pages cost it nothing,
# since workers share the rows only by its reckoning.
_PARALLEL = {
    "seq_page_cost": "0",
    "random_page_cost": "0",
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "min_parallel_table_scan_size": "0",
}
_SETTINGS = (0, None, 1000)
_NOT_LOADED = "not loaded"
# The fastest counts: a difference of two percent is looked for, and nothing but other work on the
# machine makes one slower than the next. Arbitrary.
_CACHED_EXECUTIONS = 4
# What estimates of a run's time go by; measured on a virtual machine with two processors.
_CACHED_SECONDS_PER_PAGE = 1e-5
# Of the pages, cold: each has one row, so that all time is reading.
_COLD_SHARE = 0.42
_COUNT_FILLER = f"SELECT count(*) FROM {TABLE} WHERE c1 >= {FILLER}"
_LOSSY_WORK_MEM_KB = 64
_MAX_WORKERS = 8  # of the default max_worker_processes


@dataclass(frozen=True)
class CachedScans:
    """What is wanted; memory of the scans of cached data in kB."""

    repetitions: int = REPETITIONS.sized(8, demo=6, full=12)
    # At full size 10 million rows.
    table_pages: int = TABLE_PAGES.sized(20_000, demo=10_000, full=93_458)
    workers: tuple[int, ...] = Option(
        Count(0, _MAX_WORKERS), "Parallel workers of the scan."
    ).sized((0, 2), full=(0, 1, 2, 3, 4))
    work_mem: tuple[int, ...] = Option(
        MemorySize(64), "work_mem of the scans of cached data; at 64kB the bitmap is lossy."
    ).sized((_LOSSY_WORK_MEM_KB, 65536), demo=(_LOSSY_WORK_MEM_KB,))
    data: tuple[Temperature, ...] = Option(
        Choice(TEMPERATURES),
        "Whether the table is in shared buffers or on the disk only: cached, cold.",
    ).sized(TEMPERATURES)


def _settle(wanted: CachedScans, explicit: frozenset[str]) -> CachedScans:
    """As it is; LabError for the memory of scans that are not measured."""
    if "cached" not in wanted.data:
        refuse_unused(explicit, ("work_mem",), "--data cached")
    return wanted


def _settings(wanted: CachedScans) -> dict[str, str]:
    """Buffers for the table, its index, and room for what else is read."""
    buffers_mb = int(page_table_bytes(wanted.table_pages) * 1.2 / 2**20) + 64
    return {**SCAN_SETTINGS, "shared_buffers": f"{buffers_mb}MB"}


def _measure(run: Run, wanted: CachedScans) -> None:
    """Make the table; cached data first, while it is."""
    trials = Trials(run)
    (selection,) = selections_for((_COLD_SHARE,))
    pages = prepare_page_table(run, trials, wanted.table_pages, [selection], {})
    cached = [
        cached_trial(workers, memory_text(memory))
        for memory in (wanted.work_mem if "cached" in wanted.data else ())
        for workers in wanted.workers
    ]
    cold = [
        cold_trial(workers, selection.value, len(pages[selection.value]))
        for workers in (wanted.workers if "cold" in wanted.data else ())
    ]
    if cached:
        run.server.restart()
        warm(run, cached[0])
    trials.measure_all([*cached, *cold], wanted.repetitions)


def warm(run: Run, trial: Trial) -> None:
    """Bring the table into shared buffers: by stock's bitmap scan, which leaves it there."""
    arm = next(arm for arm in trial.arms if arm.library == "off")
    with connect_arm(run.server, arm) as connection:
        explain_trial(connection, trial.statement, arm)


def cached_trial(workers: int, work_mem: str) -> Trial:
    """All rows but the chosen ones, on all pages; every setting by stock and by us."""
    scenario = _scenario(workers, "cached", work_mem)
    chosen = _session_settings(workers, work_mem)
    pairs = [
        tuple(concurrency_arm(BITMAP_SCAN, value, library, chosen) for library in ("off", "on"))
        for value in _SETTINGS
    ]
    bare = arm_of(_NOT_LOADED, BITMAP_SCAN, "not loaded", chosen)
    questions = [
        Question(
            scenario,
            "stock's default" if value is None else f"setting {value}",
            (stock.name,),
            (ours.name,),
        )
        for value, (stock, ours) in zip(_SETTINGS, pairs, strict=True)
    ]
    questions.append(Question(scenario, _NOT_LOADED, (bare.name,), ("ours",)))
    return Trial(
        scenario=scenario,
        statement=_COUNT_FILLER,
        arms=(bare, *chain.from_iterable(pairs)),
        questions=tuple(questions),
        server={},
        cold=False,
        execute=explain_cached,
        executions=_CACHED_EXECUTIONS,
    )


def cold_trial(workers: int, value: int, pages: int) -> Trial:
    """The pages of one value, which are on the disk only."""
    scenario = _scenario(workers, "cold", "64MB")
    chosen = _session_settings(workers, "64MB")
    stock = concurrency_arm(BITMAP_SCAN, None, "off", chosen)
    ours = concurrency_arm(BITMAP_SCAN, None, "on", chosen)
    return Trial(
        scenario=scenario,
        statement=select_value(value, what="count(pad)"),
        arms=(stock, ours),
        questions=(Question(scenario, "stock's default", (stock.name,), (ours.name,)),),
        server={},
        rows=pages,
        pages=pages,
        execute=explain_parallel,
    )


def explain_cached(connection: Session, statement: str, arm: Arm) -> tuple[float, NodeEvidence]:
    """As `explain_parallel`; LabError also when anything was read."""
    time_ms, evidence = explain_parallel(connection, statement, arm)
    if evidence.shared_read_blocks:
        raise LabError(
            f"{evidence.shared_read_blocks} blocks were read although all should be cached",
            "Is another session at work on this server? Repeat the run.",
        )
    return time_ms, evidence


def explain_parallel(connection: Session, statement: str, arm: Arm) -> tuple[float, NodeEvidence]:
    """As `explain_trial`; LabError also when other than the wanted workers came."""
    time_ms, evidence = explain_trial(connection, statement, arm)
    wanted = int(arm.settings["max_parallel_workers_per_gather"])
    if evidence.workers != wanted:
        raise LabError(
            f"{evidence.workers} parallel workers were launched instead of {wanted}",
            "Repeat the run when nothing else is running.",
        )
    return time_ms, evidence


def _scenario(workers: int, data: Temperature, work_mem: str) -> Scenario:
    return Scenario(
        (Factor("workers", str(workers)), Factor("data", data), Factor("work_mem", work_mem))
    )


def _session_settings(workers: int, work_mem: str) -> dict[str, str]:
    return {**_PARALLEL, "max_parallel_workers_per_gather": str(workers), "work_mem": work_mem}


def _estimated_seconds(wanted: CachedScans) -> float:
    kinds = len(wanted.workers) * wanted.repetitions
    # Each scan of cached data is executed several times, by seven arms; cold by two.
    cached = kinds * len(wanted.work_mem) * 7 * (_CACHED_EXECUTIONS + 1)
    scan = wanted.table_pages * _CACHED_SECONDS_PER_PAGE
    return (
        build_seconds(wanted.table_pages)
        + cached * scan * ("cached" in wanted.data)
        + cold_scan_seconds(wanted.table_pages, kinds * 2) * ("cold" in wanted.data)
    )


EXPERIMENT = Experiment(
    name="cached-scan",
    summary="A bitmap heap scan with everything cached, and in parallel.",
    description="Against stock's at effective_io_concurrency "
    "0, at the default and at 1000. Cold data is scanned by the same numbers of workers.",
    asked=CachedScans,
    settings=_settings,
    needed_bytes=lambda wanted: needed_bytes(wanted.table_pages),
    estimated_seconds=_estimated_seconds,
    measure=_measure,
    settle=_settle,
)
