"""The experiment "latency": cold index scans on a device whose reads take a chosen time longer.

The device is our own (device/delay_device.py), since none at hand may have that latency. Before
anything is measured it must show that it serves many reads at once: one that does not would hide
what look-ahead gains.
"""

from dataclasses import replace
from pathlib import Path

from lookahead.device.loop_disk import disk_bytes
from lookahead.device.probe import fio
from lookahead.errors import ExitStatus, LabError
from lookahead.experiments.index_scan import SPACE_FACTOR, measure_index_scans
from lookahead.experiments.options import IO_METHODS
from lookahead.experiments.request import LatencyRequest, Size
from lookahead.experiments.scan_statements import Patterns, SizeDefaults, wanted_patterns
from lookahead.experiments.scan_table import table_bytes
from lookahead.terminal import Terminal
from lookahead_bench.delay_device import DelayDevice
from lookahead_bench.overlap import probe_overlap

# Look-ahead keeps 64 reads in flight; a device that serves half of them at once shows its gain.
MIN_READS_AT_ONCE = 32
_PROBE_DEPTH = 64
_PROBE_SECONDS = 2
# A stock scan of 10,000 pages takes more than 10 s at 1 ms, so fewer pages and pairs than else.
DEFAULTS: dict[Size, SizeDefaults] = {
    "demo": SizeDefaults(12_000, Patterns((1_000,), (), ()), ("worker",), 4),
    "quick": SizeDefaults(48_000, Patterns((1_000, 5_000), (100,), ()), IO_METHODS, 4),
    "full": SizeDefaults(125_000, Patterns((1_000, 10_000), (1, 100), ()), IO_METHODS, 6),
}


def run_latency(request: LatencyRequest, terminal: Terminal) -> Path:
    """Measure and write the result; returns its path. Raises LabError."""
    scans = request.scans
    defaults = DEFAULTS[scans.run.size]
    patterns = wanted_patterns(scans, defaults)
    size_bytes = disk_bytes(int(SPACE_FACTOR * table_bytes(defaults.table_pages)))
    with DelayDevice(size_bytes, request.latency_us, scans.run.directory) as device:
        facts = _prove_overlap(device, terminal)
        device.make_file_system()
        on_device = replace(scans, run=replace(scans.run, directory=device.disk))
        return measure_index_scans(
            on_device,
            "latency",
            defaults,
            patterns,
            terminal,
            latency_us=request.latency_us,
            facts=facts,
        )


def _prove_overlap(device: DelayDevice, terminal: Terminal) -> dict[str, str]:
    """What is to be known of the device; LabError unless it serves enough reads at once."""
    overlap = probe_overlap(device.loop, _PROBE_DEPTH, _PROBE_SECONDS)
    rates = (
        f"{overlap.single_reads_per_s:,.0f} reads/s one at a time, "
        f"{overlap.deep_reads_per_s:,.0f} with {overlap.depth} in flight"
    )
    if overlap.reads_at_once < MIN_READS_AT_ONCE:
        raise LabError(
            f"the delay device serves {overlap.reads_at_once:.0f} reads at once, "
            f"{MIN_READS_AT_ONCE} are needed ({rates})",
            "One process serves it: repeat the run when nothing else is running, on more "
            "processors, or with a longer --latency.",
            status=ExitStatus.ENVIRONMENT,
        )
    terminal.step(f"device with {device.latency_us} us added: {rates}")
    return {
        "added latency": f"{device.latency_us} us on each read, content in memory",
        "reads at once": f"{rates} ({fio.PROGRAM})",
    }
