"""The experiment "bulk-insert": the same rows inserted by stock and by pg_lookahead in batches.

The samples are taken by bulk_insert_trials.py, what is inserted is in bulk_insert_cases.py.
"""

from dataclasses import dataclass
from pathlib import Path

from lookahead.experiments.bulk_insert_cases import (
    PARTS,
    Case,
    Conditions,
    cases_for,
)
from lookahead.experiments.bulk_insert_trials import (
    INSERT_SETTINGS,
    INSERTED_SIZE,
    Inserts,
    seconds_of,
    space_for,
)
from lookahead.experiments.experiment import (
    REPETITIONS,
    Choice,
    Count,
    Experiment,
    Option,
    refuse_unused,
)
from lookahead.experiments.runner import Run

_MAX_COLUMNS, _MAX_SESSIONS = 1600, 64  # of core; of the default max_connections, arbitrary
_SIZED_PARTS = frozenset(PARTS) - {"small"}


@dataclass(frozen=True)
class BulkInserts:
    """What is wanted, sizes in kB."""

    repetitions: int = REPETITIONS.sized(6)
    parts: tuple[str, ...] = Option(
        Choice(PARTS), "What is measured, see above.", default="all"
    ).sized(PARTS)
    table_size: int = INSERTED_SIZE.sized(128 * 1024, demo=32 * 1024, full=2048 * 1024)
    columns: tuple[int, ...] = Option(
        Count(1, _MAX_COLUMNS), "Columns of the part columns, all of them int."
    ).sized((1, 8, 32, 128))
    sessions: tuple[int, ...] = Option(
        Count(1, _MAX_SESSIONS), "Sessions of the part sessions, into one table."
    ).sized((1, 2, 4))


def _measure(run: Run, wanted: BulkInserts) -> None:
    inserts = Inserts(run, wanted.table_size)
    inserts.start()
    inserts.measure_all(_cases(wanted, run.server.data_directory), wanted.repetitions)


def _settle(wanted: BulkInserts, explicit: frozenset[str]) -> BulkInserts:
    """As it is; LabError for values of parts that are not measured."""
    for part in ("columns", "sessions"):
        if part not in wanted.parts:
            refuse_unused(explicit, (part,), f"--parts {part}")
    if not _SIZED_PARTS & set(wanted.parts):
        refuse_unused(explicit, ("table_size",), "--parts other than small")
    return wanted


def _cases(wanted: BulkInserts, folder: Path) -> list[Case]:
    """What is measured; files of rows lie in the folder."""
    sizes = (wanted.table_size, wanted.columns, wanted.sessions)
    return cases_for(wanted.parts, Conditions(*sizes, folder / "rows.copy"))


def _estimated_seconds(wanted: BulkInserts) -> float:
    """Each table that rows come from is made once, which takes as long as a sample."""
    cases = _cases(wanted, Path())
    samples = sum(len(case.arms) for case in cases) * (wanted.repetitions + 1)
    samples += len({case.source for case in cases})
    return seconds_of(samples, wanted.table_size)


EXPERIMENT = Experiment(
    name="bulk-insert",
    summary="INSERT ... SELECT and new tables, row by row and in batches.",
    description="The rows come from a table in the cache. The parts: narrow rows (flat), rows of "
    "1 to 128 columns (columns), against COPY from a binary file (copy), into tables that the "
    "transaction has made (new-table), into tables with indexes (indexes), statements of 1 to 100 "
    "rows (small), several sessions at once (sessions).",
    cold=False,
    asked=BulkInserts,
    settings=lambda wanted: INSERT_SETTINGS,
    needed_bytes=lambda wanted: space_for(wanted.table_size),
    estimated_seconds=_estimated_seconds,
    measure=_measure,
    settle=_settle,
)
