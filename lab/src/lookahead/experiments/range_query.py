"""The experiment "range-query": a sum over a range of dates, where the first article saw 9 times.

Query 6 of TPC-H on a generated lineitem with an index on the ship date (lineitem.py), cold: stock's
bitmap scan at effective_io_concurrency 0, 1, 100 and the default, its sequential scan, and our
bitmap scan.
"""

from dataclasses import dataclass
from pathlib import Path

from lookahead.experiments.arms import BITMAP_SCAN, SEQ_SCAN, arm_of, concurrency_arm
from lookahead.experiments.io_methods import IO_METHODS, available_methods
from lookahead.experiments.lineitem import (
    LINEITEM,
    RANGES,
    SHIP_DATE_INDEX,
    build_lineitem,
    lineitem_bytes,
    range_query,
)
from lookahead.experiments.page_table_setup import SCAN_SETTINGS
from lookahead.experiments.request import DateRange, RangeQueryRequest, Size
from lookahead.experiments.runner import Run
from lookahead.experiments.scan_table import touch_device
from lookahead.experiments.trials import Trial, Trials, run_trials
from lookahead.measurements import Factor, Question, Reference, Scenario
from lookahead.render import Terminal

# The table, its pages in the WAL when they are frozen, the sort of the index.
_SPACE_FACTOR = 2.5
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
class SizeDefaults:
    """What a size measures."""

    scale: float
    ranges: tuple[DateRange, ...]
    io_methods: tuple[str, ...]
    rounds: int


DEFAULTS: dict[Size, SizeDefaults] = {
    "demo": SizeDefaults(0.1, ("month",), ("worker",), 4),
    "quick": SizeDefaults(0.25, RANGES, ("worker",), 4),
    "full": SizeDefaults(2.0, RANGES, IO_METHODS, 6),
}


def run_range_query(request: RangeQueryRequest, terminal: Terminal) -> Path:
    """Measure and write the result; returns its path. Raises LabError."""
    defaults = DEFAULTS[request.run.size]
    wanted = SizeDefaults(
        scale=request.scale or defaults.scale,
        ranges=request.ranges or defaults.ranges,
        io_methods=request.io_methods or defaults.io_methods,
        rounds=request.repetitions or defaults.rounds,
    )
    return run_trials(
        request.run,
        "range-query",
        terminal,
        lambda run: _measure(run, request, wanted),
        rounds=wanted.rounds,
        settings=SCAN_SETTINGS,
        needed_bytes=int(_SPACE_FACTOR * lineitem_bytes(wanted.scale)),
        io_methods=wanted.io_methods,
    )


def _measure(run: Run, request: RangeQueryRequest, wanted: SizeDefaults) -> None:
    """Make the table, then take all samples."""
    trials = Trials(run)
    methods = available_methods(run, wanted.io_methods, explicit=request.io_methods is not None)
    _prepare(run, trials, wanted.scale, methods[0])
    total = len(methods) * len(wanted.ranges) * len(_ARMS) * wanted.rounds
    with run.terminal.progress(total) as bar:
        for method in methods:
            for span in wanted.ranges:
                trial = trial_of(span, wanted.scale, method)
                run.server.restart(trial.server)
                trials.compare_rows(trial, _ARMS)
                trials.measure(trial, wanted.rounds, bar)


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
        references=tuple(
            Reference(scenario, name, seconds * 1000, _ARTICLE)
            for name, seconds in (_ARTICLE_SECONDS if span == "year" else ())
        ),
    )
