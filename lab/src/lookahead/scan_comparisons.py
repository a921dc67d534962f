"""From raw samples to comparisons: pairs are joined, medians taken, ratios estimated.

Pure: terminal, result file and report all show what these functions return for the same samples.
Pairs of which an interrupted run measured only one arm are left out.
"""

from collections.abc import Iterable
from statistics import median

from lookahead.scan_measurements import (
    BASELINES,
    CONTROL_ARMS,
    Arm,
    ControlArm,
    ControlComparison,
    ControlSample,
    ScanComparison,
    ScanSample,
    Scenario,
)
from lookahead.stats import ratio_of_medians


def scenarios_of(samples: Iterable[ScanSample]) -> list[Scenario]:
    """The scenarios in the order they were measured."""
    return list(dict.fromkeys(sample.scenario for sample in samples))


def compare_scans(samples: Iterable[ScanSample], seed: int) -> tuple[ScanComparison, ...]:
    """For each scenario, our arm against each other one that has a whole pair with it."""
    known = list(samples)
    found = []
    for scenario in scenarios_of(known):
        pairs: dict[int, dict[Arm, float]] = {}
        for sample in known:
            if sample.scenario == scenario:
                arms = pairs.setdefault(sample.pair, {})
                arms[sample.arm] = sample.evidence.execution_ms
        for baseline in BASELINES:
            whole = [arms for arms in pairs.values() if {baseline, "lookahead"} <= arms.keys()]
            if whole:
                found.append(_compare_scan(scenario, baseline, whole, seed))
    return tuple(found)


def _compare_scan(
    scenario: Scenario, baseline: Arm, pairs: list[dict[Arm, float]], seed: int
) -> ScanComparison:
    base = [arms[baseline] for arms in pairs]
    ours = [arms["lookahead"] for arms in pairs]
    estimate = ratio_of_medians(base, ours, seed=seed)
    return ScanComparison(scenario, baseline, median(base), median(ours), estimate)


def compare_controls(samples: Iterable[ControlSample], seed: int) -> tuple[ControlComparison, ...]:
    """For each workload and I/O method, "on" against each other arm, from whole rounds."""
    known = list(samples)
    found = []
    for workload, io_method in dict.fromkeys((item.workload, item.io_method) for item in known):
        rounds: dict[int, dict[ControlArm, float]] = {}
        for sample in known:
            if (sample.workload, sample.io_method) == (workload, io_method):
                times = rounds.setdefault(sample.round, {})
                times[sample.arm] = sample.elapsed_ms / sample.executions
        whole = [arms for arms in rounds.values() if len(arms) == len(CONTROL_ARMS)]
        for baseline in CONTROL_ARMS[:-1] if whole else ():
            found.append(_compare_control((workload, io_method), baseline, whole, seed))
    return tuple(found)


def _compare_control(
    place: tuple[str, str], baseline: ControlArm, rounds: list[dict[ControlArm, float]], seed: int
) -> ControlComparison:
    on = [arms["on"] for arms in rounds]
    base = [arms[baseline] for arms in rounds]
    estimate = ratio_of_medians(base, on, seed=seed)
    return ControlComparison(
        workload=place[0],
        io_method=place[1],
        baseline=baseline,
        baseline_median_ms=median(base),
        on_median_ms=median(on),
        least_ratio=min(base) / min(on),
        estimate=estimate,
    )
