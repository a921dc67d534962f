"""What the project wants to reach, as ratios of baseline time to our time, and whether it is.

An aim is a matter of the comparisons in a result file, by experiment, question and the factors of
the scenario; the lab knows of none. Where there is no aim, a comparison is information.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from lookahead.comparisons import compare_wal
from lookahead.experiments.bulk_insert_cases import STOCK
from lookahead.measurements import Comparison, Measurements, Question
from lookahead.results import ResultDocument
from lookahead.stats import RatioEstimate
from lookahead_bench.insert_trials import NOT_LOADED
from lookahead_bench.needed_partitions import AT_EDGE, FIRST_ROW, MEAN, NATIVE, P50
from lookahead_bench.seq_parts import DEVICE, IN_MEMORY, OURS, STOCK_SCAN

Outcome = Literal["reached", "missed", "open"]


@dataclass(frozen=True)
class Judged:
    """A comparison that something is aimed at; `what` says of what it is."""

    what: str
    estimate: RatioEstimate
    aim: float
    outcome: Outcome


def judge_all(document: ResultDocument) -> Iterator[Judged]:
    """The comparisons of a result that have an aim, in their order; then those of the WAL."""
    aim_of = AIMS.get(document.experiment, _no_aim)
    data = document.measurements
    for comparison in data.comparisons:
        arms = f"{comparison.challenger} against {comparison.question.name}"
        what = f"{comparison.question.scenario.label}: {arms}"
        aim = aim_of(comparison, data)
        if aim is not None:
            yield _judged(what, comparison.estimate, aim)
    for one in compare_wal(data):
        aim = wal_aim(one.question)
        if aim is not None:
            what = f"{one.question.scenario.label}: WAL against {one.question.name}"
            yield _judged(what, one.estimate, aim)


def _judged(what: str, estimate: RatioEstimate, aim: float) -> Judged:
    return Judged(what, estimate, aim, judge(estimate, aim))


def judge(estimate: RatioEstimate, aim: float) -> Outcome:
    """Whether the whole interval lies on one side of the ratio aimed at; "open" if it does not."""
    if estimate.verdict == "too few pairs" or estimate.low < aim <= estimate.high:
        return "open"
    return "reached" if estimate.low >= aim else "missed"


# Index scans, cold. Whole ranges in random order, by the least number of pages; below that,
# start-up counts.
_RANDOM_AIMS = ((10_000, 4.0), (1_000, 2.5))
# Keeping the order may cost a tenth more than a bitmap scan and a sort, which lose it.
_RIVAL_AIM, _RIVAL_MIN_PAGES = 1 / 1.1, 1_000
_LIMIT_AIMS = {100: 2.0}
# LIMIT 1 gains nothing; this much it may cost, in ms.
_LIMIT_1_ALLOWANCE_MS = 0.05
# Up to this share of the pages their requests can overlap; with more of them the kernel's own
# read-ahead is hard to beat, and must not be lost.
_SPARSE_PERCENT = 10
_SPARSE_AIM, _DENSE_AIM = 2.5, 0.95
# With latency added to each read, if it is long enough to matter beside the device's own.
_LATENCY_AIM, _LATENCY_MIN_PAGES = 10.0, 1_000


def _index_scan_aim(comparison: Comparison, data: Measurements) -> float | None:
    scan = _value(comparison, "scan")
    number = int(re.sub(r"\D", "", scan))
    if scan.endswith("in heap order"):
        return _SPARSE_AIM if number <= _SPARSE_PERCENT else _DENSE_AIM
    if scan == "LIMIT 1":
        median_ms = comparison.baseline_median_ms
        return median_ms / (median_ms + _LIMIT_1_ALLOWANCE_MS)
    if scan.startswith("LIMIT"):
        return _LIMIT_AIMS.get(number)
    if comparison.question.name != "stock":
        return _RIVAL_AIM if number >= _RIVAL_MIN_PAGES else None
    if comparison.question.scenario.value("added latency") is not None:
        return _LATENCY_AIM if number >= _LATENCY_MIN_PAGES else None
    return next((aim for pages, aim in _RANDOM_AIMS if number >= pages), None)


# Statements that gain nothing must not become slower: by how much they may seem to.
_READ_AIM, _CONTROL_AIM = 0.95, 0.98


def _control_aim(comparison: Comparison, data: Measurements) -> float:
    workload = _value(comparison, "workload")
    return _READ_AIM if workload.startswith(("os-", "cold-")) else _CONTROL_AIM


# Bitmap scans, cold, against stock at its default setting: up to a share of the pages, in percent.
_BITMAP_SHARE_AIMS = ((42.0, 1.6), (75.0, 1.2))
_BITMAP_MIN_PERCENT = 1.0
# By how much of its time we may be slower: than the best stock plan of any kind at its best
# setting, and with a setting of effective_io_concurrency that stock suffers from than without.
_BEST_STOCK_AIM, _ANY_SETTING_AIM = 1 / 1.05, 1 / 1.1


def _bitmap_aim(comparison: Comparison, data: Measurements) -> float | None:
    if comparison.question.name == "best stock plan":
        return _BEST_STOCK_AIM
    if comparison.question.name != "stock's default":
        return _ANY_SETTING_AIM
    share = _percent(comparison)
    if share < _BITMAP_MIN_PERCENT:
        return None
    return next((aim for limit, aim in _BITMAP_SHARE_AIMS if share <= limit), None)


# On a volume that is throttled to few requests a second, against stock's default, by the share of
# the pages in percent; and against the least time that the volume needs for them.
_THROTTLED_AIMS = {10.0: 1.5, 42.0: 1.8}
_OPTIMUM_AIM = 1 / 1.15


def _throttled_aim(comparison: Comparison, data: Measurements) -> float | None:
    if comparison.question.name == "optimum":
        return _OPTIMUM_AIM
    if comparison.question.name == "stock's default":
        return _THROTTLED_AIMS.get(_percent(comparison))
    return None


# Bitmap scans of cached data, and cold ones with so many parallel workers.
_CACHED_AIM = 0.98
_PARALLEL_AIMS = {"2": 1.3}


def _cached_aim(comparison: Comparison, data: Measurements) -> float | None:
    if _value(comparison, "data") == "cached":
        return _CACHED_AIM
    return _PARALLEL_AIMS.get(_value(comparison, "workers"))


# A sum over a range of dates, cold: against effective_io_concurrency 1, and stock's default.
_RANGE_QUERY_AIMS = {"setting 1": 3.0, "stock's default": 1.5, "best stock plan": _BEST_STOCK_AIM}
# Sequential scans and COPY, cold: against stock's, and the disk's own time for the file.
_SEQ_SCAN_AIMS = {STOCK_SCAN: 1.0, "stock's COPY": 1.0}
_DEVICE_AIM = 1 / 1.25
# Several sessions at once, against stock's time of each.
_CONCURRENT_AIM = 0.95


def _seq_scan_aim(comparison: Comparison, data: Measurements) -> float | None:
    """The device alone is the limit where it takes longer than a scan of pages in memory.

    At what is aimed with the default bulk_read_size only.
    """
    question = comparison.question
    if question.name == STOCK_SCAN and comparison.challenger != OURS:
        return None
    if question.name != DEVICE:
        return _SEQ_SCAN_AIMS.get(question.name)
    in_memory_ms = next(
        (
            one.time_ms
            for one in data.samples
            if (one.scenario, one.arm) == (question.scenario, IN_MEMORY)
        ),
        None,
    )
    if in_memory_ms is None:  # interrupted before it was noted, or an earlier file
        return None
    return _DEVICE_AIM if comparison.baseline_median_ms >= in_memory_ms else None


# Index builds against stock's, by key: without parallel workers, and with two.
_BUILD_AIMS = {
    "not-vacuumed": (2.5, 2.5),
    "int-sorted": (4.0, 3.0),
    "bigint-random": (4.0, 3.0),
    "int-few": (8.0, 5.0),
    "timestamptz": (3.0, 2.5),
    "uuid": (3.0, 2.5),
    "text-c": (4.0, 3.0),
    "text-icu": (2.0, 2.0),
    "text-libc": (2.0, 2.0),
    "int-text": (2.5, 2.5),
    "unique": (4.0, 4.0),
    "reindex": (4.0, 3.0),
    "concurrent-bigint": (2.0, 2.0),
    "concurrent-text": (2.0, 2.0),
    "concurrent-not-vacuumed": (1.15, 1.15),
    "pgbench": (4.0, 4.0),
}
_BUILD_WORKERS = ("0", "2")
_BUILD_MIN_ROWS = 1_000_000
# Of a build too small to gain anything.
_SMALL_BUILD_AIM, _SMALL_BUILD_ROWS = 0.98, 1_000


def _build_aim(comparison: Comparison, data: Measurements) -> float | None:
    rows = int(_value(comparison, "rows").replace(",", ""))
    if rows <= _SMALL_BUILD_ROWS:
        return _SMALL_BUILD_AIM
    key, workers = _value(comparison, "key"), _value(comparison, "workers")
    if rows < _BUILD_MIN_ROWS or key not in _BUILD_AIMS or workers not in _BUILD_WORKERS:
        return None
    return _BUILD_AIMS[key][_BUILD_WORKERS.index(workers)]


# Inserts against stock's, by part and what is inserted; any of a part by "". Those of a few rows
# against sessions without the library. Nothing is aimed at for several sessions.
INSERT_AIMS = {
    ("flat", "unlogged"): 1.8,
    ("flat", "logged"): 2.2,
    ("columns", ""): 1.0,
    ("columns", "32 columns"): 1.5,
    ("copy", ""): 1.3,
    ("new-table", "CREATE TABLE AS"): 2.0,
    ("new-table", "CREATE MATERIALIZED VIEW AS"): 2.0,
    ("indexes", "random key"): 2.0,
    ("indexes", "two, after TRUNCATE"): 3.0,
    ("indexes", "two, appending a fifth"): 2.0,
    ("small", ""): 0.98,
}
# Of the WAL, narrow rows may take this share of stock's.
WAL_AIMS = {("flat", "logged"): 1 / 0.6}


def _insert_aim(comparison: Comparison, data: Measurements) -> float | None:
    part, name = _value(comparison, "part"), _value(comparison, "insert")
    return INSERT_AIMS.get((part, name), INSERT_AIMS.get((part, "")))


def wal_aim(question: Question) -> float | None:
    """What is aimed at for stock's WAL / ours of an insert."""
    value = question.scenario.value
    return WAL_AIMS.get((value("part") or "", value("insert") or ""))


