"""What is shown on a terminal of 80 columns."""

from io import StringIO

import pytest

from lookahead.errors import LabError
from lookahead.report.tables import Table, columns_of
from lookahead.terminal import Terminal


@pytest.fixture
def stdout() -> StringIO:
    return StringIO()


@pytest.fixture
def stderr() -> StringIO:
    return StringIO()


@pytest.fixture
def terminal(stdout: StringIO, stderr: StringIO) -> Terminal:
    return Terminal(stdout, stderr, width=80)


def _words(shown: str) -> list[str]:
    return shown.split()


def test_widest_comparison_is_not_cut(terminal: Terminal, stdout: StringIO) -> None:
    numbers = ("baseline time", "our time", "ratio", "interval", "verdict")
    cells = ("101.5 ms", "102.5 ms", "10.00", "10.25 to 12.50", "no difference")
    row = ("pages 42 %, I/O method io_uring", "best stock plan (index, random order)", *cells)
    terminal.tables([Table("title", columns_of(("scenario", "against"), numbers), (row,), "all")])
    shown = stdout.getvalue()
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    # Numbers on one line; names are wrapped between words.
    assert any("101.5 ms" in line and "no difference" in line for line in shown.splitlines())
    assert {"io_uring", "random", "order)", "all."} <= set(_words(shown))


def test_too_many_columns_continue_below(terminal: Terminal, stdout: StringIO) -> None:
    heads = [f"{number} %" for number in range(30)]
    row = ("ours", *(f"{number}.23 s" for number in range(30)))
    terminal.tables([Table("medians", columns_of(("arm",), heads), (row,), "caption")])
    shown = stdout.getvalue()
    assert max(map(len, shown.splitlines())) <= 80
    assert [word for word in _words(shown) if word.endswith(".23")] == [
        f"{number}.23" for number in range(30)
    ]
    assert shown.count("ours") > 1
    assert shown.count("medians") == shown.count("caption.") == 1


def test_text_of_a_table_is_no_markup(terminal: Terminal, stdout: StringIO) -> None:
    table = Table("[bold]", columns_of(("[red]name",)), (("[/]\x1b[2J",),), "[link]")
    terminal.tables([table])
    shown = stdout.getvalue()
    assert {"[bold]", "[red]name", "[/]\\x1b[2J", "[link]."} <= set(_words(shown))


def test_errors_go_to_standard_error_unwrapped(
    terminal: Terminal, stdout: StringIO, stderr: StringIO
) -> None:
    long = "word " * 40
    terminal.error(LabError(f"[bold]{long}", "try [this]"))
    assert stderr.getvalue() == f"error: [bold]{long}\nhint: try [this]\n"
    assert stdout.getvalue() == ""


def test_an_error_without_a_hint_has_one_line(terminal: Terminal, stderr: StringIO) -> None:
    terminal.error(LabError("it broke"))
    assert stderr.getvalue() == "error: it broke\n"


def test_progress_is_not_drawn_into_a_file(terminal: Terminal, stderr: StringIO) -> None:
    with terminal.progress(2) as bar:
        bar.describe("something")
        bar.advance()
    assert stderr.getvalue().strip() == ""


def test_a_document_is_json(terminal: Terminal) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        terminal.document("made", 1, {"pages": float("inf")})
