"""The table of the second source article: rows of an integer and a text of 600 bytes."""

import time
from typing import Any

import psycopg

from lookahead.measurements import Table

WIDE, WIDE_KEY = "lookahead_wide", "lookahead_wide_pkey"
_PAD_BYTES, _ROWS_PER_PAGE, _BLOCK_BYTES = 600, 12, 8192


def wide_rows(table_kb: int) -> int:
    """How many rows make a table of so many kB."""
    return max(table_kb * 1024 // _BLOCK_BYTES, 1) * _ROWS_PER_PAGE


def build_wide_table(connection: psycopg.Connection[Any], table_kb: int) -> Table:
    """Make, fill, index and vacuum the table, in the order of its key."""
    started = time.monotonic()
    rows = wide_rows(table_kb)
    with connection.transaction():
        connection.execute(f"CREATE TABLE {WIDE} (id int, pad text)")
        # Neither compressed nor moved out of line.
        connection.execute(f"ALTER TABLE {WIDE} ALTER pad SET STORAGE PLAIN")
        connection.execute(
            f"INSERT INTO {WIDE} SELECT id, lpad(id::text, {_PAD_BYTES}, 'x') "
            f"FROM generate_series(1, {rows}) AS id"
        )
    connection.execute(f"ALTER TABLE {WIDE} ADD PRIMARY KEY (id)")
    connection.execute(f"VACUUM (FREEZE, ANALYZE) {WIDE}")
    connection.execute("CHECKPOINT")
    return table_facts(connection, WIDE, started)


def table_facts(connection: psycopg.Connection[Any], name: str, started: float) -> Table:
    """What the catalog says of a vacuumed table that was begun at `started` (monotonic clock)."""
    row = connection.execute(
        "SELECT reltuples::bigint, relpages, pg_table_size(oid), pg_indexes_size(oid) "
        f"FROM pg_class WHERE oid = '{name}'::regclass"
    ).fetchone()
    assert row is not None
    seconds = round(time.monotonic() - started, 1)
    return Table(name, row[0], row[1], row[2], row[3], seconds)