# Rows in random order into partitions by stock's time / ours; of a flat table COPY only, as INSERT
# has aims above.
_PARTITION_AIMS = {"unlogged": 1.8, "logged": 2.2}
_PARTITION_LEAVES, _MANY_LEAVES, _MANY_LEAVES_AIM = 128, 10_000, 1.8
_COPY_AIM, _FLAT_COPY_AIM = 1.8, 1.15


def _partition_aim(comparison: Comparison, data: Measurements) -> float | None:
    """Of single rows against sessions without the library; nothing against flat tables."""
    target, statement = _value(comparison, "target"), _value(comparison, "statement")
    if statement == "single row":
        return _CONTROL_AIM if comparison.question.name == NOT_LOADED else None
    if comparison.question.name != STOCK:
        return None
    if target == "flat table":
        return _FLAT_COPY_AIM if statement == "COPY" else None
    leaves = int(target.split()[0].replace(",", ""))
    if leaves == _MANY_LEAVES:
        return _MANY_LEAVES_AIM
    if leaves != _PARTITION_LEAVES:
        return None
    return _COPY_AIM if statement == "COPY" else _PARTITION_AIMS[_value(comparison, "logging")]


# Processor time of a statement for each partition / of one call, by what the table has.
_CREATION_AIMS = {"no index": 20.0, "no toast": 20.0, "key and index": 9.0}
_THOUSAND_CREATED_AIM = 2.5


