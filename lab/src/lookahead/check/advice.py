"""What EXPLAIN and the catalogs say of one statement, turned into advice. Pure.

Pages are estimated as the planner does for a first, cold execution: rows in random order hit
P * (1 - (1 - 1/P)^rows) of P pages, rows in the order of the table the same share of pages as of
rows, and the square of the correlation lies between the two.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Place = Literal["shared buffers", "OS cache", "disk"]
Verdict = Literal["yes", "when cold", "little", "no"]

# The first entries of an index scan go through stock's code (docs/explain.md).
_STOCK_ENTRIES = 4


@dataclass(frozen=True)
class Relation:
    """A table; sizes in bytes. `cached_bytes` is None where pg_buffercache cannot be asked."""

    pages: int
    rows: float
    all_visible_pages: int
    size_bytes: int
    cached_bytes: int | None


@dataclass(frozen=True)
class Memory:
    """What the server's settings say of memory, in bytes."""

    shared_buffers: int
    effective_cache_size: int

    def place_of(self, relation: Relation) -> Place:
        """The fastest place that the table as a whole fits into."""
        if relation.size_bytes <= self.shared_buffers:
            return "shared buffers"
        return "OS cache" if relation.size_bytes <= self.effective_cache_size else "disk"


@dataclass(frozen=True)
class Facts:
    """Tables by (schema, name); the correlation of indexes' first columns by (schema, name)."""

    memory: Memory
    relations: Mapping[tuple[str, str], Relation]
    correlations: Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class NodeAdvice:
    """One node of the plan: what the library does there, or why it leaves the node to stock.

    `estimated_pages` are those of the table, per execution of the node; None where they are
    unknown. With a filter they are a lower bound. `place` is where the table would fit.
    """

    node_type: str
    relation: str | None
    index: str | None
    attached: bool
    reason: str | None
    estimated_pages: int | None
    filtered: bool
    table: Relation | None
    place: Place | None


@dataclass(frozen=True)
class Advice:
    """All nodes that read a table, and what follows for the statement."""

    nodes: tuple[NodeAdvice, ...]
    verdict: Verdict
    conclusion: str


def advise(plan: Mapping[str, Any], facts: Facts) -> Advice:
    """Advice for a plan of EXPLAIN (VERBOSE, LOOKAHEAD, FORMAT JSON)."""
    nodes = tuple(_node_advice(node, facts) for node in plan_nodes(plan) if _is_ours(node))
    verdict, conclusion = _conclude(nodes)
    return Advice(nodes, verdict, conclusion)


def plan_nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The node and all below it, in the order that EXPLAIN shows them."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from plan_nodes(child)


def table_of(node: Mapping[str, Any]) -> tuple[str, str] | None:
    """(schema, name) of the table a node reads, None when it reads none."""
    if "Relation Name" not in node:
        return None
    return str(node.get("Schema", "")), str(node["Relation Name"])


def estimate_pages(rows: float, relation: Relation, correlation: float) -> int:
    """Distinct pages that so many rows of an index scan lie on, at most all of them."""
    pages = relation.pages
    if pages == 0 or rows <= 0:
        return 0
    scattered: float = pages * (1 - (1 - 1 / pages) ** rows)
    dense = pages * min(rows / relation.rows, 1.0) if relation.rows > 0 else scattered
    weight = correlation * correlation
    return min(pages, max(1, round(weight * dense + (1 - weight) * scattered)))


def _is_ours(node: Mapping[str, Any]) -> bool:
    return "Lookahead" in node or (str(node["Node Type"]).endswith("Scan") and bool(table_of(node)))


def _node_advice(node: Mapping[str, Any], facts: Facts) -> NodeAdvice:
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
        relation=".".join(part for part in table if part) if table else None,
        index=str(name) if name else None,
        attached=attached,
        reason=reason,
        estimated_pages=_pages_of(node, table, relation, facts) if relation else None,
        filtered="Filter" in node,
        table=relation,
        place=facts.memory.place_of(relation) if relation else None,
    )


def _pages_of(
    node: Mapping[str, Any], table: tuple[str, str] | None, relation: Relation, facts: Facts
) -> int | None:
    kind = str(node["Node Type"])
    if kind == "Seq Scan":
        return relation.pages
    rows = float(node.get("Plan Rows", 0))
    index = (table[0] if table else "", str(node.get("Index Name", "")))
    correlation = facts.correlations.get(index, 0.0)
    if kind == "Index Only Scan":
        hidden = 1 - min(relation.all_visible_pages / relation.pages, 1) if relation.pages else 0.0
        return round(estimate_pages(rows, relation, correlation) * hidden)
    return estimate_pages(rows, relation, correlation)


def _conclude(nodes: tuple[NodeAdvice, ...]) -> tuple[Verdict, str]:
    attached = [node for node in nodes if node.attached]
    if not attached:
        return "no", "it would not help here: every scan is left to PostgreSQL"
    long = [node for node in attached if (node.estimated_pages or 0) > _STOCK_ENTRIES]
    if not long:
        return "little", "it would change little: the scans it reads ahead for touch few pages"
    places = {node.place for node in long}
    pages = sum(node.estimated_pages or 0 for node in long)
    if "disk" in places or None in places:
        return "yes", f"it would help: about {pages:,} pages to read ahead, more than memory holds"
    where = "shared buffers" if places == {"shared buffers"} else "the cache of the system"
    return (
        "when cold",
        f"it would help while the tables are cold (about {pages:,} pages to read ahead), and "
        f"change little once they are in {where}, where they fit",
    )
