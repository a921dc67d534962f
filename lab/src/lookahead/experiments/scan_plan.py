"""Reads EXPLAIN (ANALYZE, BUFFERS, LOOKAHEAD, FORMAT JSON): was it the scan that was meant?"""

from typing import Any, cast

from lookahead.errors import ExitStatus, LabError
from lookahead.experiments.node_evidence import parse_lookahead
from lookahead.scan_measurements import Arm, ScanEvidence

# The share of rows whose page must have come through look-ahead. The first rows of a scan are
# returned by stock's code, so it is never all of them.
MIN_PREFETCHED_SHARE = 0.9
_NODE_TYPES: dict[Arm, str] = {
    "stock": "Index Scan",
    "lookahead": "Index Scan",
    "bitmap": "Bitmap Heap Scan",
}


def parse_scan(document: object, arm: Arm = "stock") -> ScanEvidence:
    """The evidence in EXPLAIN's JSON of a plan that is a single scan of the arm's kind.

    Raises LabError when the plan is another one, which makes the measurement meaningless.
    """
    try:
        statement = cast(Any, document)[0]
        top: dict[str, Any] = statement["Plan"]
        scan = _scan_below(top, "Sort" if arm == "bitmap" else "Limit")
        node_type, expected = str(scan["Node Type"]), _NODE_TYPES[arm]
        if node_type != expected:
            raise LabError(
                f'the planner chose "{node_type}" instead of "{expected}"',
                "The experiment needs that scan in this arm; this is a bug, report it.",
            )
        index_scan = scan["Plans"][0] if arm == "bitmap" else scan
        return ScanEvidence(
            node_type=node_type,
            index_name=str(index_scan["Index Name"]),
            rows=round(top["Actual Rows"]),
            planning_ms=float(statement["Planning Time"]),
            execution_ms=float(statement["Execution Time"]),
            shared_hit_blocks=int(top["Shared Hit Blocks"]),
            shared_read_blocks=int(top["Shared Read Blocks"]),
            lookahead=parse_lookahead(scan.get("Lookahead")),
        )
    except (KeyError, IndexError, TypeError) as error:
        raise LabError(f"EXPLAIN's output has another shape than expected: {error!r}") from None


def _scan_below(plan: dict[str, Any], parent: str) -> dict[str, Any]:
    """The plan itself, or what stands below a node of type `parent`."""
    below: dict[str, Any] = plan["Plans"][0] if plan["Node Type"] == parent else plan
    return below


def check_path(evidence: ScanEvidence, arm: Arm, *, prefetches: bool = True) -> None:
    """LabError unless the arm's own code did the scan: look-ahead in one, none in the others.

    `prefetches` is false where it is the library's own choice how many pages it asks for: few
    rows, or pages that follow each other in the table.
    """
    ours = evidence.lookahead
    if arm != "lookahead":
        if ours.status == "prefetch":
            raise LabError(
                f"look-ahead ran in the {arm} arm although pg_lookahead.enabled is off",
                "This is a bug of pg_lookahead, report it.",
            )
        return
    if ours.status == "absent":
        raise LabError(
            "our path did not run: EXPLAIN (LOOKAHEAD) reports nothing for the scan",
            "Is pg_lookahead.disable set, or the library of another build?",
            status=ExitStatus.ENVIRONMENT,
        )
    if ours.status != "prefetch":
        raise LabError(
            f"our path did not run: the scan was left to stock ({ours.reason})",
            "docs/explain.md explains each reason.",
        )
    if prefetches and ours.prefetched_blocks <= MIN_PREFETCHED_SHARE * evidence.rows:
        raise LabError(
            f"our path did not run: only {ours.prefetched_blocks} of {evidence.rows} pages "
            "came through look-ahead",
            "Is pg_lookahead.prefetch_distance or a memory limit set?",
        )
