"""From raw samples to comparisons: pairs are joined, medians taken, ratios estimated.

Pure: terminal, result file and report all show what these functions return for the same samples.
Pairs of which an interrupted run measured only one arm are left out.
"""

from collections.abc import Iterable
from statistics import median

from lookahead.measurements import (
    CONTROL_ARMS,
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
    """One comparison per scenario that has a whole pair."""
    known = list(samples)
    found = []
    for scenario in scenarios_of(known):
        pairs: dict[int, dict[str, float]] = {}
        for sample in known:
            if sample.scenario == scenario:
                arms = pairs.setdefault(sample.pair, {})
                arms[sample.arm] = sample.evidence.execution_ms
        whole = [arms for arms in pairs.values() if len(arms) == 2]
        if not whole:
            continue
        stock = [arms["stock"] for arms in whole]
        ours = [arms["lookahead"] for arms in whole]
        estimate = ratio_of_medians(stock, ours, seed=seed)
        found.append(ScanComparison(scenario, median(stock), median(ours), estimate))
    return tuple(found)


def compare_controls(samples: Iterable[ControlSample], seed: int) -> tuple[ControlComparison, ...]:
    """For each workload, "on" against each other arm, from whole alternations."""
    known = list(samples)
    found = []
    for workload in dict.fromkeys(sample.workload for sample in known):
        rounds: dict[int, dict[ControlArm, float]] = {}
        for sample in known:
            if sample.workload == workload:
                rounds.setdefault(sample.alternation, {})[sample.arm] = sample.tps
        whole = [arms for arms in rounds.values() if len(arms) == len(CONTROL_ARMS)]
        for baseline in CONTROL_ARMS[:-1] if whole else ():
            on = [arms["on"] for arms in whole]
            base = [arms[baseline] for arms in whole]
            estimate = ratio_of_medians(on, base, seed=seed)
            found.append(ControlComparison(workload, baseline, median(base), median(on), estimate))
    return tuple(found)
