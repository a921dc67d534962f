"""What experiments on tables have in common: settings, facts of a table, reading all of it once."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from lookahead.account import acting_as_owner
from lookahead.errors import LabError
from lookahead.measurements import Table

# What estimates of a run's time go by: a stop, empty caches, a start on a virtual machine with two
# processors.
COLD_RESTART_SECONDS = 1.0
_READ_BYTES = 1 << 20
# Besides the cache size only what keeps other work away from the scan. Depths and I/O settings stay
# at the server's defaults. Tables are made without WAL, and no checkpoint falls into a sample.
SCAN_SETTINGS = {
    "shared_buffers": "256MB",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "checkpoint_timeout": "1h",
    "max_wal_size": "8GB",
}


def table_facts(connection: psycopg.Connection[Any], name: str, started: float) -> Table:
    """What the catalog says of a vacuumed table that was begun at `started` (monotonic clock)."""
    row = connection.execute(
        "SELECT reltuples::bigint, relpages, pg_table_size(oid), pg_indexes_size(oid) "
        f"FROM pg_class WHERE oid = '{name}'::regclass"
    ).fetchone()
    assert row is not None
    seconds = round(time.monotonic() - started, 1)
    return Table(name, row[0], row[1], row[2], row[3], seconds)


def table_as_meant(
    connection: psycopg.Connection[Any], name: str, pages: int, rows: int, started: float
) -> Table:
    """As `table_facts`; LabError unless it has so many pages, all of them all-visible, and rows."""
    found = connection.execute(
        "SELECT relpages, relallvisible, reltuples::bigint FROM pg_class "
        f"WHERE oid = '{name}'::regclass"
    ).fetchone()
    assert found is not None
    if found != (pages, pages, rows):
        raise LabError(
            f"the table has {found[0]} pages ({found[1]} all-visible) and {found[2]} rows "
            f"instead of {pages} pages and {rows} rows",
            "Does this server have another block size or row layout than 8 kB and 64 bit?",
        )
    return table_facts(connection, name, started)


def touch_device(
    connection: psycopg.Connection[Any], data_directory: Path, relations: Sequence[str]
) -> None:
    """Read tables and indexes from the device once, all of them.

    Caches beyond this machine's reach (of a hypervisor, a disk array) then know every page, and
    the arm that meets a page first is not at a disadvantage.
    """
    for relation in relations:
        row = connection.execute(f"SELECT pg_relation_filepath('{relation}')").fetchone()
        assert row is not None
        path = data_directory / str(row[0])
        with acting_as_owner(data_directory):
            # Segments of 1 GB: the file itself, then .1, .2 ...
            for segment in sorted(path.parent.glob(f"{path.name}*")):
                with segment.open("rb", buffering=0) as file:
                    while file.read(_READ_BYTES):
                        pass
