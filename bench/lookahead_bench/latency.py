"""The experiment "latency": cold index scans on a device whose reads take a chosen time longer.

The device is our own (delay_device.py), since none at hand may have that latency. Before
anything is measured it must show that it serves many reads at once: one that does not would hide
what look-ahead gains.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lookahead.device.probe import fio
from lookahead.errors import UnavailableError, UsageError
from lookahead.experiments.experiment import (
    REPETITIONS,
    TABLE_PAGES,
    Count,
    Experiment,
    Option,
    sized,
)
from lookahead.experiments.index_scan import (
    LIMIT,
    PAGES,
    IndexScans,
    measure,
    scan_seconds,
    scan_space,
    settle,
)
from lookahead.experiments.runner import Run, RunRequest
from lookahead.measurements import Factor
from lookahead.terminal import Terminal
from lookahead_bench.delay_device import DelayDevice
from lookahead_bench.loop_disk import disk_bytes
from lookahead_bench.overlap import probe_overlap

MAX_LATENCY_US = 1_000_000
# Look-ahead keeps 64 reads in flight; a device that serves half of them at once shows its gain.
MIN_READS_AT_ONCE = 32
_PROBE_DEPTH = 64
_PROBE_SECONDS = 2

# 1,000 us are those of a network volume.
LATENCY = Option(Count(1, MAX_LATENCY_US, "US"), "Microseconds that each read takes longer.")


@dataclass(frozen=True)
class LatencyScans(IndexScans):
    """What is wanted: the scans, and by how many microseconds each read takes longer.

    A stock scan of 10,000 pages takes more than 10 s at 1 ms, so fewer pages and pairs than else.
    """

    repetitions: int = REPETITIONS.sized(6)
    table_pages: int = TABLE_PAGES.sized(48_000, demo=12_000, full=125_000)
    pages: tuple[int, ...] = PAGES.sized((1_000, 5_000), demo=(1_000,), full=(1_000, 10_000))
    limit: tuple[int, ...] = LIMIT.sized((100,), demo=(), full=(1, 100))
    share: tuple[int, ...] = sized(())
    latency: int = LATENCY.sized(1000)


@contextmanager
def on_delay_device(
    request: RunRequest, space_bytes: int, latency_us: int, terminal: Terminal
) -> Iterator[RunRequest]:
    """The run on a device of so much space whose reads take `latency_us` longer.

    LabError when it cannot be made or serves too few reads at once.
    """
    if request.keep:
        raise UsageError(
            "--keep is not possible: the device is in memory and ends with the run", "Leave it out."
        )
    with DelayDevice(disk_bytes(space_bytes), latency_us, request.directory) as device:
        facts = _prove_overlap(device, terminal)
        device.make_file_system()
        yield replace(request, directory=device.disk, facts=facts)


def latency_factor(latency_us: int) -> Factor:
    """The factor of scenarios that are measured on the device."""
    return Factor("added latency", f"{latency_us:,} us")


def _measure(run: Run, wanted: LatencyScans) -> None:
    measure(run, wanted, (latency_factor(wanted.latency),))


def _prove_overlap(device: DelayDevice, terminal: Terminal) -> dict[str, str]:
    """What is to be known of the device; LabError unless it serves enough reads at once."""
    overlap = probe_overlap(device.loop, _PROBE_DEPTH, _PROBE_SECONDS)
    rates = (
        f"{overlap.single_reads_per_s:,.0f} reads/s one at a time, "
        f"{overlap.deep_reads_per_s:,.0f} with {overlap.depth} in flight"
    )
    if overlap.reads_at_once < MIN_READS_AT_ONCE:
        raise UnavailableError(
            f"the delay device serves {overlap.reads_at_once:.0f} reads at once, "
            f"{MIN_READS_AT_ONCE} are needed ({rates})",
            "One process serves it: repeat the run when nothing else is running, on more "
            "processors, or with a longer --latency.",
        )
    terminal.step(f"device with {device.latency_us} us added: {rates}")
    return {
        "added latency": f"{device.latency_us} us on each read, content in memory",
        "reads at once": f"{rates} ({fio.PROGRAM})",
    }


def _estimated_seconds(wanted: LatencyScans) -> float:
    # Stock waits for one page after the other, in one arm of two or three.
    waits = sum(
        pattern.number * pattern.rounds(wanted.repetitions) for pattern in wanted.patterns()
    )
    return scan_seconds(wanted) + len(wanted.io_method) * waits * wanted.latency / 1e6


EXPERIMENT = Experiment(
    name="latency",
    summary="Cold btree index scans on a device with added latency.",
    description="The device is made for the run, in memory: a file served with delay through FUSE, "
    "a loop device, ext4. Needs root. It must first show that it serves 32 reads at once, measured "
    "by fio; exit status 3 says that it does not, or cannot be made here.",
    asked=LatencyScans,
    needed_bytes=scan_space,
    estimated_seconds=_estimated_seconds,
    measure=_measure,
    settle=settle,
    surround=lambda request, wanted, terminal: on_delay_device(
        request, scan_space(wanted), wanted.latency, terminal
    ),
)
