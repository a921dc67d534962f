"""The arms of trials: which plan is forced, by stock's code or ours, and the evidence that it ran.

A plan is chosen by switching the other ones off, never by a hint in the statement: all arms execute
the same text. EXPLAIN (ANALYZE, BUFFERS, LOOKAHEAD, FORMAT JSON) says which plan and whose code it
was.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

from lookahead.check.plan_tree import plan_nodes
from lookahead.decoding import DecodingError, decode
from lookahead.errors import LabError, UnavailableError
from lookahead.measurements import Arm, Library, LookaheadEvidence, NodeEvidence
from lookahead.server import PrivateServer, Session

SEQ_SCAN, INDEX_SCAN, BITMAP_SCAN = "Seq Scan", "Index Scan", "Bitmap Heap Scan"
NESTED_LOOP = "Nested Loop"
_PLAN_SETTINGS: dict[str, dict[str, str]] = {
    SEQ_SCAN: {"enable_indexscan": "off", "enable_bitmapscan": "off"},
    INDEX_SCAN: {"enable_seqscan": "off", "enable_bitmapscan": "off"},
    BITMAP_SCAN: {"enable_seqscan": "off", "enable_indexscan": "off"},
    # Its inner side is an index scan.
    NESTED_LOOP: {"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_bitmapscan": "off"},
    "": {},
}
# An empty list of libraries leaves ours out of the process altogether.
NOT_LOADED = "-c session_preload_libraries="


def arm_of(
    name: str, plan: str, library: Library = "off", settings: Mapping[str, str] | None = None
) -> Arm:
    """An arm whose plan is forced; `settings` are those of its sessions beside that."""
    return Arm(name, library, plan, {**_PLAN_SETTINGS[plan], **(settings or {})})


def concurrency_arm(
    plan: str,
    value: int | None,
    library: Library = "off",
    settings: Mapping[str, str] | None = None,
) -> Arm:
    """An arm with this effective_io_concurrency, None for the server's default.

    Its name is such as "bitmap, 64", "bitmap, default" or "ours, 64"; ours at the default is
    "ours".
    """
    base = "ours" if library == "on" else {BITMAP_SCAN: "bitmap", SEQ_SCAN: "seq"}[plan]
    chosen = dict(settings or {})
    if value is None:
        name = base if library == "on" else f"{base}, default"
    else:
        name = f"{base}, {value}"
        chosen["effective_io_concurrency"] = str(value)
    return arm_of(name, plan, library, chosen)


def connect_arm(server: PrivateServer, arm: Arm) -> Session:
    if arm.library == "not loaded":
        connection = server.connect(options=NOT_LOADED)
    else:
        connection = server.connect()
        connection.execute(f"SET pg_lookahead.enabled = {arm.library}")
    for name, value in arm.settings.items():
        connection.execute(f"SET {name} = '{value}'")
    return connection


Node = dict[str, Any]
# Of what is left to stock EXPLAIN shows no counts.
_COUNTS = {field.name: 0 for field in fields(LookaheadEvidence) if field.name != "status"}
_NOTHING_SAID = {**_COUNTS, "reason": None}


def parse_node(document: object, plan: str) -> tuple[float, NodeEvidence]:
    """Execution time in ms and the evidence of the node of type `plan` in EXPLAIN's JSON.

    Raises LabError when there is none, which makes the measurement meaningless.
    """
    try:
        statement = cast(Any, document)[0]
        top: Node = statement["Plan"]
        nodes = list(plan_nodes(top))
        node = next((one for one in nodes if one["Node Type"] == plan), None)
        if node is None:
            raise LabError(
                f'the planner chose "{nodes[-1]["Node Type"]}" instead of "{plan}"',
                "The experiment needs that scan in this arm; this is a bug, report it.",
            )
        return float(statement["Execution Time"]), NodeEvidence(
            node_type=plan,
            rows=_total(node, "Actual Rows"),
            removed_rows=_total(node, "Rows Removed by Index Recheck")
            + _total(node, "Rows Removed by Filter"),
            exact_blocks=_with_workers(node, "Exact Heap Blocks"),
            lossy_blocks=_with_workers(node, "Lossy Heap Blocks"),
            workers=max(int(one.get("Workers Launched", 0)) for one in nodes),
            planning_ms=float(statement["Planning Time"]),
            shared_hit_blocks=int(top["Shared Hit Blocks"]),
            shared_read_blocks=int(top["Shared Read Blocks"]),
            lookahead=parse_lookahead(node.get("Lookahead")),
        )
    except (KeyError, IndexError, TypeError, DecodingError) as error:
        raise LabError(f"EXPLAIN's output has another shape than expected: {error!r}") from None


def parse_lookahead(group: Node | None) -> LookaheadEvidence:
    """The group "Lookahead" of a node, None for none: "absent". DecodingError for another shape."""
    said = {"Status": "absent"} if group is None else group
    known = {name.lower().replace(" ", "_"): value for name, value in said.items()}
    return decode(LookaheadEvidence, {**_NOTHING_SAID, **known})


def check_node(evidence: NodeEvidence, arm: Arm) -> None:
    """LabError unless the arm's own code did the scan: ours in one, stock's in the others."""
    status = evidence.lookahead.status
    if arm.library != "on":
        if status == "prefetch":
            raise LabError(
                f'look-ahead ran in arm "{arm.name}" although pg_lookahead.enabled is off',
                "This is a bug of pg_lookahead, report it.",
            )
        return
    if status == "absent":
        raise UnavailableError(
            f"our path did not run: EXPLAIN (LOOKAHEAD) reports nothing for the {arm.plan}",
            "Is pg_lookahead.disable set, or the library of another build?",
        )
    if status != "prefetch":
        raise LabError(
            f"our path did not run: the {arm.plan} was left to stock ({evidence.lookahead.reason})",
            "docs/troubleshooting.md explains each reason.",
        )


def _total(node: Node, name: str) -> int:
    """EXPLAIN shows averages over the loops."""
    return round(float(node.get(name, 0)) * int(node["Actual Loops"]))


def _with_workers(node: Node, name: str) -> int:
    """A count that EXPLAIN shows for the leader and for each worker apart."""
    workers: list[Node] = node.get("Workers", [])
    return sum(int(one.get(name, 0)) for one in (node, *workers))
