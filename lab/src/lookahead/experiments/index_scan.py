"""The experiment "index-scan": one btree index scan, cold, with and without look-ahead.

For each I/O method and pattern (distinct pages in random order, LIMIT in random
order, a share of the pages in heap order), stock's index scan and ours. In random order each round
has its own keys, and all arms of a round the same ones; ranges have a third arm, stock's bitmap
scan and sort of the same rows. That both index scans return the same rows in the same order is
proved apart, over the rows a client receives.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeVar

from lookahead.errors import UsageError
from lookahead.experiments.arms import BITMAP_SCAN, INDEX_SCAN, arm_of
from lookahead.experiments.conditions import (
    COLD_RESTART_SECONDS,
    available_methods,
    read_ahead_factor,
    table_session,
)
from lookahead.experiments.experiment import (
    IO_METHOD,
    IO_METHODS,
    MAX_PAGES,
    REPETITIONS,
    TABLE_PAGES,
    Count,
    Experiment,
    Option,
)
from lookahead.experiments.runner import Run
from lookahead.experiments.scan_table import (
    INDEX,
    TABLE,
    Pattern,
    build_table,
    choose_statements,
    table_bytes,
)
from lookahead.experiments.trials import Statement, Trial, Trials
from lookahead.measurements import Arm, Factor, Question, Scenario
from lookahead.server import Session

# The table itself; its pages once more in the WAL, which VACUUM writes under checksums; the sorts.
_SPACE_FACTOR = 2.5
STOCK, OURS, RIVAL = "stock", "ours", "bitmap and sort"
_ARMS = (arm_of(STOCK, INDEX_SCAN), arm_of(OURS, INDEX_SCAN, "on"))
# A sort in memory: the rival at its best.
_RIVAL_ARM = arm_of(RIVAL, BITMAP_SCAN, settings={"work_mem": "256MB"})
# The kinds of patterns, each an option.
_KINDS = ("pages", "limit", "share")
# What estimates of a run's time go by; measured on a virtual machine with two processors.
_BUILD_BYTES_PER_SECOND = 30e6
_READ_SECONDS_PER_PAGE = 4e-5


PAGES = Option(
    Count(1, MAX_PAGES),
    "Distinct table pages that a scan in random order touches.",
    may_be_none=True,
)
LIMIT = Option(Count(1, MAX_PAGES, "ROWS"), "LIMIT of a scan in random order.", may_be_none=True)


@dataclass(frozen=True)
class IndexScans:
    """What is wanted: numbers of pages and rows of a LIMIT in random order, shares of the table's
    pages in percent in heap order."""

    # Even numbers of rounds balance the order of the arms.
    repetitions: int = REPETITIONS.sized(6, full=8)
    io_method: tuple[str, ...] = IO_METHOD.sized(("worker",), full=IO_METHODS)
    # The full table is 2.3 GB, several times shared_buffers; the demo's is made within seconds.
    table_pages: int = TABLE_PAGES.sized(125_000, demo=48_000, full=280_000)
    pages: tuple[int, ...] = PAGES.sized((1_000, 10_000, 100_000), demo=(1_000, 10_000))
    limit: tuple[int, ...] = LIMIT.sized((1, 100), demo=())
    share: tuple[int, ...] = Option(
        Count(1, 100, "PERCENT"),
        "Shares of the table's pages that a scan in heap order touches.",
        may_be_none=True,
    ).sized((10, 25, 50, 75), demo=())

    def patterns(self) -> tuple[Pattern, ...]:
        """What the statements read, in the order in which it is measured."""
        return (
            *(Pattern("pages", number) for number in self.pages),
            *(Pattern("limit", number) for number in self.limit),
            *(Pattern("share", number) for number in self.share),
        )


IndexScansT = TypeVar("IndexScansT", bound=IndexScans)


def settle(wanted: IndexScansT, explicit: frozenset[str]) -> IndexScansT:
    """Naming one kind of pattern leaves out what is not named.

    Raises LabError when the table is too small for one.
    """
    if explicit & set(_KINDS):
        # The fields of all kinds are alike.
        left_out: dict[str, Any] = {kind: () for kind in _KINDS if kind not in explicit}
        wanted = replace(wanted, **left_out)
    if not wanted.patterns():
        raise UsageError("no scan is asked for", "Name one of --pages, --limit and --share.")
    for option, values in (("--pages", wanted.pages), ("--limit", wanted.limit)):
        if max(values, default=0) > wanted.table_pages:
            raise UsageError(
                f"{option} {max(values)} is out of range: the table has {wanted.table_pages} pages",
                "Name fewer pages, more --table-pages, or take a larger size.",
            )
    return wanted


def measure(run: Run, wanted: IndexScans, added: tuple[Factor, ...] = ()) -> None:
    """Build the table, then take all samples; `added` are factors beside the experiment's own."""
    pages, seed = wanted.table_pages, run.document.parameters.seed
    methods = available_methods(run, wanted.io_method)
    trials = Trials[Trial](run)
    run.terminal.step(f"making a table of {pages:,} pages ({table_bytes(pages) / 1e9:.1f} GB)")
    with table_session(run, {"io_method": methods[0]}, (TABLE, INDEX)) as connection:
        connection.execute("SET work_mem = '256MB'")
        trials.add_table(build_table(connection, pages, seed))
        settled = replace(wanted, io_method=methods)
        factors = (read_ahead_factor(run), *added)
        chosen = list(_choose_trials(connection, settled, factors, seed))
    trials.measure_all(chosen, wanted.repetitions)


