"""Makes the page table on a run's server, and reads all of it from the device once."""

from collections.abc import Mapping
from typing import Any

import psycopg

from lookahead.errors import ExitStatus, LabError
from lookahead.experiments.page_table import (
    HEAP_ORDER_INDEX,
    TABLE,
    Selection,
    build_page_table,
    page_table_bytes,
    pages_hit,
)
from lookahead.experiments.runner import Run
from lookahead.experiments.scan_table import touch_device
from lookahead.experiments.trials import Trials

# The table, its pages once more in the WAL when they are frozen, the sort of the index.
_SPACE_FACTOR = 2.5
# What estimates of a run's time go by; measured on a virtual machine with two processors.
_START_SECONDS = 5.0
_BUILD_BYTES_PER_SECOND = 25e6
COLD_RESTART_SECONDS = 1.0
# Of a share of the pages in few and many requests, by all plans on average.
_SCAN_SECONDS_PER_PAGE = 1.5e-5
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


def needed_bytes(pages: int) -> int:
    """The disk space that a table of so many pages and its making take."""
    return int(_SPACE_FACTOR * page_table_bytes(pages))


def build_seconds(pages: int) -> float:
    """About how long it takes to make the table."""
    return _START_SECONDS + page_table_bytes(pages) / _BUILD_BYTES_PER_SECOND


def cold_scan_seconds(pages: int, scans: int) -> float:
    """About how long so many cold scans of a table take, each after a restart of the server."""
    return scans * (COLD_RESTART_SECONDS + pages * _SCAN_SECONDS_PER_PAGE)


def prepare_page_table(
    run: Run,
    trials: Trials,
    pages: int,
    selections: list[Selection],
    settings: Mapping[str, str],
) -> dict[int, list[int]]:
    """The pages of each selection, by its value; the server runs with `settings` afterwards.

    Raises LabError when a selection has none.
    """
    gigabytes = page_table_bytes(pages) / 1e9
    run.terminal.step(f"making a table of {pages:,} pages ({gigabytes:.1f} GB)")
    run.server.start(settings)
    with run.server.connect() as connection:
        run.record_settings(connection)
        connection.execute("SET maintenance_work_mem = '256MB'")
        seed = run.document.parameters.seed
        trials.add_table(build_page_table(connection, pages, selections, seed))
        found = {one.value: _pages_of(connection, one, pages) for one in selections}
    run.server.cold_restart()
    with run.server.connect() as connection:
        touch_device(connection, run.server.data_directory, (TABLE, HEAP_ORDER_INDEX))
    return found


def _pages_of(connection: psycopg.Connection[Any], selection: Selection, pages: int) -> list[int]:
    found = pages_hit(connection, selection.value)
    if not found:
        raise LabError(
            f"{selection.share * 100:g} % of {pages} pages in the layout "
            f'"{selection.layout}" are none',
            "Take a larger size or more of the pages.",
            status=ExitStatus.USAGE,
        )
    return found
