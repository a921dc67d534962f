"""Takes the samples of inserts: each of its own, into tables made anew, with a checkpoint before.

The rows come from a table that has just been read, which lies in the cache of the operating system
and, as far as there is room, in shared buffers. What is timed is the statement with its commit.
Before anything is measured every arm has inserted once, and the content of the tables is compared:
an insert that is faster and different is no success.

Counters are those of `pg_stat_lookahead` in the session that inserted, which does nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from time import monotonic
from typing import Any, Generic, Self

from lookahead.errors import LabError
from lookahead.experiments.arms import connect_arm
from lookahead.experiments.bulk_insert_cases import Case, CaseT, Source
from lookahead.experiments.conditions import (
    MADE_BY_STOCK,
    fetch_row,
    fill_table,
    wal_bytes_since,
    wal_position,
)
from lookahead.experiments.experiment import MemorySize, Option
from lookahead.experiments.runner import Run
from lookahead.experiments.trials import Trial, Trials, alternate
from lookahead.measurements import Arm, Sample
from lookahead.report.sentences import labelling
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


_COUNTED = (
    *("batched_rows", "batches", "extensions", "extended_blocks", "sorted_entries"),
    "built_by_us",
)
_COUNTERS = """
    SELECT inserts.batched_rows, inserts.batches, inserts.extensions, inserts.extended_blocks,
           inserts.sorted_entries, builds.scans, inserts.fallbacks
    FROM pg_stat_lookahead AS inserts, pg_stat_lookahead AS builds
    WHERE inserts.feature = 'bulk_insert' AND builds.feature = 'index_build'"""


class Inserts(Generic[CaseT]):
    """The inserts of a run, of rows that take `table_kb`."""

    def __init__(self, run: Run, table_kb: int) -> None:
        self._run = run
        self.server = run.server
        self._table_kb = table_kb
        self.trials: Trials[Any] = Trials(run)

    def start(self) -> None:
        self.server.start()
        with self.server.connect() as connection:
            self._run.record_settings(connection)
            connection.execute("CREATE EXTENSION pg_lookahead")

    def measure_all(self, cases: Sequence[CaseT], repetitions: int) -> None:
        """Make the tables that rows come from, each before the cases that need it."""
        samples = sum(len(case.arms) for case in cases) * repetitions
        self.trials.label = label = labelling(case.scenario for case in cases)
        with self.server.connect() as connection, self._run.terminal.progress(samples) as bar:
            for source, some in groupby(cases, key=lambda case: case.source):
                if source is not None:
                    bar.describe(f"making {source.name}")
                    self.make(connection, source)
                for case in some:
                    bar.describe(f"{label(case.scenario)}: comparing rows")
                    self.begin(connection, case)
                    for number, arm in alternate(case.arms, repetitions):
                        bar.describe(f"{label(case.scenario)}: {arm.name}")
                        self.trials.add_samples([self.sample(case, connection, number, arm)])
                        bar.advance()
                    connection.execute(case.after)
                if source is not None:
                    connection.execute(f"DROP TABLE {source.name}")

    def make(self, connection: Session, source: Source) -> None:
        """A table that rows come from, every page of it all-visible."""
        fill = source.fill(self._table_kb, self._run.document.parameters.seed)
        self.trials.add_table(fill_table(connection, source.name, source.columns, fill))

    def begin(self, connection: Session, case: CaseT) -> None:
        """Every arm inserts once, to compare what it inserts."""
        statement = case.statement_of(case.arms[0])
        self.trials.begin(trial := Trial(case.scenario, statement, case.arms, case.questions, {}))
        found = {}
        for arm in case.arms:
            self.sample(case, connection, 0, arm)
            found[arm.name] = tuple(content_of(connection, table) for table in case.tables_of(arm))
        self.trials.add_check(trial, _same_content(case, found))

    def prepare(self, connection: Session, case: CaseT) -> None:
        for statement in (*case.before, "CHECKPOINT"):
            connection.execute(statement)

    def sample(self, case: CaseT, connection: Session, number: int, arm: Arm) -> Sample:
        """One insert into the table as it is before; `connection` does what is around it."""
        self.prepare(connection, case)
        statement = case.statement_of(arm)
        with connect_arm(self.server, arm) as session:
            get_ready(session, case, statement)
            before, position = read_counters(session), wal_position(connection)
            time_ms = insert_ms(session, case, statement)
            wal_bytes = wal_bytes_since(connection, position)
            counted = read_counters(session).since(before)
        check_path(counted, case, arm)
        counts = {
            "inserted_rows": float(case.rows),
            "wal_bytes": wal_bytes,
            **counted.counts(),
            "table_bytes": sum(table_bytes(connection, table) for table in case.tables_of(arm)),
        }
        return Sample(case.scenario, number, 0, arm.name, time_ms, (time_ms,), counts=counts)


def get_ready(session: Session, case: Case, statement: str) -> None:
    """Load the catalogs, where there is a plan; begin the transaction of the insert."""
    if not statement.startswith("COPY"):
        session.execute(f"EXPLAIN {statement}")
    for opening in ("BEGIN", *case.opening) if case.opening else ():
        session.execute(opening)


def insert_ms(session: Session, case: Case, statement: str) -> float:
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


@dataclass(frozen=True)
class InsertCounters:
    """What a session's pg_lookahead has counted so far, by name; and why it left inserts alone."""

    numbers: Mapping[str, int]
    reasons: tuple[str, ...]

    def since(self, before: Self) -> Self:
        numbers = {name: number - before.numbers[name] for name, number in self.numbers.items()}
        return replace(self, numbers=numbers)

    def counts(self) -> dict[str, float]:
        """Without zeros."""
        return {name: float(number) for name, number in self.numbers.items() if number}


