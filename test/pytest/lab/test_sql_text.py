"""What of a text of SQL is code."""

import re

import pytest

from lookahead.check.sql_text import NAME, code_of


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a 'w' b", "a b"),
        ("a 'it''s w' b", "a b"),
        (r"a '\' b 'w'", "a b"),
        (r"a E'\'w' b", "a b"),
        (r"a E'\\' b", "a b"),
        ("a $$w$$ b", "a b"),
        ("a $x$ $$ w $x$ b", "a b"),
        ("a$x$ b $x$ w", "a$x$ b"),
        ("a /* w /* w */ w */ b", "a b"),
        ("a -- w ' \n b", "a b"),
        ("a '-- w' b /* ' */ c", "a b c"),
        ("a $1 b", "a $1 b"),
        ("a 'w", "a"),
        ("a $$w", "a"),
        ("a /* w /* */", "a"),
        ('a "w" b', "a b"),
        ('a "w" b "x""', "a b"),
        ("a -- w ' \r b", "a b"),
        ("a E'\\'w'\n  '\\'w' b", "a b"),
        ("a E'w' -- w' \n -- w\n '\\'w'\r'w' b", "a b"),
        ("a E'w' b\n'\\' b", "a b b"),
        # A name may end with a mark, which is no letter to Python.
        ("a\u0301E'\\' b 'w'", "a\u0301E b"),
        ("a\u0301$x$ b $x$ w", "a\u0301$x$ b"),
        ("a $x\u0301$ ' w $x\u0301$ b", "a b"),
    ],
)
def test_code_of_a_text(text: str, left: str) -> None:
    code = code_of(text)
    assert code.split() == left.split()
    assert len(code) == len(text)


def test_quoted_names_may_stay() -> None:
    assert code_of("a \"w '\" 'w' b", keeps_names=True) == 'a "w \'"     b'


@pytest.mark.parametrize("text", ["a1", "_$", "\xe9", "e\u0301x", '"1 ""a"""'])
def test_names(text: str) -> None:
    assert re.fullmatch(NAME, text)


@pytest.mark.parametrize("text", ["2024", "1a", "$1", "", '""', '"a', "a\xa0b c"])
def test_what_is_no_name(text: str) -> None:
    assert not re.fullmatch(NAME, text)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", ["'", '"', "$a$ $b$", "/*", "E'\\", "E''\n--"])
def test_texts_without_an_end_take_no_longer(part: str) -> None:
    code = code_of(part * 200_000)
    assert len(code) == len(part) * 200_000
