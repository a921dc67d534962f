"""What EXPLAIN and the catalogs say of one statement, turned into advice. Pure.

Look-ahead gains where pages are read from a device one after the other in an order that the
operating system does not foresee. What gained nothing when it was measured (docs/benchmarks.md)
is told so: tables in memory, sequential scans, scans of consecutive pages, few pages. A scan looks
ahead within one of its executions, and is judged by what one of them reads; but the inner side of a
nested loop that draws rows ahead by what all of them do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Any

from lookahead.check.facts import Facts, Memory, Name, Place, Relation
from lookahead.check.inserts import Inserting, with_inserts
from lookahead.check.page_ranges import Range
from lookahead.check.plan_tree import Execution, Node, executions, plan_nodes, table_of
from lookahead.check.scan_pages import ScanPages, is_all_visible
from lookahead.check.verdicts import VERDICTS, Conclusion, Verdict
from lookahead.formats import one_line, server_size

_INSIDE = "statements inside functions are not seen ({names}): check them by themselves"

# The first entries of an index scan go through stock's code, small tables too (docs/explain.md).
_FEW_PAGES = 16
_WHOLE_TABLE_SCANS = ("Seq Scan", "Tid Range Scan")
# Of bitmap heap scans: of more pages than that they gained nothing at a large OS read-ahead.
_MOST_PAGES = 0.75
# What is read ahead is worth a verdict if it is at least that share of all that is read.
_WORTH_SHARE = 0.1
_NOT_KNOWN = (
    "how many pages there are to read ahead does not follow from the statistics; "
    "--measure --cold finds out"
)
_NOT_COUNTED = (
    f"{_NOT_KNOWN}; changes since the last VACUUM are not counted: ANALYZE the table (on a standby "
    "it cannot be)"
)
_BY_JOIN = "; the join finds out while it runs whether it may look ahead"
_MAY_STOP = (
    "the join may be left before its end, and finds out while it runs whether it looks ahead; "
    "--measure --cold tells"
)
_EXPRESSIONS = (
    "the join looks ahead for plain columns of the outer row and one partition at a time only, and "
    "finds out while it runs; --measure --cold tells"
)
_IN_ORDER = (
    "the join looks the rows up in the order of the table, which the system may read ahead by "
    "itself; --measure --cold tells"
)
_PLACES = {
    "shared buffers": "fits into shared buffers",
    "OS cache": "larger than shared buffers, fits into effective_cache_size",
    "disk": "larger than effective_cache_size",
}


@dataclass(frozen=True)
class NodeAdvice:
    """One node of the plan: what the library does there, or why it leaves the node to stock.

    `least_pages` and `most_pages` bound the pages of the table that the statement reads there, all
    executions of the node together, when nothing is cached before; `estimated_pages` is within a
    factor of 2 of either, None where they are too far apart. Of a table that is not known all are
    None, of executions without a bound the most. `executions` is about how many there are, None
    where that is not known; with `is_unsure` each may read too few pages to look ahead.
    `by_join` says that only the join above looks ahead, `doubt` why that may gain nothing,
    `no_gain` why reading ahead gains nothing; `place` is where the table would fit.
    """

    node_type: str
    relation: str | None
    index: str | None
    attached: bool
    reason: str | None
    estimated_pages: int | None
    least_pages: int | None
    most_pages: int | None
    executions: int | None
    is_unsure: bool
    by_join: bool
    doubt: str | None
    no_gain: str | None
    table: Relation | None
    place: Place | None

    @property
    def may_gain(self) -> bool:
        """Whether nothing speaks against a gain from reading ahead."""
        return self.attached and self.no_gain is None


@dataclass(frozen=True)
class Advice:
    """All nodes that read a table, and what follows for the statement.

    `functions` are those whose statements are not seen.
    """

    nodes: tuple[NodeAdvice, ...]
    verdict: Verdict
    conclusion: str
    functions: tuple[str, ...] = ()

    @property
    def most_pages(self) -> int | None:
        """Of all its tables; of index-only scans as if the index had as many. None: no bound."""
        most = [node.most_pages for node in self.nodes if node.most_pages is not None]
        if not most or len(most) < len(self.nodes):
            return None
        only = (node.table for node in self.nodes if node.node_type == "Index Only Scan")
        return sum(most) + sum(table.pages for table in only if table is not None)


@dataclass(frozen=True)
class _Pages:
    """What a node reads, and why reading ahead gains nothing there, if it does not.

    `each` is what is read by all that one look-ahead is for: an execution, or, `by_join`, all.
    """

    all: Range
    each: Range
    executions: Range
    no_gain: str | None
    by_join: bool
    doubt: str | None

    @property
    def is_unsure(self) -> bool:
        """Whether one of many executions may read too few pages to look ahead."""
        is_few = self.executions.high > 1 and self.each.low <= _FEW_PAGES < self.each.high
        return is_few or self.doubt is not None


def advise(
    plan: Mapping[str, Any],
    facts: Facts,
    functions: Sequence[str] = (),
    inserting: Inserting | None = None,
) -> Advice:
    """Advice for a plan of EXPLAIN (VERBOSE, LOOKAHEAD, FORMAT JSON)."""
    tables = {str(node["Alias"]): table_of(node) for node in plan_nodes(plan) if "Alias" in node}
    scans = ScanPages(facts, tables)
    found: dict[int, _Pages] = {}
    for node, execution in executions(plan, facts.participation):
        table = table_of(node)
        if table is not None and table in facts.relations:
            found[id(node)] = _pages_of(scans, node, facts.relations[table], table, execution)
    nodes = tuple(
        _node_advice(node, facts, found.get(id(node)))
        for node in plan_nodes(plan)
        if str(node["Node Type"]).endswith("Scan") and (table_of(node) or "Lookahead" in node)
    )
    verdict, conclusion = with_inserts(
        _conclude(nodes, facts.memory), plan, inserting or Inserting()
    )
    if functions and verdict in ("no", "little", "unknown"):
        verdict, conclusion = "unknown", _INSIDE.format(names=", ".join(functions))
    return Advice(nodes, verdict, conclusion, tuple(functions))


def _pages_of(
    scans: ScanPages, node: Node, relation: Relation, table: Name, execution: Execution
) -> _Pages:
    pages = scans.of(node, table, execution)
    each = scans.each(node, table, execution)
    is_consecutive = scans.is_consecutive(node, table, pages)
    reason = _no_gain(node, relation, pages, each, is_consecutive=is_consecutive)
    by_join, doubt = False, None
    is_many = execution.drawn_ahead and each.low <= _FEW_PAGES
    if is_many and scans.targets.has(node, table, execution):
        each, by_join = pages, True
        if execution.may_stop:
            doubt = _MAY_STOP
        elif scans.is_in_order(node, table, execution):
            doubt = _IN_ORDER
        elif execution.is_part or not scans.targets.is_plain(node):
            doubt = _EXPRESSIONS
    reason = reason or _no_gain_each(each, execution.against)
    return _Pages(pages, each, execution.loops, reason, by_join, doubt)


def _node_advice(node: Node, facts: Facts, found: _Pages | None) -> NodeAdvice:
    pages = found.all if found else None
    table = table_of(node)
    relation = facts.relations.get(table) if table else None
    group = node.get("Lookahead")
    attached = group is not None and group.get("Status") != "stock"
    reason = None
    if not attached:
        reason = str(group.get("Reason", "")) if group else "not a kind of scan that is read ahead"
    name = node.get("Index Name")
    return NodeAdvice(
        node_type=str(node["Node Type"]),
        relation=".".join(filter(None, table)) if table else None,
        index=str(name) if name else None,
        attached=attached,
        reason=reason,
        estimated_pages=pages.known if pages else None,
        least_pages=round(pages.low) if pages and isfinite(pages.low) else None,
        most_pages=ceil(pages.high) if pages and isfinite(pages.high) else None,
        executions=found.executions.known if found else None,
        is_unsure=found is not None and found.is_unsure,
        by_join=found is not None and found.by_join,
        doubt=found.doubt if found else None,
        no_gain=found.no_gain if found else None,
        table=relation,
        place=facts.memory.place_of(relation.size_bytes) if relation else None,
    )


def _no_gain(
    node: Node, relation: Relation, pages: Range, each: Range, *, is_consecutive: bool
) -> str | None:
    """Why reading ahead gains nothing in this node, None where it may gain."""
    kind = str(node["Node Type"])
    if relation.is_cached:
        return "the table is in shared buffers now"
    if kind == "Index Only Scan" and is_all_visible(relation):
        return "its pages are all-visible, so the table itself is hardly read"
    if pages.high <= _FEW_PAGES:
        return "it reads few pages of the table"
    if kind in _WHOLE_TABLE_SCANS:
        return "PostgreSQL and the system read it in order and ahead already"
    if pages.known is None:
        return None
    if kind == "Bitmap Heap Scan" and (each.known or 0) >= relation.pages * _MOST_PAGES:
        return "it reads most pages of the table in order, as a sequential scan does"
    if is_consecutive:
        return "the pages lie side by side, and the system reads those ahead already"
    return None


def _no_gain_each(each: Range, against: str) -> str | None:
    """Of a scan that reads many pages in all: whether each execution does."""
    if each.high > _FEW_PAGES:
        return None
    why = f" ({against}: see docs/troubleshooting.md, reasons)" if against else ""
    return f"each execution reads few pages of the table, and none looks ahead to the next one{why}"


def _conclude(nodes: tuple[NodeAdvice, ...], memory: Memory) -> Conclusion:
    if not nodes:
        return "no", "the plan reads no table"
    attached = [node for node in nodes if node.attached]
    if not attached:
        reasons = ", ".join(dict.fromkeys(node.reason for node in nodes if node.reason))
        why = f" ({reasons}): see docs/troubleshooting.md, reasons" if reasons else ""
        return "no", f"every scan is left to PostgreSQL{why}"
    gaining = [node for node in attached if node.may_gain]
    if not gaining:
        return _conclude_no_gain(attached)
    pages = sum(_at_least(node) for node in gaining)
    is_unsure = any(node.estimated_pages is None or node.is_unsure for node in gaining)
    if pages <= _FEW_PAGES or pages < _WORTH_SHARE * sum(map(_at_least, nodes)):
        if is_unsure:
            doubts = [node.doubt for node in gaining if node.doubt]
            return "unknown", doubts[0] if doubts else _not_known(gaining)
        return "little", (
            f"too few pages to read ahead (about {pages:,}), or a small part of what the "
            "statement reads"
        )
    about = f"{'at least' if is_unsure else 'about'} {pages:,} pages to read ahead"
    return _conclude_gain(gaining, about, memory)


def _not_known(gaining: list[NodeAdvice]) -> str:
    only = [node.table for node in gaining if node.node_type == "Index Only Scan"]
    is_counted = all(table is None or table.changed_pages is not None for table in only)
    return _NOT_KNOWN if is_counted else _NOT_COUNTED


def _conclude_gain(gaining: list[NodeAdvice], about: str, memory: Memory) -> Conclusion:
    """Of scans that have enough to read ahead: whether that is waited for."""
    join = _BY_JOIN if any(node.by_join for node in gaining) else ""
    tables = {node.relation: node.table for node in gaining if node.table is not None}
    place = memory.place_of(sum(table.size_bytes for table in tables.values()))
    if all(node.table is not None and node.table.is_found for node in gaining):
        return "when cold", (
            f"{about} while the tables are cold; but 99 % of what is fetched of them has been in "
            f"shared buffers so far{join}"
        )
    if any(node.table is None for node in gaining):
        return "yes", f"{about}, of tables of unknown size{join}"
    if place == "disk":
        cache = server_size(memory.effective_cache_size)
        return "yes", (
            f"{about}, of tables larger than effective_cache_size ({cache}: what the system has "
            f"for caches?){join}"
        )
    where = "the cache of the system" if place == "OS cache" else place
    return (
        "when cold",
        f"{about} while the tables are cold; it changes little once they are in {where}, where "
        f"they fit{join}",
    )


def _at_least(node: NodeAdvice) -> int:
    if node.is_unsure:
        return 0
    return (node.estimated_pages if node.estimated_pages is not None else node.least_pages) or 0


def _conclude_no_gain(attached: list[NodeAdvice]) -> Conclusion:
    """Of scans that would be read ahead, none of which would gain; the largest says why."""
    if all(node.table is not None and node.table.is_cached for node in attached):
        return "no", "what it reads is in shared buffers now"
    largest = max(attached, key=lambda node: node.most_pages or 0)
    return "little", str(largest.no_gain)


def advice_lines(advice: Advice) -> Iterator[str]:
    """The verdict and why, in one line; then each scan with what would be done."""
    yield f"{VERDICTS[advice.verdict]}: {one_line(advice.conclusion)}"
    for node in advice.nodes:
        using = f" using {one_line(node.index)}" if node.index else ""
        on = f" on {one_line(node.relation)}" if node.relation else ""
        yield f"{node.node_type}{using}{on}"
        yield f"  {_treatment(node)}"
        if node.table is not None and node.place is not None:
            size, cached = server_size(node.table.size_bytes), node.table.cached_bytes
            now = "" if cached is None else f"; {server_size(cached)} of it are there now"
            yield f"  table: {size}, {_PLACES[node.place]}{now}"
    if advice.functions and advice.verdict in ("yes", "when cold"):
        yield one_line(_INSIDE.format(names=", ".join(advice.functions)))


def _treatment(node: NodeAdvice) -> str:
    pages = _pages(node)
    if not node.attached:
        left = f"left to PostgreSQL: {node.reason}"
        return f"{left}; {pages}" if pages else left
    would = f"would read ahead: {pages or 'an unknown number of pages'}"
    if node.executions is not None and node.executions > 1:
        would += f", in about {node.executions:,} executions"
    return f"{would}; no gain: {node.no_gain}" if node.no_gain else would


def _pages(node: NodeAdvice) -> str:
    if node.table is None or node.least_pages is None:
        return ""
    of = f"{node.table.pages:,} table pages"
    if node.estimated_pages is not None:
        if node.estimated_pages > node.table.pages:
            return f"about {node.estimated_pages:,} reads of {of}, of some more than one"
        return f"about {node.estimated_pages:,} of {of}"
    if node.most_pages is None:
        return f"don't know how many of {of}: at least {node.least_pages:,}"
    if node.least_pages == 0:
        return f"at most {node.most_pages:,} of {of}"
    return f"don't know how many of {of}: {node.least_pages:,} to {node.most_pages:,}"
