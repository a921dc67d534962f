"""`lookahead report`: a page, or the tables of results as text."""

import csv
import io
import os
from pathlib import Path

import pytest

from lab.outcome import run_command
from lookahead.device.probe.probe_data import ProbeDocument
from lookahead.errors import ExitStatus
from lookahead.results import ResultDocument, encode


@pytest.fixture
def result(document: ResultDocument, tmp_path: Path) -> Path:
    path = tmp_path / "made.json"
    path.write_text(encode(document))
    return path


def test_page_stands_beside_the_result(result: Path) -> None:
    outcome = run_command("report", result)
    assert outcome.status is ExitStatus.SUCCESS
    assert outcome.stdout == f"page: {result.with_suffix('.html')}\n"
    assert "<h2>Index scan</h2>" in result.with_suffix(".html").read_text()


@pytest.mark.parametrize("name", [".", "", "/"])
def test_a_folder_is_no_result(name: str) -> None:
    outcome = run_command("report", name)
    assert outcome.status is ExitStatus.BAD_FILE
    assert "error: cannot read " in outcome.stderr


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    outcome = run_command("report", pipe)
    assert outcome.status is ExitStatus.BAD_FILE
    assert f'error: cannot read "{pipe}": it is a pipe, not a file' in outcome.stderr


@pytest.mark.parametrize("others_name", ["made.json", "other.json", "link.html", "notes.txt"])
def test_a_page_replaces_pages_only(result: Path, others_name: str) -> None:
    """No result: not one that it is made from, whatever its name there, and no other one."""
    (result.parent / "notes.txt").write_text("important")
    (result.parent / "other.json").write_bytes(result.read_bytes())
    (result.parent / "link.html").hardlink_to(result)
    target = result.parent / others_name
    before = target.read_bytes()
    outcome = run_command("report", result, "--output", target)
    assert outcome.status is ExitStatus.USAGE
    assert outcome.stderr == (
        f'error: the page would replace "{target}", which is no page\n'
        "hint: Name another file with --output.\n"
    )
    assert target.read_bytes() == before


def test_a_page_replaces_regular_files_only(result: Path) -> None:
    """As root it could replace /dev/null and /dev/stdout."""
    pipe, link = result.with_name("pipe"), result.with_name("link")
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for name in (pipe, link, result.parent):
        outcome = run_command("report", result, "--output", name)
        assert outcome.status is ExitStatus.USAGE
        assert "which is no page" in outcome.stderr
    assert pipe.is_fifo()
    assert link.is_symlink()


def test_a_result_that_is_named_like_a_page(result: Path) -> None:
    named = result.rename(result.with_suffix(".html"))
    before = named.read_bytes()
    assert run_command("report", named).status is ExitStatus.USAGE
    assert named.read_bytes() == before
    page = named.with_name("page.html")
    page.write_text("<!doctype html>an earlier one")
    assert run_command("report", named, "--output", page).status is ExitStatus.SUCCESS
    assert "<h2>Index scan</h2>" in page.read_text()


def test_markdown_of_several_results(result: Path) -> None:
    outcome = run_command("report", result, result, "--markdown")
    assert outcome.status is ExitStatus.SUCCESS
    row = "| 10,000 pages, I/O method worker | stock | 425 ms | 106 ms | 4.00 | 4.00 to 4.00 | 6 |"
    assert outcome.stdout.count(f"{row} faster |") == 2
    assert not result.with_suffix(".html").exists()


def test_csv(result: Path) -> None:
    outcome = run_command("report", result, "--csv")
    assert outcome.status is ExitStatus.SUCCESS
    heads, *rows = csv.reader(io.StringIO(outcome.stdout))
    assert heads[:3] == ["table", "scenario", "against"]
    assert [row[heads.index("ratio")] for row in rows] == ["4.00", "1.00"]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--markdown", "--csv"), "--markdown and --csv"),
        (("--csv", "--output", "page.html"), "--csv and --output"),
    ],
)
def test_forms_exclude_each_other(result: Path, options: tuple[str, ...], names: str) -> None:
    outcome = run_command("report", result, *options)
    assert outcome.status is ExitStatus.USAGE
    assert outcome.stderr == f"error: {names} exclude each other\nhint: Name one.\n"


def test_probes_have_no_tables_of_results(probe: ProbeDocument, tmp_path: Path) -> None:
    path = tmp_path / "probe.json"
    path.write_text(encode(probe))
    outcome = run_command("report", path, "--markdown")
    assert outcome.status is ExitStatus.USAGE
    assert "error: a result of `probe` has a page only" in outcome.stderr
