"""The experiment "bulk-insert": the same rows inserted by stock and by pg_lookahead in batches.

The samples are taken by bulk_insert_trials.py, what is inserted is in bulk_insert_cases.py.
"""

from dataclasses import dataclass

from lookahead.experiments.bulk_insert_cases import PARTS, Case, cases_for
from lookahead.experiments.bulk_insert_trials import (
    INSERT_SETTINGS,
    INSERTED_SIZE,
    Inserts,
    seconds_of,
    space_for,
)
from lookahead.experiments.experiment import REPETITIONS, Choice, Experiment, Option
from lookahead.experiments.runner import Run


@dataclass(frozen=True)
class BulkInserts:
    repetitions: int = REPETITIONS.sized(6)
    parts: tuple[str, ...] = Option(
        Choice(PARTS), "What is measured, see above.", default="all"
    ).sized(PARTS)
    table_size: int = INSERTED_SIZE.sized(128 * 1024, demo=32 * 1024, full=2048 * 1024)


def _measure(run: Run, wanted: BulkInserts) -> None:
    inserts: Inserts[Case] = Inserts(run, wanted.table_size)
    inserts.start()
    inserts.measure_all(cases_for(wanted.parts, wanted.table_size), wanted.repetitions)


def _estimated_seconds(wanted: BulkInserts) -> float:
    """The table that rows come from is made once, which takes as long as a sample."""
    cases = cases_for(wanted.parts, wanted.table_size)
    samples = sum(len(case.arms) for case in cases) * (wanted.repetitions + 1) + 1
    return seconds_of(samples, wanted.table_size)


EXPERIMENT = Experiment(
    name="bulk-insert",
    summary="INSERT ... SELECT and new tables, row by row and in batches.",
    description="The rows come from a table in the cache. The parts: into a table without indexes "
    "(flat), into tables that the transaction has made (new-table), into tables with indexes "
    "(indexes).",
    asked=BulkInserts,
    settings=lambda wanted: INSERT_SETTINGS,
    needed_bytes=lambda wanted: space_for(wanted.table_size),
    estimated_seconds=_estimated_seconds,
    measure=_measure,
)
