"""Takes the samples of inserts: each of its own, into tables made anew, with a checkpoint before.

The rows come from a table that has just been read, which lies in the cache of the operating system
and, as far as there is room, in shared buffers. What is timed is the statement with its commit.
Before anything is measured every arm has inserted once, and the content of the tables is compared:
an insert that is faster and different is no success.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from statistics import fmean
from time import monotonic

from lookahead.account import acting_as_owner
from lookahead.errors import LabError
from lookahead.experiments.arms import connect_arm
from lookahead.experiments.bulk_insert_cases import Case, Source
from lookahead.experiments.bulk_insert_watch import (
    Content,
    check_path,
    content_of,
    file_extents,
    read_counters,
    summed,
    table_bytes,
    wal_bytes_since,
    wal_position,
)
from lookahead.experiments.conditions import MADE_BY_STOCK, fill_table, relation_path
from lookahead.experiments.experiment import MemorySize, Option
from lookahead.experiments.runner import Run
from lookahead.experiments.trials import Trial, Trials, alternate, run_together
from lookahead.measurements import Arm, Sample
from lookahead.server import Session

# Arms that insert in batches say so.
INSERT_SETTINGS = {
    **MADE_BY_STOCK,
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
INSERTED_SIZE = Option(MemorySize(64, 1024**3), "Size of the rows that are inserted.")
# Source, target, its indexes, the WAL of all, the file of COPY.
_SPACE_FACTOR = 8
# What estimates of a run's time go by; measured on a virtual machine with two processors.
_SECONDS_PER_SAMPLE, _SECONDS_PER_KB = 0.3, 1.2e-5


def space_for(table_kb: int) -> int:
    """Bytes of disk that inserts of so much take."""
    return table_kb * 1024 * _SPACE_FACTOR


def seconds_of(samples: int, table_kb: int) -> float:
    """What so many inserts of so much take, with what is around them."""
    return samples * (_SECONDS_PER_SAMPLE + table_kb * _SECONDS_PER_KB)


class Inserts:
    """The inserts of a run, of rows that take `table_kb`."""

    def __init__(self, run: Run, table_kb: int) -> None:
        self._run = run
        self._server = run.server
        self._table_kb = table_kb
        self.trials = Trials(run)

    def start(self) -> None:
        """Start the server, with the extension in its database."""
        self._server.start()
        with self._server.connect() as connection:
            self._run.record_settings(connection)
            connection.execute("CREATE EXTENSION pg_lookahead")

    def measure_all(self, cases: Sequence[Case], repetitions: int) -> None:
        """Make the tables that rows come from, each before the cases that need it."""
        samples = sum(len(case.arms) for case in cases) * repetitions
        with self._server.connect() as connection, self._run.terminal.progress(samples) as bar:
            for source, some in groupby(cases, key=lambda case: case.source):
                if source is not None:
                    bar.describe(f"making {source.name}")
                    self.make(connection, source)
                for case in some:
                    bar.describe(f"{case.scenario.label}: comparing rows")
                    self.begin(connection, case)
                    for number, arm in alternate(case.arms, repetitions):
                        bar.describe(f"{case.scenario.label}: {arm.name}")
                        self.trials.add_samples([self.sample(case, connection, number, arm)])
                        bar.advance()
                    connection.execute(case.after)
                if source is not None:
                    connection.execute(f"DROP TABLE {source.name}")

    def make(self, connection: Session, source: Source) -> None:
        """A table that rows come from, every page of it all-visible."""
        fill = source.fill(self._table_kb, self._run.document.parameters.seed)
        self.trials.add_table(fill_table(connection, source.name, source.columns, fill))

    def begin(self, connection: Session, case: Case) -> None:
        """Every arm inserts once, to compare what it inserts."""
        for statement in case.first:
            connection.execute(statement)
        statement = case.statement_of(case.arms[0])
        self.trials.begin(trial := Trial(case.scenario, statement, case.arms, case.questions, {}))
        found = {}
        for arm in case.arms:
            self.sample(case, connection, 0, arm)
            found[arm.name] = tuple(content_of(connection, table) for table in case.tables_of(arm))
        self.trials.add_check(trial, _same_content(case, found))

    def sample(self, case: Case, connection: Session, number: int, arm: Arm) -> Sample:
        """One insert into the table as it is before; `connection` does what is around it."""
        for statement in case.before:
            connection.execute(statement)
        connection.execute("CHECKPOINT")
        with ExitStack() as stack:
            sessions = [
                stack.enter_context(connect_arm(self._server, arm)) for _ in range(case.sessions)
            ]
            for place, session in enumerate(sessions):
                _get_ready(session, case, arm, place)
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
                **self.sizes_of(connection, *case.tables_of(arm), extents=case.counts_extents),
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

    def sizes_of(self, connection: Session, *tables: str, extents: bool) -> dict[str, float]:
        """The bytes of tables; with `extents` in how many pieces they are on the disk, if known."""
        sizes = {"table_bytes": sum(table_bytes(connection, table) for table in tables)}
        if extents:
            connection.execute("CHECKPOINT")
            folder = self._server.data_directory
            files = [relation_path(connection, folder, table) for table in tables]
            with acting_as_owner(folder):
                found = [file_extents(file) for file in files]
            if None not in found:
                sizes["file_extents"] = float(sum(filter(None, found)))
        return sizes


def _inserted_rows(case: Case) -> int:
    """What a sample inserts."""
    loops = _LOOPS * case.executions if case.executions > 1 else 1
    return case.rows * loops * case.sessions


def _get_ready(session: Session, case: Case, arm: Arm, number: int) -> None:
    """Load the catalogs, where there is a plan; begin the transaction of the insert."""
    statement = case.statement_of(arm, number)
    if not statement.startswith("COPY"):
        session.execute(f"EXPLAIN {statement}")
    for statement in ("BEGIN", *case.opening) if case.opening else ():
        session.execute(statement)


def _times_ms(sessions: list[Session], case: Case, arm: Arm) -> list[float]:
    """What each session takes, all of them at once."""
    statements = [case.statement_of(arm, place) for place in range(len(sessions))]
    if case.executions > 1:
        (session,), (statement,) = sessions, statements
        loop = f"DO $$BEGIN FOR i IN 1..{case.executions} LOOP {statement}; END LOOP; END$$"
        return [min(_loop_ms(session, loop) for _ in range(_LOOPS)) / case.executions]
    inserts = zip(sessions, statements, strict=True)
    return run_together([partial(_insert_ms, session, case, sql) for session, sql in inserts])


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


def _same_content(case: Case, found: dict[str, tuple[Content, ...]]) -> dict[str, str]:
    """What to show of the content of the tables by arm; LabError when it differs."""
    rows_of = {name: sum(rows for rows, _ in tables) for name, tables in found.items()}
    if len(set(found.values())) != 1:
        rows = ", ".join(f"{name} {number} rows" for name, number in rows_of.items())
        raise LabError(
            f"the arms filled the table with different rows: {case.scenario.label}: {rows}",
            "This is a bug of pg_lookahead, report it.",
        )
    (number,) = set(rows_of.values())
    return {"same rows": f"{number:,} in each of {', '.join(found)}"}
