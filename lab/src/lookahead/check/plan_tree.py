"""How often each scan of a plan is executed, and how much of it is asked for. Pure.

EXPLAIN gives the rows of one execution of a node, read to its end, by one process. What is read
depends on the nodes above: a nested loop executes its inner side once for each row of the outer
one, a LIMIT stops early, the workers of a parallel scan share its rows. Where a plan does not tell,
as for a merge join that may end early, the range is wide.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from lookahead.check.conditions import columns_in
from lookahead.check.page_ranges import Range
from lookahead.check.sql_text import code_of

Node = Mapping[str, Any]
NodeT = TypeVar("NodeT", bound=Node)
# Rows that the index has found, before the node's filter: facts.py adds it to the plan.
INDEX_ROWS = "Index Rows"
_CONDITIONS = ("Index Cond", "Filter")
_ONCE = Range(1.0, 1.0)
_ANY_SHARE = Range(0.0, 1.0)
_SUBPLAN, _HASHED = re.compile(r"(SubPlan \d+)"), re.compile(r"hashed (SubPlan \d+)")
# They read all of their input before they return a row.
_BLOCKING = ("Sort", "Hash", "SetOp")
_BLOCKING_AGGREGATES = ("Plain", "Hashed", "Mixed")
# Of how many values the planner guesses.
_UNSEEN_LIST = ("unnest($", "unnest((InitPlan")
# They may need more of their input than the share of rows that is asked for.
_GREEDY = ("Incremental Sort", "WindowAgg", "ProjectSet", "Gather", "Gather Merge", "Append")
# What a join draws rows ahead over: la_join_is_known() in la_join_expression.c.
_READ_ONLY = frozenset(
    [
        *("Seq Scan", "Index Scan", "Index Only Scan", "Tid Scan", "Tid Range Scan"),
        *("Bitmap Heap Scan", "Bitmap Index Scan", "BitmapAnd", "BitmapOr"),
        *("Subquery Scan", "Function Scan", "Values Scan", "Append", "Merge Append", "Result"),
        *("Nested Loop", "Merge Join", "Hash Join", "Hash", "Materialize", "Memoize"),
        *("Sort", "Incremental Sort", "Aggregate", "Group", "Unique", "Limit"),
        *("Gather", "Gather Merge"),
    ]
)


@dataclass(frozen=True)
class Execution:
    """What the nodes above a node do with it.

    It is executed `loops` times, by all processes together, and a share `consumed` of its rows is
    asked for. `row_limit` bounds the rows of all loops together. `participants` is by how much
    EXPLAIN has divided the rows of a scan whose work is shared. `outer` is the node whose rows
    are looked up, `drawn_ahead` whether that is done for many of them at once, `against` the reason
    why a join of the library's does not; `init_plans` are those of nodes that belong to it. With
    `may_stop` it may be left before its end, and finds out while it runs whether it does that.
    `is_part` is of one of several inputs that are read one after the other, `is_limited` what is
    below a LIMIT, counted from the join.
    """

    loops: Range = _ONCE
    consumed: Range = _ONCE
    row_limit: float = float("inf")
    participants: float = 1.0
    outer: Node | None = None
    drawn_ahead: bool = False
    against: str = ""
    init_plans: frozenset[str] = frozenset()
    may_stop: bool = False
    is_part: bool = False
    is_limited: bool = False


@dataclass(frozen=True)
class _Mentions:
    """The subplans of a node that are hashed, and those that its filters evaluate.

    `init_plans` are those of the node and of all below it.
    """

    hashed: frozenset[str] = frozenset()
    filtering: frozenset[str] = frozenset()
    init_plans: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Participation:
    """The settings that decide how rows are divided among processes, and drawn ahead."""

    leader: bool = True
    joins_ahead: bool = False

    def participants(self, gather: Node) -> float:
        """As get_parallel_divisor() in costsize.c: a leader is busy with its workers."""
        workers = float(gather.get("Workers Planned", 0))
        if gather.get("Single Copy") or workers == 0:
            return 1.0
        return workers + (max(0.0, 1.0 - 0.3 * workers) if self.leader else 0.0)


def executions(plan: Node, participation: Participation) -> Iterator[tuple[Node, Execution]]:
    """All nodes below and including `plan`, with what is done with them.

    Common table expressions come last: how much of them is read depends on all of their readers.
    """
    waiting: list[tuple[Node, Execution]] = [(plan, Execution())]
    expressions: dict[str, Node] = {}
    readers: dict[str, list[Range]] = {}
    aliases = _aliases(plan)
    while waiting or expressions:
        if not waiting:
            # One that is read by what has been seen; another one reads the others.
            name = next((name for name in expressions if name in readers), next(iter(expressions)))
            shares = readers.get(name, [])
            share = Range(
                max((item.low for item in shares), default=0.0),
                max((item.high for item in shares), default=1.0),
            )
            waiting.append((expressions.pop(name), Execution(consumed=share)))
        node, execution = waiting.pop()
        yield node, execution
        if node["Node Type"] == "CTE Scan":
            readers.setdefault(str(node.get("CTE Name")), []).append(execution.consumed)
        mentions = _mentions(node)
        for child in reversed(node.get("Plans", ())):
            name = str(child.get("Subplan Name", ""))
            if name.startswith("CTE "):
                expressions[name.removeprefix("CTE ")] = child
            elif child.get("Parent Relationship") == "InitPlan":
                waiting.append((child, _init_plan(child, execution, aliases)))
            else:
                found = _child(node, child, execution, participation, mentions)
                waiting.append((child, found))


def plan_nodes(plan: NodeT) -> Iterator[NodeT]:
    """The node and all below it, in the order that EXPLAIN shows them."""
    waiting = [plan]  # no recursion: a statement chooses how deep its plan is
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.get("Plans", ())))


def source_of(node: Node) -> Node:
    """The scan that finds the rows in an index, if one does."""
    return input_of(node) if node["Node Type"] == "Bitmap Heap Scan" else node


def input_of(node: Node) -> Node:
    """Its first input: plans that expressions call stand before the inputs and behind them."""
    return next(child for child in node["Plans"] if not _is_subplan(child))


def texts_of(node: Node) -> Iterator[str]:
    """All that EXPLAIN says in words of the node itself; its expressions are SQL."""
    waiting = [value for key, value in node.items() if key != "Plans"]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, (list, dict)):
            waiting.extend(value.values() if isinstance(value, dict) else value)


def table_of(node: Node) -> tuple[str, str] | None:
    """(schema, name) of the table a node reads, None when it reads none."""
    if "Relation Name" not in node:
        return None
    return str(node.get("Schema", "")), str(node["Relation Name"])


def is_attached(node: Node) -> bool:
    """Whether the library does something at the node, as far as EXPLAIN knows."""
    return bool(node.get("Lookahead", {}).get("Status", "stock") != "stock")


def own_rows(node: Node, execution: Execution) -> float:
    """Rows of one execution of the node, by all processes together."""
    share = execution.participants if is_shared(node) else 1.0
    return float(node.get("Plan Rows", 0)) * share


def is_shared(node: Node) -> bool:
    """Whether processes divide the rows of the node among them."""
    current: Node | None = node
    while current is not None:
        if current.get("Parallel Aware"):
            return True
        inputs = [child for child in current.get("Plans", ()) if not _is_subplan(child)]
        if current["Node Type"] in ("Gather", "Gather Merge") or not inputs:
            return False
        current = inputs[0]
    return False


def _is_subplan(node: Node) -> bool:
    return node.get("Parent Relationship") in ("InitPlan", "SubPlan")


def _child(
    parent: Node, child: Node, above: Execution, participation: Participation, mentions: _Mentions
) -> Execution:
    relationship = child.get("Parent Relationship")
    if relationship == "SubPlan":
        return _subplan(parent, child, above, participation, mentions)
    kind = str(parent["Node Type"])
    consumed = _consumed(parent, child, above.consumed)
    is_limited = above.is_limited or kind == "Limit"
    below = replace(above, consumed=consumed, row_limit=float("inf"), is_limited=is_limited)
    if kind in ("Gather", "Gather Merge"):
        return replace(below, participants=participation.participants(parent))
    if kind in ("Materialize", "Hash", "Sort"):
        # Kept for the next loops, unless something in it depends on them: then it is looked up.
        return below
    if kind == "Memoize":
        return replace(below, row_limit=above.row_limit)
    if kind == "Nested Loop" and relationship == "Inner":
        return _inner(parent, above)
    if kind == "Recursive Union" and relationship == "Inner":
        return replace(below, loops=Range(1.0, float("inf")))
    if kind in ("Append", "Merge Append") and above.loops.high > 1:
        # Partitions without matching rows may be left out while it is executed. They are not looked
        # at, as there can be thousands.
        loops = Range(above.loops.low / len(parent["Plans"]), above.loops.high)
        return replace(below, loops=loops, is_part=True)
    # search_children() in la_join_target.c goes no further.
    return replace(below, drawn_ahead=False) if "One-Time Filter" in parent else below


def _aliases(plan: Node) -> frozenset[str]:
    return frozenset(str(node["Alias"]) for node in plan_nodes(plan) if "Alias" in node)


def _init_plan(child: Node, above: Execution, aliases: frozenset[str]) -> Execution:
    """Once; but for each row that is looked up, of which a condition in it has a column.

    As of min() and max() by an index: preprocess_minmax_aggregates() in planagg.c.
    """
    outer = aliases - _aliases(child) if above.outer is not None else frozenset()
    conditions = (str(node.get(key, "")) for node in plan_nodes(child) for key in _CONDITIONS)
    if outer and any(alias in outer for text in conditions for alias, _ in columns_in(text)):
        return replace(above, consumed=_ANY_SHARE, row_limit=float("inf"), participants=1.0)
    return Execution(participants=1.0)


def _inner(join: Node, above: Execution) -> Execution:
    outer = input_of(join)
    rows = own_rows(outer, above)
    most = float("inf") if str(outer.get("Function Call", "")).startswith(_UNSEEN_LIST) else rows
    loops = above.loops.times(above.consumed).times(Range(rows if most == rows else 0.0, most))
    limit = float("inf")
    if join.get("Join Type") == "Inner" and "Join Filter" not in join and most == rows:
        limit = own_rows(join, above) * above.loops.high * above.consumed.high
    stops_early = join.get("Join Type") in ("Semi", "Anti", "Right Semi", "Right Anti")
    does_only_read = _does_only_read(outer)
    return Execution(
        loops=loops,
        consumed=_ANY_SHARE if stops_early else _ONCE,
        row_limit=limit,
        participants=above.participants,
        outer=outer,
        drawn_ahead=is_attached(join) and does_only_read,
        against="outer side" if is_attached(join) and not does_only_read else "",
        init_plans=_init_plans(join) if is_attached(join) else frozenset(),
        may_stop=above.consumed.low < 1.0,
    )


def _does_only_read(outer: Node) -> bool:
    """Whether all that is executed for its rows does; InitPlans are executed before."""
    waiting = [outer]
    while waiting:
        node = waiting.pop()
        if node["Node Type"] not in _READ_ONLY:
            return False
        children = node.get("Plans", ())
        waiting += [child for child in children if child.get("Parent Relationship") != "InitPlan"]
    return True


def _mentions(parent: Node) -> _Mentions:
    if not any(child.get("Parent Relationship") == "SubPlan" for child in parent.get("Plans", ())):
        return _Mentions()
    filters = (str(parent.get(key, "")) for key in ("Filter", "Join Filter"))
    return _Mentions(
        _names(_HASHED, texts_of(parent)), _names(_SUBPLAN, filters), _init_plans(parent)
    )


def _init_plans(plan: Node) -> frozenset[str]:
    return frozenset(
        str(node.get("Subplan Name"))
        for node in plan_nodes(plan)
        if node.get("Parent Relationship") == "InitPlan" and node is not plan
    )


def _names(pattern: re.Pattern[str], texts: Iterable[str]) -> frozenset[str]:
    return frozenset(match[1] for text in texts for match in pattern.finditer(code_of(text)))


def _subplan(
    parent: Node, child: Node, above: Execution, participation: Participation, mentions: _Mentions
) -> Execution:
    name = str(child.get("Subplan Name", ""))
    if name in mentions.hashed:
        return Execution()
    rows = own_rows(parent, above)
    each = Range(rows, float("inf") if name in mentions.filtering else rows)
    # EXISTS and the like stop at the first row.
    return Execution(
        loops=above.loops.times(above.consumed).times(each),
        consumed=_ANY_SHARE,
        outer=parent,
        drawn_ahead=participation.joins_ahead
        and parent["Node Type"] == "Seq Scan"
        and is_attached(parent),
        init_plans=mentions.init_plans,
        may_stop=above.consumed.low < 1.0,
    )


def _consumed(parent: Node, child: Node, above: Range) -> Range:
    """The share of the child's rows that the parent asks for when `above` is asked of it."""
    kind = str(parent["Node Type"])
    if kind in _BLOCKING or (
        kind == "Aggregate" and parent.get("Strategy") in _BLOCKING_AGGREGATES
    ):
        return _ONCE
    if kind == "Limit":
        return above.times(_share_of_limit(parent, child))
    if kind == "Merge Join":
        # It ends with the shorter of its inputs.
        return Range(0.0, above.high)
    if kind == "WindowAgg" and "Run Condition" in parent:
        return Range(0.0, above.high)
    if above.low < 1.0 and kind in _GREEDY:
        return Range(0.0, 1.0)
    return above


