"""The table of the index scans and the statements that read it.

A range of keys hits random pages, one row on each: the table has R rows per page, all of the same
width, and the keys of the s-th rows of all P pages are s * P ... (s + 1) * P - 1, dealt to the
pages in a random order of their own. Any range that stays within one such *layer* touches as many
distinct pages as it has keys, and neighbours in the index are strangers in the table.

Statements return one row of each page that they touch:

    random    a range of k within one layer
    heap      every page of a chosen share, in the order of the table

That in an order of the table's own goes through a partial index, whose predicate stands in the
statement word for word, so that the planner proves it and leaves it out of the scan.
"""

import random
from dataclasses import dataclass
from typing import Literal

from lookahead.errors import LabError
from lookahead.experiments.conditions import BLOCK_BYTES, check_layout, fetch_row, fill_table
from lookahead.experiments.trials import Statement
from lookahead.measurements import Table
from lookahead.server import Session

TABLE = "lookahead_scan"
INDEX = "lookahead_scan_k"
# Page header 24, line pointer 4, tuple header 24, two integers 8, a long varlena's length 4: a pad
# of 700 bytes makes tuples of 740 bytes, of which 11 fit into 8192 - 24 and a twelfth does not.
PAD_BYTES = 700
ROWS_PER_PAGE = 11


def table_bytes(pages: int) -> int:
    """About what the table of so many pages and its index take, in bytes."""
    index_entry_bytes = 20 / 0.9  # entry and line pointer; leaves are filled to 90 %
    return pages * BLOCK_BYTES + int(pages * ROWS_PER_PAGE * index_entry_bytes)


def build_table(connection: Session, pages: int, seed: int) -> Table:
    """Make the table; LabError when its layout is not the intended one."""
    table = fill_table(
        connection,
        TABLE,
        "id int NOT NULL, k int NOT NULL, pad text STORAGE PLAIN",
        _fill_statement(pages, seed),
        f"CREATE INDEX {INDEX} ON {TABLE} (k)",
    )
    return check_layout(connection, table, pages=pages, rows=pages * ROWS_PER_PAGE)


def _fill_statement(pages: int, seed: int) -> str:
    """Rows in the order of the table.

    The pad is made outside of the sorted subquery, so that the sorts carry two integers only.
    """
    return f"""
        INSERT INTO {TABLE}
        SELECT id, k, left(repeat(md5(id::text), {PAD_BYTES // 32 + 1}), {PAD_BYTES})
        FROM {keys_in_random_order(pages, seed)}"""


def keys_in_random_order(pages: int, seed: int) -> str:
    """A subquery of id and k, in the order of id; the random order of each layer follows from the
    seed."""
    return f"""
             (SELECT id, layer * {pages} + row_number() OVER
                     (PARTITION BY layer ORDER BY hashint8extended(id, {seed}), id) - 1 AS k
              FROM (SELECT id, id % {ROWS_PER_PAGE} AS layer
                    FROM generate_series(0, {pages * ROWS_PER_PAGE - 1}) AS id) AS dealt
              ORDER BY id) AS keyed"""


# The first row of each page: ids count through the table, page by page.
_FIRST_OF_PAGE = f"id % {ROWS_PER_PAGE} = 0"
# A statement with LIMIT takes about a millisecond, of which the first wait is most: it takes more
# samples to see a difference of a few percent. Arbitrary.
_LIMIT_ROUNDS_FACTOR = 4


@dataclass(frozen=True)
class Pattern:
    """What a statement reads: so many distinct pages in random order, as many rows of a LIMIT in
    random order, or a share of the table's pages in percent, in the order of the table."""

    kind: Literal["pages", "limit", "share"]
    number: int

    @property
    def label(self) -> str:
        """Such as "10,000 pages", "LIMIT 100" and "25 % in heap order"."""
        if self.kind == "limit":
            return f"LIMIT {self.number:,}"
        if self.kind == "share":
            return f"{self.number} % in heap order"
        return f"{self.number:,} pages"

    def rounds(self, repetitions: int) -> int:
        return repetitions * (_LIMIT_ROUNDS_FACTOR if self.kind == "limit" else 1)


def choose_statements(
    connection: Session,
    pattern: Pattern,
    rounds: int,
    table_pages: int,
    generator: random.Random,
    seed: int,
) -> tuple[Statement, ...]:
    """One statement for each round: random keys differ from round to round, a share is always all.

    Their counts are `first_key` and `last_key` of the column that orders the rows, and
    `distinct_pages`, counted from ctid. Raises LabError when pages repeat or there are none.
    """
    if pattern.kind == "share":
        return (_choose_heap_ordered(connection, pattern.number, seed),) * rounds
    return tuple(_choose_random(connection, pattern, table_pages, generator) for _ in range(rounds))


def _choose_random(
    connection: Session, pattern: Pattern, table_pages: int, generator: random.Random
) -> Statement:
    """A random range of keys within one layer; for a LIMIT the range is open."""
    width = pattern.number
    layer = generator.randrange(ROWS_PER_PAGE)
    first = layer * table_pages + generator.randrange(table_pages - width + 1)
    last = first + width - 1
    condition = f"k BETWEEN {first} AND {last}"
    pages = _distinct_pages(connection, condition)
    if pages != width:
        raise LabError(f"keys {first}..{last} lie on {pages} pages instead of {width}")
    query = (
        _select(f"k >= {first}", f"k LIMIT {width}")
        if pattern.kind == "limit"
        else _select(condition, "k")
    )
    return _statement(query, first, last, pages)


def _choose_heap_ordered(connection: Session, share_percent: int, seed: int) -> Statement:
    """All chosen pages in the order of the table; which ones follows from the seed."""
    chosen = f"abs(hashint8extended(id / {ROWS_PER_PAGE}, {seed}) % 100) < {share_percent}"
    condition = f"{_FIRST_OF_PAGE} AND {chosen}"
    connection.execute(
        f"CREATE INDEX IF NOT EXISTS {TABLE}_heap_{share_percent} ON {TABLE} (id) WHERE {condition}"
    )
    first, last = fetch_row(connection, f"SELECT min(id), max(id) FROM {TABLE} WHERE {condition}")
    if first is None:
        raise LabError(
            "no page of the table was chosen", "Take a larger size or more of the pages."
        )
    pages = _distinct_pages(connection, condition)
    return _statement(_select(condition, "id"), first, last, pages)


def _statement(query: str, first: int, last: int, pages: int) -> Statement:
    return Statement(query, {"first_key": first, "last_key": last, "distinct_pages": pages})


def _select(condition: str, order: str) -> str:
    return f"SELECT id, k, pad FROM {TABLE} WHERE {condition} ORDER BY {order}"


def _distinct_pages(connection: Session, condition: str) -> int:
    (pages,) = fetch_row(
        connection, f"SELECT count(DISTINCT (ctid::text::point)[0]) FROM {TABLE} WHERE {condition}"
    )
    return int(pages)
