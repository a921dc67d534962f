"""A probe as lines of text for the terminal."""

from collections.abc import Iterator

from lookahead.device.probe.probe_data import Interval, ProbeCurve, ProbeSummary

_WIDTH = 12


def summary_lines(summary: ProbeSummary) -> Iterator[str]:
    """The curves with their knees, the gaps, and what follows from them."""
    for curve in summary.curves:
        yield from _curve_lines(curve)
        yield ""
    yield f"two blocks with a gap, {summary.gap_depth} requests in flight, pairs/s"
    yield f"{'gap blocks':>{_WIDTH}}  {'read through':>22}  {'skipped':>22}"
    for gap in summary.gaps:
        through, skip = interval_text(gap.through), interval_text(gap.skip)
        yield f"{gap.gap_blocks:>{_WIDTH}}  {through:>22}  {skip:>22}"
    yield ""
    yield f"random read, alone: {interval_text(summary.latency_us)} us"
    yield f"bandwidth: {interval_text(summary.bandwidth_mb)} MB/s"
    measured = "none" if summary.gap_break_even is None else str(summary.gap_break_even)
    yield f"gap limit: {interval_text(summary.gap_limit)} blocks, by IOPS and bandwidth"
    yield f"longest gap measured that paid: {measured}"
    yield f"medians of {summary.rounds} rounds, intervals of 95 %"


def _curve_lines(curve: ProbeCurve) -> Iterator[str]:
    yield f"{curve.name}, {curve.unit}"
    yield f"{curve.x_name:>{_WIDTH}}  {curve.unit:>22}"
    for point in curve.points:
        mark = "  <- knee" if curve.knee is not None and curve.knee.value == point.x else ""
        yield f"{point.x:>{_WIDTH}}  {interval_text(point.figure):>22}{mark}"
    if curve.knee is not None and curve.knee.low != curve.knee.high:
        yield f"{'':>{_WIDTH}}  knee between {curve.knee.low:g} and {curve.knee.high:g}"


def interval_text(interval: Interval) -> str:
    """A figure and its interval, such as "512 [498, 530]"."""
    return f"{_text(interval.value)} [{_text(interval.low)}, {_text(interval.high)}]"


def _text(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
