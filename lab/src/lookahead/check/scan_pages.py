"""How many pages of its table each scan of a plan reads when nothing is cached. Pure.

Their conditions say which columns are looked up, by how many values.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from lookahead.check.conditions import columns_in, comparisons, is_computed, values_in_lists
from lookahead.check.facts import Facts, Name, Relation
from lookahead.check.join_targets import JoinTargets
from lookahead.check.page_ranges import (
    Layout,
    Range,
    disorder_of,
    distinct,
    intersection,
    pages_of_lookups,
    pages_of_range,
    union,
    with_repeated_reads,
)
from lookahead.check.plan_tree import INDEX_ROWS, Execution, Node, own_rows, source_of

_INFINITE = float("inf")
_NOTHING: Node = {}
_CONDITIONS = ("Index Cond", "Filter")
# Below it a column says nothing about the order of the table.
_UNORDERED = 0.3
# From it on a scan of a range of values reads page after page.
_IN_ORDER = 0.99
# So many times the pages that the rows fill when they lie side by side. Arbitrary: index scans of
# three quarters of the pages in order still gained 1.1.
_CONSECUTIVE = 1.15
# Stock reads ahead of a scan that is not read to its end, up to a combined request.
_READ_AHEAD_PAGES = 15
# By so many a table is extended at most (MAX_BUFFERS_TO_EXTEND_BY in hio.c): those may be empty.
_NEW_PAGES = 64
# An access method whose entries stand for groups of pages.
_PAGE_GROUPS = "brin"
# Of other lists that are no literals the planner guesses the length: estimate_array_length().
_COUNTED = "= ANY (ARRAY["


@dataclass(frozen=True)
class _Scan:
    """The table of a scan, the name of its rows in conditions, and what is done with it."""

    table: Name
    alias: str
    relation: Relation
    execution: Execution


@dataclass(frozen=True)
class _Outer:
    """The scans of an outer side by alias, and the columns that conditions in it are on."""

    scans: Mapping[str, Node]
    chosen: frozenset[tuple[str, str]]


class ScanPages:
    """The estimates for one plan; `tables` are its tables by alias, None of what is no table.

    `targets` are those of its scans that a join can look up.
    """

    def __init__(self, facts: Facts, tables: Mapping[str, Name | None]) -> None:
        self._facts = facts
        self._tables = tables
        self.targets = JoinTargets(facts, tables)
        self._outers: dict[int, _Outer] = {}

    def _scan(self, node: Node, table: Name, execution: Execution) -> _Scan:
        if "Filter" in node:  # rows that the join does not return are read before
            execution = replace(execution, row_limit=_INFINITE)
        return _Scan(table, str(node.get("Alias", "")), self._facts.relations[table], execution)

    def of(self, node: Node, table: Name, execution: Execution) -> Range:
        """Pages of the table that all executions of the scan read; some again, if it is large."""
        scan = self._scan(node, table, execution)
        relation = scan.relation
        kind = str(node["Node Type"])
        if relation.pages == 0 or execution.consumed.high <= 0:
            return Range.exactly(0)
        if kind in ("Seq Scan", "Sample Scan"):
            return _of_whole_table(node, relation, execution)
        if kind == "Bitmap Heap Scan":
            return self._of_bitmap(node, scan)
        if kind == "Index Only Scan":
            return _hidden(self._of_index(node, scan, None), relation)
        if kind == "Index Scan":
            return self._of_index(node, scan, self._facts.memory.buffers)
        layout = Layout(relation.pages, relation.rows, 1.0 if kind == "Tid Range Scan" else 0.0)
        return pages_of_range(_rows(node, execution).times(execution.consumed), layout)

    def _of_index(self, node: Node, scan: _Scan, buffers: int | None) -> Range:
        rows = _rows(node, scan.execution)
        share = scan.execution.consumed
        if "Filter" in node and share.low < 1.0:
            share = Range(0.0, 1.0)  # how soon the filter lets rows pass is not known
        taken = Range(max(rows.low * share.low, min(1.0, rows.low)), rows.high * share.high)
        pages = self._found_by(node, scan, taken)
        layout = self._layout(node, scan)
        in_order = disorder_of(layout.correlation) == 0.0 and scan.execution.loops.high <= 1
        if buffers is None or in_order:
            return pages
        return with_repeated_reads(pages, scan.execution.loops.high * taken.high, layout, buffers)

    def each(self, node: Node, table: Name, execution: Execution) -> Range:
        """Pages of the table that one execution of the scan reads."""
        once = replace(execution, loops=Range.exactly(1.0), row_limit=_INFINITE)
        return self.of(node, table, once)

    def is_consecutive(self, node: Node, table: Name, pages: Range) -> bool:
        """Whether a scan reads pages that lie side by side, from first to last, all of their rows.

        Systems do not foresee what is read from last to first.
        """
        source = source_of(node)
        if "Index Name" not in source or (source is node and self._is_backward(node, table)):
            return False
        scan = self._scan(node, table, Execution())
        layout, condition = self._layout(source, scan), str(source.get("Index Cond", ""))
        if (layout.correlation or 0.0) < _IN_ORDER or not layout.by_one_column:
            return False
        if self._outer_columns(condition, scan) or values_in_lists(condition) != 1:
            return False
        filled = layout.dense(float(source.get(INDEX_ROWS, source.get("Plan Rows", 0))))
        return pages.high <= filled * _CONSECUTIVE + 1

    def is_in_order(self, node: Node, table: Name, execution: Execution) -> bool:
        """Whether the rows are looked up in the order of the table."""
        source = source_of(node)
        scan = self._scan(node, table, execution)
        outer = self._outer_columns(str(source.get("Index Cond", "")), scan)
        correlation = self._layout(source, scan).correlation or 0.0
        return len(outer) == 1 and correlation >= _IN_ORDER and self._comes_sorted(*outer[0], scan)

    def _comes_sorted(self, alias: str, name: str, scan: _Scan) -> bool:
        """Whether the outer rows come in the order of this column."""
        outer = scan.execution.outer or _NOTHING
        if outer.get("Node Type") in ("Sort", "Incremental Sort"):
            return next(columns_in(outer["Sort Key"][0]), None) == (alias, name)
        table = self._tables[alias]
        node = self._outer(scan).scans.get(alias, {})
        if "Index Name" in node and table:
            index = self._facts.indexes.get((table[0], str(node["Index Name"])))
            same = {
                column
                for one in comparisons(str(node.get("Index Cond", "")))
                for _, column in columns_in(one.left)
                if one.operator == "=" and not any(columns_in(one.value))
            }
            columns = [] if index is None else [one.name for one in index.columns]
            return next((one for one in columns if one not in same), None) == name
        column = self._facts.columns.get(table, {}).get(name) if table else None
        return column is not None and abs(column.correlation or 0.0) >= _IN_ORDER

    def _found_by(self, node: Node, scan: _Scan, rows: Range) -> Range:
        """Pages of the rows that a scan of an index finds each time."""
        layout = self._layout(node, scan)
        condition = str(node.get("Index Cond", ""))
        lookups, disorder = self._lookups(condition, scan)
        values = values_in_lists(condition)
        if lookups.high <= 1 and values == 1:
            return pages_of_range(rows, layout)
        limit = scan.execution.row_limit
        if lookups.high > 1 and limit < lookups.high * rows.high:
            # Not each loop finds what it looks for.
            each = limit / lookups.high
            rows = Range(min(rows.low, each), each)
        if values is None and condition.count(_COUNTED) < condition.count("= ANY ("):
            return Range(0.0, layout.pages)
        number = Range(1.0, max(1.0, rows.high)) if values is None else Range.exactly(values)
        each_value = Range(rows.low / number.high, rows.high / number.low)
        return pages_of_lookups(lookups.times(number), each_value, layout, disorder)

    def _of_bitmap(self, node: Node, scan: _Scan) -> Range:
        pages = self._of_bitmap_part(source_of(node), scan)
        share = scan.execution.consumed.low
        if share >= 1.0:
            return pages
        least = 0.0 if "Filter" in node else pages.low * share
        return Range(max(least, min(1.0, pages.low)), pages.high)

    def _of_bitmap_part(self, part: Node, scan: _Scan) -> Range:
        rows = float(part.get("Plan Rows", 0))
        if part["Node Type"] == "Bitmap Index Scan":
            return self._found_by(part, scan, Range.exactly(rows))
        inputs = part.get("Plans", ())
        found = [self._of_bitmap_part(child, scan) for child in inputs]
        if part["Node Type"] == "BitmapOr":
            return union(found, scan.relation.pages)
        conditions = [str(child.get("Index Cond", "")) for child in inputs]
        is_lookup = any(self._outer_columns(condition, scan) for condition in conditions)
        loops = scan.execution.loops.high if is_lookup else 1.0
        layout = Layout(scan.relation.pages, scan.relation.rows, None)
        return intersection(found, rows * loops, layout)

    def _layout(self, node: Node, scan: _Scan) -> Layout:
        pages, rows = scan.relation.pages, scan.relation.rows
        index = self._facts.indexes.get((scan.table[0], str(node.get("Index Name", ""))))
        if index is None or not index.columns or index.access_method == _PAGE_GROUPS:
            return Layout(pages, rows, None)
        mentioned = {name for _, name in columns_in(str(node.get("Index Cond", "")))}
        used = [item for item in index.columns if item.name in mentioned] or [index.columns[0]]
        known = [abs(item.correlation) for item in used if item.correlation is not None]
        correlation = max(known) if len(known) == len(used) else None
        return Layout(pages, rows, correlation, by_one_column=len(used) == 1)

    def _is_backward(self, node: Node, table: Name) -> bool:
        """Whether an index scan goes through the table against its order."""
        index = self._facts.indexes.get((table[0], str(node["Index Name"])))
        if index is None or not index.columns:
            return False
        column = index.columns[0]
        goes_back = str(node.get("Scan Direction")) == "Backward"
        turns = (column.correlation or 0.0) < 0, column.descending, goes_back
        return sum(turns) % 2 == 1

    def _outer_columns(self, condition: str, scan: _Scan) -> list[tuple[str, str]]:
        """Columns of other nodes, whose values are looked up."""
        return [
            (alias, column)
            for alias, column in columns_in(condition)
            if alias in self._tables and alias != scan.alias
        ]

    def _outer(self, scan: _Scan) -> _Outer:
        """That of the scan; of many partitions it is the same, so each is looked at once."""
        plan = scan.execution.outer or _NOTHING
        if id(plan) not in self._outers:
            nodes = list(_without_subplans(plan))
            conditions = (str(node.get(key, "")) for node in nodes for key in _CONDITIONS)
            self._outers[id(plan)] = _Outer(
                {str(node["Alias"]): node for node in nodes if "Alias" in node},
                frozenset(column for text in conditions for column in columns_in(text)),
            )
        return self._outers[id(plan)]

    def _lookups(self, condition: str, scan: _Scan) -> tuple[Range, float]:
        """Different values that are looked up, and the share of them known to be in disorder."""
        loops = scan.execution.loops
        outer = self._outer_columns(condition, scan)
        if loops.high <= 1:
            return Range.exactly(1.0), 0.0
        if not outer:
            values = [one.value for one in comparisons(condition) if one.operator == "="]
            if any(map(is_computed, values)):
                return Range(min(1.0, loops.low), loops.high), 0.0
            return Range.exactly(1.0), 0.0  # the same rows each time
        found = {column: self._values_of(column, scan) for column in outer}
        most = min(prod(values.high for values, _ in found.values()), loops.high)
        # Ranges that begin or end at many values may still find the same rows.
        equal = {
            column
            for one in comparisons(condition)
            if one.operator == "="
            for column in columns_in(one.value)
        }
        least = max((found[one][0].low for one in equal & found.keys()), default=0.0)
        disorder = min(disorder for _, disorder in found.values())
        return Range(min(max(least, min(1.0, loops.low)), most), most), disorder

    def _values_of(self, outer: tuple[str, str], scan: _Scan) -> tuple[Range, float]:
        """The same of one column."""
        loops = scan.execution.loops
        table = self._tables[outer[0]]
        column = self._facts.columns.get(table, {}).get(outer[1]) if table else None
        if column is None or column.distinct is None:
            return Range(min(1.0, loops.low), loops.high), 0.0
        many = min(column.distinct, loops.high)  # a whole table has each value
        order = abs(column.correlation) if column.correlation is not None else 1.0
        if order < _UNORDERED and outer not in self._outer(scan).chosen:
            return Range(distinct(column.distinct, loops.low), many), 1.0 - order
        # Neighbours may well have the same value.
        relation = self._facts.relations.get(table) if table else None
        rows = max(1.0, relation.rows) if relation else 1.0
        few = loops.low * min(1.0, column.distinct / rows)
        return Range(min(few, many), many), 0.0


def _without_subplans(plan: Node) -> Iterator[Node]:
    """The node and its inputs; what expressions call for its rows chooses none of them."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        yield node
        children = node.get("Plans", ())
        waiting += [one for one in children if one.get("Parent Relationship") != "SubPlan"]


