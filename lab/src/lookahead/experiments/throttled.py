"""The experiment "throttled": cold bitmap scans where the volume serves few requests a second.

As "bitmap-scan", with all reads of the server throttled by a control group (device/throttle.py).
Beside the samples stands the least time that any gap limit can reach for these very pages under
these very limits (gap_optimum.py). No latency is added: what look-ahead gains by having several
requests under way is the matter of the experiment "latency".
"""

from dataclasses import dataclass
from pathlib import Path

from lookahead.device.throttle import Throttle
from lookahead.errors import ExitStatus, LabError
from lookahead.experiments.arms import BITMAP_SCAN, INDEX_SCAN, SEQ_SCAN, arm_of, concurrency_arm
from lookahead.experiments.bitmap_scan import percent
from lookahead.experiments.conditions import available_methods
from lookahead.experiments.gap_optimum import best_gap_plan
from lookahead.experiments.options import IO_METHODS
from lookahead.experiments.page_table import (
    Selection,
    needed_bytes,
    prepare_page_table,
    select_value,
    selections_for,
)
from lookahead.experiments.request import Size, ThrottledRequest
from lookahead.experiments.runner import Run, run_trials
from lookahead.experiments.tables import SCAN_SETTINGS
from lookahead.experiments.trials import Trial, Trials
from lookahead.janitor import processes_in
from lookahead.measurements import Factor, Question, Reference, Scenario
from lookahead.render import Terminal

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


@dataclass(frozen=True)
class SizeDefaults:
    """What a size measures."""

    table_pages: int
    shares: tuple[float, ...]
    io_methods: tuple[str, ...]
    rounds: int


DEFAULTS: dict[Size, SizeDefaults] = {
    "demo": SizeDefaults(12_000, (0.1, 0.42), ("worker",), 4),
    "quick": SizeDefaults(70_000, (0.01, 0.1, 0.42), ("worker",), 4),
    "full": SizeDefaults(280_000, (0.01, 0.1, 0.42), IO_METHODS, 4),
}


def run_throttled(request: ThrottledRequest, terminal: Terminal) -> Path:
    """Measure and write the result; returns its path. Raises LabError."""
    defaults = DEFAULTS[request.run.size]
    wanted = SizeDefaults(
        table_pages=request.table_pages or defaults.table_pages,
        shares=request.shares or defaults.shares,
        io_methods=request.io_methods or defaults.io_methods,
        rounds=request.repetitions or defaults.rounds,
    )
    return run_trials(
        request.run,
        "throttled",
        terminal,
        lambda run: _measure(run, request, wanted),
        rounds=wanted.rounds,
        settings=SCAN_SETTINGS,
        needed_bytes=needed_bytes(wanted.table_pages),
        values={"pages-share": wanted.shares, "io-method": wanted.io_methods},
    )


def _measure(run: Run, request: ThrottledRequest, wanted: SizeDefaults) -> None:
    """Build the table at full speed, then take all samples under the limits."""
    if run.device is None:
        raise LabError(
            "the disk cannot be throttled: no block device is visible",
            "Name a folder on a local disk with --directory.",
            status=ExitStatus.ENVIRONMENT,
        )
    methods = available_methods(run, wanted.io_methods, explicit=request.io_methods is not None)
    selections = selections_for(wanted.shares, ("uniform",))
    server = run.server
    # Tried before anything expensive happens.
    with Throttle(run.device, request.reads_per_s, request.mb_per_s * 1_000_000) as throttle:
        trials = Trials(
            run, on_start=lambda: throttle.add(processes_in(server.data_directory, server.bindir))
        )
        settings = {"io_method": methods[0]}
        pages = prepare_page_table(run, trials, wanted.table_pages, selections, settings)
        trials.measure_all(
            [
                _trial(run, request, selection, method, pages[selection.value])
                for method in methods
                for selection in selections
            ],
            wanted.rounds,
        )


def _trial(
    run: Run, request: ThrottledRequest, selection: Selection, method: str, pages: list[int]
) -> Trial:
    limits = f"{request.reads_per_s:,} reads/s, {request.mb_per_s} MB/s"
    scenario = Scenario(
        (
            Factor("pages", percent(selection.share)),
            Factor("volume", limits),
            Factor("I/O method", method),
        )
    )
    request_kb = run.document.machine.device.max_request_kb or _USUAL_REQUEST_KB
    best = best_gap_plan(
        pages, request.reads_per_s, request.mb_per_s * 1_000_000, request_kb * 1024
    )
    optimum = Reference(
        scenario,
        f"optimum, gap limit {best.gap_limit}",
        best.time_ms,
        "optimum: computed, the least over gap limits of max(requests / rate, bytes / bandwidth)",
    )
    return Trial(
        scenario=scenario,
        statement=select_value(selection.value),
        arms=_ARMS,
        questions=(
            Question(scenario, "stock's default", (_STOCK,), (_OURS,)),
            Question(scenario, "best stock plan", ("seq", "index", _STOCK), (_OURS,)),
            Question(scenario, "optimum", (optimum.name,), (_OURS,)),
        ),
        server={"io_method": method},
        rows=len(pages),
        pages=len(pages),
        references=(optimum,),
        compared=(_STOCK, _OURS),
    )
