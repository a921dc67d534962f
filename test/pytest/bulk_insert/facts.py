"""What an insert left behind: the outcome as a client sees it, and all that is in the relations."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import psycopg
from extension.probes import Connection, scalar

from bulk_insert.tables import LOG, TABLE
from bulk_insert.ways import leaves

# All that an error says but where in PostgreSQL's code it was raised.
_ERROR_FIELDS = (
    "severity",
    "sqlstate",
    "message_primary",
    "message_detail",
    "message_hint",
    "context",
    "schema_name",
    "table_name",
    "column_name",
    "datatype_name",
    "constraint_name",
)

LEAVES = leaves(TABLE)
# Every row in the order of places, as it lies there, and as it is read. Hint bits are masked.
_ITEMS = f"""
    SELECT format('%s (%s,%s)', relid::regclass, block, lp), lp_len, t_hoff, t_bits,
           t_infomask & ~x'0f00'::int, t_infomask2 & x'07ff'::int
    FROM ({LEAVES}) leaf,
         LATERAL generate_series(0, pg_relation_size(relid) / 8192 - 1) block,
         LATERAL heap_page_items(get_raw_page(relid::regclass::text, block)) WHERE lp_flags = 1"""
_ROWS = (
    f"SELECT format('%s %s', tableoid::regclass, ctid), md5({TABLE}::text), {TABLE}.k FROM {TABLE} "
    f"ORDER BY tableoid::regclass::text, {TABLE}.ctid"
)
_LOG = f"SELECT number, who, key FROM {LOG} ORDER BY number"
_SIZES = f"""
    SELECT relname, pg_relation_size(pg_class.oid) FROM pg_class
    WHERE oid IN ({LEAVES})
       OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid IN ({LEAVES}))
    ORDER BY 1"""


@dataclass(frozen=True)
class Facts:
    """`places` and `sizes` are the same only where rows are put where stock puts them."""

    outcome: tuple[Any, ...]
    rows: list[tuple[Any, ...]]
    items: list[tuple[Any, ...]]
    log: list[tuple[Any, ...]]
    toast: tuple[Any, ...]
    sequence: int
    places: list[str]
    sizes: list[tuple[Any, ...]]

    @classmethod
    def read(cls, session: Connection, outcome: Sequence[Any]) -> Facts:
        # The first to look at the rows: who reads them could prune them.
        items = {item[0]: item[1:] for item in session.execute(_ITEMS).fetchall()}
        rows = session.execute(_ROWS).fetchall()
        return cls(
            outcome=tuple(outcome),
            rows=[row[1:] for row in rows],
            items=[items[row[0]] for row in rows],
            log=session.execute(_LOG).fetchall(),
            toast=_toast(session),
            sequence=int(scalar(session, "SELECT nextval('numbers')")),
            places=[row[0] for row in rows],
            sizes=session.execute(_SIZES).fetchall(),
        )

    @property
    def failed(self) -> bool:
        """Did an insert fail? Then there are dead rows, not as many in each arm."""
        return any(is_failure(outcome) for outcome in self.outcome)

    @property
    def pages(self) -> Iterable[tuple[str, list[tuple[Any, ...]]]]:
        """The rows of each page of each table."""
        placed = zip(self.places, self.rows, strict=True)
        for page, rows in groupby(placed, key=lambda row: row[0].rpartition(",")[0]):
            yield page, [row for _, row in rows]

    @property
    def contents(self) -> Counter[tuple[Any, ...]]:
        """Rows and how they lie there, wherever."""
        return Counter(zip(self.rows, self.items, strict=True))


def _toast(session: Connection) -> tuple[Any, ...]:
    """How many values and chunks each table has, and their bytes."""
    names = session.execute(
        "SELECT reltoastrelid::regclass::text FROM pg_class "
        f"WHERE oid IN ({LEAVES}) AND reltoastrelid <> 0 ORDER BY relname"
    ).fetchall()
    counts = "count(DISTINCT chunk_id), count(*), sum(length(chunk_data))"
    return tuple(session.execute(f"SELECT {counts} FROM {name}").fetchone() for (name,) in names)


def failure_of(error: psycopg.Error) -> tuple[Any, ...]:
    """An error as a client sees it."""
    return tuple(getattr(error.diag, name) for name in _ERROR_FIELDS)


def as_found_by_a_row(detail: str) -> str:
    """Of a duplicate, that an index which is built at the end tells of in other words."""
    return detail.replace("is duplicated", "already exists")


def is_failure(outcome: tuple[Any, ...]) -> bool:
    """Is this what `failure_of` says of an error?"""
    return len(outcome) == len(_ERROR_FIELDS)


def complaint(
    stock: Facts, ours: Facts, *, same_order: bool, same_order_on_pages: bool, same_places: bool
) -> str:
    """How two arms differ, in words; "" when they do not."""
    if len(stock.rows) != len(ours.rows):
        return f"stock has {len(stock.rows)} rows, ours {len(ours.rows)}"
    names = ["outcome", "log", "toast"]
    if not stock.failed:
        names.append("sequence")
    if same_order:
        names += ["rows", "items"]
    if same_places and not stock.failed:
        names += ["places", "sizes"]
    for name in names:
        one, other = getattr(stock, name), getattr(ours, name)
        if one != other:
            return f"{name} differ: {_difference(one, other)}"
    if same_order_on_pages:
        places = defaultdict(list)
        for place, row in enumerate(stock.rows):
            places[row].append(place)
        for page, rows in ours.pages:
            if not _is_in_order(rows, places):
                return f"page {page} has rows in another order"
    missing = stock.contents - ours.contents
    return f"stock alone has {next(iter(missing))}" if missing else ""


def _is_in_order(rows: Sequence[Any], places: Mapping[Any, Sequence[int]]) -> bool:
    """Are these rows, each of which can be at several places, in the order of places?"""
    last = -1
    for row in rows:
        possible = places.get(row, ())
        after = bisect_right(possible, last)
        if after == len(possible):
            return False
        last = possible[after]
    return True


def _difference(stock: Any, ours: Any) -> str:
    if isinstance(stock, list):
        for number, (one, other) in enumerate(zip(stock, ours, strict=False)):
            if one != other:
                return f"at {number} stock has {one}, ours {other}"
        return f"stock has {len(stock)}, ours {len(ours)}"
    return f"stock {stock}, ours {ours}"
