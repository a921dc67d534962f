"""From samples of index builds to comparisons; see comparisons.py for the rules."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

from lookahead.build_measurements import (
    BuildComparison,
    BuildSample,
    BuildScenario,
    ValidatedBuild,
    WorkerGain,
)
from lookahead.scan_measurements import ARMS, Arm
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


# What the parallel builds of PostgreSQL 11 gained when they were committed, with its source. On
# which machine and with how many workers is not said.
PUBLISHED_WORKER_GAIN = "often 2 to 3 (PostgreSQL's commit 9da0cc35 of 2018, hardware not said)"


def compare_workers(samples: Sequence[BuildSample]) -> tuple[WorkerGain, ...]:
    """What workers gain in each arm, where the same build was also measured without them."""
    found = []
    for scenario in build_scenarios_of(samples):
        alone = replace(scenario, workers=0)
        pairs = {
            arm: (builds_of(samples, alone, arm), builds_of(samples, scenario, arm)) for arm in ARMS
        }
        if scenario.workers == 0 or not all(all(pair) for pair in pairs.values()):
            continue
        gains = {arm: _median_ms(pair[0]) / _median_ms(pair[1]) for arm, pair in pairs.items()}
        found.append(WorkerGain(scenario, gains))
    return tuple(found)


def _median_ms(samples: Sequence[BuildSample]) -> float:
    return median(sample.time_ms for sample in samples)


# What pg_stat_progress_create_index calls the phases after the build of CREATE INDEX CONCURRENTLY.
_VALIDATION = "index validation: "
_WAITING = "waiting for "


def compare_validated_builds(samples: Sequence[BuildSample]) -> tuple[ValidatedBuild, ...]:
    """Where the time went in each scenario that has a validation, from the watched phases."""
    found = []
    for scenario in build_scenarios_of(samples):
        arms = {arm: builds_of(samples, scenario, arm) for arm in ARMS}
        chosen = [one for arm in arms.values() for one in arm]
        if not all(arms.values()) or not any(map(_validation_ms, chosen)):
            continue
        build = {arm: median(map(_building_ms, arms[arm])) for arm in ARMS}
        validation = {arm: median(map(_validation_ms, arms[arm])) for arm in ARMS}
        found.append(ValidatedBuild(scenario, build, validation))
    return tuple(found)


def _validation_ms(sample: BuildSample) -> float:
    return sum(phase.time_ms for phase in sample.phases if phase.name.startswith(_VALIDATION))


def _building_ms(sample: BuildSample) -> float:
    """Phases are seen by polling: the build is what is left of the statement's time."""
    waiting = sum(phase.time_ms for phase in sample.phases if phase.name.startswith(_WAITING))
    return sample.time_ms - _validation_ms(sample) - waiting


def peak_memory_share(samples: Iterable[BuildSample]) -> float | None:
    """The most private memory of a build as a share of its maintenance_work_mem; None: unknown."""
    return max(
        (
            sample.peak_memory_bytes / (sample.scenario.memory_mb * 1024 * 1024)
            for sample in samples
            if sample.peak_memory_bytes is not None
        ),
        default=None,
    )