def _share_of_limit(limit: Node, child: Node) -> Range:
    """Rows that are skipped are in the cost, which is interpolated between those of the input.

    So are its InitPlans, in both costs of the Limit: SS_charge_for_initplans() in subselect.c.
    """
    start = float(child.get("Startup Cost", 0))
    whole = float(child.get("Total Cost", 0)) - start
    if whole <= 0:
        rows = float(limit.get("Plan Rows", 0)) / max(1.0, float(child["Plan Rows"]))
        return Range.exactly(min(1.0, rows))
    total = float(limit.get("Total Cost", 0))
    least = (total - float(limit.get("Startup Cost", 0))) / whole
    before = [one for one in limit["Plans"] if one.get("Parent Relationship") == "InitPlan"]
    charged = Range(
        sum(map(_cost_of_first_row, before)), sum(float(one["Total Cost"]) for one in before)
    )
    shares = ((total - start - cost) / whole for cost in (charged.high, charged.low))
    low, high = (min(1.0, max(share, least if before else 0.0)) for share in shares)
    return Range(low, high)


def _cost_of_first_row(plan: Node) -> float:
    """What EXISTS is taken to cost; whether one is of that is not to be seen."""
    start, total = float(plan["Startup Cost"]), float(plan["Total Cost"])
    if str(plan.get("Subplan Name", "")).startswith("CTE "):
        return total
    return start + (total - start) / max(1.0, float(plan["Plan Rows"]))