def _creation_aim(comparison: Comparison, data: Measurements) -> float | None:
    """Of the direct way; what the others gain is information."""
    value = partial(_value, comparison)
    if value("way") != "direct":
        return None
    aims = {"1,000": _THOUSAND_CREATED_AIM, "10,000": _CREATION_AIMS[value("table")]}
    return aims.get(value("partitions"))


# The first row of an interval, of a table of so many partitions, in ms.
_FIRST_ROW_MS, _FIRST_ROW_LEAVES = 20.0, "1,000"


def _needed_aim(comparison: Comparison, data: Measurements) -> float | None:
    """Of first rows a time, whatever the other's; rows that need no partition pay nothing."""
    value, name = partial(_value, comparison), comparison.question.name
    if value("rows") == FIRST_ROW:
        wanted = (NATIVE, P50, _FIRST_ROW_LEAVES)
        if (name, value("figure"), value("partitions")) != wanted:
            return None
        return comparison.baseline_median_ms / _FIRST_ROW_MS
    if value("rows").startswith(AT_EDGE) and name == NOT_LOADED:  # all that come are waited for
        return None
    return _CONTROL_AIM if value("figure") == MEAN else None


AIMS: Mapping[str, Callable[[Comparison, Measurements], float | None]] = {
    "index-scan": _index_scan_aim,
    "latency": _index_scan_aim,
    "controls": _control_aim,
    "bitmap-scan": _bitmap_aim,
    "throttled": _throttled_aim,
    "cached-scan": _cached_aim,
    "range-query": lambda comparison, data: _RANGE_QUERY_AIMS.get(comparison.question.name),
    "seq-scan": _seq_scan_aim,
    "concurrent-scans": lambda comparison, data: _CONCURRENT_AIM,
    "index-build": _build_aim,
    "bulk-insert": _insert_aim,
    "partitions": _partition_aim,
    "create-partitions": _creation_aim,
    "needed-partitions": _needed_aim,
}


def _no_aim(comparison: Comparison, data: Measurements) -> float | None:
    return None


def _value(comparison: Comparison, factor: str) -> str:
    """The value of a factor; ValueError when the scenario has none of that name."""
    value = comparison.question.scenario.value(factor)
    if value is None:
        raise ValueError(f"a scenario has no {factor}")
    return value


def _percent(comparison: Comparison) -> float:
    """The share of the pages that a scan hits, in percent."""
    return float(_value(comparison, "pages").removesuffix(" %"))
