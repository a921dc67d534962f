"""`--sample N`: of the many cases of a parametrized test a tenth, and shorter random campaigns.

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
_LEFT_OUT = pytest.StashKey[dict[str, tuple[int, int]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("pg_lookahead").addoption(
        "--sample",
        type=int,
        metavar="N",
        help="of each parametrized test the Nth tenth of its cases, and a tenth of the campaigns",
    )


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
    cases: Sequence[tuple[str, str]], named: Set[str], number: int
) -> tuple[set[int], dict[str, tuple[int, int]]]:
    """Which of these cases run, by their places; each has the function that it is of, and its name.

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
        kept |= {case for case in here if cases[own[case]][1] in named}
        chosen |= {own[case] for case in kept}
        if kept != here:
            left_out[function] = (len(own) - len(kept), len(own))
    return chosen, left_out


def _case_of(item: pytest.Item, named: Set[str]) -> tuple[str, str]:
    """Function and name of an item; both begin at the folder of pytest.ini, as for mutants."""
    function = item.nodeid.partition("[")[0]
    if any(map(item.get_closest_marker, _LONG)) and function not in named:
        function = f"{item.path.parent.name}: long tests"
    return function, item.nodeid


@pytest.hookimpl(trylast=True)  # of those that -k and -m leave
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.sample is None:
        return
    named = named_by_mutants()
    cases = [_case_of(item, named) for item in items]
    chosen, config.stash[_LEFT_OUT] = choose(cases, named, config.option.sample)
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
