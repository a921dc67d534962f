"""Finds in EXPLAIN's JSON the one index scan that a control is about."""

from typing import Any

from lookahead.errors import LabError


def find_index_scan(plan: dict[str, Any]) -> dict[str, Any]:
    """The scan of an index and its table, wherever it stands; LabError unless there is one."""
    found = list(_index_scans(plan))
    if len(found) != 1:
        names = [str(scan["Node Type"]) for scan in found]
        raise LabError(
            f"the plan has {len(found)} index scans instead of one: {', '.join(names) or 'none'}",
            "The experiment needs one index scan; this is a bug, report it.",
        )
    return found[0]


def read_blocks(scan: dict[str, Any]) -> int:
    """How many blocks came from outside shared buffers, in an analyzed plan."""
    return int(scan.get("Shared Read Blocks", 0))


def _index_scans(plan: dict[str, Any]) -> list[dict[str, Any]]:
    own = [plan] if "Index Name" in plan else []
    return own + [scan for child in plan.get("Plans", ()) for scan in _index_scans(child)]
