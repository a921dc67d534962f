"""Inserts of several sessions at once, in loops, and by arms that fill other tables.

Beside what the lab counts of an insert stand the extents of the files that it made.
"""

import fcntl
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from time import monotonic

from lookahead.account import acting_as_owner
from lookahead.experiments.arms import connect_arm
from lookahead.experiments.bulk_insert_cases import Case
from lookahead.experiments.bulk_insert_trials import (
    NO_COUNTERS,
    InsertCounters,
    Inserts,
    check_path,
    get_ready,
    insert_ms,
    read_counters,
    table_bytes,
)
from lookahead.experiments.conditions import (
    relation_path,
    segments_of,
    wal_bytes_since,
    wal_position,
)
from lookahead.experiments.runner import Run
from lookahead.measurements import Arm, Sample
from lookahead.server import Session
from lookahead_bench.trials import Trials, run_together

NOT_LOADED = "not loaded"
# Loops of small statements are repeated, and the fastest counts: other work on the machine makes
# each longer than the next. Arbitrary.
_LOOPS = 5
# FS_IOC_FIEMAP of linux/fs.h, and `struct fiemap` of linux/fiemap.h before its extents: start,
# length, flags, mapped extents, room for extents, reserved. Without room they are only counted.
_FIEMAP, _FIEMAP_HEAD = 0xC020660B, struct.Struct("=QQIIII")
_FIEMAP_SYNC, _WHOLE_FILE = 1, 2**64 - 1


@dataclass(frozen=True)
class SessionCase(Case):
    """An insert of several sessions, or of many small statements.

    `first` is executed once. `statements` replace the statement in the arms that they name, and
    `others` the tables `targets`. In a statement `{target}` stands for the table: of several
    sessions each takes the next one. It inserts `rows` in each of `sessions`. Of small ones there
    are so many `executions` in a loop within the server.
    """

    others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    statements: Mapping[str, str] = field(default_factory=dict)
    sessions: int = 1
    executions: int = 1
    counts_extents: bool = False

    def tables_of(self, arm: Arm) -> tuple[str, ...]:
        return self.others.get(arm.name, self.targets)

    def statement_of(self, arm: Arm, session: int = 0) -> str:
        """What the arm executes in a session, counted from 0."""
        tables = self.tables_of(arm)
        statement = self.statements.get(arm.name, self.statement)
        return statement.replace("{target}", tables[session % len(tables)])

    @property
    def all_rows(self) -> int:
        """What a sample inserts."""
        loops = _LOOPS * self.executions if self.executions > 1 else 1
        return self.rows * loops * self.sessions


class SessionInserts(Inserts[SessionCase]):
    """The inserts of a run."""

    def __init__(self, run: Run, table_kb: int) -> None:
        super().__init__(run, table_kb)
        self.trials = Trials(run)

    def begin(self, connection: Session, case: SessionCase) -> None:
        for statement in case.first:
            connection.execute(statement)
        super().begin(connection, case)

    def sample(self, case: SessionCase, connection: Session, number: int, arm: Arm) -> Sample:
        """One insert of all sessions into the tables as they are before."""
        self.prepare(connection, case)
        statements = [case.statement_of(arm, place) for place in range(case.sessions)]
        with ExitStack() as stack:
            sessions = [stack.enter_context(connect_arm(self.server, arm)) for _ in statements]
            for session, statement in zip(sessions, statements, strict=True):
                get_ready(session, case, statement)
            before = [_counters(session, arm) for session in sessions]
            position = wal_position(connection)
            times = _times_ms(sessions, statements, case)
            wal_bytes = wal_bytes_since(connection, position)
            counted = [
                _counters(session, arm).since(earlier)
                for session, earlier in zip(sessions, before, strict=True)
            ]
        for one in counted:
            check_path(one, case, arm, times=case.executions)
        counts = {
            "inserted_rows": float(case.all_rows),
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
            folder = self.server.data_directory
            files = [relation_path(connection, folder, table) for table in tables]
            with acting_as_owner(folder):
                found = [file_extents(file) for file in files]
            if None not in found:
                sizes["file_extents"] = float(sum(filter(None, found)))
        return sizes


def _counters(session: Session, arm: Arm) -> InsertCounters:
    """All zero where the library is not loaded: the view itself would load it."""
    return NO_COUNTERS if arm.library == "not loaded" else read_counters(session)


def summed(sessions: Iterable[InsertCounters]) -> dict[str, float]:
    """What all of them have counted, without zeros."""
    found = [one.counts() for one in sessions]
    return {name: sum(one.get(name, 0) for one in found) for one in found for name in one}


def _times_ms(
    sessions: Sequence[Session], statements: Sequence[str], case: SessionCase
) -> list[float]:
    """What each session takes, all of them at once."""
    if case.executions > 1:
        (session,), (statement,) = sessions, statements
        loop = f"DO $$BEGIN FOR i IN 1..{case.executions} LOOP {statement}; END LOOP; END$$"
        return [min(_loop_ms(session, loop) for _ in range(_LOOPS)) / case.executions]
    inserts = zip(sessions, statements, strict=True)
    return run_together([partial(insert_ms, session, case, sql) for session, sql in inserts])


def _loop_ms(session: Session, loop: str) -> float:
    started = monotonic()
    session.execute(loop)
    return (monotonic() - started) * 1000


def file_extents(file: Path) -> int | None:
    """In how many pieces a relation lies on the disk; None where the file system does not tell."""
    try:
        return sum(map(_extents, segments_of(file)))
    except OSError:
        return None


def _extents(file: Path) -> int:
    head = bytearray(_FIEMAP_HEAD.pack(0, _WHOLE_FILE, _FIEMAP_SYNC, 0, 0, 0))
    with file.open("rb", buffering=0) as opened:
        fcntl.ioctl(opened, _FIEMAP, head)
    extents: int = _FIEMAP_HEAD.unpack(head)[3]
    return extents
