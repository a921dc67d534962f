"""What an experiment is: its options and sizes, what it needs, how it measures.

Each experiment declares one frozen dataclass of what it wants, with a field for each of its
options, and one `Experiment`. Commands, help and lists of experiments come from these
(commands/run.py), those of lookahead itself and those of other packages.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lookahead.experiments.options import Count, Flag, Number, Option
from lookahead.experiments.runner import Run, RunRequest, Size, open_run
from lookahead.results import OptionValue, Parameters
from lookahead.terminal import Terminal

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

WantedT = TypeVar("WantedT", bound="DataclassInstance")
# A run that is estimated to take longer says so first.
_LONG_SECONDS = 60.0


@dataclass(frozen=True)
class Article:
    """Another name of an experiment: that of a published article, with the values it asks for."""

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)


@contextmanager
def in_place(request: RunRequest, wanted: object, terminal: Terminal) -> Iterator[RunRequest]:
    """The run where it was asked for; other experiments make a disk of their own around it."""
    yield request


def as_given(wanted: WantedT, explicit: frozenset[str]) -> WantedT:
    """What is wanted, whatever was named."""
    return wanted


@dataclass(frozen=True)
class Experiment(Generic[WantedT]):
    """One experiment of `lookahead run`.

    `sizes` have all values; options that are given replace theirs. `settle` works out what the
    names of the given options imply for the other values; it raises LabError when values contradict
    each other. `settings` are the server's. `surround` gives the run as it is carried out, on
    another disk if the experiment needs one. `needed_bytes` of disk space and `estimated_seconds`
    are told before a long run. `measure` fills the result of a run whose server is not started yet.
    """

    name: str
    summary: str
    description: str
    cold: bool
    options: tuple[Option, ...]
    sizes: dict[Size, WantedT]
    settings: Callable[[WantedT], Mapping[str, str]]
    needed_bytes: Callable[[WantedT], int]
    estimated_seconds: Callable[[WantedT], float]
    measure: Callable[[Run, WantedT], None]
    articles: tuple[Article, ...] = ()
    settle: Callable[[WantedT, frozenset[str]], WantedT] = as_given
    surround: Callable[[RunRequest, WantedT, Terminal], AbstractContextManager[RunRequest]] = (
        in_place
    )

    def wanted(self, size: Size, given: Mapping[str, Any]) -> WantedT:
        """The values of a size with the given ones in their place."""
        return self.settle(replace(self.sizes[size], **given), frozenset(given))


def run_experiment(
    experiment: Experiment[Any], request: RunRequest, given: Mapping[str, Any], terminal: Terminal
) -> Path:
    """Measure and write the result; returns its path. Raises LabError.

    `given` has the values of the options that were named.
    """
    wanted = experiment.wanted(request.size, given)
    with experiment.surround(request, wanted, terminal) as placed:
        seconds, needed = experiment.estimated_seconds(wanted), experiment.needed_bytes(wanted)
        if seconds > _LONG_SECONDS:
            terminal.step(f"this takes about {duration_text(seconds)} and {needed / 1e9:.1f} GB")
        with open_run(
            placed,
            experiment.name,
            _parameters(experiment, request, wanted),
            terminal,
            settings=experiment.settings(wanted),
            needed_bytes=needed,
            explicit=frozenset(given),
        ) as run:
            experiment.measure(run, wanted)
            return run.path


def _parameters(
    experiment: Experiment[Any], request: RunRequest, wanted: "DataclassInstance"
) -> Parameters:
    """What was asked for, by the names of the options."""
    repetitions = vars(wanted)["repetitions"]
    values = {
        option.flag.removeprefix("--"): _recorded(option, vars(wanted)[option.name])
        for option in experiment.options
        if option.name != "repetitions"
    }
    return Parameters(request.size, request.seed, repetitions, values)


def _recorded(option: Option, value: Any) -> OptionValue:
    """Numbers and flags as they are, others as they are written on the command line."""
    if isinstance(option.kind, Count | Number | Flag):
        recorded: OptionValue = value
        return recorded
    return tuple(map(option.kind.show, value)) if option.is_list else option.kind.show(value)


def duration_text(seconds: float) -> str:
    """Such as "2 minutes" and "3 hours", rounded up."""
    minutes = -int(-seconds // 60)
    if minutes < 120:
        return f"{minutes} minute{'s' if minutes > 1 else ''}"
    return f"{-(-minutes // 60)} hours"