def _rows(node: Node, execution: Execution) -> Range:
    """Rows that each execution of the scan takes from the table, by all processes together."""
    rows = own_rows(node, execution)
    if "Filter" not in node:
        return Range.exactly(rows)
    if INDEX_ROWS in node:
        share = rows / float(node["Plan Rows"]) if node.get("Plan Rows") else 1.0
        return Range.exactly(float(node[INDEX_ROWS]) * share)
    return Range(rows, _INFINITE)


def _of_whole_table(node: Node, relation: Relation, execution: Execution) -> Range:
    pages = float(relation.pages)
    share = execution.consumed
    if node["Node Type"] == "Sample Scan":
        return Range(min(1.0, pages), pages)
    if "Filter" in node and share.low < 1.0:
        return Range(1.0, pages)
    ahead = _READ_AHEAD_PAGES if share.low < 1.0 else 0
    return Range(max(1.0, pages * share.low), pages * share.high + ahead).at_most(pages)


def is_all_visible(relation: Relation) -> bool:
    """Whether the visibility map answers for all pages but new ones."""
    hidden = relation.pages - relation.all_visible_pages
    changed = relation.changed_pages
    return changed is not None and hidden + changed <= _NEW_PAGES


def _hidden(found: Range, relation: Relation) -> Range:
    """Those of the pages for which the visibility map does not answer."""
    hidden = max(0, relation.pages - relation.all_visible_pages)
    low = found.low * max(0, hidden - _NEW_PAGES) / relation.pages
    if relation.changed_pages is None:
        return Range(low, found.high)
    high = found.high * hidden / relation.pages + relation.changed_pages
    return Range(low, high).at_most(found.high)
