"""Values as text, the same on the terminal, on pages and in exported tables.

Text of servers, files and users is made harmless where it is shown: a table may be named so that
its name moves the cursor, hides what follows or looks like another line of ours; a terminal obeys,
and so may a reader. What is not printable is shown by its escape.
"""

import re

from lookahead.errors import UsageError
from lookahead.stats import RatioEstimate

NOTHING = "-"
"""What stands in a cell without a value."""
# Everything beside printable ASCII, line feed and tab is looked at one by one.
_DOUBTFUL = re.compile(r"[^ -~\n\t]")
_SPACES = re.compile(r"[\n\t]")


def number_text(value: float) -> str:
    """Thousands as k, no needless zeros."""
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"


def rate_text(value: float) -> str:
    """A rate, such as transactions per second: no fraction, unless they are few."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def milliseconds(value_ms: float) -> str:
    """A time with three significant digits, in us, ms or s."""
    if value_ms < 0.9995:
        return f"{value_ms * 1000:#.3g}".rstrip(".") + " us"
    if value_ms >= 10_000:
        return f"{value_ms / 1000:.1f} s"
    if value_ms >= 1000:
        return f"{value_ms / 1000:.2f} s"
    if value_ms >= 100:
        return f"{value_ms:.0f} ms"
    return f"{value_ms:.1f} ms" if value_ms >= 10 else f"{value_ms:.2f} ms"


def size_text(value_bytes: float) -> str:
    """Bytes in kB, MB or GB of 1000, three significant digits."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if value_bytes >= factor:
            return f"{value_bytes / factor:,.3g} {unit}"
    return f"{value_bytes / 1e3:,.3g} kB"


def server_size(value_bytes: float) -> str:
    """Bytes as a server has them, whose kB, MB, GB and TB are of 1024; three significant digits."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if value_bytes < 1024:
            return f"{value_bytes:.3g} {unit}"
        value_bytes /= 1024
    return f"{value_bytes:.3g} TB"


def interval_text(estimate: RatioEstimate) -> str:
    """Such as "3.90 to 4.40"; nothing where pairs are too few for one.

    An interval without 1 is not shown as if 1 were its end.
    """
    if not estimate.has_interval:
        return NOTHING
    has_1 = estimate.low <= 1.0 <= estimate.high
    ends = (estimate.low, estimate.high)
    low, high = (f"{end:.{2 if has_1 else max(2, decimals_from_one(end))}f}" for end in ends)
    return f"{low} to {high}"


def decimals_from_one(ratio: float) -> int:
    """How many decimals it takes to tell a ratio from 1; none of what is 1 to six decimals."""
    return next((number for number in range(7) if round(ratio, number) != 1), 0)


def ratio_text(estimate: RatioEstimate) -> str:
    """The ratio and its interval, such as "4.12 (3.90 to 4.40)"; without it of too few pairs."""
    ratio = f"{estimate.ratio:.2f}"
    return f"{ratio} ({interval_text(estimate)})" if estimate.has_interval else ratio


def printable(text: str) -> str:
    """The text with control, formatting and unassigned characters and lone surrogates as escapes.

    Line feeds and tabs stay.
    """
    return _DOUBTFUL.sub(_shown, text)


def one_line(text: str) -> str:
    """As `printable`, with line feeds and tabs as escapes, too: for names."""
    return _SPACES.sub(_escape, printable(text))


def require_text(text: str, what: str) -> None:
    """LabError unless the server can be sent the text whole: libpq ends it at a zero byte."""
    problem = "holds a zero byte" if "\0" in text else None
    if any("\ud800" <= character <= "\udfff" for character in text):
        problem = "is not UTF-8"
    if problem is not None:
        raise UsageError(f"{what} {problem}", "Convert it to UTF-8.")


def _shown(match: re.Match[str]) -> str:
    # Spaces of other widths are not "printable" to Python; they do no harm.
    return match[0] if match[0].isprintable() or match[0] == "\xa0" else _escape(match)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
