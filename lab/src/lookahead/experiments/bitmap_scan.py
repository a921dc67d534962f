"""The experiment "bitmap-scan", the question of the first source article.

Rows on a chosen share of a table's pages, cold: by a sequential scan, an index scan in the order of
the table and in random order, and bitmap scans at several effective_io_concurrency, all by stock;
and by our bitmap scan, also at the settings that stock suffers from. The rows of stock's bitmap
scan and of ours are received and compared, and the pages hit are counted from the rows' own places.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from lookahead.experiments.bitmap_arms import (
    DEFAULT_ARM,
    OURS,
    PLANS,
    Conditions,
    Plan,
    arms_for,
    trial_of,
)
from lookahead.experiments.experiment import Article, Experiment
from lookahead.experiments.io_methods import available_methods
from lookahead.experiments.options import (
    IO_METHOD,
    IO_METHODS,
    PAGES_SHARE,
    REPETITIONS,
    TABLE_PAGES,
    Choice,
    Count,
    MemorySize,
    Option,
    read_ahead_option,
    size_text,
)
from lookahead.experiments.page_table import LAYOUTS, Layout, Selection, selections_for
from lookahead.experiments.page_table_setup import (
    SCAN_SETTINGS,
    build_seconds,
    cold_scan_seconds,
    needed_bytes,
    prepare_page_table,
)
from lookahead.experiments.read_aheads import ReadAheads
from lookahead.experiments.request import Size
from lookahead.experiments.runner import Run
from lookahead.experiments.trials import Trial, Trials

_MAX_CONCURRENCY = 1000


@dataclass(frozen=True)
class BitmapScans:
    """What is wanted: shares of 0..1, memory and read-ahead in kB.

    Everything is measured in the first layout and at the first read-ahead; the others under the
    first I/O method and with the last memory only.
    """

    table_pages: int
    pages_share: tuple[float, ...]
    layout: tuple[Layout, ...]
    work_mem: tuple[int, ...]
    plan: tuple[Plan, ...]
    setting: tuple[int, ...]
    io_method: tuple[str, ...]
    read_ahead: tuple[int, ...]
    repetitions: int


_ALL_SHARES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.42, 0.5, 0.75, 1.0)
_ALL_SETTINGS = (0, 1, 16, 64, 256)
_QUICK = BitmapScans(
    table_pages=70_000,
    pages_share=(0.01, 0.1, 0.42),
    layout=("uniform",),
    work_mem=(1024, 65536),  # bitmaps of this table are lossy at 1 MB, of the full one at 4 MB
    plan=PLANS,
    setting=_ALL_SETTINGS,
    io_method=("worker",),
    read_ahead=(),
    repetitions=4,
)
_SIZES: dict[Size, BitmapScans] = {
    "demo": replace(
        _QUICK,
        table_pages=40_000,
        pages_share=(0.1, 0.42),
        work_mem=(65536,),
        plan=PLANS[:2],
        setting=(),
    ),
    "quick": _QUICK,
    "full": replace(
        _QUICK,
        table_pages=280_000,
        pages_share=_ALL_SHARES,
        layout=LAYOUTS,
        work_mem=(4096, 65536),
        io_method=IO_METHODS,
    ),
}


def _measure(run: Run, wanted: BitmapScans) -> None:
    """Build the table, then take all samples."""
    trials = Trials(run)
    wanted = replace(wanted, io_method=available_methods(run, wanted.io_method))
    read_aheads = ReadAheads(run, wanted.read_ahead)
    selections = selections_for(wanted.pages_share, wanted.layout)
    pages = prepare_page_table(
        run, trials, wanted.table_pages, selections, {"io_method": wanted.io_method[0]}
    )
    chosen = [
        _trial(item, wanted, len(pages[item.selection.value]), read_aheads)
        for item in _conditions(wanted, selections, read_aheads.sizes_kb)
    ]
    trials.measure_all(chosen, wanted.repetitions)


def _conditions(
    wanted: BitmapScans, selections: Sequence[Selection], read_aheads_kb: Sequence[int | None]
) -> Iterator[Conditions]:
    first_method, first_layout = wanted.io_method[0], wanted.layout[0]
    last_memory = size_text(wanted.work_mem[-1])
    own, *others = read_aheads_kb
    main = [one for one in selections if one.layout == first_layout]
    for method in wanted.io_method:
        for memory, selection in product(wanted.work_mem, main):
            yield Conditions(selection, size_text(memory), method, own)
    for selection in selections:
        if selection.layout != first_layout:
            yield Conditions(selection, last_memory, first_method, own)
    for read_ahead_kb, selection in product(others, main):
        yield Conditions(selection, last_memory, first_method, read_ahead_kb)


def _trial(
    conditions: Conditions, wanted: BitmapScans, pages: int, read_aheads: ReadAheads
) -> Trial:
    arms = arms_for(wanted.plan, wanted.setting, conditions.work_mem)
    article = conditions.selection.layout == "uniform"
    return replace(
        trial_of(conditions, arms, pages, article=article),
        compared=(DEFAULT_ARM, OURS),
        surroundings=partial(read_aheads.with_size, conditions.read_ahead_kb),
    )


def _estimated_seconds(wanted: BitmapScans) -> float:
    selections = selections_for(wanted.pages_share, wanted.layout)
    samples = sum(
        len(arms_for(wanted.plan, wanted.setting, item.work_mem))
        for item in _conditions(wanted, selections, wanted.read_ahead or (None,))
    )
    scans = cold_scan_seconds(wanted.table_pages, samples * wanted.repetitions)
    return build_seconds(wanted.table_pages) + scans


EXPERIMENT = Experiment(
    name="bitmap-scan",
    summary="Cold bitmap heap scans of a share of a table's pages, at several settings.",
    description="The question of the first article: against stock's bitmap scans, sequential scan "
    "and index scans of the same rows. Of --layout and --read-ahead the first value is measured "
    "with everything, the others under the first --io-method and with the last --work-mem only.",
    cold=True,
    options=(
        REPETITIONS,
        IO_METHOD,
        TABLE_PAGES,
        PAGES_SHARE,
        Option(
            "layout", Choice(LAYOUTS), f"How these pages lie: {', '.join(LAYOUTS)}.", is_list=True
        ),
        Option(
            "work_mem",
            MemorySize(64),
            "work_mem; with a small one bitmaps are lossy.",
            is_list=True,
        ),
        Option(
            "plan",
            Choice(PLANS),
            "Stock's plans beside its bitmap scan at the default setting: seq, index, "
            "index-random, bitmap (at each --setting).",
            is_list=True,
        ),
        Option(
            "setting",
            Count(0, _MAX_CONCURRENCY),
            "effective_io_concurrency beside the default. Our arm is measured at 0 and 1 of them "
            "too.",
            is_list=True,
            may_be_none=True,
        ),
        read_ahead_option(),
    ),
    sizes=_SIZES,
    settings=lambda wanted: SCAN_SETTINGS,
    needed_bytes=lambda wanted: needed_bytes(wanted.table_pages),
    estimated_seconds=_estimated_seconds,
    measure=_measure,
    articles=(Article("article-1"),),
)
