"""What of a text of SQL is code: words are looked for there only. Pure.

A literal, a quoted name or a comment may hold any word. Their ends are where PostgreSQL's lexer
has them (Mirrors scan.l), with `standard_conforming_strings` as it is by default.
"""

import re

# To PostgreSQL every byte from \200 on is a letter.
_LETTERS = r"A-Za-z_\x80-\U0010ffff"
_IN_NAMES = rf"{_LETTERS}0-9$"
# A name as it is written, in quotes or not; and where one that is not begins and ends.
NAME = rf'(?:"(?:[^"]|"")++"|[{_LETTERS}][{_IN_NAMES}]*+)'
BEGIN, END = rf"(?<![{_IN_NAMES}])", rf"(?![{_IN_NAMES}])"
# Between two quotes: what follows continues the literal, with its escapes. A line feed is in it.
_CONTINUATION = r"[ \t\f\v]*(?:--[^\n\r]*)?[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*[\n\r])*"
_ESCAPED = r"(?:[^'\\]|\\.|'')*+"
# What is not ended goes to the end of the text, as it does for the server, which then refuses it.
_QUOTED = re.compile(
    rf"""
    {BEGIN}[eE]'{_ESCAPED}(?:'{_CONTINUATION}'{_ESCAPED})*(?:'|\Z)
    | '(?:[^']|'')*+(?:'|\Z)
    | (?P<name>"(?:[^"]|"")*+(?:"|\Z))
    | {BEGIN}\$(?P<tag>(?:[{_LETTERS}][{_LETTERS}0-9]*)?)\$.*?(?:\$(?P=tag)\$|\Z)
    | --[^\n\r]*
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
