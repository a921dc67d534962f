"""What is shown on a terminal of 80 columns."""

from dataclasses import replace
from io import StringIO

import pytest

from lookahead.errors import LabError
from lookahead.render import Terminal, milliseconds
from lookahead.results import ResultDocument
from lookahead.scan_comparisons import compare_controls, compare_scans
from lookahead.scan_measurements import ScanSample, Scenario


@pytest.fixture
def stdout() -> StringIO:
    return StringIO()


@pytest.fixture
def stderr() -> StringIO:
    return StringIO()


@pytest.fixture
def terminal(stdout: StringIO, stderr: StringIO) -> Terminal:
    return Terminal(stdout, stderr, width=80)


def test_scan_table_is_not_cut(
    terminal: Terminal, stdout: StringIO, scan_samples: tuple[ScanSample, ...]
) -> None:
    widest = Scenario(100_000, "io_uring", 8192)
    comparisons = compare_scans(scan_samples, seed=7)
    shown = tuple(
        replace(item, scenario=widest, baseline_median_ms=12_345.0, lookahead_median_ms=1_234.0)
        for item in comparisons
    )
    terminal.scan_table(shown)
    lines = [" ".join(line.split()) for line in stdout.getvalue().splitlines()]
    assert "100k pages io_uring 12.3 s 1.23 s 4.00 [4.00, 4.00] faster" in lines
    assert any(line.endswith("] no difference") for line in lines)
    assert "index scan, cold: median execution time, read-ahead 8192 kB" in lines
    assert "pairs: 6, bootstrap seed: 7" in lines
    assert "rough" not in stdout.getvalue()


def test_scan_tables_are_apart_by_read_ahead(
    terminal: Terminal, stdout: StringIO, scan_samples: tuple[ScanSample, ...]
) -> None:
    first, second = compare_scans(scan_samples, seed=7)
    other = replace(second, scenario=replace(second.scenario, read_ahead_kb=8192))
    terminal.scan_table((first, other))
    shown = stdout.getvalue()
    assert shown.index("read-ahead 128 kB") < shown.index("10k pages worker")
    assert shown.index("read-ahead 8192 kB") < shown.index("1k pages sync")


def test_few_pairs_are_called_rough(
    terminal: Terminal, stdout: StringIO, scan_samples: tuple[ScanSample, ...]
) -> None:
    terminal.scan_table(compare_scans(scan_samples[:12], seed=7))
    assert "pairs: 3, bootstrap seed: 7; rough: few pairs" in stdout.getvalue()


def test_control_table_is_not_cut(
    terminal: Terminal, stdout: StringIO, controls_document: ResultDocument
) -> None:
    assert controls_document.controls is not None
    found = compare_controls(controls_document.controls.samples, seed=7)
    terminal.control_table(
        tuple(
            replace(item, workload="cold-stride-243-32mb", io_method="io_uring") for item in found
        )
    )
    lines = [" ".join(line.split()) for line in stdout.getvalue().splitlines()]
    assert "cold-stride-243-32mb io_uring 9.9 us 10 us 0.99 0.99 [0.99, 0.99]" in lines
    # Against backends without the library; the rest is on the page.
    assert len([line for line in lines if "cold-stride" in line]) == 1


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
        (0.312, "0.31 ms"),
        (99.94, "99.9 ms"),
        (150.4, "150 ms"),
        (1500, "1.50 s"),
        (12345, "12.3 s"),
    ],
)
def test_times(value: float, text: str) -> None:
    assert milliseconds(value) == text
