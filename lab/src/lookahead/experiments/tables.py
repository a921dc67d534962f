"""What experiments on tables have in common: the server's settings, and facts of a table."""

import time
from typing import Any

import psycopg

from lookahead.measurements import Table

# What estimates of a run's time go by: a stop, empty caches, a start on a virtual machine with two
# processors.
COLD_RESTART_SECONDS = 1.0
# As for index scans: nothing but what keeps other work away, see index_scan.py.
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
