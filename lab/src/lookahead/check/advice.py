"""What EXPLAIN and the catalogs say of one statement, turned into advice. Pure.

Look-ahead gains where pages are read from a device one after the other in an order that the
operating system does not foresee. What gained nothing when it was measured (docs/benchmarks.md)
is told so: tables in memory, sequential scans, scans of consecutive pages, few pages.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Any, Literal

from lookahead.check.facts import Facts, Place, Relation
from lookahead.check.page_ranges import Range
from lookahead.check.plan_tree import Node, executions, plan_nodes, table_of
from lookahead.check.scan_pages import ScanPages, hidden_share
from lookahead.formats import one_line

Verdict = Literal["yes", "when cold", "little", "no", "unknown"]

# The first entries of an index scan go through stock's code, small tables too (docs/explain.md).
_FEW_PAGES = 16
_WHOLE_TABLE_SCANS = ("Seq Scan", "Tid Range Scan")
# Of bitmap heap scans: of more pages than that they gained nothing at a large OS read-ahead.
_MOST_PAGES = 0.75
# What is read ahead is worth a verdict if it is at least that share of all that is read.
_WORTH_SHARE = 0.1
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
    None, of executions without a bound the most. `no_gain` says why reading ahead gains nothing;
    `place` is where the table would fit.
    """

    node_type: str
    relation: str | None
    index: str | None
    attached: bool
    reason: str | None
    estimated_pages: int | None
    least_pages: int | None
    most_pages: int | None
    no_gain: str | None
    table: Relation | None
    place: Place | None

    @property
    def may_gain(self) -> bool:
        """Whether nothing speaks against a gain from reading ahead."""
        return self.attached and self.no_gain is None


@dataclass(frozen=True)
class Advice:
    """All nodes that read a table, and what follows for the statement."""

    nodes: tuple[NodeAdvice, ...]
    verdict: Verdict
    conclusion: str


def advise(plan: Mapping[str, Any], facts: Facts) -> Advice:
    """Advice for a plan of EXPLAIN (VERBOSE, LOOKAHEAD, FORMAT JSON)."""
    tables = {str(node["Alias"]): table_of(node) for node in plan_nodes(plan) if "Alias" in node}
    scans = ScanPages(facts, tables)
    found: dict[int, tuple[Range, str | None]] = {}
    for node, execution in executions(plan, facts.participation):
        table = table_of(node)
        if table is not None and table in facts.relations:
            pages = scans.of(node, table, execution)
            is_consecutive = scans.is_consecutive(node, table, pages)
            reason = _no_gain(node, facts.relations[table], pages, is_consecutive=is_consecutive)
            found[id(node)] = pages, reason
    nodes = tuple(
        _node_advice(node, facts, *found.get(id(node), (None, None)))
        for node in plan_nodes(plan)
        if "Lookahead" in node or (str(node["Node Type"]).endswith("Scan") and table_of(node))
    )
    verdict, conclusion = _conclude(nodes)
    return Advice(nodes, verdict, conclusion)


def _node_advice(node: Node, facts: Facts, pages: Range | None, no_gain: str | None) -> NodeAdvice:
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
        least_pages=round(pages.low) if pages else None,
        most_pages=ceil(pages.high) if pages and isfinite(pages.high) else None,
        no_gain=no_gain,
        table=relation,
        place=facts.memory.place_of(relation) if relation else None,
    )


def _no_gain(node: Node, relation: Relation, pages: Range, *, is_consecutive: bool) -> str | None:
    """Why reading ahead gains nothing in this node, None where it may gain."""
    kind = str(node["Node Type"])
    if relation.is_cached:
        return "the table is in shared buffers now"
    if kind == "Index Only Scan" and hidden_share(relation).low == 0.0:
        return "its pages are all-visible, so the table itself is hardly read"
    if pages.high <= _FEW_PAGES:
        return "it reads few pages of the table"
    if kind in _WHOLE_TABLE_SCANS:
        return "PostgreSQL and the system read it in order and ahead already"
    known = pages.known
    if known is None:
        return None
    if kind == "Bitmap Heap Scan" and known >= relation.pages * _MOST_PAGES:
        return "it reads most pages of the table in order, as a sequential scan does"
    if is_consecutive:
        return "the pages lie side by side, and the system reads those ahead already"
    return None


def _conclude(nodes: tuple[NodeAdvice, ...]) -> tuple[Verdict, str]:
    if not nodes:
        return "no", "it would not help: the plan reads no table"
    attached = [node for node in nodes if node.attached]
    if not attached:
        return "no", "it would not help here: every scan is left to PostgreSQL"
    gaining = [node for node in attached if node.may_gain]
    if not gaining:
        return _conclude_no_gain(attached)
    pages = sum(_at_least(node) for node in gaining)
    is_unsure = any(node.estimated_pages is None for node in gaining)
    if pages <= _FEW_PAGES or pages < _WORTH_SHARE * sum(map(_at_least, nodes)):
        if is_unsure:
            return (
                "unknown",
                "don't know: how many pages there are to read ahead does not follow from the "
                "statistics; --measure --cold finds out",
            )
        return "little", (
            f"it would change little: about {pages:,} pages to read ahead are few, or a small part "
            "of what the statement reads"
        )
    about = f"{'at least' if is_unsure else 'about'} {pages:,} pages to read ahead"
    places = {node.place for node in gaining}
    if "disk" in places or None in places:
        return "yes", f"it would help: {about}, of tables larger than memory"
    where = "shared buffers" if places == {"shared buffers"} else "the cache of the system"
    return (
        "when cold",
        f"it would help while the tables are cold ({about}), and change little once they are in "
        f"{where}, where they fit",
    )


def _at_least(node: NodeAdvice) -> int:
    return (node.estimated_pages if node.estimated_pages is not None else node.least_pages) or 0


def _conclude_no_gain(attached: list[NodeAdvice]) -> tuple[Verdict, str]:
    """Of scans that would be read ahead, none of which would gain; the largest says why."""
    if all(node.table is not None and node.table.is_cached for node in attached):
        return "no", "it would not help now: what it reads is in shared buffers"
    largest = max(attached, key=lambda node: node.most_pages or 0)
    return "little", f"it would change little: {largest.no_gain}"


def advice_lines(advice: Advice) -> Iterator[str]:
    """Each scan with what would be done, then the conclusion."""
    for node in advice.nodes:
        using = f" using {one_line(node.index)}" if node.index else ""
        on = f" on {one_line(node.relation)}" if node.relation else ""
        yield f"{node.node_type}{using}{on}"
        yield f"  {_treatment(node)}"
        if node.table is not None and node.place is not None:
            size, cached = size_text(node.table.size_bytes), node.table.cached_bytes
            now = "" if cached is None else f"; {size_text(cached)} of it are there now"
            yield f"  table: {size}, {_PLACES[node.place]}{now}"
    if not advice.nodes:
        yield "The plan reads no table."
    yield f"conclusion: {advice.conclusion}"


def _treatment(node: NodeAdvice) -> str:
    pages = _pages(node)
    if not node.attached:
        left = f"left to PostgreSQL: {node.reason}"
        return f"{left}; {pages}" if pages else left
    would = f"would read ahead: {pages or 'an unknown number of pages'}"
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


def size_text(size: int) -> str:
    """Such as "12 MB"."""
    value = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1024:
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} TB"
