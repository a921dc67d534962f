"""The conditions of a scan as EXPLAIN (VERBOSE) prints them, which are texts of SQL. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lookahead.check.sql_text import code_of

_NAME = r'(?:"((?:[^"]|"")+)"|([a-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*))'
_COLUMN = re.compile(rf"(?<![\w\"\x80-\U0010ffff]){_NAME}\.{_NAME}")
_ARRAY = re.compile(r"= ANY \('\{((?:[^']|'')*)\}'")
_LIST = re.compile(r"= ANY \(")
_AND = " AND "
NOT_NULL = "IS NOT NULL"
# Those that compare texts byte by byte, too.
_OPERATOR = re.compile(rf" (?:(?:(=|[<>]=?)|~([<>]=?)~) |({NOT_NULL}))")
_CAST = re.compile(r"::[\w .\"]+(?:\([\d,]+\))?")
# Behind the quotes of a literal, which are blanks in code.
_TYPE = r"::[\w .$]++(?:\([\d,]+\))?+[\w ]*+"
_INIT_PLAN = re.compile(r"\((InitPlan \d+)\)\.col\d+")
_SET_BEFORE = rf"\$\d+|{_INIT_PLAN.pattern}"
_GIVEN = re.compile(rf"\(*(?:{_SET_BEFORE}|(?:[ \d.]*+|true|false|NULL)(?:{_TYPE})?)\)*")
# Groups in it are "_".
_ENCLOSED = re.compile(rf"\( *[\w.$]*_(?:{_TYPE})?\)")
_WORD = re.compile(rf"{_SET_BEFORE}|{_TYPE}|true|false|NULL|(?P<other>[^\W\d])")
_CAST_COLUMN = re.compile(
    rf"\(*(?P<column>{_COLUMN.pattern})\)*(?:::(?P<type>[\w .\"]+(?:\([\d,]+\))?)\)*)?"
)
_CALL = re.compile(r"[\w\"]\(")
_GROUP = re.compile(r"\([^()]*\)")
_ELEMENT = re.compile(r'"(?:[^"\\]|\\.)*"|[^,]+')


@dataclass(frozen=True)
class Comparison:
    """One of the conditions that hold together, without literals.

    `operator` is "=", "<", ">", "<=", ">=", `NOT_NULL`, or "" of whatever else, such as lists.
    """

    left: str
    operator: str
    value: str


def columns_in(condition: str) -> Iterator[tuple[str, str]]:
    """(alias, column) of each column; literals are passed over."""
    for match in _COLUMN.finditer(code_of(condition, keeps_names=True)):
        alias, column = (match[1] or match[2]), (match[3] or match[4])
        yield alias.replace('""', '"'), column.replace('""', '"')


def column_of(value: str) -> tuple[str, str, str] | None:
    """(alias, column, type) of a column, with a cast to that type or none; None of all else."""
    match = _CAST_COLUMN.fullmatch(value)
    if match is None:
        return None
    ((alias, name),) = columns_in(match["column"])
    return alias, name, match["type"] or ""


def comparisons(condition: str) -> Iterator[Comparison]:
    """What stands between the ANDs, in their order."""
    shown, start = code_of(condition, keeps_names=True), 0
    for part in code_of(condition).split(_AND):
        end = start + len(part)
        found = _OPERATOR.search(part)
        if found and not part.startswith("ANY ", found.end()):
            unopened = max(0, part.count(")", found.end()) - part.count("(", found.end()))
            value = shown[start + found.end() : end - unopened]
            operator = found[1] or found[2] or found[3]
            yield Comparison(shown[start : start + found.start()], operator, value)
        else:
            yield Comparison(shown[start:end], "", "")
        start = end + len(_AND)


def is_made_outside(code: str) -> bool:
    """Whether parentheses enclose what has its own or needs none: a call, a cast."""
    last, before = code, ""
    while before != code:
        last, before, code = before, code, _GROUP.sub("_", code)
    return _ENCLOSED.fullmatch(last) is not None


def is_given(code: str) -> bool:
    """Whether it is a literal, a parameter or the result of an InitPlan, as it is."""
    return _GIVEN.fullmatch(code) is not None


def is_made_of_given(code: str) -> bool:
    """Whether no function is called by its name: a plan for known parameters has literals there."""
    return all(match["other"] is None for match in _WORD.finditer(code))


def init_plans_in(code: str) -> set[str]:
    """The names of those whose results stand in it."""
    return {match[1] for match in _INIT_PLAN.finditer(code)}


def is_computed(value: str) -> bool:
    """Whether a function makes it of no column: an outer node may do so anew for each row."""
    return _CALL.search(_CAST.sub("", value)) is not None and not any(columns_in(value))


def values_in_lists(condition: str) -> int | None:
    """By how many values `= ANY` looks rows up: 1 without it, None when that is not to be seen."""
    number = 1
    for found in _LIST.finditer(code_of(condition)):
        array = _ARRAY.match(condition, found.start())
        if array is None:
            return None
        number *= max(1, len(set(_ELEMENT.findall(array[1]))))
    return number
