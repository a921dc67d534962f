"""Samples of trials with known numbers."""

from lab.made_results import COLD, make_use
from lookahead.measurements import (
    Arm,
    Digest,
    Factor,
    LookaheadEvidence,
    Measurements,
    NodeEvidence,
    Question,
    Sample,
    Scenario,
    Table,
)

STOCK, FAST, OURS = "bitmap, default", "bitmap, 64", "ours"
ARMS = (
    Arm(STOCK, "off", "Bitmap Heap Scan", {"work_mem": "4MB"}),
    Arm(FAST, "off", "Bitmap Heap Scan", {"effective_io_concurrency": "64"}),
    Arm(OURS, "on", "Bitmap Heap Scan", {}),
)
_STOCK_TIMES = (400.0, 410.0, 420.0, 430.0, 440.0, 450.0)


def make_trial_scenario(share: str, method: str = "worker") -> Scenario:
    """A scenario of two factors."""
    return Scenario((Factor("pages", share), Factor("I/O method", method)))


def make_trial_sample(scenario: Scenario, number: int, arm: str, time_ms: float) -> Sample:
    """A sample in which the arm's own code ran."""
    ours = arm == OURS
    evidence = LookaheadEvidence(
        status="prefetch" if ours else "stock",
        reason=None if ours else "disabled",
        scans=int(ours),
        prefetched_blocks=990 if ours else 0,
        requests=200 if ours else 0,
        advised_blocks=1200 if ours else 0,
        bridged_blocks=210 if ours else 0,
        pauses=0,
        direct_blocks=10,
        repeated_blocks=0,
        mean_distance=40.5 if ours else 0.0,
        max_distance=64 if ours else 0,
        killed_items=0,
        restarts=0,
    )
    return Sample(
        scenario=scenario,
        round=number,
        sequence=number,
        arm=arm,
        time_ms=time_ms,
        session_ms=(time_ms,),
        evidence=NodeEvidence("Bitmap Heap Scan", 1000, 0, 400, 600, 0, 0.1, 5, 1000, evidence),
        backend_cpu_ms=None if number else time_ms / 4,
        cold=COLD,
        use=make_use(1000, time_ms),
    )


def make_trials() -> Measurements:
    """Two shares of 6 rounds: ours half the time of stock's default, equal to the best of stock."""
    shares = [make_trial_scenario("10 %"), make_trial_scenario("42 %")]
    samples = []
    for scenario in shares:
        for number, time in enumerate(_STOCK_TIMES):
            samples.append(make_trial_sample(scenario, number, STOCK, time))
            samples.append(make_trial_sample(scenario, number, FAST, time / 2))
            samples.append(make_trial_sample(scenario, number, OURS, time / 2))
    questions = [
        question
        for scenario in shares
        for question in (
            Question(scenario, "stock's default", (STOCK,), (OURS,)),
            Question(scenario, "best stock plan", (STOCK, FAST), (OURS,)),
        )
    ]
    return Measurements(
        tables=(Table("lookahead_pages", 107_000, 1000, 8_192_000, 100_000, 1.5),),
        arms=ARMS,
        questions=tuple(questions),
        digests=(Digest(shares[0], (STOCK, OURS), 1000, "ab" * 32),),
        samples=tuple(samples),
    )
