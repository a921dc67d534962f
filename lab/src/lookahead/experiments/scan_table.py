"""The table of the scan experiments.

A range of keys hits random pages, one row on each: the table has R rows per page, all of the same
width, and the keys of the s-th rows of all P pages are s * P ... (s + 1) * P - 1, dealt to the
pages in a random order of their own. Any range that stays within one such *layer* touches as many
distinct pages as it has keys, and neighbours in the index are strangers in the table.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from lookahead.account import acting_as_owner
from lookahead.errors import LabError
from lookahead.measurements import Table

BLOCK_BYTES = 8192
TABLE = "lookahead_scan"
INDEX = "lookahead_scan_k"
# Page header 24, line pointer 4, tuple header 24, two integers 8, a long varlena's length 4: a pad
# of 700 bytes makes tuples of 740 bytes, of which 11 fit into 8192 - 24 and a twelfth does not.
PAD_BYTES = 700
ROWS_PER_PAGE = 11
_READ_BYTES = 1 << 20


def table_bytes(pages: int) -> int:
    """About what the table of so many pages and its index take, in bytes."""
    index_entry_bytes = 20 / 0.9  # entry and line pointer; leaves are filled to 90 %
    return pages * BLOCK_BYTES + int(pages * ROWS_PER_PAGE * index_entry_bytes)


def build_table(connection: psycopg.Connection[Any], pages: int, seed: int) -> Table:
    """Make, fill, index and vacuum the table; LabError when its layout is not the intended one.

    Afterwards every page is all-visible and written out: scans of it write nothing.
    """
    started = time.monotonic()
    rows = pages * ROWS_PER_PAGE
    # Table and rows in one transaction, so that under wal_level = minimal no WAL is written.
    with connection.transaction():
        connection.execute(f"CREATE TABLE {TABLE} (id int NOT NULL, k int NOT NULL, pad text)")
        connection.execute(f"ALTER TABLE {TABLE} ALTER pad SET STORAGE PLAIN")
        connection.execute(_fill_statement(pages, seed))
    connection.execute(f"CREATE INDEX {INDEX} ON {TABLE} (k)")
    # FREEZE waits for a page that the background writer has pinned; plain VACUUM passes it by
    # and leaves it not all-visible.
    connection.execute(f"VACUUM (FREEZE, ANALYZE) {TABLE}")
    connection.execute("CHECKPOINT")
    found = _query(
        connection,
        f"SELECT c.relpages, c.relallvisible, c.reltuples::bigint, pg_table_size(c.oid), "
        f"pg_relation_size('{INDEX}') FROM pg_class c WHERE c.oid = '{TABLE}'::regclass",
    )
    if found[:3] != (pages, pages, rows):
        raise LabError(
            f"the table has {found[0]} pages ({found[1]} all-visible) and {found[2]} rows "
            f"instead of {pages} pages and {rows} rows",
            "Does this server have another block size or row layout than 8 kB and 64 bit?",
        )
    return Table(
        name=TABLE,
        rows=rows,
        pages=pages,
        table_bytes=found[3],
        index_bytes=found[4],
        build_seconds=round(time.monotonic() - started, 1),
    )


def _fill_statement(pages: int, seed: int) -> str:
    """Rows in the order of the table; the random order of each layer follows from the seed.

    The pad is made outside of the sorted subquery, so that the sorts carry two integers only.
    """
    return f"""
        INSERT INTO {TABLE}
        SELECT id, k, left(repeat(md5(id::text), {PAD_BYTES // 32 + 1}), {PAD_BYTES})
        FROM (SELECT id, layer * {pages} + row_number() OVER
                     (PARTITION BY layer ORDER BY hashint8extended(id, {seed}), id) - 1 AS k
              FROM (SELECT id, id % {ROWS_PER_PAGE} AS layer
                    FROM generate_series(0, {pages * ROWS_PER_PAGE - 1}) AS id) AS dealt
              ORDER BY id) AS keyed"""


def touch_device(
    connection: psycopg.Connection[Any],
    data_directory: Path,
    relations: Sequence[str] = (TABLE, INDEX),
) -> None:
    """Read tables and indexes from the device once, all of them.

    Caches beyond this machine's reach (of a hypervisor, a disk array) then know every page, and
    the arm that meets a page first is not at a disadvantage.
    """
    for relation in relations:
        (relative,) = _query(connection, f"SELECT pg_relation_filepath('{relation}')")
        path = data_directory / relative
        with acting_as_owner(data_directory):
            # Segments of 1 GB: the file itself, then .1, .2 ...
            for segment in sorted(path.parent.glob(f"{path.name}*")):
                with segment.open("rb", buffering=0) as file:
                    while file.read(_READ_BYTES):
                        pass


def _query(connection: psycopg.Connection[Any], statement: str) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = connection.execute(statement).fetchone()
    assert row is not None
    return row
