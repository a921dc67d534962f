"""The experiment "page-layouts": how the pages lie that a cold bitmap scan reads.

A share of the pages, as in the lab's "bitmap-scan", in three layouts:

    uniform    each page by chance
    clustered  each run of CLUSTER_PAGES pages by chance: neighbours come together
    periodic   pages at even distances: of 50 % every second one, no two of them neighbours

Beside stock's bitmap scan stands its index scan of the same rows in random order.
"""

from dataclasses import dataclass
from itertools import product
from typing import Literal

from lookahead.experiments.arms import BITMAP_SCAN, INDEX_SCAN, arm_of, concurrency_arm
from lookahead.experiments.bitmap_scan import DEFAULT_ARM, OURS, percent
from lookahead.experiments.conditions import available_methods
from lookahead.experiments.experiment import (
    IO_METHOD,
    IO_METHODS,
    PAGES_SHARE,
    REPETITIONS,
    TABLE_PAGES,
    Choice,
    Experiment,
    Option,
)
from lookahead.experiments.page_table import (
    FILLER,
    SHARE_STEPS,
    TABLE,
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

Layout = Literal["uniform", "clustered", "periodic"]
LAYOUTS: tuple[Layout, ...] = ("uniform", "clustered", "periodic")
# One megabyte: longer than the gaps that are bridged. Arbitrary.
CLUSTER_PAGES = 128
RANDOM_INDEX_ARM = "index, random order"
_MEMORY = {"work_mem": "64MB"}
_ARMS = (
    arm_of(RANDOM_INDEX_ARM, INDEX_SCAN, settings=_MEMORY),
    concurrency_arm(BITMAP_SCAN, None, settings=_MEMORY),
    concurrency_arm(BITMAP_SCAN, None, "on", _MEMORY),
)


@dataclass(frozen=True)
class LaidOut(Selection):
    """A share of the pages in a layout."""

    layout: Layout

    def chosen(self, seed: int) -> str:
        if self.layout == "clustered":
            return self.by_chance(f"page / {CLUSTER_PAGES}", seed)
        if self.layout == "uniform":
            return super().chosen(seed)
        # The share of the pages up to this one, in whole pages, is one more than before it.
        below = f"page::bigint * {round(self.share * SHARE_STEPS)} / {SHARE_STEPS}"
        return f"{below.replace('page', '(page + 1)')} > {below}"


@dataclass(frozen=True)
class LayoutScans:
    """What is wanted; shares are 0..1."""

    repetitions: int = REPETITIONS.sized(6)
    io_method: tuple[str, ...] = IO_METHOD.sized(("worker",), full=IO_METHODS)
    table_pages: int = TABLE_PAGES.sized(70_000, demo=12_000, full=280_000)
    pages_share: tuple[float, ...] = PAGES_SHARE.sized((0.1, 0.42), demo=(0.42,))
    layout: tuple[Layout, ...] = Option(
        Choice(LAYOUTS), f"How these pages lie: {', '.join(LAYOUTS)}."
    ).sized(LAYOUTS)


def _measure(run: Run, wanted: LayoutScans) -> None:
    trials = Trials(run)
    methods = available_methods(run, wanted.io_method)
    asked = product(wanted.layout, wanted.pages_share)
    selections = [LaidOut(value, share, layout) for value, (layout, share) in enumerate(asked)]
    settings = {"io_method": methods[0]}
    pages = prepare_page_table(run, trials, wanted.table_pages, selections, settings)
    with run.server.connect() as connection:
        order = f"(c1 + 0), hashint8extended(id, {run.document.parameters.seed})"
        # Its condition is one that no statement on c1 itself implies: theirs is another index.
        connection.execute(f"CREATE INDEX ON {TABLE} ({order}) WHERE c1 + 0 < {FILLER}")
        connection.execute("CHECKPOINT")
    trials.measure_all(
        [
            trial_of(selection, method, len(pages[selection.value]))
            for method, selection in product(methods, selections)
        ],
        wanted.repetitions,
    )


def trial_of(selection: LaidOut, method: str, pages: int) -> Trial:
    """The scans of a selection."""
    scenario = Scenario(
        (
            Factor("pages", percent(selection.share)),
            Factor("layout", selection.layout),
            Factor("I/O method", method),
        )
    )
    statement = select_value(selection.value)
    return Trial(
        scenario=scenario,
        statement=statement,
        # What the partial index in random order needs.
        statements={RANDOM_INDEX_ARM: statement.replace("c1 =", "c1 + 0 =")},
        arms=_ARMS,
        questions=(
            Question(scenario, "stock's default", (DEFAULT_ARM,), (OURS,)),
            Question(scenario, RANDOM_INDEX_ARM, (RANDOM_INDEX_ARM,), (OURS,)),
        ),
        server={"io_method": method},
        rows=pages,
        pages=pages,
        compared=(DEFAULT_ARM, OURS),
    )


def _estimated_seconds(wanted: LayoutScans) -> float:
    scenarios = len(wanted.io_method) * len(wanted.layout) * len(wanted.pages_share)
    samples = scenarios * len(_ARMS) * wanted.repetitions
    return build_seconds(wanted.table_pages) + cold_scan_seconds(wanted.table_pages, samples)


EXPERIMENT = Experiment(
    name="page-layouts",
    summary="Cold bitmap heap scans by how the pages lie that they read.",
    description="Against stock's bitmap scan, and its index scan of the same rows in random order.",
    asked=LayoutScans,
    needed_bytes=lambda wanted: needed_bytes(wanted.table_pages),
    estimated_seconds=_estimated_seconds,
    measure=_measure,
)
