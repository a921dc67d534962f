"""What the project wants to reach, as ratios of baseline time to our time.

An aim is shown beside what was measured; it never enters a measurement.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class IndexScan:
    """Distinct pages in random order, rows of a LIMIT, or percent of the pages in heap order."""

    pages: int
    order: Literal["random", "heap"] = "random"
    limit: int | None = None
    share_percent: int | None = None
    added_latency_us: int = 0


# Whole ranges in random order, cold, by the least number of pages; below that, start-up counts.
_RANDOM_AIMS = ((10_000, 4.0), (1_000, 2.5))
# Keeping the order may cost a tenth more than a bitmap scan and a sort, which lose it.
_BITMAP_AIM = 1 / 1.1
_BITMAP_MIN_PAGES = 1_000
_LIMIT_AIMS = {100: 2.0}
# LIMIT 1 gains nothing; this much it may cost, in ms.
_LIMIT_1_ALLOWANCE_MS = 0.05
# Up to this share of the pages their requests can overlap; with more of them the kernel's own
# read-ahead is hard to beat, and must not be lost.
_SPARSE_PERCENT = 10
_SPARSE_AIM, _DENSE_AIM = 2.5, 0.95
# With latency added to each read, if it is long enough to matter beside the device's own.
_LATENCY_AIM, _LATENCY_MIN_PAGES = 10.0, 1_000
# What must not become slower: by how much it may seem to.
_READ_AIM, _CONTROL_AIM = 0.95, 0.98


def control_aim(workload: str) -> float:
    """The ratio of times that must be kept with the library."""
    if workload.startswith(("os-", "cold-")):
        return _READ_AIM
    return _CONTROL_AIM


def scan_aim(scan: IndexScan, baseline: str, baseline_median_ms: float) -> float | None:
    """The aim for a cold index scan, None where there is none."""
    if scan.order == "heap":
        return _SPARSE_AIM if (scan.share_percent or 100) <= _SPARSE_PERCENT else _DENSE_AIM
    if scan.limit == 1:
        return baseline_median_ms / (baseline_median_ms + _LIMIT_1_ALLOWANCE_MS)
    if scan.limit is not None:
        return _LIMIT_AIMS.get(scan.limit)
    if scan.added_latency_us and baseline == "stock":
        return _LATENCY_AIM if scan.pages >= _LATENCY_MIN_PAGES else None
    if baseline == "bitmap":
        return _BITMAP_AIM if scan.pages >= _BITMAP_MIN_PAGES else None
    return next((aim for pages, aim in _RANDOM_AIMS if scan.pages >= pages), None)


# Bitmap scans, cold, against stock at its default setting: up to a share of the pages.
_BITMAP_SHARE_AIMS = ((0.42, 1.6), (0.75, 1.2))
_BITMAP_MIN_SHARE = 0.01
# By how much of its time we may be slower: than the best stock plan of any kind at its best
# setting, and with a setting of effective_io_concurrency that stock suffers from than without.
BEST_STOCK_AIM, ANY_SETTING_AIM = 1 / 1.05, 1 / 1.1


def bitmap_aim(share: float) -> float | None:
    """The aim for a cold bitmap scan that hits this share (0..1) of the table's pages."""
    if share < _BITMAP_MIN_SHARE:
        return None
    return next((aim for limit, aim in _BITMAP_SHARE_AIMS if share <= limit), None)


# On a volume that is throttled to few requests a second, against stock's default.
_THROTTLED_AIMS = {0.1: 1.5, 0.42: 1.8}
# Against the time that the volume needs at least for these pages, by gap limits alone.
OPTIMUM_AIM = 1 / 1.15


def throttled_aim(share: float) -> float | None:
    """The aim for a cold bitmap scan of this share (0..1) of the pages on a throttled volume."""
    return _THROTTLED_AIMS.get(share)


# Bitmap scans of cached data, and cold ones with so many parallel workers.
CACHED_AIM = 0.98
_PARALLEL_AIMS = {2: 1.3}
# A sum over a range of dates, cold: against effective_io_concurrency 1, and stock's default.
RANGE_QUERY_SETTING_1_AIM, RANGE_QUERY_DEFAULT_AIM = 3.0, 1.5


def parallel_aim(workers: int) -> float | None:
    """The aim for a cold bitmap scan with parallel workers, against stock's with as many."""
    return _PARALLEL_AIMS.get(workers)


# Sequential scans, cold: against stock's, and the disk's own time for the file.
SEQ_SCAN_AIM, RAW_DEVICE_AIM = 1.0, 1 / 1.25
# Several sessions at once, against stock's time of each.
CONCURRENT_AIM = 0.95

# Index builds against stock's, by key: without parallel workers, and with two.
_BUILD_AIMS: dict[str, tuple[float, float]] = {
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
    "pgbench": (4.0, 4.0),
}
_BUILD_MIN_ROWS = 1_000_000
# Of a build too small to gain anything.
_SMALL_BUILD_AIM, _SMALL_BUILD_ROWS = 0.98, 1_000


def build_aim(key: str, rows: int, workers: int) -> float | None:
    """The aim for an index build on a cached table."""
    if rows <= _SMALL_BUILD_ROWS:
        return _SMALL_BUILD_AIM
    if rows < _BUILD_MIN_ROWS or key not in _BUILD_AIMS or workers not in (0, 2):
        return None
    return _BUILD_AIMS[key][workers // 2]
