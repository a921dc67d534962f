"""How many pages rows lie on, as far as statistics can tell."""

import random

import pytest

from lookahead.check.conditions import columns_in, values_in_lists
from lookahead.check.page_ranges import (
    Layout,
    Range,
    distinct,
    intersection,
    pages_of_lookups,
    pages_of_range,
    union,
    with_repeated_reads,
)

_PAGES, _ROWS = 1_000, 10_000


def _layout(correlation: float | None, *, by_one_column: bool = True) -> Layout:
    return Layout(_PAGES, float(_ROWS), correlation, by_one_column)


@pytest.mark.parametrize(
    ("low", "high", "known"),
    [(0, 0, 0), (5, 5, 5), (10, 40, 20), (10, 41, None), (0, 9, None), (1, float("inf"), None)],
)
def test_an_estimate_misses_by_a_factor_of_two_at_most(
    low: float, high: float, known: int | None
) -> None:
    assert Range(low, high).known == known


@pytest.mark.parametrize(
    ("rows", "correlation", "pages"),
    [
        (0, 0.0, 0),
        (1, 0.0, 1),
        (1e9, 0.0, 1_000),
        (2_000, 0.0, 865),
        (1_000, 1.0, 100),
        (1_000, None, None),
        (1_000, 0.9, None),
    ],
)
def test_pages_of_a_range(rows: float, correlation: float | None, pages: int | None) -> None:
    assert pages_of_range(Range.exactly(rows), _layout(correlation)).known == pages


def test_an_empty_table_has_no_pages() -> None:
    nothing = Layout(0, 0.0, 0.5)
    assert pages_of_range(Range.exactly(10), nothing).known == 0
    assert pages_of_lookups(Range.exactly(9), Range.exactly(10), nothing, 0.0).known == 0


@pytest.mark.parametrize("spread", [0.0, 0.005, 0.05, 0.5])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_rows_that_are_a_little_out_of_place_are_within_the_range(
    spread: float, share: float, seed: int
) -> None:
    """A table is made, its correlation computed, and the pages of a range of values counted."""
    random_ = random.Random(seed)
    positions = range(_ROWS)
    values = [position / _ROWS + random_.gauss(0.0, spread) for position in positions]
    order = sorted(positions, key=values.__getitem__)
    ranks = [0] * _ROWS
    for rank, position in enumerate(order):
        ranks[position] = rank
    squares = sum((position - rank) ** 2 for position, rank in enumerate(ranks))
    correlation = 1 - 6 * squares / (_ROWS * (_ROWS**2 - 1))
    first = int(_ROWS * 0.3)
    found = order[first : first + int(_ROWS * share)]
    read = len({position * _PAGES // _ROWS for position in found})
    pages = pages_of_range(Range.exactly(len(found)), _layout(abs(correlation)))
    assert pages.low <= read * 1.2 and read <= pages.high * 1.2
    if pages.known is not None:
        assert read / 2 <= pages.known <= read * 2


def test_lookups_in_disorder_and_in_order() -> None:
    lookups, one = Range.exactly(500), Range.exactly(1.0)
    assert pages_of_lookups(lookups, one, _layout(0.0), 0.0).known == 394
    assert pages_of_lookups(lookups, one, _layout(1.0), 1.0).known == 394
    both = pages_of_lookups(lookups, one, _layout(1.0), 0.0)
    assert (both.low, round(both.high)) == (50, 394)


def test_parts_of_a_bitmap() -> None:
    parts = [Range.exactly(100), Range.exactly(500)]
    assert union(parts, _PAGES) == Range(550, 600)
    both = intersection(parts, 20.0, _layout(0.0))
    assert round(both.low) == 18 and round(both.high) == 20
    assert intersection(parts, 1e6, _layout(0.0)) == Range.exactly(100)


def test_pages_of_a_table_larger_than_shared_buffers_are_read_again() -> None:
    pages = Range.exactly(1_000)
    assert with_repeated_reads(pages, 50_000, _layout(0.0), 2_000) == pages
    assert with_repeated_reads(pages, 900, _layout(0.0), 100) == pages
    again = with_repeated_reads(pages, 50_000, _layout(0.0), 500)
    assert again.low == 1_000 and 30_000 < again.high < 50_000


@pytest.mark.parametrize(("kinds", "draws", "found"), [(1, 9, 1), (10, 0.5, 0.5), (2, 2, 1.5)])
def test_distinct(kinds: float, draws: float, found: float) -> None:
    assert distinct(kinds, draws) == pytest.approx(found)


@pytest.mark.parametrize(
    ("condition", "columns"),
    [
        ("(t.id = f.t_id)", [("t", "id"), ("f", "t_id")]),
        ("(t.a = 'x.y'::text)", [("t", "a")]),
        ('("a.B"."c""d" > 1.5)', [("a.B", 'c"d')]),
        ("(lower(u.m) < 'it''s u.b'::text)", [("u", "m")]),
    ],
)
def test_columns_of_a_condition(condition: str, columns: list[tuple[str, str]]) -> None:
    assert list(columns_in(condition)) == columns


@pytest.mark.parametrize(
    ("condition", "number"),
    [
        ("(t.a = 1)", 1),
        ("(t.a = ANY ('{1,2,3}'::integer[]))", 3),
        ("(t.a = ANY ('{1,1}'::integer[]))", 1),
        ("((t.a = ANY ('{1,2}'::int[])) AND (t.b = ANY ('{\"a,b\",c}'::text[])))", 4),
        ("(t.a = ANY ((InitPlan 1).col1))", None),
        ("(t.a = '= ANY (x'::text)", 1),
        ("((t.\"= ANY ('{}'\" = 1) AND (t.a = ANY ('{1,2}'::int[])))", 2),
    ],
)
def test_values_of_lists(condition: str, number: int | None) -> None:
    assert values_in_lists(condition) == number


@pytest.mark.parametrize("ends", [(1e200, 1e200), (0.0, float("inf")), (float("inf"),) * 2])
def test_a_number_without_a_bound_is_not_known(ends: tuple[float, float]) -> None:
    assert Range(*ends).known is None
