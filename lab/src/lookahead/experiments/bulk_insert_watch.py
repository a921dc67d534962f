"""What is known of an insert beside its time: whose code it was, its WAL, the extents of its file.

Counters are those of `pg_stat_lookahead` in the session that inserted, which does nothing else.
"""

import fcntl
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from lookahead.errors import LabError
from lookahead.experiments.bulk_insert_cases import Case
from lookahead.experiments.conditions import fetch_row, segments_of
from lookahead.measurements import Arm
from lookahead.server import Session

_COUNTED = (
    *("batched_rows", "batches", "extensions", "extended_blocks", "sorted_entries"),
    "built_by_us",
)
_COUNTERS = """
    SELECT inserts.batched_rows, inserts.batches, inserts.extensions, inserts.extended_blocks,
           inserts.sorted_entries, builds.scans, inserts.fallbacks
    FROM pg_stat_lookahead AS inserts, pg_stat_lookahead AS builds
    WHERE inserts.feature = 'bulk_insert' AND builds.feature = 'index_build'"""
# FS_IOC_FIEMAP of linux/fs.h, and `struct fiemap` of linux/fiemap.h before its extents: start,
# length, flags, mapped extents, room for extents, reserved. Without room they are only counted.
_FIEMAP, _FIEMAP_HEAD = 0xC020660B, struct.Struct("=QQIIII")
_FIEMAP_SYNC, _WHOLE_FILE = 1, 2**64 - 1


@dataclass(frozen=True)
class InsertCounters:
    """What a session's pg_lookahead has counted so far, by name; and why it left inserts alone."""

    numbers: Mapping[str, int]
    reasons: tuple[str, ...]

    def since(self, before: Self) -> Self:
        """What has come since then."""
        numbers = {name: number - before.numbers[name] for name, number in self.numbers.items()}
        return replace(self, numbers=numbers)


_NOTHING = InsertCounters(dict.fromkeys(_COUNTED, 0), ())


def read_counters(session: Session, arm: Arm) -> InsertCounters:
    """All zero where the library is not loaded: the view itself would load it."""
    if arm.library == "not loaded":
        return _NOTHING
    *numbers, reasons = fetch_row(session, _COUNTERS)
    return InsertCounters(dict(zip(_COUNTED, map(int, numbers), strict=True)), tuple(reasons))


def summed(sessions: Iterable[InsertCounters]) -> dict[str, float]:
    """What all of them have counted, without zeros."""
    total = dict.fromkeys(_COUNTED, 0.0)
    for one in sessions:
        for name, number in one.numbers.items():
            total[name] += number
    return {name: number for name, number in total.items() if number}


def check_path(counted: InsertCounters, case: Case, arm: Arm) -> None:
    """LabError unless the arm's own code has inserted the rows of a session."""
    batched, built = counted.numbers["batched_rows"], counted.numbers["built_by_us"]
    label = case.scenario.label
    if arm.library == "off" and batched:
        raise LabError(
            f"pg_lookahead inserted rows of an arm in which it is switched off: {label}",
            "This is a bug of pg_lookahead, report it.",
        )
    is_missed = batched < case.batched * case.executions or built < case.built
    if arm.library == "on" and is_missed:
        reasons = ", ".join(counted.reasons) or "no reason was counted"
        raise LabError(
            f"our path did not run: {batched} rows were inserted in batches and {built} indexes "
            f"built at the end ({reasons}): {label}",
            "Is pg_lookahead.disable set, or the library of another build? If not, report it.",
        )


def wal_position(connection: Session) -> str:
    """Where the next record goes."""
    (position,) = fetch_row(connection, "SELECT pg_current_wal_insert_lsn()")
    return str(position)


def wal_bytes_since(connection: Session, position: str) -> float:
    """What was written to the WAL since then, by all sessions."""
    (size,) = fetch_row(connection, f"SELECT pg_current_wal_insert_lsn() - '{position}'::pg_lsn")
    return float(size)


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
