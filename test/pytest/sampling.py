"""`--sample N`: of the many cases of a parametrized test a tenth, and shorter random campaigns.

With `--brief`, for a first look, no long tests, and a tenth of what is left of each room.

A test has cases when pytest runs its function several times, for its own parameters or for those
of a fixture. Of each such function a tenth of the cases runs, at least two: for the same N the same
ones, for ten successive N all of them. Long tests, each of which takes as long as a hundred others,
and whole commands (marks "long" and "end_to_end") count as cases of one function of their room.

Functions that a mutant names (test/mutants/*.toml) run whole, and cases that it names always, so
that a sample notices the same wrong changes. How many cases are left out is said at the end of the
run, and with -v of what.
"""

import random
from collections import defaultdict
from collections.abc import Sequence, Set

import pytest
from catalogue import read_mutants

_PARTS = 10
_LEAST = 2  # one alone is often the plainest of all, or the one that says nothing
_LONG = ("long", "end_to_end")
_LONG_TESTS = ": long tests"  # behind the name of their room
_LEFT_OUT = pytest.StashKey[dict[str, tuple[int, int]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pg_lookahead")
    group.addoption(
        "--sample",
        type=int,
        metavar="N",
        help="of each parametrized test the Nth tenth of its cases, and a tenth of the campaigns",
    )
    group.addoption("--brief", action="store_true", help="no long tests, and of the others a tenth")


def sampled_cases(function: str, count: int, number: int) -> set[int]:
    """Which of a function's `count` cases the sample of this number has.

    The cases are shuffled first: neighbours have most parameters in common, and so have those at a
    fixed distance. `number` and the nine after it have each case at least once.
    """
    size = max(_LEAST, -(-count // _PARTS))
    if size >= count:
        return set(range(count))
    order = list(range(count))
    random.Random(function).shuffle(order)
    first = number % _PARTS * size
    return {order[place % count] for place in range(first, first + size)}


def named_by_mutants() -> set[str]:
    """Those that mutants name, such as "room/test_x.py::test_y", or a case "...::test_y[1-b]"."""
    return {mutant.test for mutant in read_mutants() if mutant.kind == "pytest"}


def choose(
    cases: Sequence[tuple[str, str]], named: Set[str], number: int, *, long: bool = True
) -> tuple[set[int], dict[str, tuple[int, int]]]:
    """Which of these cases run, by their places; each has the function that it is of, and its name.
    Long tests are left out unless `long`.

    Also returns for each function that does not run whole how many cases are left out, of how many.
    """
    places = defaultdict(list)
    for place, (function, _) in enumerate(cases):
        places[function].append(place)
    chosen: set[int] = set()
    left_out = {}
    for function, own in places.items():
        here = set(range(len(own)))
        kept = here if function in named else sampled_cases(function, len(own), number)
        kept = kept if long or not function.endswith(_LONG_TESTS) else set()
        kept |= {case for case in here if cases[own[case]][1] in named}
        chosen |= {own[case] for case in kept}
        if kept != here:
            left_out[function] = (len(own) - len(kept), len(own))
    return chosen, left_out


def _function_of(item: pytest.Item, named: Set[str]) -> str:
    """What the item is a case of. It begins at the folder of pytest.ini, as for mutants."""
    function = item.nodeid.partition("[")[0]
    if any(map(item.get_closest_marker, _LONG)) and function not in named:
        function = f"{item.path.parent.name}{_LONG_TESTS}"
    return function


def _room_of(item: pytest.Item, named: Set[str]) -> str:
    """The same, where all of a room are cases of one function, except those that mutants name."""
    function = item.nodeid.partition("[")[0]
    return function if function in named else item.path.parent.name


@pytest.hookimpl(trylast=True)  # of those that -k and -m leave
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.sample is None:
        return
    named = named_by_mutants()
    left_out = config.stash[_LEFT_OUT] = {}
    brief = config.option.brief
    for group_of in (_function_of, _room_of) if brief else (_function_of,):
        cases = [(group_of(item, named), item.nodeid) for item in items]
        chosen, missing = choose(cases, named, config.option.sample, long=not brief)
        left_out |= missing
        config.hook.pytest_deselected(
            items=[item for place, item in enumerate(items) if place not in chosen]
        )
        items[:] = [item for place, item in enumerate(items) if place in chosen]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    left_out = config.stash.get(_LEFT_OUT, {})
    if not left_out:
        return
    if terminalreporter.verbosity > 0:
        for function, (cases, of) in sorted(left_out.items()):
            terminalreporter.write_line(f"sampled: {function}: {of - cases} of {of} cases")
    cases = sum(missing for missing, _ in left_out.values())
    terminalreporter.write_line(
        f"sampled: {cases} cases of {len(left_out)} tests left out (make test ALL=1 runs them)"
    )
