"""What experiments measure under and on: settings, I/O methods, facts of tables."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from lookahead.account import acting_as_owner
from lookahead.errors import LabError, UnavailableError
from lookahead.experiments.runner import Run
from lookahead.measurements import Factor, Table
from lookahead.server import Session

BLOCK_BYTES = 8192
_READ_BYTES = 1 << 20

# What estimates of a run's time go by: a stop, empty caches, a start on a virtual machine with two
# processors.
COLD_RESTART_SECONDS = 1.0
# Tables are made as PostgreSQL makes them: in batches, a row of another size than those before may
# begin a page, and what a table grows by in the end may stay empty, and so not all-visible.
MADE_BY_STOCK = {"pg_lookahead.enable_bulk_insert": "off"}
# Besides the cache size only what keeps other work away from the scan. Depths and I/O settings stay
# at the server's defaults. Tables are made without WAL, and no checkpoint falls into a sample.
SCAN_SETTINGS = {
    **MADE_BY_STOCK,
    "shared_buffers": "256MB",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "checkpoint_timeout": "1h",
    "max_wal_size": "8GB",
}


def fetch_row(connection: Session, statement: str, **values: object) -> tuple[Any, ...]:
    """The first row of a statement that has one; `values` stand in it by their names."""
    row: tuple[Any, ...] | None = connection.execute(statement, values or None).fetchone()
    assert row is not None
    return row


def fill_table(connection: Session, name: str, columns: str, fill: str, *indexing: str) -> Table:
    """Make, fill, index and vacuum a table; its statements beside its name and columns are whole.

    Afterwards every page is all-visible and written out: scans of it write nothing.
    """
    started = time.monotonic()
    # Table and rows in one transaction, so that under wal_level = minimal no WAL is written.
    with connection.transaction():
        connection.execute(f"CREATE TABLE {name} ({columns})")
        connection.execute(fill)
    for statement in indexing:
        connection.execute(statement)
    # FREEZE waits for a page that the background writer has pinned; plain VACUUM passes it by
    # and leaves it not all-visible.
    connection.execute(f"VACUUM (FREEZE, ANALYZE) {name}")
    connection.execute("CHECKPOINT")
    return table_facts(connection, name, started)


def table_facts(connection: Session, name: str, started: float) -> Table:
    """What the catalog says of a vacuumed table that was begun at `started` (monotonic clock)."""
    rows, pages, table_bytes, index_bytes = fetch_row(
        connection,
        "SELECT reltuples::bigint, relpages, pg_table_size(oid), pg_indexes_size(oid) "
        f"FROM pg_class WHERE oid = '{name}'::regclass",
    )
    seconds = round(time.monotonic() - started, 1)
    return Table(name, rows, pages, table_bytes, index_bytes, seconds)


def check_layout(connection: Session, table: Table, *, pages: int, rows: int) -> Table:
    """The table; LabError unless it has these pages and rows, and all are all-visible."""
    (visible,) = fetch_row(
        connection, f"SELECT relallvisible FROM pg_class WHERE oid = '{table.name}'::regclass"
    )
    if (table.pages, visible, table.rows) != (pages, pages, rows):
        raise LabError(
            f"the table has {table.pages} pages ({visible} all-visible) and {table.rows} rows "
            f"instead of {pages} pages and {rows} rows",
            "Does this server have another block size or row layout than 8 kB and 64 bit?",
        )
    return table


def check_visible(connection: Session, table: Table) -> Table:
    """The table with its rows counted; LabError unless all of its pages are all-visible.

    Of a table with more pages than ANALYZE looks at, the catalog has an estimate of the rows.
    """
    visible, rows = fetch_row(
        connection,
        f"SELECT relallvisible, (SELECT count(*) FROM {table.name}) FROM pg_class "
        f"WHERE oid = '{table.name}'::regclass",
    )
    if visible != table.pages:
        raise LabError(
            f"{visible} of the {table.pages} pages of {table.name} are all-visible",
            "Does another session hold a snapshot or a pin on this server? Start again.",
        )
    return replace(table, rows=rows)


def wal_position(connection: Session) -> str:
    (position,) = fetch_row(connection, "SELECT pg_current_wal_insert_lsn()")
    return str(position)


def wal_bytes_since(connection: Session, position: str) -> float:
    """What was written to the WAL since then, by all sessions."""
    (size,) = fetch_row(connection, f"SELECT pg_current_wal_insert_lsn() - '{position}'::pg_lsn")
    return float(size)


def relation_path(connection: Session, data_directory: Path, relation: str) -> Path:
    (path,) = fetch_row(connection, f"SELECT pg_relation_filepath('{relation}')")
    return data_directory / str(path)


def segments_of(file: Path) -> list[Path]:
    """All files of a relation, each of 1 GB, by the first one: that itself, then .1, .2 ...

    Without its other forks, and relations whose numbers begin alike.
    """
    others = file.parent.glob(f"{file.name}.*")
    return [file, *sorted(others, key=lambda segment: int(segment.suffix[1:]))]


@contextmanager
def table_session(
    run: Run, settings: Mapping[str, str], relations: Sequence[str]
) -> Iterator[Session]:
    """A session that makes these tables and indexes, on a server started with `settings`.

    Afterwards they were read from the device once, and the server runs.
    """
    run.server.start(settings)
    with run.server.connect() as connection:
        run.record_settings(connection)
        connection.execute("SET maintenance_work_mem = '256MB'")
        yield connection
    run.server.cold_restart()
    with run.server.connect() as connection:
        touch_device(connection, run.server.data_directory, relations)


def touch_device(connection: Session, data_directory: Path, relations: Sequence[str]) -> None:
    """Read tables and indexes from the device once, all of them.

    Caches beyond this machine's reach (of a hypervisor, a disk array) then know every page, and
    the arm that meets a page first is not at a disadvantage.
    """
    for relation in relations:
        path = relation_path(connection, data_directory, relation)
        with acting_as_owner(data_directory):
            forks = [path.with_name(f"{path.name}{fork}") for fork in ("", "_fsm", "_vm")]
            for segment in chain.from_iterable(map(segments_of, filter(Path.exists, forks))):
                with segment.open("rb", buffering=0) as file:
                    while file.read(_READ_BYTES):
                        pass


def read_ahead_factor(run: Run) -> Factor:
    """The read-ahead of the disk."""
    size_kb = run.document.machine.device.read_ahead_kb
    return Factor("read-ahead", "unknown" if size_kb is None else f"{size_kb} kB")


def available_methods(run: Run, methods: tuple[str, ...]) -> tuple[str, ...]:
    """`methods` without io_uring where the server cannot use it.

    Raises LabError when it cannot although the user named it.
    """
    obstacle = run.installation.io_uring_obstacle
    if "io_uring" not in methods or not obstacle:
        return methods
    if "io_method" in run.explicit:
        raise UnavailableError(
            f"io_method io_uring cannot be used: {obstacle}",
            "Leave it out, or name a server that can use it with --pg-config.",
        )
    run.find("note", f"io_method io_uring is left out: {obstacle}")
    return tuple(method for method in methods if method != "io_uring")
