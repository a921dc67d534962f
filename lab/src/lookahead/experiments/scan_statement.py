"""The statements of the scan experiments: which rows, through which index, on how many pages.

All read the table of `scan_table`, one row on each page that they touch:

    random    a range of k within one layer: neighbours in the index are strangers in the table
    heap      every page of a chosen share, in the order of the table

That in an order of the table's own goes through a partial index, whose predicate stands in the
statement word for word, so that the planner proves it and leaves it out of the scan.
"""

import random
from dataclasses import dataclass
from typing import Any

import psycopg

from lookahead.errors import LabError
from lookahead.experiments.scan_table import ROWS_PER_PAGE, TABLE

# The first row of each page: ids count through the table, page by page.
_FIRST_OF_PAGE = f"id % {ROWS_PER_PAGE} = 0"


@dataclass(frozen=True)
class ScanStatement:
    """Rows `first`..`last` by the column that orders them, on `pages` distinct pages (counted).

    `query` returns them in that order.
    """

    first: int
    last: int
    pages: int
    query: str


def choose_random(
    connection: psycopg.Connection[Any],
    width: int,
    table_pages: int,
    generator: random.Random,
    *,
    limit: bool = False,
) -> ScanStatement:
    """A random range of `width` keys within one layer; raises LabError when pages repeat.

    With `limit` the range is open and LIMIT ends it.
    """
    layer = generator.randrange(ROWS_PER_PAGE)
    first = layer * table_pages + generator.randrange(table_pages - width + 1)
    last = first + width - 1
    condition = f"k BETWEEN {first} AND {last}"
    pages = _distinct_pages(connection, condition)
    if pages != width:
        raise LabError(f"keys {first}..{last} lie on {pages} pages instead of {width}")
    query = _select(f"k >= {first}", f"k LIMIT {width}") if limit else _select(condition, "k")
    return ScanStatement(first, last, pages, query)


def choose_heap_ordered(
    connection: psycopg.Connection[Any], share_percent: int, seed: int
) -> ScanStatement:
    """All chosen pages in the order of the table; which ones follows from the seed."""
    chosen = f"abs(hashint8extended(id / {ROWS_PER_PAGE}, {seed}) % 100) < {share_percent}"
    condition = f"{_FIRST_OF_PAGE} AND {chosen}"
    _make_index(connection, f"{TABLE}_heap_{share_percent}", "id", condition)
    return _whole(connection, condition, "id")


def _whole(connection: psycopg.Connection[Any], condition: str, order: str) -> ScanStatement:
    row = connection.execute(f"SELECT min(id), max(id) FROM {TABLE} WHERE {condition}").fetchone()
    if row is None or row[0] is None:
        raise LabError(
            "no page of the table was chosen", "Take a larger size or more of the pages."
        )
    pages = _distinct_pages(connection, condition)
    return ScanStatement(row[0], row[1], pages, _select(condition, order))


def _make_index(
    connection: psycopg.Connection[Any], name: str, columns: str, condition: str
) -> None:
    connection.execute(
        f"CREATE INDEX IF NOT EXISTS {name} ON {TABLE} ({columns}) WHERE {condition}"
    )


def _select(condition: str, order: str) -> str:
    return f"SELECT id, k, pad FROM {TABLE} WHERE {condition} ORDER BY {order}"


def _distinct_pages(connection: psycopg.Connection[Any], condition: str) -> int:
    row = connection.execute(
        f"SELECT count(DISTINCT (ctid::text::point)[0]) FROM {TABLE} WHERE {condition}"
    ).fetchone()
    assert row is not None
    return int(row[0])
