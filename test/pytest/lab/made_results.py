"""Samples with known numbers, and a machine they were never measured on."""

from lookahead.device.counters import DiskCounters, Rates, rates
from lookahead.experiments.index_build import OURS, STOCK
from lookahead.experiments.index_build import trial_of as build_trial
from lookahead.experiments.index_build_keys import KEYS, Conditions
from lookahead.experiments.index_scan import trial_of as scan_trial
from lookahead.experiments.scan_table import Pattern
from lookahead.experiments.trials import Statement, Trial
from lookahead.machine import DeviceFacts, MachineFacts
from lookahead.measurements import (
    Arm,
    Check,
    ColdRecord,
    Digest,
    Factor,
    Library,
    LookaheadEvidence,
    Measurements,
    NodeEvidence,
    Question,
    Sample,
    Scenario,
    Table,
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
COLD = ColdRecord("drop_caches", 10**9, 0, 800, 2 * 10**9, True)
_CONTROL_ARMS: tuple[Library, ...] = ("not loaded", "off", "on")
_TIMES = (400.0, 410.0, 420.0, 430.0, 440.0, 450.0)


def make_use(reads: int, total_ms: float) -> Rates:
    """`reads` requests of 8 kB each, two of them in the device at a time."""
    spent = round(total_ms)
    after = DiskCounters(reads, reads * 16, spent, spent, spent * 2)
    return rates(DiskCounters(0, 0, 0, 0, 0), after, total_ms / 1000)


def make_lookahead(pages: int, *, ours: bool) -> LookaheadEvidence:
    """What EXPLAIN says of a scan in which the arm's own code ran."""
    asked = pages - 3 if ours else 0
    return LookaheadEvidence(
        status="prefetch" if ours else "stock",
        reason=None if ours else "disabled",
        scans=int(ours),
        prefetched_blocks=asked,
        requests=asked,
        advised_blocks=asked,
        bridged_blocks=0,
        pauses=0,
        direct_blocks=0,
        repeated_blocks=0,
        mean_distance=14.5 if ours else 0.0,
        max_distance=64 if ours else 0,
        killed_items=0,
        restarts=0,
    )


def make_scan_trial(pages: int, method: str) -> Trial:
    """An index scan of so many pages in random order."""
    scenario = Scenario(
        (
            Factor("scan", f"{pages:,} pages"),
            Factor("I/O method", method),
            Factor("read-ahead", "128 kB"),
        )
    )
    counts = {"first_key": 0.0, "last_key": pages - 1.0, "distinct_pages": float(pages)}
    return scan_trial(Pattern("pages", pages), scenario, (Statement("SELECT <1>", counts),), method)


def make_scan_sample(trial: Trial, number: int, arm: str, time_ms: float) -> Sample:
    """A sample in which the arm's own code ran."""
    pages = trial.rows or 0
    ours = arm == "ours"
    return Sample(
        scenario=trial.scenario,
        round=number,
        sequence=2 * number + int(ours),
        arm=arm,
        time_ms=time_ms,
        session_ms=(time_ms,),
        evidence=NodeEvidence(
            *("Index Scan", pages, 0, 0, 0, 0, 0.1, 4, pages),
            lookahead=make_lookahead(pages, ours=ours),
        ),
        backend_cpu_ms=time_ms / 10,
        cold=COLD,
        use=make_use(pages, time_ms),
        counts=dict(trial.rounds[0].counts),
    )


def make_scans() -> Measurements:
    """Two scenarios of 6 rounds: exactly four times as fast, and no difference at all."""
    fast, even = make_scan_trial(10_000, "worker"), make_scan_trial(1_000, "sync")
    samples = []
    for number, time in enumerate(_TIMES):
        samples.append(make_scan_sample(fast, number, "stock", time))
        samples.append(make_scan_sample(fast, number, "ours", time / 4))
        samples.append(make_scan_sample(even, number, "stock", time))
        samples.append(make_scan_sample(even, number, "ours", _TIMES[-1 - number]))
    return Measurements(
        tables=(Table("lookahead_scan", 528_000, 48_000, 393_216_000, 12_000_000, 5.0),),
        arms=fast.arms,
        questions=(*fast.questions, *even.questions),
        statements={trial.scenario.label: trial.statement for trial in (fast, even)},
        digests=(Digest(fast.scenario, ("stock", "ours"), 10_000, "ef" * 32),),
        samples=tuple(samples),
    )


def make_controls() -> Measurements:
    """One workload of 6 rounds: "on" takes 1 % longer than the others in every one."""
    scenario = Scenario((Factor("workload", "limit-1"), Factor("I/O method", "worker")))
    times = dict(zip(_CONTROL_ARMS, (0.0099, 0.0099, 0.01), strict=True))
    samples = tuple(
        Sample(
            scenario=scenario,
            round=number,
            sequence=3 * number + position,
            arm=arm,
            time_ms=time_ms,
            session_ms=(time_ms,),
            executions=1000,
        )
        for number in range(6)
        for position, (arm, time_ms) in enumerate(times.items())
    )
    facts = {"plan": "Limit, Index Scan", "attached in": "on", "blocks read": "0"}
    return Measurements(
        arms=tuple(Arm(name, name, "", {}) for name in _CONTROL_ARMS),
        questions=tuple(
            Question(scenario, name, (name,), ("on",)) for name in ("not loaded", "off")
        ),
        checks=(Check(scenario, facts),),
        samples=samples,
    )


def make_conditions(workers: int) -> Conditions:
    """An index on random numbers."""
    return Conditions(KEYS["bigint-random"], 1000, workers, 512 * 1024)


def make_build_sample(conditions: Conditions, number: int, arm: str, time_ms: float) -> Sample:
    """A build by the arm's own code; in the first round its pages were looked at."""
    first = number == 0
    counts: dict[str, float] = {
        "built_by_us": int(arm == OURS),
        "wal_bytes": 70_000_000,
        "index_bytes": 64_000_000,
        "workers_seen": conditions.workers,
        "scanning_table_ms": time_ms / 2,
    }
    return Sample(
        scenario=conditions.scenario,
        round=number,
        sequence=number,
        arm=arm,
        time_ms=time_ms,
        session_ms=(time_ms,),
        counts=counts,
        sha256="ab" * 32 if first else None,
    )


def make_builds(*more: Sample) -> Measurements:
    """Six rounds that are four times as fast, and one arm of a build with two workers."""
    alone, helped = make_conditions(0), make_conditions(2)
    trials = build_trial(alone), build_trial(helped)
    samples = []
    for number, time in enumerate(_TIMES):
        samples.append(make_build_sample(alone, number, STOCK, time))
        samples.append(make_build_sample(alone, number, OURS, time / 4))
    return Measurements(
        tables=(Table("lookahead_build", 1000, 122, 10**6, 0, 1.5),),
        arms=trials[0].arms,
        questions=tuple(question for trial in trials for question in trial.questions),
        statements={trial.scenario.label: trial.statement for trial in trials},
        samples=(*samples, make_build_sample(helped, 0, STOCK, 300.0), *more),
    )
