"""What is verified of a control before it is measured: the same plan in all arms, and its reads."""

from collections.abc import Iterator, Mapping
from typing import Any

import psycopg

from lookahead.errors import LabError
from lookahead.experiments.control_shape import Shape, with_key
from lookahead.experiments.node_evidence import nodes_of, parse_lookahead

_ATTACHED = ("eligible", "prefetch")
# Of a table's pages that must come from outside of shared buffers, where they are not in these.
_MIN_READ_SHARE = 0.99


def check_plans(sessions: Mapping[str, psycopg.Connection[Any]], shape: Shape) -> dict[str, str]:
    """Plans as the measured sessions have them, by arm, generic ones; queries are executed once.

    Returns what there is to show. LabError when the arms have different plans, or not the one that
    the shape is about, or when cached data was read or other data was not. The first arm is without
    our library, the last with it.
    """
    bare, ours = next(iter(sessions)), list(sessions)[-1]
    plans = {
        arm: list(_nodes(connection, shape, has_library=arm != bare))
        for arm, connection in sessions.items()
    }
    types = {arm: [str(node["Node Type"]) for node in nodes] for arm, nodes in plans.items()}
    found = types[ours]
    missing = set(shape.nodes) - set(found)
    if missing or any(others != found for others in types.values()):
        raise LabError(
            f"control {shape.name} cannot be compared: its plans are {types}",
            f"All arms need the same plan, with {', '.join(shape.nodes)}; report this.",
        )
    attached = [arm for arm, nodes in plans.items() if any(map(_is_attached, nodes))]
    if not set(attached) <= {ours}:
        raise LabError(f"control {shape.name}: attached in {', '.join(attached)}", "Report this.")
    # The first to execute finds shared buffers as they are meant to be.
    blocks = max((int(node.get("Shared Read Blocks", 0)) for node in plans[bare]), default=0)
    _check_read(shape, blocks)
    return {
        "plan": ", ".join(dict.fromkeys(found)) or "none",
        "attached in": ", ".join(attached) or "none",
        "blocks read": f"{blocks:,}",
    }


def check_loaded(
    connection: psycopg.Connection[Any], shape: Shape, arm: str, *, wanted: bool
) -> None:
    """LabError when the library is in a backend that should be without it, or the reverse."""
    row = connection.execute(
        "SELECT count(*) FROM pg_catalog.pg_settings WHERE name = 'pg_lookahead.enabled'"
    ).fetchone()
    assert row is not None
    if (row[0] > 0) is not wanted:
        raise LabError(f"control {shape.name}: the arm {arm!r} is not what it says", "Report this.")


def prepared_statements(shape: Shape) -> Iterator[tuple[str, str]]:
    """(PREPARE, EXECUTE) of each statement; names are free to be used again in a session."""
    for number, statement in enumerate(shape.statements):
        name = f"control_{number}"
        yield f"PREPARE {name}(int) AS {with_key(statement, '$1')}", f"EXECUTE {name}(1000)"


def _nodes(
    connection: psycopg.Connection[Any], shape: Shape, *, has_library: bool
) -> Iterator[dict[str, Any]]:
    # Without the library its option of EXPLAIN is unknown.
    option = "LOOKAHEAD, " if has_library else ""
    for prepare, execute in prepared_statements(shape):
        connection.execute(prepare)
        analyze = "ANALYZE, BUFFERS, " if " AS SELECT " in prepare else ""
        row = connection.execute(f"EXPLAIN ({option}{analyze}FORMAT JSON) {execute}").fetchone()
        connection.execute("DEALLOCATE ALL")
        assert row is not None
        yield from nodes_of(row[0][0]["Plan"])


def _is_attached(node: dict[str, Any]) -> bool:
    group = node.get("Lookahead")
    return group is not None and parse_lookahead(group).status in _ATTACHED


def _check_read(shape: Shape, blocks: int) -> None:
    if (blocks > 0) if shape.state == "cached" else (blocks < _MIN_READ_SHARE * shape.pages):
        raise LabError(
            f"control {shape.name} read {blocks} blocks from outside shared buffers",
            "Is another session at work on this server? Repeat the run.",
        )
