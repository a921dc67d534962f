"""Scenarios as text: what tells them apart, and what they have in common."""

from collections.abc import Sequence

from lookahead.comparisons import Panel
from lookahead.measurements import Factor, Scenario

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
