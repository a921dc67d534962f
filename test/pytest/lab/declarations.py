"""What is wanted of the declaration of any experiment."""

from dataclasses import fields
from typing import Any

from lookahead.experiments.experiment import Experiment, Flag, Option


def check_declaration(experiment: Experiment[Any]) -> None:
    """Options are fields, values can be written as they are shown, larger sizes take longer."""
    known = {field.name for field in fields(experiment.sizes["quick"])}
    assert {option.name for option in experiment.options} <= known
    assert "repetitions" in {option.name for option in experiment.options}
    for wanted in experiment.sizes.values():
        for option in experiment.options:
            _check_round_trip(option, getattr(wanted, option.name))
    sizes = [experiment.wanted(size, {}) for size in ("demo", "quick", "full")]
    times = [experiment.estimated_seconds(wanted) for wanted in sizes]
    assert times == sorted(times)
    assert 5 < times[0] < 600
    space = [experiment.needed_bytes(wanted) for wanted in sizes]
    assert space == sorted(space)
    assert space[0] > 1_000_000
    for wanted in sizes:
        assert all(experiment.settings(wanted).values())


def _check_round_trip(option: Option, value: Any) -> None:
    if isinstance(option.kind, Flag):
        assert value is False
    elif option.is_list:
        assert tuple(option.kind.parse(option.kind.show(item)) for item in value) == value
        assert value or option.may_be_none or option.default
    else:
        assert option.kind.parse(option.kind.show(value)) == value
