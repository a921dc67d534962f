"""Which scans a join can look up for rows whose turn has not come. Pure.

Of src/join/la_join_target.c, by what EXPLAIN prints of their conditions.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lookahead.check.conditions import (
    NOT_NULL,
    Comparison,
    column_of,
    columns_in,
    comparisons,
    init_plans_in,
    is_given,
    is_made_of_given,
    is_made_outside,
)
from lookahead.check.facts import Column, Facts, Index, Name
from lookahead.check.plan_tree import Execution, Node, source_of
from lookahead.check.sql_text import code_of

# Columns that are compared by `=`: LA_JOIN_KEYS in la_join_target.h.
_MOST_KEYS = 8


@dataclass(frozen=True)
class JoinTargets:
    """Those of one plan; `tables` are its tables by alias, None of what is no table."""

    facts: Facts
    tables: Mapping[str, Name | None]

    def has(self, node: Node, table: Name, execution: Execution) -> bool:
        """Whether a join finds, by values of its outer row, what the scan will read."""
        alias, schema = str(node.get("Alias", "")), table[0]
        for source in _sources(node):
            index = self.facts.indexes.get((schema, str(source.get("Index Name", ""))))
            if index is not None and _Target(self, source, index, alias, execution).is_one():
                return True
        return False

    def is_plain(self, node: Node) -> bool:
        """Whether these values come as they are; those of expressions no join knows ahead."""
        return all(
            self._is_column(one.value) or is_made_outside(code) or is_given(code)
            for source in _sources(node)
            for one in comparisons(str(source.get("Index Cond", "")))
            for code in [code_of(one.value)]
        )

    def _is_column(self, value: str) -> bool:
        """Whether it is one, be it of another name of its type."""
        found = column_of(value)
        if found is None:
            return False
        alias, name, shown_as = found
        return not shown_as or (self.tables.get(alias), name, shown_as) in self.facts.relabels


@dataclass(frozen=True)
class _Target:
    """A scan of an index, for `execution` of the table that is named `alias` there."""

    targets: JoinTargets
    source: Node
    index: Index
    alias: str
    execution: Execution

    def is_one(self) -> bool:
        """Whether search_scan() would make one of it.

        The first columns of a btree are compared by `=`, at least one of them with a value of
        another node; the next column may have bounds, and no other a condition.
        """
        if self.index.access_method != "btree":
            return False
        rest = list(comparisons(str(self.source.get("Index Cond", ""))))
        by_row = False
        for number, column in enumerate(self.index.columns):
            own = [one for one in rest if _is_of(one, self.index, number)]
            equal = [one for one in own if one.operator == "="]
            if not equal or not column.is_plain:
                return by_row and rest == own and not equal and self._are_bounds(own, column)
            if number == _MOST_KEYS or not self._may_be_known(equal[0].value):
                return False
            by_row |= self._is_of_row(equal[0].value)
            done = [equal[0], *(one for one in own if one.operator == NOT_NULL)]
            rest = [one for one in rest if one not in done]
        return by_row and not rest

    def _are_bounds(self, conditions: list[Comparison], column: Column) -> bool:
        """Whether these are one of a side at most, as add_bounds() has it."""
        goes_back = str(self.source.get("Scan Direction")) == "Backward"
        sides = set()
        for one in conditions:
            if one.operator == NOT_NULL:
                continue
            is_start = one.operator.startswith("<") == (goes_back != column.descending)
            is_known = column.is_plain and self._may_be_known(one.value)
            # Of a scan that is stopped early it does not matter where it would end.
            is_needless = not is_start and self.execution.is_limited
            if not one.operator or is_start in sides or not (is_known or is_needless):
                return False
            sides.add(is_start)
        return True

    def _may_be_known(self, value: str) -> bool:
        """Whether find_value() may know, before the scan runs, where it comes from.

        An InitPlan is executed before the join, unless it is of a node of the join's.
        """
        if self._is_of_row(value):
            return True
        code = code_of(value)
        is_before = init_plans_in(code).isdisjoint(self.execution.init_plans)
        return is_before and is_made_of_given(code)

    def _is_of_row(self, value: str) -> bool:
        """Whether it is of the outer row, which may have worked it out itself."""
        return is_made_outside(code_of(value)) or any(
            alias in self.targets.tables and alias != self.alias for alias, _ in columns_in(value)
        )


def _sources(node: Node) -> Iterator[Node]:
    """The scans of indexes that find the rows, each of them some."""
    waiting = [source_of(node)]
    while waiting:
        source = waiting.pop()
        if source["Node Type"] == "BitmapOr":
            waiting += source["Plans"]
        elif source["Node Type"] != "BitmapAnd":
            yield source


def _is_of(comparison: Comparison, index: Index, number: int) -> bool:
    """Whether it is of this column of the index; of an expression if it is of none of the table."""
    found = column_of(comparison.left)
    name = found[1] if found else None
    if index.columns[number].is_expression:
        return name not in {one.name for one in index.columns if not one.is_expression}
    return name == index.columns[number].name
