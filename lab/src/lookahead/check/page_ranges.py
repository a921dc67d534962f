"""How many distinct pages of a table some of its rows lie on, as far as statistics can tell. Pure.

Rows in random order hit P * (1 - (1 - 1/P)^rows) of P pages, rows that lie side by side the same
share of pages as of rows. The correlation of a column c says where between the two its values lie,
but not alone: a table whose rows are all a little out of place has the same c as one in which a few
are far away. Both are worked out, and give a range:

- All rows of neighbouring values side by side, but for a few that are far away: the fewest pages.
  Below a c of 0.5 it is taken for less and less likely, below 0.2 for none: the rows are taken to
  lie in random order, as the planner does. A table in which equal values lie side by side and
  neighbouring ones do not has pages fewer than that; its statistics are the same.
- All rows displaced by a normal error of so many table lengths s that c = 1 / sqrt(1 + 12 s^2),
  which follows from the variance 1/12 of a uniform position: the rows of a range of values lie at
  random in a window that is 4 s longer than the range. The most pages.

Whatever lies in a range whose ends differ by a factor of 4 is less than a factor of 2 away from
the geometric mean of the ends: that is an estimate. A wider range is none.
"""

from dataclasses import dataclass
from math import isfinite, log1p, sqrt
from typing import Self

# The factor by which an estimate may miss.
SURE_FACTOR = 2
# Rows of which the number is not known; a power of this is still a number.
MANY = 1e18
# Correlations between which rows are taken for less and less in disorder. Arbitrary.
_DISORDER, _ORDER = 0.2, 0.5
# Of shared buffers, for one scan's table: its index and other sessions have the rest. Arbitrary.
_BUFFERS_SHARE = 0.75
_SPREADS_IN_WINDOW = 4  # two standard deviations to each side


@dataclass(frozen=True)
class Range:
    """A number of which two bounds are known; `high` may be infinite."""

    low: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> Self:
        return cls(value, value)

    @property
    def known(self) -> int | None:
        """The number that is less than `SURE_FACTOR` from all of the range, if there is one."""
        if self.high <= 0:
            return 0
        # A product of estimates of nested loops can be beyond all numbers.
        if self.low <= 0 or not isfinite(self.low * self.high):
            return None
        if self.high > self.low * SURE_FACTOR**2:
            return None
        return max(1, round(sqrt(self.low * self.high)))

    def times(self, other: "Range") -> "Range":
        is_none = not self.high or not other.high  # even of infinitely many
        return Range(self.low * other.low, 0.0 if is_none else self.high * other.high)

    def at_most(self, limit: float) -> "Range":
        return Range(min(self.low, limit), min(self.high, limit))


@dataclass(frozen=True)
class Layout:
    """Where in a table the rows of neighbouring values lie.

    `correlation` is the largest of the columns that choose the rows, without its sign, None where
    one is not known. `by_one_column` says that the rows are a single range of that column's values.
    """

    pages: int
    rows: float
    correlation: float | None
    by_one_column: bool = True

    def dense(self, rows: float) -> float:
        """Pages of so many rows that lie side by side."""
        return self.pages * min(rows / self.rows, 1.0) if self.rows > 0 else 0.0


def disorder_of(correlation: float | None) -> float:
    """The share of the rows that are sure to lie anywhere."""
    if correlation is None:
        return 0.0
    return min(1.0, max(0.0, (_ORDER - correlation) / (_ORDER - _DISORDER)))


def distinct(kinds: float, draws: float) -> float:
    """How many of so many kinds are expected in as many random draws."""
    if kinds <= 1:
        return min(kinds, draws)
    # Draws of less than one are the share of cases in which there is one.
    return draws if draws <= 1 else min(kinds * (1.0 - (1.0 - 1.0 / kinds) ** draws), draws)


def pages_of_range(rows: Range, layout: Layout) -> Range:
    """Pages of the rows between two values of an index."""
    if layout.pages == 0 or rows.high <= 0:
        return Range.exactly(0)
    low, high = _fewest(rows.low, layout), _most(rows.high, layout)
    return Range(min(low, high), high).at_most(layout.pages)


def pages_of_lookups(lookups: Range, rows_each: Range, layout: Layout, disorder: float) -> Range:
    """Pages of the rows of so many different values of an index.

    `disorder` is the share of the values known to lie anywhere among all values.
    """
    each = pages_of_range(rows_each, layout)
    if each.high <= 0:
        return each
    # Below one: not every value has a row.
    found = Range(min(1.0, rows_each.low), min(1.0, rows_each.high))
    high = distinct(layout.pages, min(lookups.high, MANY) * found.high * max(1.0, each.high))
    anywhere = max(disorder, disorder_of(layout.correlation))
    visits = lookups.low * found.low * max(1.0, each.low)
    together = layout.dense(lookups.low * rows_each.low)
    low = distinct(layout.pages, anywhere * visits) + (1.0 - anywhere) * together
    return Range(min(max(low, min(1.0, visits)), high), high).at_most(layout.pages)


def with_repeated_reads(pages: Range, visits: float, layout: Layout, buffers: int) -> Range:
    """What is read when so many visits in any order find at most `buffers` pages kept.

    As the planner has it (Mackert and Lohman): once the buffers are full, a visit misses them by
    the share of the pages that they do not hold.
    """
    kept = buffers * _BUFFERS_SHARE
    if pages.high <= kept or visits <= pages.high or layout.pages <= kept:
        return pages
    until_full = -layout.pages * log1p(-kept / layout.pages)
    again = max(0.0, visits - until_full) * (1.0 - kept / layout.pages)
    return Range(pages.low, max(pages.high, kept + again))


def union(parts: list[Range], pages: int) -> Range:
    """Pages of rows of any of the parts: the fewest when these lie independently of each other."""
    free = 1.0
    for part in parts:
        free *= 1.0 - min(part.low / pages, 1.0) if pages else 1.0
    high = min(float(pages), sum(part.high for part in parts))
    return Range(min(pages * (1.0 - free), high), high)


def intersection(parts: list[Range], rows: float, layout: Layout) -> Range:
    """Pages of so many rows of all of the parts."""
    high = min(*(part.high for part in parts), distinct(layout.pages, rows))
    low = distinct(min(part.low for part in parts), rows)
    return Range(min(max(low, layout.dense(rows)), high), high)


def _fewest(rows: float, layout: Layout) -> float:
    anywhere = disorder_of(layout.correlation)
    pages = anywhere * distinct(layout.pages, rows) + (1.0 - anywhere) * layout.dense(rows)
    return max(pages, min(rows, 1.0))


def _most(rows: float, layout: Layout) -> float:
    window = 1.0
    if layout.by_one_column and layout.correlation and layout.rows > 0:
        spread = sqrt(max(0.0, 1.0 / layout.correlation**2 - 1.0) / 12.0)
        window = min(1.0, rows / layout.rows + _SPREADS_IN_WINDOW * spread)
    scattered = distinct(layout.pages * window, min(rows, MANY))
    # A range begins and ends within a page.
    return max(scattered, min(rows, layout.dense(rows) + 1.0))
