"""What a result says, in sentences that a person can repeat, and its scenarios as text.

    index scan 3.3 times faster (2.6 to 4.1)
    bitmap scan, pages 42 %, against stock's default: 1.9 times faster (1.8 to 2.0)

The headline compares with PostgreSQL as it is. Few scenarios have a sentence each; many are summed
up in one, which counts those that are slower, too.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import floor, log10
from typing import get_args

from lookahead.comparisons import Panel
from lookahead.formats import decimals_from_one, interval_text
from lookahead.measurements import Comparison, Factor, Scenario
from lookahead.stats import RatioEstimate, Verdict

# A value of so many letters speaks for itself ("LIMIT 100", "uuid"); "4 MB" needs its name.
_TELLING_LETTERS = 4


def varying_names(scenarios: Sequence[Scenario]) -> tuple[str, ...]:
    """The factors that do not have one value in all scenarios, in the order of the scenarios."""
    names = dict.fromkeys(factor.name for one in scenarios for factor in one.factors)
    return tuple(name for name in names if len({one.value(name) for one in scenarios}) > 1)


def common_text(scenarios: Sequence[Scenario]) -> str:
    """What all scenarios have in common, such as "layout uniform, I/O method worker"."""
    varying = varying_names(scenarios)
    common = dict.fromkeys(
        factor for one in scenarios for factor in one.factors if factor.name not in varying
    )
    return ", ".join(f"{factor.name} {factor.value}" for factor in common)


def scenario_label(scenario: Scenario, names: Sequence[str]) -> str:
    """The values of these factors, such as "pages 42 %, I/O method worker"; else the first one."""
    first = scenario.factors[0]
    chosen = [factor for factor in scenario.factors if factor.name in names] or [first]
    return ", ".join(_factor_text(factor, is_first=factor == first) for factor in chosen)


def labelling(scenarios: Iterable[Scenario]) -> Callable[[Scenario], str]:
    """`scenario_label` by what tells these scenarios apart."""
    return partial(scenario_label, names=varying_names(list(scenarios)))


def _factor_text(factor: Factor, *, is_first: bool) -> str:
    """The name is left out where the value of the first factor tells what it is."""
    letters = sum(character.isalpha() for character in factor.value)
    if is_first and letters >= _TELLING_LETTERS:
        return factor.value
    return f"{factor.name} {factor.value}"


def panel_title(panel: Panel, panels: Sequence[Panel]) -> str:
    """What tells a panel apart from the others, the axis left out; "" of a single one."""
    names = varying_names([scenario for one in panels for scenario in one.scenarios])
    rest = panel.scenarios[0].factors[1:]
    return ", ".join(f"{one.name} {one.value}" for one in rest if one.name in names)


# More scenarios than these are summed up.
_MAX_SENTENCES = 4
# The question that needs no name; then those against PostgreSQL as it is, by preference.
_PLAIN = "stock"
# Verdicts that name no factor, as they stand in a sentence.
_SEEN: dict[Verdict, str] = {
    "no difference": "no difference seen",
    "inconclusive": "inconclusive",
    "too few pairs": "too few pairs to tell",
}
_MAIN_QUESTIONS = (_PLAIN, "stock's default", "stock's scan", "default", "not loaded")


def title_of(experiment: str) -> str:
    """The experiment's name as a heading, such as "Index scan"."""
    return experiment.replace("-", " ").capitalize()


def headline(experiment: str, answers: Sequence[Comparison]) -> list[str]:
    """The sentences about the main question of each scenario; none without a whole pair."""
    chosen = list(main_answers(answers))
    subject = experiment.replace("-", " ")
    if len(chosen) > _MAX_SENTENCES:
        questions = dict.fromkeys(one.question.name for one in chosen)
        against = _against(", ".join(questions))
        return [f"{subject}{against}: {_summary(chosen)}"]
    names = varying_names([one.question.scenario for one in chosen])
    found = []
    for one in chosen:
        scenario = f", {scenario_label(one.question.scenario, names)}" if names else ""
        before = f"{scenario}{_against(one.question.name)}"
        found.append(f"{subject}{before}{':' if before else ''} {estimate_text(one.estimate)}")
    return found


def main_answers(answers: Sequence[Comparison]) -> Iterator[Comparison]:
    """Of each scenario the answer against PostgreSQL as it is, else its first one."""
    groups: dict[Scenario, dict[str, Comparison]] = {}
    for one in answers:
        # Of several that our side measured against one opponent, the first is its default.
        groups.setdefault(one.question.scenario, {}).setdefault(one.question.name, one)
    for found in groups.values():
        name = next((name for name in _MAIN_QUESTIONS if name in found), None)
        yield found[name] if name else next(iter(found.values()))


def _against(question: str) -> str:
    return "" if question == _PLAIN else f", against {question}"


def estimate_text(estimate: RatioEstimate) -> str:
    """Such as "3.3 times faster (2.6 to 4.1)"; of few pairs it says so, and claims nothing."""
    ratio, low, high = estimate.ratio, estimate.low, estimate.high
    if estimate.verdict == "too few pairs":
        pairs = "one pair" if estimate.pairs == 1 else f"{estimate.pairs} pairs"
        interval = f" ({interval_text(estimate)})" if estimate.has_interval else ""
        return f"{_multiple(ratio)}as fast{interval} in {pairs}, too few to tell"
    if estimate.verdict in ("no difference", "inconclusive"):
        return f"{_SEEN[estimate.verdict]} ({low:.2f} to {high:.2f})"
    if estimate.verdict == "slower":
        ratio, low, high = 1 / ratio, 1 / high, 1 / low
    ratio_text, low_text, high_text = _factors(ratio, low, high)
    return f"{ratio_text} times {estimate.verdict} ({low_text} to {high_text})"


def _multiple(ratio: float) -> str:
    """Such as "3.0 times ", "0.25 times " and "about " of two digits, never with an exponent."""
    decimals = max(0, 1 - floor(log10(ratio)))
    text = f"{ratio:,.{decimals}f}"
    return "about " if float(text.replace(",", "")) == 1 else f"{text} times "


def _factors(*ratios: float) -> list[str]:
    """Factors above 1 with few decimals, but as many as it takes to tell each of them from 1."""
    steps = ((1.2, 2), (9.95, 1))
    decimals = next((number for limit, number in steps if min(ratios) < limit), 0)
    return [f"{ratio:.{max(decimals, decimals_from_one(ratio))}f}" for ratio in ratios]


def _summary(comparisons: Sequence[Comparison]) -> str:
    """How many of the scenarios are faster, even and slower, and by how much."""
    verdicts: tuple[Verdict, ...] = get_args(Verdict)
    groups = {
        verdict: [one for one in comparisons if one.estimate.verdict == verdict]
        for verdict in verdicts
    }
    return "; ".join(
        _group(verdict, chosen, len(comparisons)) for verdict, chosen in groups.items() if chosen
    )


def _group(verdict: Verdict, chosen: Sequence[Comparison], total: int) -> str:
    """Such as "faster in 8 of 12 cases (1.3 to 2.9 times)"."""
    count = f"in {len(chosen)} of {total} cases"
    if verdict in _SEEN:
        return f"{_SEEN[verdict]} {count}"
    ratios = [one.estimate.ratio for one in chosen]
    if verdict == "slower":
        ratios = [1 / ratio for ratio in ratios]
    least, most = _factors(min(ratios), max(ratios))
    span = f"{least} times" if least == most else f"{least} to {most} times"
    return f"{verdict} {count} ({span})"
