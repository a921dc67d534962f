"""The statements of the index scans: which rows, through which index, on how many pages.

All read the table of `scan_table`, one row on each page that they touch:

    random    a range of k within one layer: neighbours in the index are strangers in the table
    heap      every page of a chosen share, in the order of the table

That in an order of the table's own goes through a partial index, whose predicate stands in the
statement word for word, so that the planner proves it and leaves it out of the scan.
"""

import random
from dataclasses import dataclass
from typing import Any, Literal

import psycopg

from lookahead.errors import LabError
from lookahead.experiments.scan_table import ROWS_PER_PAGE, TABLE
from lookahead.experiments.trials import Statement

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
        """How many rounds are measured."""
        return repetitions * (_LIMIT_ROUNDS_FACTOR if self.kind == "limit" else 1)


def choose_statements(
    connection: psycopg.Connection[Any],
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
    connection: psycopg.Connection[Any],
    pattern: Pattern,
    table_pages: int,
    generator: random.Random,
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


def _choose_heap_ordered(
    connection: psycopg.Connection[Any], share_percent: int, seed: int
) -> Statement:
    """All chosen pages in the order of the table; which ones follows from the seed."""
    chosen = f"abs(hashint8extended(id / {ROWS_PER_PAGE}, {seed}) % 100) < {share_percent}"
    condition = f"{_FIRST_OF_PAGE} AND {chosen}"
    connection.execute(
        f"CREATE INDEX IF NOT EXISTS {TABLE}_heap_{share_percent} ON {TABLE} (id) WHERE {condition}"
    )
    row = connection.execute(f"SELECT min(id), max(id) FROM {TABLE} WHERE {condition}").fetchone()
    if row is None or row[0] is None:
        raise LabError(
            "no page of the table was chosen", "Take a larger size or more of the pages."
        )
    pages = _distinct_pages(connection, condition)
    return _statement(_select(condition, "id"), row[0], row[1], pages)


def _statement(query: str, first: int, last: int, pages: int) -> Statement:
    return Statement(query, {"first_key": first, "last_key": last, "distinct_pages": pages})


def _select(condition: str, order: str) -> str:
    return f"SELECT id, k, pad FROM {TABLE} WHERE {condition} ORDER BY {order}"


def _distinct_pages(connection: psycopg.Connection[Any], condition: str) -> int:
    row = connection.execute(
        f"SELECT count(DISTINCT (ctid::text::point)[0]) FROM {TABLE} WHERE {condition}"
    ).fetchone()
    assert row is not None
    return int(row[0])
