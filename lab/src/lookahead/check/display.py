"""The text of `lookahead check`: pure, line by line."""

from collections.abc import Iterator
from statistics import median

from lookahead.check.advice import Advice, NodeAdvice
from lookahead.check.measure import Measurement
from lookahead.render import milliseconds, ratio_text

_PLACES = {
    "shared buffers": "fits into shared buffers",
    "OS cache": "larger than shared buffers, fits into effective_cache_size",
    "disk": "larger than effective_cache_size",
}


def advice_lines(advice: Advice) -> Iterator[str]:
    """Each scan with what would be done, then the conclusion."""
    for node in advice.nodes:
        using = f" using {node.index}" if node.index else ""
        on = f" on {node.relation}" if node.relation else ""
        yield f"{node.node_type}{using}{on}"
        yield f"  {_treatment(node)}"
        if node.table is not None and node.place is not None:
            size = size_text(node.table.size_bytes)
            yield f"  table: {size}, {_PLACES[node.place]}{_cached(node)}"
    if not advice.nodes:
        yield "The plan reads no table."
    yield f"conclusion: {advice.conclusion}"


def measurement_lines(measurement: Measurement) -> Iterator[str]:
    """Times, ratio and the comparison of rows."""
    times = {
        arm: median(item.execution_ms for item in measurement.samples if item.arm == arm)
        for arm in ("stock", "lookahead")
    }
    estimate = measurement.estimate
    rough = "; rough: few pairs" if estimate.is_rough else ""
    yield (
        f"measured:   off {milliseconds(times['stock'])}, on {milliseconds(times['lookahead'])}, "
        f"ratio {ratio_text(estimate)}: {estimate.verdict} (pairs: {estimate.pairs}{rough})"
    )
    yield f"caches:     {measurement.caches}"
    order = "in the same order" if measurement.same_order else "in another order"
    yield f"rows:       {measurement.rows:,}, the same with the library on and off, {order}"


def size_text(size: int) -> str:
    """Such as "12 MB"."""
    value = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1024:
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} TB"


def _treatment(node: NodeAdvice) -> str:
    pages = ""
    if node.estimated_pages is not None and node.table is not None:
        bound = "at least" if node.filtered else "about"
        pages = f"{bound} {node.estimated_pages:,} of {node.table.pages:,} table pages"
    if node.attached:
        return f"would read ahead: {pages or 'an unknown number of pages'}"
    left = f"left to PostgreSQL: {node.reason}"
    return f"{left}; {pages}" if pages else left


def _cached(node: NodeAdvice) -> str:
    if node.table is None or node.table.cached_bytes is None:
        return ""
    return f"; {size_text(node.table.cached_bytes)} of it are there now"