def _choose_trials(
    connection: Session, wanted: IndexScans, added: tuple[Factor, ...], seed: int
) -> Iterator[Trial]:
    """All patterns under each I/O method; their keys are chosen now."""
    generator = random.Random(seed)
    for method, pattern in product(wanted.io_method, wanted.patterns()):
        rounds = pattern.rounds(wanted.repetitions)
        statements = choose_statements(
            connection, pattern, rounds, wanted.table_pages, generator, seed
        )
        factors = (Factor("scan", pattern.label), Factor("I/O method", method), *added)
        yield trial_of(pattern, Scenario(factors), statements, method)


def trial_of(
    pattern: Pattern, scenario: Scenario, statements: tuple[Statement, ...], io_method: str
) -> Trial:
    """The scans of a pattern, a statement for each round."""
    pages = int(statements[0].counts["distinct_pages"])
    arms = _arms_for(pattern)
    others = [arm.name for arm in arms if arm.name != OURS]
    return Trial(
        scenario=scenario,
        statement=statements[0].sql,
        rounds=statements,
        arms=arms,
        questions=tuple(Question(scenario, name, (name,), (OURS,)) for name in others),
        server={"io_method": io_method},
        rows=pages,
        pages=pages,
        # Of few rows, or pages that follow each other in the table, the library chooses itself how
        # many it asks for.
        prefetched=pages if pattern.kind == "pages" else 0,
        compared=(STOCK, OURS),
    )


def _arms_for(pattern: Pattern) -> tuple[Arm, ...]:
    """A bitmap scan answers for whole ranges in random order only."""
    return (*_ARMS, _RIVAL_ARM) if pattern.kind == "pages" else _ARMS


def scan_space(wanted: IndexScans) -> int:
    """The disk space in bytes that the table and its making take."""
    return int(_SPACE_FACTOR * table_bytes(wanted.table_pages))


def scan_seconds(wanted: IndexScans) -> float:
    """About how long the table and all samples take."""
    samples = read_seconds = 0.0
    for pattern in wanted.patterns():
        taken = len(_arms_for(pattern)) * pattern.rounds(wanted.repetitions)
        pages = pattern.number
        if pattern.kind == "share":
            pages = pattern.number * wanted.table_pages // 100
        samples += taken
        read_seconds += taken * pages * _READ_SECONDS_PER_PAGE
    scans = len(wanted.io_method) * (samples * COLD_RESTART_SECONDS + read_seconds)
    return table_bytes(wanted.table_pages) / _BUILD_BYTES_PER_SECOND + scans


EXPERIMENT = Experiment(
    name="index-scan",
    summary="Cold btree index scans, in random order and in the order of the table.",
    description="Ranges of keys, LIMIT, and shares of the table's pages; ranges also against "
    "stock's bitmap scan and sort of the same rows. Naming one of --pages, --limit and --share "
    "leaves out what is not named.",
    asked=IndexScans,
    needed_bytes=scan_space,
    estimated_seconds=scan_seconds,
    measure=measure,
    settle=settle,
)
