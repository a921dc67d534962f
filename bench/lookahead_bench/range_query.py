"""The experiment "range-query": a sum over a range of dates.

Query 6 of TPC-H on a generated lineitem with an index on the ship date, cold: stock's bitmap scan
at effective_io_concurrency 0, 1, 100 and the default, its sequential scan, and our bitmap scan.

The table at scale 1: 1.5 million orders of one to seven lines each, 6 million rows of about 130
bytes. Order dates are random, as in TPC-H, so the rows of a range of ship dates lie all over the
table: those of a week on a seventh of the pages, those of a month on two fifths, those of a year on
nearly all.
"""

from dataclasses import dataclass
from typing import Literal

from lookahead.experiments.arms import BITMAP_SCAN, SEQ_SCAN, arm_of, concurrency_arm
from lookahead.experiments.conditions import (
    COLD_RESTART_SECONDS,
    available_methods,
    fill_table,
    table_session,
)
from lookahead.experiments.experiment import (
    IO_METHOD,
    IO_METHODS,
    REPETITIONS,
    Choice,
    Experiment,
    Number,
    Option,
)
from lookahead.experiments.runner import Run
from lookahead.measurements import Factor, Question, Scenario, Table
from lookahead.server import Session
from lookahead_bench.trials import Trial, Trials

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


def build_lineitem(connection: Session, scale: float, seed: int) -> Table:
    """Make, fill, index and vacuum the table, in the order of the orders."""
    return fill_table(
        connection,
        LINEITEM,
        "orderkey int, partkey int, suppkey int, linenumber int, quantity numeric(15,2), "
        "extendedprice numeric(15,2), discount numeric(15,2), tax numeric(15,2), "
        "returnflag char(1), linestatus char(1), shipdate date, commitdate date, "
        "receiptdate date, shipinstruct char(25), shipmode char(10), comment varchar(44)",
        fill_lineitem(int(scale * ORDERS_AT_SCALE_1), seed),
        f"CREATE INDEX {SHIP_DATE_INDEX} ON {LINEITEM} (shipdate)",
    )


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


# The table, its pages in the WAL when they are frozen, the sort of the index.
_SPACE_FACTOR = 2.5
_MAX_SCALE = 100
# What estimates of a run's time go by; measured on a virtual machine with two processors.
_BUILD_SECONDS_AT_SCALE_1, _SCAN_SECONDS_AT_SCALE_1 = 90.0, 4.0
_STOCK, _SETTING_1, _OURS = "bitmap, default", "bitmap, 1", "ours"
_ARMS = (
    arm_of("seq", SEQ_SCAN),
    concurrency_arm(BITMAP_SCAN, 0),
    concurrency_arm(BITMAP_SCAN, 100),
    concurrency_arm(BITMAP_SCAN, 1),
    concurrency_arm(BITMAP_SCAN, None),
    concurrency_arm(BITMAP_SCAN, None, "on"),
)


@dataclass(frozen=True)
class RangeQueries:
    """What is wanted; `scale` is TPC-H's."""

    repetitions: int = REPETITIONS.sized(6)
    io_method: tuple[str, ...] = IO_METHOD.sized(("worker",), full=IO_METHODS)
    scale: float = Option(Number(_MAX_SCALE), "TPC-H's scale: 1 is 6 million rows, 0.8 GB.").sized(
        0.25, demo=0.1, full=2.0
    )
    range: tuple[DateRange, ...] = Option(
        Choice(RANGES), f"How much is summed up: {', '.join(RANGES)}."
    ).sized(RANGES, demo=("month",))


def _measure(run: Run, wanted: RangeQueries) -> None:
    """Make the table, then take all samples."""
    trials = Trials(run)
    methods = available_methods(run, wanted.io_method)
    _prepare(run, trials, wanted.scale, methods[0])
    chosen = [trial_of(span, wanted.scale, method) for method in methods for span in wanted.range]
    trials.measure_all(chosen, wanted.repetitions)


def _prepare(run: Run, trials: Trials, scale: float, method: str) -> None:
    run.terminal.step(f"making lineitem at scale {scale:g} ({lineitem_bytes(scale) / 1e9:.1f} GB)")
    with table_session(run, {"io_method": method}, (LINEITEM, SHIP_DATE_INDEX)) as connection:
        trials.add_table(build_lineitem(connection, scale, run.document.parameters.seed))


def trial_of(span: DateRange, scale: float, method: str) -> Trial:
    """The query over one range, in all arms."""
    scenario = Scenario(
        (Factor("range", span), Factor("scale", f"{scale:g}"), Factor("I/O method", method))
    )
    stock = tuple(arm.name for arm in _ARMS if arm.library == "off")
    return Trial(
        scenario=scenario,
        statement=range_query(span),
        arms=_ARMS,
        questions=(
            Question(scenario, "setting 1", (_SETTING_1,), (_OURS,)),
            Question(scenario, "stock's default", (_STOCK,), (_OURS,)),
            Question(scenario, "best stock plan", stock, (_OURS,)),
        ),
        server={"io_method": method},
        compared=tuple(arm.name for arm in _ARMS),
    )


def _estimated_seconds(wanted: RangeQueries) -> float:
    samples = len(wanted.io_method) * len(wanted.range) * len(_ARMS) * wanted.repetitions
    scan = COLD_RESTART_SECONDS + wanted.scale * _SCAN_SECONDS_AT_SCALE_1
    return wanted.scale * _BUILD_SECONDS_AT_SCALE_1 + samples * scan


EXPERIMENT = Experiment(
    name="range-query",
    summary="A cold sum over a range of dates, like query 6 of TPC-H.",
    description="By a bitmap scan of a generated lineitem whose rows lie in the order of the "
    "orders; against stock's at several effective_io_concurrency and its sequential scan.",
    asked=RangeQueries,
    needed_bytes=lambda wanted: int(_SPACE_FACTOR * lineitem_bytes(wanted.scale)),
    estimated_seconds=_estimated_seconds,
    measure=_measure,
)
