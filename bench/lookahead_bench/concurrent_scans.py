"""The experiment "concurrent-scans": several sessions read at once, each other pages.

Each session has a bitmap scan of its own share of the page table, all begin together, cold. What is
compared is the mean time of a session, by stock at several effective_io_concurrency and by us at
several distances: a device that is kept busy by other sessions leaves little to gain, and nothing
may be lost.
"""

from dataclasses import dataclass

from lookahead.experiments.arms import BITMAP_SCAN, arm_of, concurrency_arm
from lookahead.experiments.bitmap_scan import percent
from lookahead.experiments.conditions import available_methods
from lookahead.experiments.experiment import (
    IO_METHOD,
    IO_METHODS,
    REPETITIONS,
    TABLE_PAGES,
    Count,
    Experiment,
    Option,
)
from lookahead.experiments.page_table import (
    Selection,
    build_seconds,
    cold_scan_seconds,
    needed_bytes,
    prepare_page_table,
    select_value,
)
from lookahead.experiments.runner import Run
from lookahead.measurements import Factor, Question, Scenario
from lookahead_bench.trials import Trial, Trials

# Of the pages for each session: of 16 sessions few meet in one page, and the others lie between.
_SHARE = 0.05
_STOCK, _OURS = "bitmap, default", "ours"
_MAX_SESSIONS = 64  # of the default max_connections, and of a page's rows
_MAX_DEPTH = 1000
# What estimates of a run's time go by; measured on a virtual machine with two processors.
_SECONDS_PER_PAGE = 7e-5


@dataclass(frozen=True)
class ConcurrentScans:
    """What is wanted; `depth` beside the defaults of both sides."""

    repetitions: int = REPETITIONS.sized(6)
    io_method: tuple[str, ...] = IO_METHOD.sized(("worker",), full=IO_METHODS)
    table_pages: int = TABLE_PAGES.sized(70_000, demo=40_000, full=280_000)
    sessions: tuple[int, ...] = Option(Count(1, _MAX_SESSIONS), "Sessions at once.").sized(
        (1, 4, 16), demo=(1, 4)
    )
    depth: tuple[int, ...] = Option(
        Count(1, _MAX_DEPTH),
        "effective_io_concurrency of stock and prefetch_distance of ours, beside the defaults of "
        "both.",
        may_be_none=True,
    ).sized((64,), demo=(), full=(4, 64, 256))


def _measure(run: Run, wanted: ConcurrentScans) -> None:
    """Make the table with pages for each session, then take all samples."""
    methods = available_methods(run, wanted.io_method)
    trials = Trials(run)
    selections = [Selection(number, _SHARE) for number in range(max(wanted.sessions))]
    prepare_page_table(run, trials, wanted.table_pages, selections, {"io_method": methods[0]})
    chosen = [
        trial_of(sessions, method, wanted.depth)
        for method in methods
        for sessions in wanted.sessions
    ]
    trials.measure_all(chosen, wanted.repetitions)


def trial_of(sessions: int, method: str, depths: tuple[int, ...]) -> Trial:
    """So many sessions in all arms; the rows of the first one's statement are compared."""
    scenario = Scenario(
        (
            Factor("sessions", str(sessions)),
            Factor("pages each", percent(_SHARE)),
            Factor("I/O method", method),
        )
    )
    arms = (
        *(concurrency_arm(BITMAP_SCAN, depth) for depth in depths),
        concurrency_arm(BITMAP_SCAN, None),
        concurrency_arm(BITMAP_SCAN, None, "on"),
        *(
            arm_of(
                f"ours, distance {depth}",
                BITMAP_SCAN,
                "on",
                {"pg_lookahead.prefetch_distance": str(depth)},
            )
            for depth in depths
        ),
    )
    stock = tuple(arm.name for arm in arms if arm.library == "off")
    return Trial(
        scenario=scenario,
        statement=select_value(0),
        arms=arms,
        questions=(
            Question(scenario, "stock's default", (_STOCK,), (_OURS,)),
            Question(scenario, "best of stock", stock, (_OURS,)),
        ),
        server={"io_method": method},
        sessions=tuple(select_value(number) for number in range(sessions)),
        compared=(_STOCK, _OURS),
    )


def _estimated_seconds(wanted: ConcurrentScans) -> float:
    arms = 2 + 2 * len(wanted.depth)
    samples = arms * wanted.repetitions * len(wanted.io_method)
    # Every session has pages of its own to read.
    scans = sum(cold_scan_seconds(wanted.table_pages, samples) for _ in wanted.sessions)
    read = sum(wanted.sessions) * samples * _SHARE * wanted.table_pages * _SECONDS_PER_PAGE
    return build_seconds(wanted.table_pages) + scans + read


EXPERIMENT = Experiment(
    name="concurrent-scans",
    summary="Cold bitmap heap scans of several sessions at once.",
    description="Each session reads other pages. Compared is the mean time of a session.",
    asked=ConcurrentScans,
    needed_bytes=lambda wanted: needed_bytes(wanted.table_pages),
    estimated_seconds=_estimated_seconds,
    measure=_measure,
)
