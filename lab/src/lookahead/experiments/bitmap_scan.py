"""The experiment "bitmap-scan": a share of a table's pages, by every plan and setting.

Rows on a chosen share of a table's pages, cold: by a sequential scan, an index scan in the order of
the table and bitmap scans at several effective_io_concurrency, all by stock; and by our bitmap
scan, also at the settings that stock suffers from. The rows of stock's bitmap
scan and of ours are received and compared, and the pages hit are counted from the rows' own places.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from lookahead.experiments.arms import BITMAP_SCAN, INDEX_SCAN, SEQ_SCAN, arm_of, concurrency_arm
from lookahead.experiments.conditions import available_methods, read_ahead_factor
from lookahead.experiments.experiment import (
    IO_METHOD,
    IO_METHODS,
    PAGES_SHARE,
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
    Selection,
    build_seconds,
    cold_scan_seconds,
    needed_bytes,
    prepare_page_table,
    select_value,
    selections_for,
)
from lookahead.experiments.runner import Run
from lookahead.experiments.trials import Trial, Trials
from lookahead.measurements import Arm, Factor, Question, Scenario

Plan = Literal["seq", "index", "bitmap"]
PLANS: tuple[Plan, ...] = ("seq", "index", "bitmap")
DEFAULT_ARM, OURS = "bitmap, default", "ours"
# Settings that stock suffers from; ours is measured with them too.
_HARMFUL_SETTINGS = (0, 1)


@dataclass(frozen=True)
class Conditions:
    """Under what a selection of pages is read."""

    selection: Selection
    work_mem: str
    io_method: str
    read_ahead: Factor

    @property
    def scenario(self) -> Scenario:
        return Scenario(
            (
                Factor("pages", percent(self.selection.share)),
                Factor("work_mem", self.work_mem),
                Factor("I/O method", self.io_method),
                self.read_ahead,
            )
        )


def percent(share: float) -> str:
    """Such as "42 %" and "0.1 %"."""
    return f"{share * 100:g} %"


def arms_for(plans: Iterable[Plan], settings: Iterable[int], work_mem: str) -> tuple[Arm, ...]:
    """Stock's plans, its bitmap scans with these settings, and ours.

    Stock's default and ours stand side by side: they are compared first.
    """
    memory = {"work_mem": work_mem}
    named, values = tuple(plans), tuple(settings)
    plain = {
        "seq": arm_of("seq", SEQ_SCAN, settings=memory),
        "index": arm_of("index", INDEX_SCAN, settings=memory),
    }
    bitmaps = [concurrency_arm(BITMAP_SCAN, value, settings=memory) for value in values]
    harmful = [value for value in _HARMFUL_SETTINGS if value in values]
    return (
        *(plain[plan] for plan in named if plan in plain),
        *(bitmaps if "bitmap" in named else ()),
        concurrency_arm(BITMAP_SCAN, None, settings=memory),
        concurrency_arm(BITMAP_SCAN, None, "on", memory),
        *(concurrency_arm(BITMAP_SCAN, value, "on", memory) for value in harmful),
    )


def questions_for(scenario: Scenario, arms: Iterable[Arm]) -> tuple[Question, ...]:
    names = {arm.name: arm for arm in arms}
    stock = tuple(name for name, arm in names.items() if arm.library == "off")
    questions = [Question(scenario, "stock's default", (DEFAULT_ARM,), (OURS,))]
    if stock != (DEFAULT_ARM,):
        questions.append(Question(scenario, "best stock plan", stock, (OURS,)))
    for value in _HARMFUL_SETTINGS:
        name = f"{OURS}, {value}"
        if name in names:
            questions.append(Question(scenario, OURS, (OURS,), (name,)))
    return tuple(questions)


def trial_of(conditions: Conditions, arms: tuple[Arm, ...], pages: int) -> Trial:
    return Trial(
        scenario=conditions.scenario,
        statement=select_value(conditions.selection.value),
        arms=arms,
        questions=questions_for(conditions.scenario, arms),
        server={"io_method": conditions.io_method},
        rows=pages,
        pages=pages,
        compared=(DEFAULT_ARM, OURS),
    )


_MAX_CONCURRENCY = 1000
_ALL_SHARES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.42, 0.5, 0.75, 1.0)
_ALL_SETTINGS = (0, 1, 16, 64, 256)


@dataclass(frozen=True)
class BitmapScans:
    """What is wanted: shares of 0..1, memory in kB."""

    repetitions: int = REPETITIONS.sized(6)
    io_method: tuple[str, ...] = IO_METHOD.sized(("worker",), full=IO_METHODS)
    table_pages: int = TABLE_PAGES.sized(70_000, demo=40_000, full=280_000)
    pages_share: tuple[float, ...] = PAGES_SHARE.sized(
        (0.01, 0.1, 0.42), demo=(0.1, 0.42), full=_ALL_SHARES
    )
    # Bitmaps of the middle table are lossy at 1 MB, of the full one at 4 MB.
    work_mem: tuple[int, ...] = Option(
        MemorySize(64), "work_mem; with a small one bitmaps are lossy."
    ).sized((1024, 65536), demo=(65536,), full=(4096, 65536))
    plan: tuple[Plan, ...] = Option(
        Choice(PLANS),
        "Stock's plans beside its bitmap scan at the default setting: seq, index, bitmap (at "
        "each --setting).",
        may_be_none=True,
    ).sized(PLANS, demo=PLANS[:2])
    setting: tuple[int, ...] = Option(
        Count(0, _MAX_CONCURRENCY),
        "effective_io_concurrency beside the default. Our arm is measured at 0 and 1 of them too.",
        may_be_none=True,
    ).sized(_ALL_SETTINGS, demo=())


def _settle(wanted: BitmapScans, explicit: frozenset[str]) -> BitmapScans:
    """Stock's bitmap scans are measured at the settings that were named, and at all if they were.

    Raises LabError for settings that no arm is measured at.
    """
    if "plan" not in explicit and "setting" in explicit and "bitmap" not in wanted.plan:
        wanted = replace(wanted, plan=(*wanted.plan, "bitmap"))
    if "plan" in explicit and "bitmap" in wanted.plan and "setting" not in explicit:
        wanted = replace(wanted, setting=wanted.setting or _ALL_SETTINGS)
    if "bitmap" not in wanted.plan and set(wanted.setting) - set(_HARMFUL_SETTINGS):
        refuse_unused(explicit, ("setting",), "--plan bitmap")
    return wanted


def _measure(run: Run, wanted: BitmapScans) -> None:
    """Build the table, then take all samples."""
    trials = Trials[Trial](run)
    wanted = replace(wanted, io_method=available_methods(run, wanted.io_method))
    selections = selections_for(wanted.pages_share)
    pages = prepare_page_table(
        run, trials, wanted.table_pages, selections, {"io_method": wanted.io_method[0]}
    )
    chosen = []
    for method, memory, selection in product(wanted.io_method, wanted.work_mem, selections):
        item = Conditions(selection, memory_text(memory), method, read_ahead_factor(run))
        arms = arms_for(wanted.plan, wanted.setting, item.work_mem)
        chosen.append(trial_of(item, arms, len(pages[selection.value])))
    trials.measure_all(chosen, wanted.repetitions)


def _estimated_seconds(wanted: BitmapScans) -> float:
    scenarios = len(wanted.io_method) * len(wanted.work_mem) * len(wanted.pages_share)
    samples = scenarios * len(arms_for(wanted.plan, wanted.setting, "")) * wanted.repetitions
    scans = cold_scan_seconds(wanted.table_pages, samples)
    return build_seconds(wanted.table_pages) + scans


EXPERIMENT = Experiment(
    name="bitmap-scan",
    summary="Cold bitmap heap scans of a share of a table's pages, at several settings.",
    description="Against stock's bitmap scans, sequential scan and index scan of the same rows.",
    asked=BitmapScans,
    needed_bytes=lambda wanted: needed_bytes(wanted.table_pages),
    estimated_seconds=_estimated_seconds,
    measure=_measure,
    settle=_settle,
)
