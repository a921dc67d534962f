"""Samples with known numbers, and a machine they were never measured on."""

from lookahead.device.counters import CpuCounters, DiskCounters
from lookahead.device.io_sampler import Reading, Timeline, to_timeline
from lookahead.machine import DeviceFacts, MachineFacts
from lookahead.measurements import ColdRecord, LookaheadEvidence
from lookahead.scan_measurements import (
    Arm,
    ScanEvidence,
    ScanSample,
    Scenario,
)

DEVICE = DeviceFacts(
    filesystem="ext4",
    mount_options="rw,relatime",
    name="sda1",
    disk="sda",
    model="Example <Disk>",
    size_bytes=10**12,
    rotational=False,
    scheduler="none",
    read_ahead_kb=128,
    queue_requests=256,
    max_request_kb=1280,
    write_cache="write back",
)
MACHINE = MachineFacts(
    cpu_model="Example CPU",
    cpus=2,
    memory_bytes=8 * 2**30,
    architecture="x86_64",
    kernel="6.1.0",
    system="Debian GNU/Linux 12 (bookworm)",
    hypervisor=None,
    python="3.11.2",
    load_average=0.1,
    device=DEVICE,
)


def make_timeline(reads: int, total_ms: float) -> Timeline:
    """Three readings: `reads` requests of 8 kB each, half of them in the first half."""
    readings = []
    for share in (0.0, 0.5, 1.0):
        done = round(reads * share)
        spent = round(total_ms * share)
        disk = DiskCounters(done, 0, done * 16, spent, 0, 0, 1, spent, spent * 2)
        cpu = CpuCounters(round(10 * share), round(20 * share), 100, round(30 * share), 0)
        readings.append(Reading(total_ms * share / 1000, disk, cpu))
    return to_timeline("sda1", readings)


def make_sample(scenario: Scenario, pair: int, arm: Arm, time_ms: float) -> ScanSample:
    """A sample in which the arm's own code ran."""
    ours = arm == "lookahead"
    evidence = LookaheadEvidence(
        status="prefetch" if ours else "stock",
        reason=None if ours else "disabled",
        scans=int(ours),
        prefetched_blocks=scenario.pages - 3 if ours else 0,
        requests=scenario.pages - 3 if ours else 0,
        advised_blocks=scenario.pages - 3 if ours else 0,
        bridged_blocks=0,
        pauses=0,
        direct_blocks=0,
        repeated_blocks=0,
        mean_distance=14.5 if ours else 0.0,
        max_distance=64 if ours else 0,
        killed_items=0,
        restarts=0,
    )
    return ScanSample(
        scenario=scenario,
        pair=pair,
        sequence=2 * pair + int(ours),
        arm=arm,
        first_key=1000 * pair,
        last_key=1000 * pair + scenario.pages - 1,
        distinct_pages=scenario.pages,
        evidence=ScanEvidence(
            *("Index Scan", "lookahead_scan_k", scenario.pages, 0.1, time_ms, 4, scenario.pages),
            lookahead=evidence,
        ),
        backend_cpu_ms=time_ms / 10,
        cold=ColdRecord("drop_caches", 10**9, 0, 800, 2 * 10**9, True),
        timeline=make_timeline(scenario.pages, time_ms),
    )
