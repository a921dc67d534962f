"""The table of the experiments on bitmaps: which pages a value of a column hits is chosen freely.

Rows of 76 bytes, 107 a page, with a column `c1` of few values and a btree on it; the rows of a
value come in the order of the table. The r-th row of a page has c1 = r if the page belongs to the
r-th *selection*, a share of the pages by chance, else one of 201 values from FILLER on, the two
ends half as frequent as the others; so a value from FILLER on is on nearly all pages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lookahead.errors import LabError, UsageError
from lookahead.experiments.conditions import (
    BLOCK_BYTES,
    COLD_RESTART_SECONDS,
    check_layout,
    fill_table,
    table_session,
)
from lookahead.experiments.runner import Run
from lookahead.experiments.trials import Trials
from lookahead.measurements import Table
from lookahead.server import Session

TABLE = "lookahead_pages"
INDEX = f"{TABLE}_c1"
# Page header 24; line pointer 4, tuple header 24, two integers 8, a short varlena's length 1
# and a pad of 36 make 73 bytes, aligned 76: 107 of them fit into 8192 - 24 and a 108th does not.
ROWS_PER_PAGE, ROW_BYTES, PAD_BYTES = 107, 76, 36
FILLER, FILLER_VALUES = 1000, 201
SHARE_STEPS = 1_000_000
_INDEX_ENTRY_BYTES = 20 / 0.9  # with its line pointer; leaves are filled to 90 %


@dataclass(frozen=True)
class Selection:
    """The pages that `c1 = value` hits: a share of all of them (0..1)."""

    value: int
    share: float

    def chosen(self, seed: int) -> str:
        """An expression over `page`: whether it belongs to the selection."""
        return self.by_chance("page", seed)

    def by_chance(self, unit: str, seed: int) -> str:
        """Whether the share of all units has this one; a seed of its own for each selection."""
        own = seed * ROWS_PER_PAGE + self.value
        limit = round(self.share * SHARE_STEPS)
        return f"(hashint8extended({unit}, {own}) & 2147483647) % {SHARE_STEPS} < {limit}"


def selections_for(shares: tuple[float, ...]) -> list[Selection]:
    """One selection for each share; LabError when there are too many for a page."""
    if len(shares) > ROWS_PER_PAGE:
        raise LabError(
            f"{len(shares)} selections of pages are too many: a page has {ROWS_PER_PAGE} rows",
            "Name fewer shares.",
        )
    return [Selection(value, share) for value, share in enumerate(shares)]


def page_table_bytes(pages: int) -> int:
    """About what the table of so many pages and its indexes take, in bytes."""
    return pages * BLOCK_BYTES + int(pages * ROWS_PER_PAGE * _INDEX_ENTRY_BYTES)


def build_page_table(
    connection: Session, pages: int, selections: Sequence[Selection], seed: int
) -> Table:
    """Make the table; LabError when it has other pages or rows than intended."""
    table = fill_table(
        connection,
        TABLE,
        "id int, c1 int, pad text",
        fill_statement(pages, selections, seed),
        f"CREATE INDEX {INDEX} ON {TABLE} (c1)",
    )
    return check_layout(connection, table, pages=pages, rows=pages * ROWS_PER_PAGE)


def fill_statement(pages: int, selections: Sequence[Selection], seed: int) -> str:
    """The rows in the order of the table; which pages are chosen by chance follows from the seed.

    The filler is as `(random() * 200)::int`, from a hash instead.
    """
    cases = (
        " ".join(f"WHEN {item.value} THEN {item.chosen(seed)}" for item in selections)
        or "WHEN 0 THEN false"
    )
    filler = f"{FILLER} + round(((hashint8extended(id, {seed}) & 65535) / 65536.0) * 200)::int"
    return f"""
        INSERT INTO {TABLE}
        SELECT id, CASE WHEN CASE r {cases} ELSE false END THEN r ELSE {filler} END,
               lpad(id::text, {PAD_BYTES}, '0')
        FROM (SELECT id, id % {ROWS_PER_PAGE} AS r, id / {ROWS_PER_PAGE} AS page
              FROM generate_series(0, {pages * ROWS_PER_PAGE - 1}) AS id) AS placed"""


def select_value(value: int, what: str = "id, c1, pad") -> str:
    return f"SELECT {what} FROM {TABLE} WHERE c1 = {value}"


# The table, its pages once more in the WAL when they are frozen, the sort of the index.
_SPACE_FACTOR = 2.5
# What estimates of a run's time go by; measured on a virtual machine with two processors.
_START_SECONDS = 5.0
_BUILD_BYTES_PER_SECOND = 40e6
# Of a share of the pages in few and many requests, by all plans on average.
_SCAN_SECONDS_PER_PAGE = 1e-5


def needed_bytes(pages: int) -> int:
    """The disk space that a table of so many pages and its making take."""
    return int(_SPACE_FACTOR * page_table_bytes(pages))


def build_seconds(pages: int) -> float:
    return _START_SECONDS + page_table_bytes(pages) / _BUILD_BYTES_PER_SECOND


def cold_scan_seconds(pages: int, scans: int) -> float:
    """About how long so many cold scans of a table take, each after a restart of the server."""
    return scans * (COLD_RESTART_SECONDS + pages * _SCAN_SECONDS_PER_PAGE)


def prepare_page_table(
    run: Run,
    trials: Trials[Any],
    pages: int,
    selections: Sequence[Selection],
    settings: Mapping[str, str],
) -> dict[int, list[int]]:
    """The pages of each selection, by its value; the server runs with `settings` afterwards.

    Raises LabError when a selection has none.
    """
    gigabytes = page_table_bytes(pages) / 1e9
    run.terminal.step(f"making a table of {pages:,} pages ({gigabytes:.1f} GB)")
    with table_session(run, settings, (TABLE, INDEX)) as connection:
        seed = run.document.parameters.seed
        trials.add_table(build_page_table(connection, pages, selections, seed))
        return {one.value: _pages_of(connection, one, pages) for one in selections}


def _pages_of(connection: Session, selection: Selection, pages: int) -> list[int]:
    """The numbers of the pages that are hit, ascending, from the rows' own places."""
    rows = connection.execute(
        f"SELECT DISTINCT (ctid::text::point)[0]::int AS page FROM {TABLE} "
        f"WHERE c1 = {selection.value} ORDER BY page"
    ).fetchall()
    if not rows:
        raise UsageError(
            f"{selection.share * 100:g} % of {pages} pages are none",
            "Take a larger size or more of the pages.",
        )
    return [int(row[0]) for row in rows]
