"""The experiment "bulk-insert": the lab's parts of that name, and further ones.

Rows of many columns, COPY from a binary file of the same rows, statements of few rows, several
sessions at once. Rows that are nothing but integers are as many as take the same pages.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lookahead.experiments import bulk_insert_cases as lab
from lookahead.experiments.arms import arm_of
from lookahead.experiments.bulk_insert_cases import (
    NARROW,
    OUR_ARM,
    OURS,
    PAD_LETTERS,
    SINGLE_ROWS,
    SWITCH,
    TARGET,
    Source,
    against,
    empty_table,
    insert_all,
    row_bytes,
    scenario_of,
)
from lookahead.experiments.bulk_insert_trials import (
    INSERT_SETTINGS,
    INSERTED_SIZE,
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
from lookahead_bench.insert_trials import NOT_LOADED, SessionCase, SessionInserts

COPY = "COPY BINARY"
# Commits do not wait for the device: a loop of small inserts is shorter than that.
_NO_WAIT = {"synchronous_commit": "off"}
_MAX_COLUMNS, _MAX_SESSIONS = 1600, 64  # of core; of the default max_connections, arbitrary


def wide_source(columns: int) -> Source:
    """A table of so many columns, all of them integers."""
    numbers = range(1, columns + 1)
    return Source(
        f"lookahead_rows_{columns}",
        ", ".join(f"c{number} int" for number in numbers),
        ", ".join(f"i + {number}" for number in numbers),
        row_bytes(4 * columns),
    )


@dataclass(frozen=True)
class Conditions:
    """What cases are made for, sizes in kB; `file` is one that the server can write."""

    table_kb: int
    columns: tuple[int, ...]
    sessions: tuple[int, ...]
    file: Path


def cases_for(parts: Sequence[str], conditions: Conditions) -> list[SessionCase]:
    """The cases of these parts, those that read the same table side by side."""
    found = [case for part in parts for case in _cases_of(part, conditions)]
    sources = list(dict.fromkeys(case.source for case in found))
    return sorted(found, key=lambda case: sources.index(case.source))


def _cases_of(part: str, conditions: Conditions) -> Iterator[SessionCase]:
    if part in _CASES:
        yield from _CASES[part](conditions)
    else:
        yield from (SessionCase(**vars(one)) for one in lab.cases_for((part,), conditions.table_kb))


def _columns(conditions: Conditions) -> Iterator[SessionCase]:
    for number in conditions.columns:
        name = f"{number} column{'s' if number > 1 else ''}"
        case = insert_all("columns", name, conditions.table_kb, wide_source(number))
        yield SessionCase(**vars(case))


def name_of(file: Path) -> str:
    """How statements name a file in the server's data directory: anew in each run, which no result
    needs to know. In quotes."""
    return file.name.replace("'", "''")


def _copy(conditions: Conditions) -> Iterator[SessionCase]:
    """From a file of the same rows, by stock."""
    file = str(conditions.file).replace("'", "''")
    for name in ("unlogged", "logged"):
        case = insert_all("copy", name, conditions.table_kb, unlogged=name == "unlogged")
        yield replace(
            SessionCase(**vars(case)),
            arms=(arm_of(COPY, ""), OUR_ARM),
            questions=against(case.scenario, COPY),
            first=(f"COPY {NARROW.name} TO '{file}' (FORMAT binary)",),
            statements={COPY: f"COPY {TARGET} FROM '{name_of(conditions.file)}' (FORMAT binary)"},
        )


# Executions in a loop, by the rows of the statement: of some hundredths of a second.
_SMALL = {1: 20_000, 10: 5_000, 100: 1_000}


def _small(conditions: Conditions) -> Iterator[SessionCase]:
    """Statements that gain nothing, against sessions without the library."""
    for rows, executions in _SMALL.items():
        name = f"VALUES of {rows} row{'s' if rows > 1 else ''}"
        scenario = scenario_of("small", name)
        values = ", ".join(f"({row}, {-row}, '{'x' * PAD_LETTERS}')" for row in range(rows))
        yield SessionCase(
            scenario=scenario,
            source=None,
            statement=f"INSERT INTO {TARGET} VALUES {values}",
            rows=rows,
            before=empty_table(NARROW.columns),
            batched=max(rows - SINGLE_ROWS, 0),
            arms=(
                arm_of(NOT_LOADED, "", "not loaded", _NO_WAIT),
                arm_of(OURS, "", "on", {**SWITCH, **_NO_WAIT}),
            ),
            questions=against(scenario, NOT_LOADED),
            executions=executions,
        )


def _sessions(conditions: Conditions) -> Iterator[SessionCase]:
    """All sessions together insert as many rows as one."""
    for number in conditions.sessions:
        name = f"{number} session{'s' if number > 1 else ''}"
        case = insert_all("sessions", name, conditions.table_kb)
        rows = max(case.rows // number, 1)
        yield replace(
            SessionCase(**vars(case)),
            statement=f"{case.statement} LIMIT {rows}",
            rows=rows,
            batched=rows - SINGLE_ROWS,
            sessions=number,
        )


_CASES: Mapping[str, Callable[[Conditions], Iterator[SessionCase]]] = {
    "columns": _columns,
    "copy": _copy,
    "small": _small,
    "sessions": _sessions,
}
OWN_PARTS = tuple(_CASES)
PARTS = (*lab.PARTS, *OWN_PARTS)


@dataclass(frozen=True)
class BulkInserts:
    """What is wanted, sizes in kB."""

    repetitions: int = REPETITIONS.sized(6)
    parts: tuple[str, ...] = Option(
        Choice(PARTS), "What is measured, see above.", default="columns,copy,small,sessions"
    ).sized(OWN_PARTS)
    table_size: int = INSERTED_SIZE.sized(128 * 1024, demo=32 * 1024, full=2048 * 1024)
    columns: tuple[int, ...] = Option(
        Count(1, _MAX_COLUMNS), "Columns of the part columns, all of them int."
    ).sized((1, 8, 32, 128))
    sessions: tuple[int, ...] = Option(
        Count(1, _MAX_SESSIONS), "Sessions of the part sessions, into one table."
    ).sized((1, 2, 4))


def _measure(run: Run, wanted: BulkInserts) -> None:
    inserts = SessionInserts(run, wanted.table_size)
    inserts.start()
    inserts.measure_all(_cases(wanted, run.server.data_directory), wanted.repetitions)


def _settle(wanted: BulkInserts, explicit: frozenset[str]) -> BulkInserts:
    """As it is; LabError for values of parts that are not measured."""
    for part in ("columns", "sessions"):
        if part not in wanted.parts:
            refuse_unused(explicit, (part,), f"--parts {part}")
    if set(wanted.parts) == {"small"}:
        refuse_unused(explicit, ("table_size",), "--parts other than small")
    return wanted


def _cases(wanted: BulkInserts, folder: Path) -> list[SessionCase]:
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
    summary="Inserts of wide rows, beside COPY, of few rows, of several sessions.",
    description="Beside the lab's parts flat, new-table and indexes: rows of 1 to 128 columns "
    "(columns), against COPY from a binary file (copy), statements of 1 to 100 rows (small), "
    "several sessions at once (sessions).",
    asked=BulkInserts,
    settings=lambda wanted: INSERT_SETTINGS,
    needed_bytes=lambda wanted: space_for(wanted.table_size),
    estimated_seconds=_estimated_seconds,
    measure=_measure,
    settle=_settle,
)