NO_COUNTERS = InsertCounters(dict.fromkeys(_COUNTED, 0), ())


def read_counters(session: Session) -> InsertCounters:
    *numbers, reasons = fetch_row(session, _COUNTERS)
    return InsertCounters(dict(zip(_COUNTED, map(int, numbers), strict=True)), tuple(reasons))


def check_path(counted: InsertCounters, case: Case, arm: Arm, *, times: int = 1) -> None:
    """LabError unless the arm's own code has inserted the rows of a session, so many times."""
    batched, built = counted.numbers["batched_rows"], counted.numbers["built_by_us"]
    label = case.scenario.label
    if arm.library == "off" and batched:
        raise LabError(
            f"pg_lookahead inserted rows of an arm in which it is switched off: {label}",
            "This is a bug of pg_lookahead, report it.",
        )
    is_missed = batched < case.batched * times or built < case.built
    if arm.library == "on" and is_missed:
        reasons = ", ".join(counted.reasons) or "no reason was counted"
        raise LabError(
            f"our path did not run: {batched} rows were inserted in batches and {built} indexes "
            f"built at the end ({reasons}): {label}",
            "Is pg_lookahead.disable set, or the library of another build? If not, report it.",
        )


Content = tuple[int, str]
"""Of a table: its rows, and a sum of their hashes."""


def content_of(connection: Session, table: str) -> Content:
    """The number of rows, and a sum of their hashes that does not depend on their order."""
    rows, total = fetch_row(
        connection,
        f"SELECT count(*), coalesce(sum(hash_record_extended(r, 0)::numeric), 0) FROM {table} AS r",
    )
    return int(rows), str(total)


def table_bytes(connection: Session, table: str) -> float:
    """The bytes of a table, of a partitioned one those of its leaves."""
    (size,) = fetch_row(
        connection,
        "SELECT coalesce(sum(pg_table_size(relid)), pg_table_size(%(table)s::regclass)) "
        "FROM pg_partition_tree(%(table)s::regclass)",
        table=table,
    )
    return float(size)


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
