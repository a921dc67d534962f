"""The bench's command line with a demo so small that it takes seconds.

Run as a program it is the command line itself, in a process of its own that can be interrupted.
"""

import os
from pathlib import Path

from lab.outcome import Outcome, run_command

from lab import small_run
from lookahead.cli import main
from lookahead_bench import controls, latency, throttled
from lookahead_bench.__main__ import PROGRAM, bench

PG_CONFIG = ("--pg-config", os.environ["PG_CONFIG"]) if "PG_CONFIG" in os.environ else ()
CONTROLS = controls.Controls(
    workload=controls.workloads(1280),
    io_method=("sync",),
    repetitions=1,
    page_repetitions=1,
    divisor=1000,
)
LATENCY = latency.LatencyScans(**vars(small_run.SCAN), latency=1000)
THROTTLED = throttled.ThrottledScans(
    table_pages=2_000,
    pages_share=(0.1,),
    # So few requests that their number decides, whatever the machine does meanwhile.
    reads_per_s=200,
    mb_per_s=1000,
    io_method=("worker",),
    repetitions=1,
)


def run_bench(*arguments: str | Path) -> Outcome:
    """Run a command line of the bench."""
    return run_command(*arguments, group=bench, program=PROGRAM)


def child_environment() -> dict[str, str]:
    """That of a Python process that is to import the bench and this module."""
    tests = Path(__file__).resolve().parents[1]
    return {**os.environ, "PYTHONPATH": f"{tests}:{tests.parents[1] / 'bench'}"}


def shrink() -> None:
    """Make `--demo` small in this process."""
    controls.EXPERIMENT.sizes["demo"] = CONTROLS
    latency.EXPERIMENT.sizes["demo"] = LATENCY
    throttled.EXPERIMENT.sizes["demo"] = THROTTLED
    # What a busy machine manages too: the experiment is tested, not the machine.
    latency.MIN_READS_AT_ONCE = 2


if __name__ == "__main__":
    shrink()
    main(bench, PROGRAM)
