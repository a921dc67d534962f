"""What is shown on a terminal of 80 columns."""

from dataclasses import replace
from io import StringIO

import pytest

from lookahead.comparisons import compare
from lookahead.errors import LabError
from lookahead.render import Terminal, milliseconds
from lookahead.render_trials import trial_tables
from lookahead.results import ResultDocument


@pytest.fixture
def stdout() -> StringIO:
    return StringIO()


@pytest.fixture
def stderr() -> StringIO:
    return StringIO()


@pytest.fixture
def terminal(stdout: StringIO, stderr: StringIO) -> Terminal:
    return Terminal(stdout, stderr, width=80)


def _lines(stdout: StringIO) -> list[str]:
    return [" ".join(line.split()) for line in stdout.getvalue().splitlines()]


def test_tables_of_scans_are_not_cut(
    terminal: Terminal, stdout: StringIO, document: ResultDocument
) -> None:
    terminal.tables(trial_tables(document.measurements))
    lines = _lines(stdout)
    assert "worker, read-ahead 128 kB" in lines
    assert "stock 10,000 pages 425 ms 106 ms 4.00 [4.00, 4.00] faster" in lines
    assert any(line.endswith("] no difference") for line in lines)
    assert "pairs: 6, bootstrap seed: 7" in lines
    assert "rough" not in stdout.getvalue()


def test_few_pairs_are_called_rough(
    terminal: Terminal, stdout: StringIO, document: ResultDocument
) -> None:
    data = replace(document.measurements, samples=document.measurements.samples[:12])
    terminal.tables(trial_tables(replace(data, comparisons=compare(data, seed=7))))
    assert "pairs: 3, bootstrap seed: 7; rough: few pairs" in stdout.getvalue()


def test_tables_of_controls_are_not_cut(
    terminal: Terminal, stdout: StringIO, controls_document: ResultDocument
) -> None:
    terminal.tables(trial_tables(controls_document.measurements))
    assert "off limit-1 9.9 us 10 us 0.99 [0.99, 0.99] slower" in _lines(stdout)


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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0099, "9.9 us"),
        (0.312, "0.31 ms"),
        (99.94, "99.9 ms"),
        (150.4, "150 ms"),
        (1500, "1.50 s"),
        (12345, "12.3 s"),
    ],
)
def test_times(value: float, text: str) -> None:
    assert milliseconds(value) == text
