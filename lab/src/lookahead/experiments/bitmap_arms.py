"""Scenarios, arms and questions of the experiment "bitmap-scan", and the article beside them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from lookahead.experiments.arms import (
    BITMAP_SCAN,
    INDEX_SCAN,
    SEQ_SCAN,
    arm_of,
    concurrency_arm,
)
from lookahead.experiments.page_table import (
    FILLER,
    Selection,
    select_value,
)
from lookahead.experiments.trials import Trial
from lookahead.measurements import Arm, Factor, Question, Reference, Scenario

Plan = Literal["seq", "index", "index-random", "bitmap"]
PLANS: tuple[Plan, ...] = ("seq", "index", "index-random", "bitmap")
RANDOM_INDEX_ARM = "index, random order"
DEFAULT_ARM, OURS = "bitmap, default", "ours"
# Settings that stock suffers from; ours is measured with them too.
_HARMFUL_SETTINGS = (0, 1)
# The first article: consumer disk in a virtual machine, read-ahead 1 MB, work_mem 4 MB.
_ARTICLE = "article: what the first source article measured on its own machine"
_ARTICLE_SECONDS = {
    0.42: (
        ("article: setting 1", 145.0),
        ("article: setting 0", 102.0),
        ("article: setting 10", 46.0),
        ("article: seq", 74.0),
        ("article: index", 76.0),
    ),
    0.01: (
        ("article: setting 1", 3.07),
        ("article: setting 0", 3.2),
        ("article: setting 10", 0.86),
        ("article: seq", 129.0),
        ("article: index", 3.3),
    ),
}


@dataclass(frozen=True)
class Conditions:
    """Under what a selection of pages is read."""

    selection: Selection
    work_mem: str
    io_method: str
    read_ahead_kb: int | None


def percent(share: float) -> str:
    """Such as "42 %" and "0.1 %"."""
    return f"{share * 100:g} %"


def scenario_of(conditions: Conditions) -> Scenario:
    """The factors in the order in which they are shown."""
    selection = conditions.selection
    read_ahead = conditions.read_ahead_kb
    return Scenario(
        (
            Factor("pages", percent(selection.share)),
            Factor("layout", selection.layout),
            Factor("work_mem", conditions.work_mem),
            Factor("I/O method", conditions.io_method),
            Factor("read-ahead", "unknown" if read_ahead is None else f"{read_ahead} kB"),
        )
    )


def arms_for(plans: Iterable[Plan], settings: Iterable[int], work_mem: str) -> tuple[Arm, ...]:
    """Stock's plans, its bitmap scans with these settings, and ours.

    Stock's default and ours stand side by side: they are compared first.
    """
    memory = {"work_mem": work_mem}
    named, values = tuple(plans), tuple(settings)
    plain = {
        "seq": arm_of("seq", SEQ_SCAN, settings=memory),
        "index": arm_of("index", INDEX_SCAN, settings=memory),
        "index-random": arm_of(RANDOM_INDEX_ARM, INDEX_SCAN, settings=memory),
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
    """What is asked of these arms."""
    names = {arm.name: arm for arm in arms}
    stock = tuple(name for name, arm in names.items() if arm.library == "off")
    questions = [
        Question(scenario, "stock's default", (DEFAULT_ARM,), (OURS,)),
        Question(scenario, "best stock plan", stock, (OURS,)),
    ]
    for value in _HARMFUL_SETTINGS:
        name = f"{OURS}, {value}"
        if name in names:
            question = f"ours, setting {value}"
            questions.append(Question(scenario, question, (OURS,), (name,)))
    return tuple(questions)


def trial_of(conditions: Conditions, arms: tuple[Arm, ...], pages: int, *, article: bool) -> Trial:
    """The trial under these conditions; with `article` its figures stand beside it."""
    selection, scenario = conditions.selection, scenario_of(conditions)
    beside = _ARTICLE_SECONDS.get(selection.share, ()) if article else ()
    return Trial(
        scenario=scenario,
        statement=select_value(selection.value),
        arms=arms,
        questions=questions_for(scenario, arms),
        server={"io_method": conditions.io_method},
        rows=pages,
        pages=pages,
        statements={
            # The condition that the partial index in random order needs.
            RANDOM_INDEX_ARM: f"{select_value(selection.value, 'c2')} AND c2 < {FILLER}"
        },
        references=tuple(
            Reference(scenario, name, seconds * 1000, _ARTICLE) for name, seconds in beside
        ),
    )
