"""Stock's time and ours as two bars below a name, for who sees the library for the first time.

The longer bar of a pair has the whole width: pairs of milliseconds and of seconds stand beside
each other. What they rest on is in the results' own tables.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from lookahead.formats import milliseconds
from lookahead.measurements import Comparison
from lookahead.report.sentences import estimate_text
from lookahead.report.svg import LINE_HEIGHT, Canvas

_FULL, _PARTS = "█", " ▏▎▍▌▋▊▉"
_TERMINAL_CELLS = 36
_BAR, _STEP = 15, 18
_TIMES_WIDTH = 185


@dataclass(frozen=True)
class BarPair:
    """A comparison under a name for everybody: median times in ms, and what they say."""

    label: str
    stock_ms: float
    our_ms: float
    verdict: str

    @property
    def times(self) -> tuple[tuple[str, float, str], tuple[str, float, str]]:
        """Of stock and of ours: who, median ms, and what is written behind the bar."""
        found = f"{milliseconds(self.our_ms)}, {self.verdict}"
        return ("stock", self.stock_ms, milliseconds(self.stock_ms)), ("ours", self.our_ms, found)

    @property
    def longest_ms(self) -> float:
        return max(self.stock_ms, self.our_ms)


def bar_pair(label: str, answer: Comparison) -> BarPair:
    """With a verdict such as "5.5 times faster", if the pairs suffice for one."""
    few = answer.estimate.verdict == "too few pairs"
    verdict = "too few pairs to tell" if few else estimate_text(answer.estimate).split(" (")[0]
    return BarPair(label, answer.baseline_median_ms, answer.challenger_median_ms, verdict)


def bar_lines(pairs: Sequence[BarPair]) -> Iterator[str]:
    """For a terminal of 80 columns: three lines for each pair."""
    for pair in pairs:
        yield pair.label
        for who, time_ms, text in pair.times:
            yield f"  {who:<6}{_bar(time_ms / pair.longest_ms):<{_TERMINAL_CELLS}} {text}"


def _bar(share: float) -> str:
    eighths = max(1, round(share * _TERMINAL_CELLS * 8))
    return (_FULL * (eighths // 8) + _PARTS[eighths % 8]).rstrip()


def bar_plot(pairs: Sequence[BarPair], width: float) -> Markup:
    """The same as a plot; the names stand above their bars."""
    row = LINE_HEIGHT + 2 * _STEP + 14
    canvas = Canvas(width, len(pairs) * row + 4, "stock PostgreSQL against pg_lookahead")
    for number, pair in enumerate(pairs):
        top = number * row + LINE_HEIGHT
        canvas.text((0, top), pair.label, "label")
        for at, (who, time_ms, text) in enumerate(pair.times):
            y = top + 7 + at * _STEP
            length = max(2.0, time_ms / pair.longest_ms * (width - _TIMES_WIDTH))
            canvas.rectangle((0, y), length, _BAR, "ours" if who == "ours" else "arm-7")
            canvas.text((length + 8, y + 12), text if who == "ours" else f"{text}, stock", "label")
    return canvas.render()
