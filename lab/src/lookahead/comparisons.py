"""From raw samples to comparisons: pairs are joined, medians taken, ratios estimated.

Pure: terminal, result file and report all show what these functions return for the same samples.
Pairs of which an interrupted run measured only one arm are left out. A question about the fastest
of several arms chooses it by its median over all rounds, which favours that side a little: the one
that is not ours, where the project is judged by it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from lookahead.measurements import (
    Comparison,
    Factor,
    LookupSample,
    Measurements,
    Question,
    Sample,
    Scenario,
)
from lookahead.stats import ratio_of_medians

_Times = Mapping[tuple[Scenario, str], dict[int, float]]
"""Times in ms by scenario and arm, then by round."""


def scenarios_of(samples: Iterable[Sample | LookupSample]) -> list[Scenario]:
    """The scenarios in the order they were measured."""
    return list(dict.fromkeys(sample.scenario for sample in samples))


def arms_of(samples: Iterable[Sample]) -> list[str]:
    """The names of the arms in the order of their first samples."""
    return list(dict.fromkeys(sample.arm for sample in samples))


def samples_of(samples: Iterable[Sample], scenario: Scenario, arm: str) -> list[Sample]:
    """The samples of one arm of one scenario."""
    return [sample for sample in samples if sample.scenario == scenario and sample.arm == arm]


def compare(data: Measurements, seed: int) -> tuple[Comparison, ...]:
    """One comparison for each question to which at least one whole pair was measured."""
    times: dict[tuple[Scenario, str], dict[int, float]] = {}
    for one in data.samples:
        times.setdefault((one.scenario, one.arm), {})[one.round] = one.time_ms
    references = {(one.scenario, one.name): one.time_ms for one in data.references}
    answers = (_answer(question, times, references, seed) for question in data.questions)
    return tuple(answer for answer in answers if answer is not None)


def _answer(
    question: Question, times: _Times, references: Mapping[tuple[Scenario, str], float], seed: int
) -> Comparison | None:
    scenario = question.scenario
    challenger = _fastest(question.challengers, scenario, times)
    if challenger is None:
        return None
    ours = times[scenario, challenger]
    named = [name for name in question.baselines if (scenario, name) in references]
    baseline = named[0] if named else _fastest(question.baselines, scenario, times)
    if baseline is None:
        return None
    base = (
        dict.fromkeys(ours, references[scenario, baseline]) if named else times[scenario, baseline]
    )
    whole = sorted(base.keys() & ours.keys())
    if not whole:
        return None
    bases, challengers = [base[pair] for pair in whole], [ours[pair] for pair in whole]
    return Comparison(
        question=question,
        baseline=baseline,
        challenger=challenger,
        baseline_median_ms=median(bases),
        challenger_median_ms=median(challengers),
        least_ratio=min(bases) / min(challengers),
        estimate=ratio_of_medians(bases, challengers, seed=seed),
    )


def _fastest(arms: Sequence[str], scenario: Scenario, times: _Times) -> str | None:
    """The arm with the least median, None when none of them was measured."""
    measured = {
        arm: median(times[scenario, arm].values()) for arm in arms if (scenario, arm) in times
    }
    return min(measured, key=lambda arm: measured[arm]) if measured else None


@dataclass(frozen=True)
class Panel:
    """Scenarios that differ in their first factor only: the axis of tables and plots."""

    axis: str
    title: str
    scenarios: tuple[Scenario, ...]


def panels_of(scenarios: Iterable[Scenario]) -> list[Panel]:
    """The panels, and the scenarios in each, in the order given."""
    found: dict[tuple[Factor, ...], list[Scenario]] = {}
    for scenario in scenarios:
        found.setdefault(scenario.factors[1:], []).append(scenario)
    return [
        Panel(
            axis=members[0].factors[0].name,
            title=", ".join(f"{factor.name} {factor.value}" for factor in rest),
            scenarios=tuple(members),
        )
        for rest, members in found.items()
    ]
