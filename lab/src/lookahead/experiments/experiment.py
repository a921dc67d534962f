"""What an experiment is: its options and sizes, what it needs, how it measures.

An option is a value that a run can be asked for, named like the field of what the experiment wants.
Each kind of value is written in one way: a list as "a,b", a size with its unit, a share in percent.
Each experiment declares one frozen dataclass of what it wants, whose fields say their values in
each size and which of them are options, and one `Experiment`. Commands, help and lists of
experiments come from these (commands/run.py), those of lookahead itself and those of other
packages.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_origin, get_type_hints

from lookahead.errors import UsageError
from lookahead.experiments.conditions import SCAN_SETTINGS
from lookahead.experiments.runner import SIZES, Run, RunRequest, Size, open_run
from lookahead.results import OptionValue, Parameters
from lookahead.terminal import Terminal

IO_METHODS = ("worker", "sync", "io_uring")
MAX_PAGES = 10_000_000
_MAX_REPETITIONS = 1000
# The largest value of work_mem and maintenance_work_mem, in kB.
_MAX_MEMORY_KB = 2**31 - 1
# One page of the largest table.
_LEAST_PERCENT = 100 / MAX_PAGES
# Arabic and other digits that int() takes, too, are no digits here.
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
# Digits beyond any value are slow to convert, and too many are refused by Python in its own words.
_MAX_DIGITS = 20
_MAX_SHOWN = 40
_UNITS_KB = {"kB": 1, "MB": 2**10, "GB": 2**20, "TB": 2**30}


class Kind(ABC):
    """How a value is written; `metavar` stands for it in the help."""

    metavar: str

    @abstractmethod
    def parse(self, text: str) -> Any:
        """The value; ValueError says what is wrong with the text."""

    def show(self, value: Any) -> str:
        return str(value)


@dataclass(frozen=True)
class Count(Kind):
    """A whole number from `least` to `most`."""

    least: int
    most: int
    metavar: str = "N"

    def parse(self, text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise ValueError(f"{_quoted(text)} is not a whole number")
        number = int(text) if len(text) <= _MAX_DIGITS else None
        if number is None or not self.least <= number <= self.most:
            raise ValueError(f"{_shown(text)} is not in the range {self.least} to {self.most}")
        return number


@dataclass(frozen=True)
class Number(Kind):
    """A number above 0 and up to `most`."""

    most: float
    metavar: str = "FACTOR"

    def parse(self, text: str) -> float:
        number = _float(text)
        if not 0.0 < number <= self.most:
            raise ValueError(f"{_quoted(text)} is not a number above 0 and up to {self.most:g}")
        return number

    def show(self, value: Any) -> str:
        return f"{value:g}"


@dataclass(frozen=True)
class Percent(Kind):
    """A share in percent, at least `_LEAST_PERCENT` and up to 100; the value is 0..1."""

    metavar: str = "PERCENT"

    def parse(self, text: str) -> float:
        number = _float(text)
        if not _LEAST_PERCENT <= number <= 100.0:
            raise ValueError(
                f"{_quoted(text)} is not a percentage from {_LEAST_PERCENT:.5f} up to 100"
            )
        return round(number / 100, 9)

    def show(self, value: Any) -> str:
        return f"{value * 100:g}"


@dataclass(frozen=True)
class MemorySize(Kind):
    """A size with its unit as PostgreSQL writes it, such as 4MB; the value is in kB."""

    least_kb: int = 1
    most_kb: int = _MAX_MEMORY_KB
    metavar: str = "SIZE"

    def parse(self, text: str) -> int:
        number, unit = text[:-2], text[-2:]
        if unit not in _UNITS_KB or not (number.isascii() and number.isdecimal()):
            raise ValueError(f"{_quoted(text)} is not a size such as 4MB or 512kB")
        size_kb = int(number) * _UNITS_KB[unit] if len(number) <= _MAX_DIGITS else self.most_kb + 1
        if not self.least_kb <= size_kb <= self.most_kb:
            limits = f"{memory_text(self.least_kb)} to {memory_text(self.most_kb)}"
            raise ValueError(f"{_quoted(text)} is not in the range {limits}")
        return size_kb

    def show(self, value: Any) -> str:
        return memory_text(value)


@dataclass(frozen=True)
class Choice(Kind):
    """One of some names."""

    names: tuple[str, ...]
    metavar: str = "NAME"

    def parse(self, text: str) -> str:
        if text not in self.names:
            known = ", ".join(map(repr, self.names))
            raise ValueError(f"{_quoted(text)} is not one of {known}")
        return text


@dataclass(frozen=True)
class Flag(Kind):
    """Given or not; takes no value."""

    metavar: str = ""

    def parse(self, text: str) -> bool:
        raise ValueError("it takes no value")


@dataclass(frozen=True)
class Option:
    """What a run can be asked for; `name` is the field of what the experiment wants.

    Where that is a tuple the option is a list, of each item once; with `may_be_none` also an empty
    one, written as the word "none". `default` says what the values of the sizes do not.
    """

    kind: Kind
    help: str
    may_be_none: bool = False
    default: str = ""
    name: str = ""
    is_list: bool = False

    def sized(self, quick: Any, *, demo: Any = None, full: Any = None) -> Any:
        return sized(quick, demo=demo, full=full, option=self)

    @property
    def flag(self) -> str:
        """As it is written on the command line."""
        return f"--{self.name.replace('_', '-')}"

    def show(self, value: Any) -> str:
        if not self.is_list:
            return self.kind.show(value)
        return ",".join(map(self.kind.show, value)) or "none"


def memory_text(size_kb: int) -> str:
    """A size in kB in its largest whole unit, as PostgreSQL writes it: "4MB", "64kB"."""
    units = (name for name, kb in reversed(_UNITS_KB.items()) if size_kb and size_kb % kb == 0)
    unit = next(units, "kB")
    return f"{size_kb // _UNITS_KB[unit]}{unit}"


def memory_label(size_kb: int) -> str:
    """As `memory_text`, with a space, for people: "512 MB"."""
    text = memory_text(size_kb)
    return f"{text[:-2]} {text[-2:]}"


def _float(text: str) -> float:
    """NaN for what is no number as it is commonly written: float() also takes "1_0"."""
    return float(text) if _NUMBER.fullmatch(text) else float("nan")


def _shown(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def _quoted(text: str) -> str:
    return repr(_shown(text))


def sized(quick: Any, *, demo: Any = None, full: Any = None, option: Option | None = None) -> Any:
    """A field of what an experiment wants: its value in each size, by default that of `quick`."""
    values = {"quick": quick, "demo": quick if demo is None else demo}
    values["full"] = quick if full is None else full
    return field(metadata={"option": option, "sizes": values})


REPETITIONS = Option(Count(1, _MAX_REPETITIONS), "Samples of each arm per scenario.")
IO_METHOD = Option(Choice(IO_METHODS), "I/O methods to measure under.")
TABLE_PAGES = Option(Count(1, MAX_PAGES), "Pages of 8 kB that the table has.")
PAGES_SHARE = Option(Percent(), "Shares of the table's pages that a scan hits.")

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

WantedT = TypeVar("WantedT", bound="DataclassInstance")
# A run that is estimated to take longer says so first.
_LONG_SECONDS = 60.0


@contextmanager
def in_place(request: RunRequest, wanted: object, terminal: Terminal) -> Iterator[RunRequest]:
    """The run where it was asked for; other experiments make a disk of their own around it."""
    yield request


def refuse_unused(explicit: frozenset[str], names: Iterable[str], without: str) -> None:
    """LabError when an option was named that makes no difference `without` something else."""
    for name in names:
        if name in explicit:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{flag} makes no difference without {without}",
                f"Leave {flag} out, or add {without}.",
            )


@dataclass(frozen=True)
class Experiment(Generic[WantedT]):
    """One experiment of `lookahead run`.

    `asked` is the class of what is wanted, of `sized` fields; options that are given replace the
    values of a size. `settle` works out what the names of the given options imply for the other
    values; it raises LabError when values contradict each other. `settings` are the server's.
    `surround` gives the run as it is carried out, on another disk if the experiment needs one.
    `needed_bytes` of disk space and `estimated_seconds` are told before a long run. `measure` fills
    the result of a run whose server is not started yet.
    """

    name: str
    summary: str
    description: str
    asked: type[WantedT]
    needed_bytes: Callable[[WantedT], int]
    estimated_seconds: Callable[[WantedT], float]
    measure: Callable[[Run, WantedT], None]
    settings: Callable[[WantedT], Mapping[str, str]] = lambda wanted: SCAN_SETTINGS
    settle: Callable[[WantedT, frozenset[str]], WantedT] = lambda wanted, explicit: wanted
    surround: Callable[[RunRequest, WantedT, Terminal], AbstractContextManager[RunRequest]] = (
        in_place
    )

    @cached_property
    def options(self) -> tuple[Option, ...]:
        hints = get_type_hints(self.asked)
        found = {one.name: one.metadata["option"] for one in fields(self.asked)}
        return tuple(
            replace(option, name=name, is_list=get_origin(hints[name]) is tuple)
            for name, option in found.items()
            if option is not None
        )

    @cached_property
    def sizes(self) -> dict[Size, WantedT]:
        values = {one.name: one.metadata["sizes"] for one in fields(self.asked)}
        return {
            size: self.asked(**{name: sizes[size] for name, sizes in values.items()})
            for size in SIZES
        }

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
    asked = vars(wanted)
    values = {
        option.flag.removeprefix("--"): _recorded(option, asked[option.name])
        for option in experiment.options
        if option.name != "repetitions"
    }
    parameters = Parameters(request.size, request.seed, asked["repetitions"], values)
    with experiment.surround(request, wanted, terminal) as placed:
        seconds, needed = experiment.estimated_seconds(wanted), experiment.needed_bytes(wanted)
        if seconds > _LONG_SECONDS:
            terminal.step(f"this takes about {duration_text(seconds)} and {needed / 1e9:.1f} GB")
        with open_run(
            placed,
            experiment.name,
            parameters,
            terminal,
            settings=experiment.settings(wanted),
            needed_bytes=needed,
            explicit=frozenset(given),
        ) as run:
            experiment.measure(run, wanted)
            return run.path


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
