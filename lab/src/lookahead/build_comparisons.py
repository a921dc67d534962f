"""From samples of index builds to comparisons; see comparisons.py for the rules."""

from collections.abc import Iterable, Sequence
from statistics import median

from lookahead.build_measurements import BuildComparison, BuildSample, BuildScenario
from lookahead.measurements import Arm
from lookahead.stats import ratio_of_medians


def build_scenarios_of(samples: Iterable[BuildSample]) -> list[BuildScenario]:
    """The scenarios in the order they were measured."""
    return list(dict.fromkeys(sample.scenario for sample in samples))


def builds_of(
    samples: Sequence[BuildSample], scenario: BuildScenario, arm: Arm
) -> list[BuildSample]:
    """The samples of one arm of one scenario."""
    return [sample for sample in samples if sample.scenario == scenario and sample.arm == arm]


def compare_builds(samples: Sequence[BuildSample], seed: int) -> tuple[BuildComparison, ...]:
    """One comparison per scenario that has a whole pair."""
    found = []
    for scenario in build_scenarios_of(samples):
        theirs, mine = (
            {sample.pair: sample.time_ms for sample in builds_of(samples, scenario, arm)}
            for arm in ("stock", "lookahead")
        )
        whole = sorted(theirs.keys() & mine.keys())
        if not whole:
            continue
        stock, ours = [theirs[pair] for pair in whole], [mine[pair] for pair in whole]
        estimate = ratio_of_medians(stock, ours, seed=seed)
        found.append(BuildComparison(scenario, median(stock), median(ours), estimate))
    return tuple(found)
