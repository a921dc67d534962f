"""What of a text of SQL is code."""

import pytest

from lookahead.check.sql_text import code_of


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
    ],
)
def test_code_of_a_text(text: str, left: str) -> None:
    code = code_of(text)
    assert code.split() == left.split()
    assert len(code) == len(text)


def test_quoted_names_may_stay() -> None:
    assert code_of("a \"w '\" 'w' b", keeps_names=True) == 'a "w \'"     b'


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", ["'", '"', "$a$ $b$", "/*", "E'\\"])
def test_texts_without_an_end_take_no_longer(part: str) -> None:
    code = code_of(part * 200_000)
    assert len(code) == len(part) * 200_000
