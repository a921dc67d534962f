"""The least time in which a limited volume can serve a set of pages."""

import pytest

from lookahead_bench.gap_optimum import best_gap_plan, gap_plan, range_lengths

_MB = 1_000_000


def test_ranges_bridge_gaps_up_to_the_limit() -> None:
    pages = [0, 1, 3, 6, 10]
    assert range_lengths(pages, 0) == [2, 1, 1, 1]
    assert range_lengths(pages, 1) == [4, 1, 1]
    assert range_lengths(pages, 2) == [7, 1]
    assert range_lengths(pages, 3) == [11]


def test_requests_end_at_the_largest_size() -> None:
    plan = gap_plan(list(range(100)), 0, 1000, 100 * _MB, 128 * 1024)
    assert (plan.requests, plan.read_bytes) == (7, 100 * 8192)


def test_time_is_that_of_the_scarcer_resource() -> None:
    every_second = list(range(0, 2000, 2))
    apart = gap_plan(every_second, 0, 1000, 100 * _MB, 2**20)
    assert apart.requests == 1000
    assert apart.time_ms == 1000.0
    bridged = gap_plan(every_second, 1, 1000, 100 * _MB, 2**20)
    assert bridged.requests == 16
    assert bridged.time_ms == pytest.approx(1999 * 8192 / (100 * _MB) * 1000)


@pytest.mark.parametrize(
    ("reads_per_s", "bytes_per_s", "gap_limit"),
    [(1000, 100 * _MB, 1), (1_000_000, 10 * _MB, 0)],
)
def test_best_gap_limit_follows_the_volume(
    reads_per_s: int, bytes_per_s: int, gap_limit: int
) -> None:
    best = best_gap_plan(list(range(0, 2000, 2)), reads_per_s, bytes_per_s, 2**20)
    assert best.gap_limit == gap_limit
    with pytest.raises(ValueError, match="no pages"):
        best_gap_plan([], reads_per_s, bytes_per_s, 2**20)
