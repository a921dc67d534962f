"""The experiment "bitmap-scan", the question of the first source article.

Rows on a chosen share of a table's pages, cold: by a sequential scan, an index scan in the order of
the table and in random order, and bitmap scans at several effective_io_concurrency, all by stock;
and by our bitmap scan, also at the settings that stock suffers from. The rows of stock's bitmap
scan and of ours are received and compared, and the pages hit are counted from the rows' own places.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from lookahead.experiments.bitmap_arms import (
    DEFAULT_ARM,
    OURS,
    PLANS,
    Conditions,
    arms_for,
    trial_of,
)
from lookahead.experiments.io_methods import IO_METHODS, available_methods
from lookahead.experiments.page_table import (
    LAYOUTS,
    selections_for,
)
from lookahead.experiments.page_table_setup import (
    SCAN_SETTINGS,
    needed_bytes,
    prepare_page_table,
)
from lookahead.experiments.read_aheads import ReadAheads
from lookahead.experiments.request import BitmapScanRequest, Layout, Plan, Size
from lookahead.experiments.runner import Run
from lookahead.experiments.trials import Trials, run_trials
from lookahead.measurements import Arm
from lookahead.render import ProgressBar, Terminal


@dataclass(frozen=True)
class SizeDefaults:
    """What a size measures; all shares and memories under the first layout and read-ahead only."""

    table_pages: int
    shares: tuple[float, ...]
    layouts: tuple[Layout, ...]
    work_mems: tuple[str, ...]
    plans: tuple[Plan, ...]
    settings: tuple[int, ...]
    io_methods: tuple[str, ...]
    rounds: int


_ALL_SHARES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.42, 0.5, 0.75, 1.0)
_ALL_SETTINGS = (0, 1, 16, 64, 256)
# Bitmaps of the full table are lossy at 4 MB, as in the article; of the smaller ones at less.
DEFAULTS: dict[Size, SizeDefaults] = {
    "demo": SizeDefaults(
        40_000, (0.1, 0.42), ("uniform",), ("64MB",), PLANS[:2], (), ("worker",), 4
    ),
    "quick": SizeDefaults(
        70_000,
        (0.01, 0.1, 0.42),
        ("uniform",),
        ("1MB", "64MB"),
        PLANS,
        _ALL_SETTINGS,
        ("worker",),
        4,
    ),
    "full": SizeDefaults(
        280_000, _ALL_SHARES, LAYOUTS, ("4MB", "64MB"), PLANS, _ALL_SETTINGS, IO_METHODS, 4
    ),
}


def run_bitmap_scan(request: BitmapScanRequest, terminal: Terminal) -> Path:
    """Measure and write the result; returns its path. Raises LabError."""
    wanted = _wanted(request, DEFAULTS[request.run.size])
    return run_trials(
        request.run,
        "bitmap-scan",
        terminal,
        lambda run: _BitmapScan(run, request, wanted).measure(),
        rounds=wanted.rounds,
        settings=SCAN_SETTINGS,
        needed_bytes=needed_bytes(wanted.table_pages),
        io_methods=wanted.io_methods,
        read_aheads_kb=request.read_aheads_kb or (),
    )


def _wanted(request: BitmapScanRequest, defaults: SizeDefaults) -> SizeDefaults:
    """The defaults with what was asked for in their place."""
    return SizeDefaults(
        table_pages=request.table_pages or defaults.table_pages,
        shares=request.shares or defaults.shares,
        layouts=request.layouts or defaults.layouts,
        work_mems=request.work_mems or defaults.work_mems,
        plans=request.plans or defaults.plans,
        settings=defaults.settings if request.settings is None else request.settings,
        io_methods=request.io_methods or defaults.io_methods,
        rounds=request.repetitions or defaults.rounds,
    )


class _BitmapScan:
    """One run of the experiment."""

    def __init__(self, run: Run, request: BitmapScanRequest, wanted: SizeDefaults) -> None:
        self._run = run
        self._wanted = wanted
        self._trials = Trials(run)
        self._io_methods = available_methods(
            run, wanted.io_methods, explicit=request.io_methods is not None
        )
        self._read_aheads = ReadAheads(run, request.read_aheads_kb or ())
        self._selections = selections_for(wanted.shares, wanted.layouts)
        self._pages: dict[int, list[int]] = {}

    def measure(self) -> None:
        """Build the table, then take all samples."""
        self._pages = prepare_page_table(
            self._run,
            self._trials,
            self._wanted.table_pages,
            self._selections,
            {"io_method": self._io_methods[0]},
        )
        conditions = list(self._conditions())
        arms = {
            memory: arms_for(self._wanted.plans, self._wanted.settings, memory)
            for memory in self._wanted.work_mems
        }
        total = sum(len(arms[item.work_mem]) for item in conditions) * self._wanted.rounds
        with self._run.terminal.progress(total) as bar:
            for item in conditions:
                with self._read_aheads.with_size(item.read_ahead_kb):
                    self._measure(item, arms[item.work_mem], bar)

    def _conditions(self) -> Iterator[Conditions]:
        """Everything in the first layout and at the first read-ahead; then the others.

        The other layouts and sizes of read-ahead are measured under the first I/O method and with
        the last memory only.
        """
        first, last_memory = self._wanted.layouts[0], self._wanted.work_mems[-1]
        own, *others = self._read_aheads.sizes_kb
        main = [one for one in self._selections if one.layout == first]
        for method in self._io_methods:
            for memory, selection in product(self._wanted.work_mems, main):
                yield Conditions(selection, memory, method, own)
        for selection in self._selections:
            if selection.layout != first:
                yield Conditions(selection, last_memory, self._io_methods[0], own)
        for read_ahead_kb, selection in product(others, main):
            yield Conditions(selection, last_memory, self._io_methods[0], read_ahead_kb)

    def _measure(self, conditions: Conditions, arms: tuple[Arm, ...], bar: ProgressBar) -> None:
        pages = len(self._pages[conditions.selection.value])
        article = conditions.selection.layout == "uniform"
        trial = trial_of(conditions, arms, pages, article=article)
        self._run.server.restart(trial.server)
        compared = [arm for arm in arms if arm.name in (DEFAULT_ARM, OURS)]
        bar.describe(f"{trial.scenario.label}: comparing rows")
        self._trials.compare_rows(trial, compared)
        self._trials.measure(trial, self._wanted.rounds, bar)
