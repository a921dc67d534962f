"""What the conditions that EXPLAIN (VERBOSE) prints mention: columns, and numbers of values."""

import re
from collections.abc import Iterator

_NAME = r'(?:"((?:[^"]|"")+)"|([a-z_\x80-\U0010ffff][\w$]*))'
_COLUMN = re.compile(rf"(?<![\w\"]){_NAME}\.{_NAME}")
_LITERAL = re.compile(r"'(?:[^']|'')*'")
_ARRAY = re.compile(r"= ANY \('\{((?:[^']|'')*)\}'")
_LIST = re.compile(r"= ANY \(")
_ELEMENT = re.compile(r'"(?:[^"\\]|\\.)*"|[^,]+')


def columns_in(condition: str) -> Iterator[tuple[str, str]]:
    """(alias, column) of each column; literals are passed over."""
    for match in _COLUMN.finditer(_LITERAL.sub("''", condition)):
        alias, column = (match[1] or match[2]), (match[3] or match[4])
        yield alias.replace('""', '"'), column.replace('""', '"')


def values_in_lists(condition: str) -> int | None:
    """By how many values `= ANY` looks rows up: 1 without it, None when that is not to be seen."""
    lists = _ARRAY.findall(condition)
    if len(lists) != len(_LIST.findall(condition)):
        return None
    number = 1
    for text in lists:
        number *= max(1, len(set(_ELEMENT.findall(text))))
    return number
