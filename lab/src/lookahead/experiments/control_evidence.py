"""What is verified of a control before it is measured: the same plan in all arms, and its reads."""

from collections.abc import Iterator, Mapping
from typing import Any

import psycopg

from lookahead.errors import LabError
from lookahead.experiments.control_shape import Shape, with_key
from lookahead.experiments.node_evidence import parse_lookahead
from lookahead.scan_measurements import CONTROL_ARMS, ControlArm, ControlEvidence

_ATTACHED = ("eligible", "prefetch")


def verify_control(
    sessions: Mapping[ControlArm, psycopg.Connection[Any]], shape: Shape, io_method: str
) -> ControlEvidence:
    """Plans as the measured sessions have them, generic ones; queries are executed once.

    LabError when the arms have different plans, or not the one that the shape is about.
    """
    plans = {arm: list(_nodes(sessions[arm], shape, arm)) for arm in CONTROL_ARMS}
    types = {arm: [str(node["Node Type"]) for node in nodes] for arm, nodes in plans.items()}
    found = types["on"]
    missing = set(shape.nodes) - set(found)
    if missing or any(others != found for others in types.values()):
        raise LabError(
            f"control {shape.name} cannot be compared: its plans are {types}",
            f"All arms need the same plan, with {', '.join(shape.nodes)}; report this.",
        )
    attached = tuple(arm for arm, nodes in plans.items() if any(map(_is_attached, nodes)))
    if not set(attached) <= {"on"}:
        raise LabError(f"control {shape.name}: attached in {', '.join(attached)}", "Report this.")
    # The first to execute finds shared buffers as they are meant to be.
    blocks = [int(node.get("Shared Read Blocks", 0)) for node in plans[CONTROL_ARMS[0]]]
    return ControlEvidence(
        workload=shape.name,
        io_method=io_method,
        node_types=tuple(dict.fromkeys(found)),
        attached_arms=attached,
        shared_read_blocks=max(blocks, default=0),
        resident_share=None,
    )


def prepared_statements(shape: Shape) -> Iterator[tuple[str, str]]:
    """(PREPARE, EXECUTE) of each statement; names are free to be used again in a session."""
    for number, statement in enumerate(shape.statements):
        name = f"control_{number}"
        yield f"PREPARE {name}(int) AS {with_key(statement, '$1')}", f"EXECUTE {name}(1000)"


def _nodes(
    connection: psycopg.Connection[Any], shape: Shape, arm: ControlArm
) -> Iterator[dict[str, Any]]:
    # Without the library its option of EXPLAIN is unknown.
    option = "" if arm == "not loaded" else "LOOKAHEAD, "
    for prepare, execute in prepared_statements(shape):
        connection.execute(prepare)
        analyze = "ANALYZE, BUFFERS, " if " AS SELECT " in prepare else ""
        row = connection.execute(f"EXPLAIN ({option}{analyze}FORMAT JSON) {execute}").fetchone()
        connection.execute("DEALLOCATE ALL")
        assert row is not None
        yield from _below(row[0][0]["Plan"])


def _below(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _below(child)


def _is_attached(node: dict[str, Any]) -> bool:
    group = node.get("Lookahead")
    return group is not None and parse_lookahead(group).status in _ATTACHED
