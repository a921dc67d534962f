"""Which scenarios `run index-scan` measures, and the statements for each."""

import random
from dataclasses import dataclass
from typing import Any

import psycopg

from lookahead.errors import ExitStatus, LabError
from lookahead.experiments.options import IO_METHODS
from lookahead.experiments.request import IndexScanRequest, Size
from lookahead.experiments.scan_statement import (
    ScanStatement,
    choose_heap_ordered,
    choose_random,
)
from lookahead.scan_measurements import Scenario

# A statement with LIMIT takes about a millisecond, of which the first wait is most: it takes more
# samples to see a difference of a few percent. Arbitrary.
_LIMIT_PAIRS_FACTOR = 4


@dataclass(frozen=True)
class Patterns:
    """What statements are measured: distinct pages in random order, rows of LIMIT in random order,
    and percent of the table's pages in heap order."""

    pages: tuple[int, ...]
    limits: tuple[int, ...]
    shares_percent: tuple[int, ...]


@dataclass(frozen=True)
class SizeDefaults:
    """What a size measures."""

    table_pages: int
    patterns: Patterns
    io_methods: tuple[str, ...]
    pairs: int


_ALL = Patterns((1_000, 10_000, 100_000), (1, 100), (10, 25, 50, 75))
# Even numbers of pairs balance the order of the arms. The full table is 2.3 GB, several times
# shared_buffers; the demo's is made within seconds.
DEFAULTS: dict[Size, SizeDefaults] = {
    "demo": SizeDefaults(48_000, Patterns((1_000, 10_000), (), ()), ("worker",), 6),
    "quick": SizeDefaults(125_000, _ALL, IO_METHODS, 6),
    "full": SizeDefaults(280_000, _ALL, IO_METHODS, 8),
}


def wanted_patterns(request: IndexScanRequest, defaults: SizeDefaults) -> Patterns:
    """The patterns named on the command line, else those of the size.

    Raises LabError when the table is too small for one.
    """
    named = Patterns(request.pages or (), request.limits or (), request.shares_percent or ())
    patterns = (
        named if any((named.pages, named.limits, named.shares_percent)) else defaults.patterns
    )
    for option, values in (("--pages", patterns.pages), ("--limit", patterns.limits)):
        if max(values, default=0) > defaults.table_pages:
            raise LabError(
                f"{option} {max(values)} is out of range: the {request.run.size} table has "
                f"{defaults.table_pages} pages",
                "Name fewer pages or take a larger size.",
                status=ExitStatus.USAGE,
            )
    return patterns


def scenarios_for(
    patterns: Patterns, io_method: str, read_ahead_kb: int | None, table_pages: int
) -> list[Scenario]:
    """All patterns under one I/O method and read-ahead.

    How many pages a share really is, is counted when its statement is chosen.
    """
    return [
        *(Scenario(pages, io_method, read_ahead_kb) for pages in patterns.pages),
        *(Scenario(limit, io_method, read_ahead_kb, limit=limit) for limit in patterns.limits),
        *(
            Scenario(
                table_pages * share // 100,
                io_method,
                read_ahead_kb,
                order="heap",
                share_percent=share,
            )
            for share in patterns.shares_percent
        ),
    ]


def pairs_of(scenario: Scenario, repetitions: int) -> int:
    """How many pairs are taken of a scenario."""
    return repetitions * (_LIMIT_PAIRS_FACTOR if scenario.limit else 1)


def choose_statements(
    connection: psycopg.Connection[Any],
    scenario: Scenario,
    pairs: int,
    table_pages: int,
    generator: random.Random,
    seed: int,
) -> list[ScanStatement]:
    """One statement for each pair: random keys differ from pair to pair, a share is always all."""
    if scenario.share_percent is not None:
        return [choose_heap_ordered(connection, scenario.share_percent, seed)] * pairs
    limited = scenario.limit is not None
    return [
        choose_random(connection, scenario.pages, table_pages, generator, limit=limited)
        for _ in range(pairs)
    ]
