"""The experiment "bulk-insert": the same rows inserted by stock and by pg_lookahead in batches.

The rows come from a table that has just been read, which lies in the cache of the operating system
and, as far as there is room, in shared buffers. Before each sample the table that they go to is
made anew and a checkpoint is written, so that no sample pays for another's writes. What is timed is
the statement with its commit. Before anything is measured every arm has inserted once, and the
content of the tables is compared: an insert that is faster and different is no success.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import fmean
from time import monotonic

from lookahead.account import acting_as_owner
from lookahead.errors import LabError
from lookahead.experiments.arms import connect_arm
from lookahead.experiments.bulk_insert_cases import (
    COPY,
    PARTS,
    Case,
    Conditions,
    Source,
    cases_for,
)
from lookahead.experiments.bulk_insert_watch import (
    check_path,
    content_of,
    file_extents,
    read_counters,
    summed,
    wal_bytes_since,
    wal_position,
)
from lookahead.experiments.conditions import fill_table, relation_path
from lookahead.experiments.experiment import (
    REPETITIONS,
    Choice,
    Count,
    Experiment,
    MemorySize,
    Option,
    refuse_unused,
)
from lookahead.experiments.runner import Run
from lookahead.experiments.trials import Trial, Trials, alternate, run_together
from lookahead.measurements import Arm, Sample
from lookahead.server import Session
from lookahead.terminal import ProgressBar

_SETTINGS = {
    "shared_buffers": "512MB",
    "wal_level": "replica",
    "max_parallel_workers_per_gather": "0",
    # Of several sessions each reads the first rows.
    "synchronize_seqscans": "off",
    "autovacuum": "off",
    "jit": "off",
    # No checkpoint but those between the samples.
    "checkpoint_timeout": "1h",
    "max_wal_size": "32GB",
}
# Loops of small statements are repeated, and the fastest counts: other work on the machine makes
# each longer than the next. Arbitrary.
_LOOPS = 5
_MAX_COLUMNS, _MAX_SESSIONS = 1600, 64  # of core; of the default max_connections, arbitrary
_MAX_EXTEND_KB = 64 * 1024  # the setting's own bound
_MAX_TABLE_KB = 1024 * 1024 * 1024
# Source, target, its indexes, the WAL of all, the file of COPY.
_SPACE_FACTOR = 8
# What estimates of a run's time go by; measured on a virtual machine with two processors.
_SECONDS_PER_SAMPLE, _SECONDS_PER_KB = 0.3, 1.2e-5
_SIZED_PARTS = frozenset(PARTS) - {"small"}


@dataclass(frozen=True)
class BulkInserts:
    """What is wanted, sizes in kB."""

    repetitions: int = REPETITIONS.sized(6, demo=5)
    parts: tuple[str, ...] = Option(
        Choice(PARTS), "What is measured, see above.", default="all"
    ).sized(PARTS)
    table_size: int = Option(
        MemorySize(64, _MAX_TABLE_KB), "Size of the rows that are inserted."
    ).sized(128 * 1024, demo=32 * 1024, full=2048 * 1024)
    columns: tuple[int, ...] = Option(
        Count(1, _MAX_COLUMNS), "Columns of the part columns, all of them int."
    ).sized((1, 8, 32, 128))
    sessions: tuple[int, ...] = Option(
        Count(1, _MAX_SESSIONS), "Sessions of the part sessions, into one table."
    ).sized((1, 2, 4))
    extend_size: tuple[int, ...] = Option(
        MemorySize(0, _MAX_EXTEND_KB), "pg_lookahead.bulk_extend_size in the part extend."
    ).sized((0, 64, 512, 4096, 16384))


class _BulkInsert:
    """One run of the experiment."""

    def __init__(self, run: Run, wanted: BulkInserts) -> None:
        self._run = run
        self._server = run.server
        self._wanted = wanted
        self._trials = Trials(run)

    def measure(self) -> None:
        """Make the tables that rows come from, each before the cases that need it."""
        self._server.start()
        with self._server.connect() as connection:
            self._run.record_settings(connection)
            connection.execute("CREATE EXTENSION pg_lookahead")
            cases = _cases(self._wanted, self._server.work_directory)
            rounds = self._wanted.repetitions + 1
            with self._run.terminal.progress(sum(len(c.arms) for c in cases) * rounds) as bar:
                for source, some in groupby(cases, key=lambda case: case.source):
                    with self._made(connection, source, bar):
                        self._measure_all(connection, some, bar)

    @contextmanager
    def _made(self, connection: Session, source: Source | None, bar: ProgressBar) -> Iterator[None]:
        """The table is there meanwhile, and every page of it all-visible."""
        if source is None:
            yield
            return
        size_kb, seed = self._wanted.table_size, self._run.document.parameters.seed
        bar.describe(f"making a table of {source.rows(size_kb):,} rows")
        table = fill_table(connection, source.name, source.columns, source.fill(size_kb, seed))
        self._trials.add_table(table)
        yield
        connection.execute(f"DROP TABLE {source.name}")

    def _measure_all(self, connection: Session, cases: Iterable[Case], bar: ProgressBar) -> None:
        for case in cases:
            for statement in case.first:
                connection.execute(statement)
            self._measure(connection, case, bar)
            connection.execute(case.after)

    def _measure(self, connection: Session, case: Case, bar: ProgressBar) -> None:
        """Every arm once, to compare what it inserts; then the samples."""
        trial = _trial_of(case)
        self._trials.begin(trial)
        found = {}
        for arm in case.arms:
            bar.describe(f"{case.scenario.label}: comparing rows")
            self._sample(connection, case, 0, arm)
            found[arm.name] = content_of(connection, case.target)
            bar.advance()
        self._trials.add_check(trial, _same_content(case, found))
        for number, arm in alternate(case.arms, self._wanted.repetitions):
            bar.describe(f"{case.scenario.label}: {arm.name}")
            self._trials.add_samples([self._sample(connection, case, number, arm)])
            bar.advance()

    def _sample(self, connection: Session, case: Case, number: int, arm: Arm) -> Sample:
        """One insert into the table as it is before; `connection` does what is around it."""
        for statement in case.before:
            connection.execute(statement)
        connection.execute("CHECKPOINT")
        with ExitStack() as stack:
            sessions = [
                stack.enter_context(connect_arm(self._server, arm)) for _ in range(case.sessions)
            ]
            for session in sessions:
                _get_ready(session, case, arm)
            before = [read_counters(session, arm) for session in sessions]
            position = wal_position(connection)
            times = _times_ms(sessions, case, arm)
            wal_bytes = wal_bytes_since(connection, position)
            counted = [
                read_counters(session, arm).since(earlier)
                for session, earlier in zip(sessions, before, strict=True)
            ]
            for one in counted:
                check_path(one, case, arm)
            counts = {
                "inserted_rows": float(_inserted_rows(case)),
                "wal_bytes": wal_bytes,
                **summed(counted),
                **self._size_of(connection, case),
            }
        return Sample(
            scenario=case.scenario,
            round=number,
            sequence=0,
            arm=arm.name,
            time_ms=fmean(times),
            session_ms=tuple(times),
            executions=case.executions,
            counts=counts,
        )

    def _size_of(self, connection: Session, case: Case) -> dict[str, float]:
        """The bytes of the table, and where it matters in how many pieces it is on the disk."""
        row = connection.execute(f"SELECT pg_table_size('{case.target}')").fetchone()
        assert row is not None
        sizes = {"table_bytes": float(row[0])}
        if case.counts_extents:
            connection.execute("CHECKPOINT")
            path = relation_path(connection, self._server.data_directory, case.target)
            with acting_as_owner(self._server.data_directory):
                extents = file_extents(path)
            if extents is not None:
                sizes["file_extents"] = float(extents)
        return sizes


def _trial_of(case: Case) -> Trial:
    return Trial(
        scenario=case.scenario,
        statement=case.statement,
        arms=case.arms,
        questions=case.questions,
        server={},
        cold=False,
    )


def _inserted_rows(case: Case) -> int:
    """What a sample inserts."""
    loops = _LOOPS * case.executions if case.executions > 1 else 1
    return case.rows * loops * case.sessions


def _get_ready(session: Session, case: Case, arm: Arm) -> None:
    """Load the catalogs, where there is a plan; begin the transaction of the insert."""
    if arm.name != COPY:
        session.execute(f"EXPLAIN {case.statement_of(arm)}")
    for statement in ("BEGIN", *case.opening) if case.opening else ():
        session.execute(statement)


def _times_ms(sessions: list[Session], case: Case, arm: Arm) -> list[float]:
    """What each session takes, all of them at once."""
    statement = case.statement_of(arm)
    if case.executions > 1:
        (session,) = sessions
        loop = f"DO $$BEGIN FOR i IN 1..{case.executions} LOOP {statement}; END LOOP; END$$"
        return [min(_loop_ms(session, loop) for _ in range(_LOOPS)) / case.executions]
    return run_together([partial(_insert_ms, session, case, statement) for session in sessions])


def _loop_ms(session: Session, loop: str) -> float:
    started = monotonic()
    session.execute(loop)
    return (monotonic() - started) * 1000


def _insert_ms(session: Session, case: Case, statement: str) -> float:
    """The time of a statement with its commit; LabError unless it inserts what it should."""
    started = monotonic()
    inserted = session.execute(statement).rowcount
    if case.opening:
        session.execute("COMMIT")
    time_ms = (monotonic() - started) * 1000
    if inserted != case.rows:
        raise LabError(
            f"{inserted} rows were inserted instead of {case.rows}: {case.scenario.label}",
            "This is a bug, report it.",
        )
    return round(time_ms, 3)


def _same_content(case: Case, found: dict[str, tuple[int, str]]) -> dict[str, str]:
    """What to show of the content of the table by arm; LabError when it differs."""
    if len(set(found.values())) != 1:
        rows = ", ".join(f"{name} {number} rows" for name, (number, _) in found.items())
        raise LabError(
            f"the arms filled the table with different rows: {case.scenario.label}: {rows}",
            "This is a bug of pg_lookahead, report it.",
        )
    ((number, _),) = set(found.values())
    return {"same rows": f"{number:,} in each of {', '.join(found)}"}


def _settle(wanted: BulkInserts, explicit: frozenset[str]) -> BulkInserts:
    """As it is; LabError for values of parts that are not measured."""
    for part, name in (("columns",) * 2, ("sessions",) * 2, ("extend", "extend_size")):
        if part not in wanted.parts:
            refuse_unused(explicit, (name,), f"--parts {part}")
    if not _SIZED_PARTS & set(wanted.parts):
        refuse_unused(explicit, ("table_size",), "--parts other than small")
    return wanted


def _cases(wanted: BulkInserts, folder: Path) -> list[Case]:
    """What is measured; files of rows lie in the folder."""
    sizes = (wanted.table_size, wanted.columns, wanted.sessions, wanted.extend_size)
    return cases_for(wanted.parts, Conditions(*sizes, folder / "rows.copy"))


def _needed_bytes(wanted: BulkInserts) -> int:
    return wanted.table_size * 1024 * _SPACE_FACTOR


def _estimated_seconds(wanted: BulkInserts) -> float:
    """Each table that rows come from is made once, which takes as long as a sample."""
    cases = _cases(wanted, Path())
    samples = sum(len(case.arms) for case in cases) * (wanted.repetitions + 1)
    samples += len({case.source for case in cases})
    return samples * (_SECONDS_PER_SAMPLE + wanted.table_size * _SECONDS_PER_KB)


EXPERIMENT = Experiment(
    name="bulk-insert",
    summary="INSERT ... SELECT and new tables, row by row and in batches.",
    description="The rows come from a table in the cache. The parts: narrow rows (flat), rows of "
    "1 to 128 columns (columns), against COPY from a binary file (copy), into tables that the "
    "transaction has made (new-table), into tables with indexes (indexes), statements of 1 to 100 "
    "rows (small), several sessions at once (sessions), by pg_lookahead.bulk_extend_size (extend).",
    cold=False,
    asked=BulkInserts,
    settings=lambda wanted: _SETTINGS,
    needed_bytes=_needed_bytes,
    estimated_seconds=_estimated_seconds,
    measure=lambda run, wanted: _BulkInsert(run, wanted).measure(),
    settle=_settle,
)
