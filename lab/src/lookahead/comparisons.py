"""From raw samples to comparisons: pairs are joined, medians taken, ratios estimated.

Pure: terminal, result file and report all show what these functions return for the same samples.
Pairs of which an interrupted run measured only one arm are left out.
"""

from collections.abc import Iterable
from statistics import median

from lookahead.aims import control_aim, scan_aim
from lookahead.measurements import (
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
from lookahead.stats import judge, ratio_of_medians


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
    aim = scan_aim(scenario, baseline, median(base))
    return ScanComparison(
        scenario, baseline, median(base), median(ours), estimate, aim, judge(estimate, aim)
    )


def compare_controls(samples: Iterable[ControlSample], seed: int) -> tuple[ControlComparison, ...]:
    """For each workload and I/O method, "on" against each other arm, from whole alternations."""
    known = list(samples)
    found = []
    for workload, io_method in dict.fromkeys((item.workload, item.io_method) for item in known):
        rounds: dict[int, dict[ControlArm, float]] = {}
        for sample in known:
            if (sample.workload, sample.io_method) == (workload, io_method):
                rounds.setdefault(sample.alternation, {})[sample.arm] = sample.tps
        whole = [arms for arms in rounds.values() if len(arms) == len(CONTROL_ARMS)]
        for baseline in CONTROL_ARMS[:-1] if whole else ():
            on = [arms["on"] for arms in whole]
            base = [arms[baseline] for arms in whole]
            estimate = ratio_of_medians(on, base, seed=seed)
            aim = control_aim(workload)
            found.append(
                ControlComparison(
                    workload=workload,
                    io_method=io_method,
                    baseline=baseline,
                    baseline_median_tps=median(base),
                    on_median_tps=median(on),
                    estimate=estimate,
                    aim=aim,
                    outcome=judge(estimate, aim),
                )
            )
    return tuple(found)
