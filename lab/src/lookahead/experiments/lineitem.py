"""A table like TPC-H's lineitem, and a sum over a range of dates like its query 6.

At scale 1: 1.5 million orders of one to seven lines each, 6 million rows of about 130 bytes. Order
dates are random, as in TPC-H, so the rows of a range of ship dates lie all over the table: those of
a week on a seventh of the pages, those of a month on two fifths, those of a year on nearly all.
"""

import time
from typing import Any, Literal

import psycopg

from lookahead.experiments.wide_table import table_facts
from lookahead.measurements import Table

LINEITEM, SHIP_DATE_INDEX = "lookahead_lineitem", "lookahead_lineitem_shipdate"
ORDERS_AT_SCALE_1 = 1_500_000
# About what a row takes with line pointer, and its entry in the index.
_ROW_BYTES, _LINES_PER_ORDER = 150, 4
DateRange = Literal["week", "month", "year"]
RANGES: tuple[DateRange, ...] = ("week", "month", "year")
_FIRST_DAY = "1994-01-01"
_DAYS = 2406  # of order dates, 1992-01-01 to 1998-08-02


def lineitem_bytes(scale: float) -> int:
    """About what table and index take, in bytes."""
    return int(scale * ORDERS_AT_SCALE_1 * _LINES_PER_ORDER * _ROW_BYTES)


def build_lineitem(connection: psycopg.Connection[Any], scale: float, seed: int) -> Table:
    """Make, fill, index and vacuum the table, in the order of the orders."""
    started = time.monotonic()
    with connection.transaction():
        connection.execute(
            f"CREATE TABLE {LINEITEM} (orderkey int, partkey int, suppkey int, linenumber int, "
            "quantity numeric(15,2), extendedprice numeric(15,2), discount numeric(15,2), "
            "tax numeric(15,2), returnflag char(1), linestatus char(1), shipdate date, "
            "commitdate date, receiptdate date, shipinstruct char(25), shipmode char(10), "
            "comment varchar(44))"
        )
        connection.execute(fill_lineitem(int(scale * ORDERS_AT_SCALE_1), seed))
    connection.execute(f"CREATE INDEX {SHIP_DATE_INDEX} ON {LINEITEM} (shipdate)")
    connection.execute(f"VACUUM (FREEZE, ANALYZE) {LINEITEM}")
    connection.execute("CHECKPOINT")
    return table_facts(connection, LINEITEM, started)


def fill_lineitem(orders: int, seed: int) -> str:
    """Rows whose values follow from the seed; `h` is a hash of order and line."""
    line = f"hashint8extended(o * 8 + l, {seed}) & 9007199254740991"
    ordered = f"date '1992-01-01' + (hashint8extended(o, {seed}) & 2147483647)::int % {_DAYS}"
    return f"""
        INSERT INTO {LINEITEM}
        SELECT o, h % 200000, h % 10000, l,
               1 + h % 50, (90000 + h % 1000000) / 100.0,
               (h >> 8) % 11 / 100.0, (h >> 12) % 9 / 100.0,
               substr('ANR', 1 + (h % 3)::int, 1), substr('FO', 1 + (h % 2)::int, 1),
               ordered + 1 + ((h >> 16) % 121)::int, ordered + 30 + ((h >> 20) % 61)::int,
               ordered + 2 + ((h >> 16) % 121)::int,
               (ARRAY['DELIVER IN PERSON', 'COLLECT COD', 'NONE', 'TAKE BACK RETURN'])[1 + h % 4],
               (ARRAY['AIR', 'FOB', 'MAIL', 'RAIL', 'REG AIR', 'SHIP', 'TRUCK'])[1 + h % 7],
               left(md5(h::text), 10 + (h % 23)::int)
        FROM (SELECT o, l, {line} AS h, {ordered} AS ordered
              FROM generate_series(1, {orders}) AS o
                   CROSS JOIN LATERAL generate_series(
                       1, 1 + (hashint8extended(o, {seed + 1}) & 2147483647)::int % 7) AS l
             ) AS placed"""


def range_query(span: DateRange) -> str:
    """The sum of query 6 over a week, a month or a year of ship dates."""
    return (
        f"SELECT sum(extendedprice * discount) FROM {LINEITEM} "
        f"WHERE shipdate >= date '{_FIRST_DAY}' "
        f"AND shipdate < date '{_FIRST_DAY}' + interval '1 {span}' "
        "AND discount BETWEEN 0.05 AND 0.07 AND quantity < 24"
    )
