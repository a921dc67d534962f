"""Text of servers and files on terminals and pages."""

from dataclasses import replace
from io import StringIO

import pytest

from lookahead.errors import ExitStatus, LabError
from lookahead.formats import one_line, printable, require_text
from lookahead.report.page import render_page
from lookahead.results import Finding, ResultDocument
from lookahead.terminal import Terminal

_EVIL = "\x1b[2J\x07\u202e\x9b\ud800\x7f\u2066\u2028"
_HARMFUL = {character for character in _EVIL if not character.isprintable()}
_SHOWN = r"\x1b[2J\x07\u202e\x9b\ud800\x7f\u2066\u2028"


def test_what_is_shown() -> None:
    assert printable(_EVIL) == _SHOWN
    harmless = "a\tb\nÄ\N{SNOWMAN}漢\N{NO-BREAK SPACE}|"
    assert printable(harmless) == harmless
    assert one_line("a\n\tb") == r"a\n\tb"


@pytest.mark.parametrize("text", ["a\0b", "\udcff"])
def test_what_cannot_be_sent_whole(text: str) -> None:
    with pytest.raises(LabError, match=r"the name (holds a zero byte|is not UTF-8)") as caught:
        require_text(text, "the name")
    assert caught.value.status is ExitStatus.USAGE


def test_no_method_of_the_terminal_lets_it_through() -> None:
    out, err = StringIO(), StringIO()
    terminal = Terminal(out, err, width=80)
    terminal.result(_EVIL)
    terminal.step(_EVIL)
    terminal.log_only(_EVIL)
    terminal.finding("note", _EVIL, _EVIL)
    terminal.error(LabError(_EVIL, _EVIL))
    assert out.getvalue() == f"{_SHOWN}\n"
    assert err.getvalue().count(_SHOWN) == 6
    assert not _HARMFUL & set(err.getvalue())


def test_no_page_lets_it_through(document: ResultDocument) -> None:
    finding = Finding("note", f"<script>{_EVIL}", "<b>")
    evil = replace(
        document,
        findings=(finding,),
        ending=_EVIL,
        status="incomplete",
        command=("lookahead", _EVIL),
        settings={_EVIL: "</script><script>"},
    )
    page = render_page([(f"{_EVIL}<i>.json", evil)])
    assert f"&lt;script&gt;{_SHOWN}" in page
    assert not _HARMFUL & set(page)
    assert "</script><script>" not in page and "<i>" not in page
