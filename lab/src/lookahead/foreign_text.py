"""Text of servers, files and users, made harmless where it is shown.

A table may be named so that its name moves the cursor, hides what follows or looks like another
line of ours; a terminal obeys, and so may a reader. What is not printable is shown by its escape.
"""

import re

from lookahead.errors import ExitStatus, LabError

# Everything beside printable ASCII, line feed and tab is looked at one by one.
_DOUBTFUL = re.compile(r"[^ -~\n\t]")
_SPACES = re.compile(r"[\n\t]")


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
        raise LabError(f"{what} {problem}", "Convert it to UTF-8.", status=ExitStatus.USAGE)


def _shown(match: re.Match[str]) -> str:
    # Spaces of other widths are not "printable" to Python; they do no harm.
    return match[0] if match[0].isprintable() or match[0] == "\xa0" else _escape(match)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
