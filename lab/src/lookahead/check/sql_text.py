"""What of a text of SQL is code: words are looked for there only. Pure.

A literal, a quoted name or a comment may hold any word. Their ends are where PostgreSQL's lexer
has them (Mirrors scan.l), with `standard_conforming_strings` as it is by default.
"""

import re

# A name as it is written, in quotes or not.
NAME = r'(?:"(?:[^"]|"")+"|[\w$]+)'
# What is not ended goes to the end of the text, as it does for the server, which then refuses it.
_QUOTED = re.compile(
    r"""
    (?<![\w$])[eE]'(?:[^'\\]|\\.|'')*+(?:'|\Z)
    | '(?:[^']|'')*+(?:'|\Z)
    | (?P<name>"(?:[^"]|"")*+(?:"|\Z))
    | (?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z)
    | --[^\n]*
    | (?P<comment>/\*)""",
    re.DOTALL | re.VERBOSE,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")


def code_of(text: str, *, keeps_names: bool = False) -> str:
    """The text with blanks in place of literals, comments and quoted names: positions stay.

    With `keeps_names` quoted names stay, too.
    """
    parts, at = [], 0
    while match := _QUOTED.search(text, at):
        start, end = match.span()
        if match["comment"]:
            end = _end_of_comment(text, start)
        is_kept = keeps_names and match["name"]
        parts += [text[at:start], match[0] if is_kept else " " * (end - start)]
        at = end
    return "".join((*parts, text[at:]))


def _end_of_comment(text: str, start: int) -> int:
    """They nest."""
    depth = 0
    for mark in _COMMENT_MARK.finditer(text, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)
