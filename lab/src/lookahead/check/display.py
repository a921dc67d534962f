"""The text of `lookahead check`: pure, line by line."""

from collections.abc import Iterator
from statistics import median

from lookahead.check.advice import Advice, NodeAdvice
from lookahead.check.measure import CheckSample, Measurement
from lookahead.foreign_text import one_line
from lookahead.formats import milliseconds
from lookahead.stats import RatioEstimate

_PLACES = {
    "shared buffers": "fits into shared buffers",
    "OS cache": "larger than shared buffers, fits into effective_cache_size",
    "disk": "larger than effective_cache_size",
}


def advice_lines(advice: Advice) -> Iterator[str]:
    """Each scan with what would be done, then the conclusion."""
    for node in advice.nodes:
        using = f" using {one_line(node.index)}" if node.index else ""
        on = f" on {one_line(node.relation)}" if node.relation else ""
        yield f"{node.node_type}{using}{on}"
        yield f"  {_treatment(node)}"
        if node.table is not None and node.place is not None:
            size = size_text(node.table.size_bytes)
            yield f"  table: {size}, {_PLACES[node.place]}{_cached(node)}"
    if not advice.nodes:
        yield "The plan reads no table."
    yield f"conclusion: {advice.conclusion}"


def measurement_lines(measurement: Measurement) -> Iterator[str]:
    """Times, ratio, what was read and executed, and the comparison of rows."""
    off, on = (
        [item for item in measurement.samples if item.arm == arm] for arm in ("stock", "lookahead")
    )
    times = [median(item.execution_ms for item in samples) for samples in (off, on)]
    yield (
        f"measured:   off {milliseconds(times[0])}, on {milliseconds(times[1])}: "
        f"{_difference(measurement.estimate)}"
    )
    yield f"pages:      {_pages_read(off, on)}"
    yield f"caches:     {measurement.caches}"
    yield (
        f"executed:   {measurement.executions} times in {measurement.elapsed_s:.1f} s, read-only, "
        "rolled back; what functions do beside tables is not undone"
    )
    if measurement.estimate.pairs < measurement.wanted_pairs:
        yield (
            f"            the time limit of {measurement.time_limit_s:g} s left time for "
            f"{measurement.estimate.pairs} of {measurement.wanted_pairs} pairs"
        )
    order = "in the same order" if measurement.same_order else "in another order"
    yield f"rows:       {measurement.rows:,}, the same with the library on and off, {order}"


def _pages_read(off: list[CheckSample], on: list[CheckSample]) -> str:
    read = [round(median(item.shared_read_blocks for item in samples)) for samples in (off, on)]
    if not any(read):
        return "none read, all were in shared buffers: there was nothing to read ahead (see --cold)"
    return f"{read[0]:,} read with the library off, {read[1]:,} with it on, indexes included"


def _difference(estimate: RatioEstimate) -> str:
    """Such as "3.3 times faster (2.6 to 4.1, 3 pairs)"; no interval of one or two pairs."""
    pairs = f"{estimate.pairs} pair{'s' if estimate.pairs > 1 else ''}"
    if estimate.verdict == "too few pairs":
        return f"ratio {estimate.ratio:.2f} ({pairs}: too few to tell)"
    low, ratio, high = estimate.low, estimate.ratio, estimate.high
    if estimate.verdict == "slower":
        low, ratio, high = 1 / high, 1 / ratio, 1 / low
    rough = ", a rough interval" if estimate.is_rough else ""
    interval = f"({low:.2f} to {high:.2f}, {pairs}{rough})"
    if estimate.verdict == "no difference":
        return f"no difference, ratio {ratio:.2f} {interval}"
    return f"{ratio:.2f} times {estimate.verdict} {interval}"


def size_text(size: int) -> str:
    """Such as "12 MB"."""
    value = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1024:
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} TB"


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


def _cached(node: NodeAdvice) -> str:
    if node.table is None or node.table.cached_bytes is None:
        return ""
    return f"; {size_text(node.table.cached_bytes)} of it are there now"
