"""The experiment "range-query": a sum over a range of dates, where the first article saw 9 times.

Query 6 of TPC-H on a generated lineitem with an index on the ship date (lineitem.py), cold: stock's
bitmap scan at effective_io_concurrency 0, 1, 100 and the default, its sequential scan, and our
bitmap scan.
"""

from dataclasses import dataclass

from lookahead.experiments.arms import BITMAP_SCAN, SEQ_SCAN, arm_of, concurrency_arm
from lookahead.experiments.experiment import Experiment
from lookahead.experiments.io_methods import available_methods
from lookahead.experiments.lineitem import (
    LINEITEM,
    RANGES,
    SHIP_DATE_INDEX,
    DateRange,
    build_lineitem,
    lineitem_bytes,
    range_query,
)
from lookahead.experiments.options import (
    IO_METHOD,
    IO_METHODS,
    REPETITIONS,
    Choice,
    Number,
    Option,
)
from lookahead.experiments.page_table_setup import COLD_RESTART_SECONDS, SCAN_SETTINGS
from lookahead.experiments.request import Size
from lookahead.experiments.runner import Run
from lookahead.experiments.scan_table import touch_device
from lookahead.experiments.trials import Trial, Trials
from lookahead.measurements import Factor, Question, Reference, Scenario

# The table, its pages in the WAL when they are frozen, the sort of the index.
_SPACE_FACTOR = 2.5
_MAX_SCALE = 100
# What estimates of a run's time go by; measured on a virtual machine with two processors.
_BUILD_SECONDS_AT_SCALE_1, _SCAN_SECONDS_AT_SCALE_1 = 90.0, 4.0
_STOCK, _SETTING_1, _OURS = "bitmap, default", "bitmap, 1", "ours"
_ARMS = (
    arm_of("seq", SEQ_SCAN),
    concurrency_arm(BITMAP_SCAN, 0),
    concurrency_arm(BITMAP_SCAN, 100),
    concurrency_arm(BITMAP_SCAN, 1),
    concurrency_arm(BITMAP_SCAN, None),
    concurrency_arm(BITMAP_SCAN, None, "on"),
)
_ARTICLE = "article: what the first source article measured of query 6, a year, on another machine"
_ARTICLE_SECONDS = (
    ("article: setting 1", 1050.0),
    ("article: setting 0", 250.0),
    ("article: setting 100", 116.0),
)


@dataclass(frozen=True)
class RangeQueries:
    """What is wanted; `scale` is TPC-H's."""

    scale: float
    range: tuple[DateRange, ...]
    io_method: tuple[str, ...]
    repetitions: int


_SIZES: dict[Size, RangeQueries] = {
    "demo": RangeQueries(0.1, ("month",), ("worker",), 4),
    "quick": RangeQueries(0.25, RANGES, ("worker",), 4),
    "full": RangeQueries(2.0, RANGES, IO_METHODS, 6),
}


def _measure(run: Run, wanted: RangeQueries) -> None:
    """Make the table, then take all samples."""
    trials = Trials(run)
    methods = available_methods(run, wanted.io_method)
    _prepare(run, trials, wanted.scale, methods[0])
    chosen = [trial_of(span, wanted.scale, method) for method in methods for span in wanted.range]
    trials.measure_all(chosen, wanted.repetitions)


def _prepare(run: Run, trials: Trials, scale: float, method: str) -> None:
    run.terminal.step(f"making lineitem at scale {scale:g} ({lineitem_bytes(scale) / 1e9:.1f} GB)")
    run.server.start({"io_method": method})
    with run.server.connect() as connection:
        run.record_settings(connection)
        connection.execute("SET maintenance_work_mem = '256MB'")
        seed = run.document.parameters.seed
        trials.add_table(build_lineitem(connection, scale, seed))
    run.server.cold_restart()
    with run.server.connect() as connection:
        touch_device(connection, run.server.data_directory, (LINEITEM, SHIP_DATE_INDEX))


def trial_of(span: DateRange, scale: float, method: str) -> Trial:
    """The query over one range, in all arms."""
    scenario = Scenario(
        (Factor("range", span), Factor("scale", f"{scale:g}"), Factor("I/O method", method))
    )
    stock = tuple(arm.name for arm in _ARMS if arm.library == "off")
    return Trial(
        scenario=scenario,
        statement=range_query(span),
        arms=_ARMS,
        questions=(
            Question(scenario, "setting 1", (_SETTING_1,), (_OURS,)),
            Question(scenario, "stock's default", (_STOCK,), (_OURS,)),
            Question(scenario, "best stock plan", stock, (_OURS,)),
        ),
        server={"io_method": method},
        compared=tuple(arm.name for arm in _ARMS),
        references=tuple(
            Reference(scenario, name, seconds * 1000, _ARTICLE)
            for name, seconds in (_ARTICLE_SECONDS if span == "year" else ())
        ),
    )


def _estimated_seconds(wanted: RangeQueries) -> float:
    samples = len(wanted.io_method) * len(wanted.range) * len(_ARMS) * wanted.repetitions
    scan = COLD_RESTART_SECONDS + wanted.scale * _SCAN_SECONDS_AT_SCALE_1
    return wanted.scale * _BUILD_SECONDS_AT_SCALE_1 + samples * scan


EXPERIMENT = Experiment(
    name="range-query",
    summary="A cold sum over a range of dates, like query 6 of TPC-H.",
    description="By a bitmap scan of a generated lineitem whose rows lie in the order of the "
    "orders; against stock's at several effective_io_concurrency and its sequential scan.",
    cold=True,
    options=(
        REPETITIONS,
        IO_METHOD,
        Option("scale", Number(_MAX_SCALE), "TPC-H's scale: 1 is 6 million rows, 0.8 GB."),
        Option(
            "range", Choice(RANGES), f"How much is summed up: {', '.join(RANGES)}.", is_list=True
        ),
    ),
    sizes=_SIZES,
    settings=lambda wanted: SCAN_SETTINGS,
    needed_bytes=lambda wanted: int(_SPACE_FACTOR * lineitem_bytes(wanted.scale)),
    estimated_seconds=_estimated_seconds,
    measure=_measure,
)
