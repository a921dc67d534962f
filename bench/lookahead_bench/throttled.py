"""The experiment "throttled": cold bitmap scans where the volume serves few requests a second.

As "bitmap-scan", with all reads of the server throttled by a control group (throttle.py).
Beside the samples stands the least time that any gap limit can reach for these very pages under
these very limits (gap_optimum.py). No latency is added: what look-ahead gains by having several
requests under way is the matter of the experiment "latency".
"""

from dataclasses import dataclass

from lookahead.errors import UnavailableError
from lookahead.experiments.arms import BITMAP_SCAN, INDEX_SCAN, SEQ_SCAN, arm_of, concurrency_arm
from lookahead.experiments.bitmap_scan import percent
from lookahead.experiments.conditions import BLOCK_BYTES, COLD_RESTART_SECONDS, available_methods
from lookahead.experiments.experiment import (
    IO_METHOD,
    IO_METHODS,
    PAGES_SHARE,
    REPETITIONS,
    TABLE_PAGES,
    Count,
    Experiment,
    Option,
)
from lookahead.experiments.page_table import (
    Selection,
    build_seconds,
    needed_bytes,
    prepare_page_table,
    select_value,
    selections_for,
)
from lookahead.experiments.runner import Run
from lookahead.janitor import processes_in
from lookahead.measurements import Factor, Question, Scenario
from lookahead_bench.gap_optimum import best_gap_plan
from lookahead_bench.throttle import Throttle
from lookahead_bench.trials import Trial, Trials

_MEMORY = {"work_mem": "64MB"}
_STOCK, _OURS = "bitmap, default", "ours"
_ARMS = (
    arm_of("seq", SEQ_SCAN, settings=_MEMORY),
    arm_of("index", INDEX_SCAN, settings=_MEMORY),
    concurrency_arm(BITMAP_SCAN, None, settings=_MEMORY),
    concurrency_arm(BITMAP_SCAN, None, "on", _MEMORY),
)
# Where the kernel tells no largest request: its usual 1280 kB.
_USUAL_REQUEST_KB = 1280
_MAX_RATE = 1_000_000


@dataclass(frozen=True)
class ThrottledScans:
    """What is wanted; shares are 0..1, the volume's limits in requests and 10^6 bytes a second."""

    repetitions: int = REPETITIONS.sized(6)
    io_method: tuple[str, ...] = IO_METHOD.sized(("worker",), full=IO_METHODS)
    table_pages: int = TABLE_PAGES.sized(70_000, demo=12_000, full=280_000)
    pages_share: tuple[float, ...] = PAGES_SHARE.sized((0.01, 0.1, 0.42), demo=(0.1, 0.42))
    reads_per_s: int = Option(
        Count(1, _MAX_RATE), "Requests a second that the volume serves."
    ).sized(3000)
    mb_per_s: int = Option(
        Count(1, _MAX_RATE), "10^6 bytes a second that the volume serves."
    ).sized(125)


def _measure(run: Run, wanted: ThrottledScans) -> None:
    """Build the table at full speed, then take all samples under the limits."""
    if run.device is None:
        raise UnavailableError(
            "the disk cannot be throttled: no block device is visible",
            "Name a folder on a local disk with --directory.",
        )
    methods = available_methods(run, wanted.io_method)
    selections = selections_for(wanted.pages_share)
    server = run.server
    # Tried before anything expensive happens.
    with Throttle(run.device, wanted.reads_per_s, wanted.mb_per_s * 1_000_000) as throttle:
        trials = Trials(
            run, on_start=lambda: throttle.add(processes_in(server.data_directory, server.bindir))
        )
        settings = {"io_method": methods[0]}
        pages = prepare_page_table(run, trials, wanted.table_pages, selections, settings)
        chosen = [
            _trial(run, wanted, selection, method, pages[selection.value])
            for method in methods
            for selection in selections
        ]
        trials.measure_all(chosen, wanted.repetitions)


def _trial(
    run: Run, wanted: ThrottledScans, selection: Selection, method: str, pages: list[int]
) -> Trial:
    limits = f"{wanted.reads_per_s:,} reads/s, {wanted.mb_per_s} MB/s"
    scenario = Scenario(
        (
            Factor("pages", percent(selection.share)),
            Factor("volume", limits),
            Factor("I/O method", method),
        )
    )
    request_kb = run.document.machine.device.max_request_kb or _USUAL_REQUEST_KB
    best = best_gap_plan(pages, wanted.reads_per_s, wanted.mb_per_s * 1_000_000, request_kb * 1024)
    # Computed: the least over gap limits of max(requests / rate, bytes / bandwidth).
    optimum = f"optimum, gap limit {best.gap_limit}"
    return Trial(
        scenario=scenario,
        statement=select_value(selection.value),
        arms=_ARMS,
        questions=(
            Question(scenario, "stock's default", (_STOCK,), (_OURS,)),
            Question(scenario, "best stock plan", ("seq", "index", _STOCK), (_OURS,)),
            Question(scenario, "optimum", (optimum,), (_OURS,)),
        ),
        server={"io_method": method},
        rows=len(pages),
        pages=len(pages),
        references={optimum: best.time_ms},
        compared=(_STOCK, _OURS),
    )


def _estimated_seconds(wanted: ThrottledScans) -> float:
    """Of each selection the scans of single pages take a request for each, the others all bytes."""
    repeated = len(wanted.io_method) * wanted.repetitions
    requests = sum(wanted.pages_share) * wanted.table_pages * (len(_ARMS) - 1)
    table_mb = wanted.table_pages * len(wanted.pages_share) * BLOCK_BYTES / 1e6
    reading = requests / wanted.reads_per_s + table_mb / wanted.mb_per_s
    restarts = len(_ARMS) * len(wanted.pages_share) * COLD_RESTART_SECONDS
    return build_seconds(wanted.table_pages) + repeated * (reading + restarts)


EXPERIMENT = Experiment(
    name="throttled",
    summary="Cold bitmap heap scans on a throttled volume.",
    description="The server's reads are limited by a control group, which needs root; exit status "
    "3 says that it is not permitted here. Beside the times stands the least one that any gap "
    "limit can reach.",
    asked=ThrottledScans,
    needed_bytes=lambda wanted: needed_bytes(wanted.table_pages),
    estimated_seconds=_estimated_seconds,
    measure=_measure,
)
