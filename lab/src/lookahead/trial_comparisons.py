"""From the samples of trials to the answers of their questions; see comparisons.py for the rules.

Pure. A question about the fastest of several arms chooses it by its median over all rounds, which
favours that side a little: the one that is not ours, where the project is judged by it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from lookahead.stats import judge, ratio_of_medians
from lookahead.trial_measurements import (
    Factor,
    LookupSample,
    Question,
    Reference,
    TrialComparison,
    TrialData,
    TrialSample,
    TrialScenario,
)


def trial_scenarios_of(samples: Iterable[TrialSample]) -> list[TrialScenario]:
    """The scenarios in the order they were measured."""
    return list(dict.fromkeys(sample.scenario for sample in samples))


def lookup_scenarios_of(samples: Iterable[LookupSample]) -> list[TrialScenario]:
    """The scenarios of lookups in the order they were measured."""
    return list(dict.fromkeys(sample.scenario for sample in samples))


def arms_of(samples: Iterable[TrialSample]) -> list[str]:
    """The names of the arms in the order of their first samples."""
    return list(dict.fromkeys(sample.arm for sample in samples))


def trials_of(
    samples: Iterable[TrialSample], scenario: TrialScenario, arm: str
) -> list[TrialSample]:
    """The samples of one arm of one scenario."""
    return [sample for sample in samples if sample.scenario == scenario and sample.arm == arm]


def compare_trials(data: TrialData, seed: int) -> tuple[TrialComparison, ...]:
    """One comparison for each question to which at least one whole pair was measured."""
    answers = (_answer(question, data, seed) for question in data.questions)
    return tuple(answer for answer in answers if answer is not None)


def _answer(question: Question, data: TrialData, seed: int) -> TrialComparison | None:
    scenario, samples = question.scenario, data.samples
    challenger = _fastest(question.challengers, scenario, samples)
    if challenger is None:
        return None
    ours = {item.round: item.time_ms for item in trials_of(samples, scenario, challenger)}
    reference = _reference(question, data.references)
    if reference is not None:
        baseline, base = reference.name, dict.fromkeys(ours, reference.time_ms)
    else:
        fastest = _fastest(question.baselines, scenario, samples)
        if fastest is None:
            return None
        baseline = fastest
        base = {item.round: item.time_ms for item in trials_of(samples, scenario, baseline)}
    whole = sorted(base.keys() & ours.keys())
    if not whole:
        return None
    bases, challengers = [base[pair] for pair in whole], [ours[pair] for pair in whole]
    estimate = ratio_of_medians(bases, challengers, seed=seed)
    return TrialComparison(
        question=question,
        baseline=baseline,
        challenger=challenger,
        baseline_median_ms=median(bases),
        challenger_median_ms=median(challengers),
        estimate=estimate,
        outcome=judge(estimate, question.aim),
    )


def _reference(question: Question, references: Iterable[Reference]) -> Reference | None:
    """The reference that a question names instead of arms, None for arms."""
    return next(
        (
            one
            for one in references
            if one.scenario == question.scenario and one.name in question.baselines
        ),
        None,
    )


def _fastest(
    arms: Sequence[str], scenario: TrialScenario, samples: Sequence[TrialSample]
) -> str | None:
    """The arm with the least median, None when none of them was measured."""
    times = {arm: [one.time_ms for one in trials_of(samples, scenario, arm)] for arm in arms}
    measured = {arm: median(found) for arm, found in times.items() if found}
    return min(measured, key=lambda arm: measured[arm]) if measured else None


@dataclass(frozen=True)
class TrialPanel:
    """Scenarios that differ in their first factor only: the axis of tables and plots."""

    axis: str
    title: str
    scenarios: tuple[TrialScenario, ...]


def trial_panels(scenarios: Iterable[TrialScenario]) -> list[TrialPanel]:
    """The panels, and the scenarios in each, in the order given."""
    found: dict[tuple[Factor, ...], list[TrialScenario]] = {}
    for scenario in scenarios:
        found.setdefault(scenario.factors[1:], []).append(scenario)
    return [
        TrialPanel(
            axis=members[0].factors[0].name,
            title=", ".join(f"{factor.name} {factor.value}" for factor in rest),
            scenarios=tuple(members),
        )
        for rest, members in found.items()
    ]
