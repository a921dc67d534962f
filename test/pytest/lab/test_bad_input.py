"""What the commands are given that cannot be used: each has its words, its hint and its status."""

import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from lab.outcome import run_command
from lookahead.cold import check_space
from lookahead.errors import ExitStatus, LabError
from lookahead.results import SCHEMA_VERSION, ResultDocument, encode

_RUN = ("run", "index-scan", "--demo")


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def result(tmp_path: Path, document: ResultDocument) -> Path:
    path = tmp_path / "result.json"
    path.write_text(encode(document))
    return path


def _fake_pg_config(folder: Path, answer: str) -> Path:
    path = folder / "pg_config"
    lines = "".join(f"echo '{line}'\n" for line in (answer, *[folder] * 5))
    path.write_text(f"#!/bin/sh\n{lines}")
    path.chmod(0o755)
    return path


def test_wrong_server_major(tmp_path: Path, output: Path) -> None:
    pg_config = _fake_pg_config(tmp_path, "PostgreSQL 17.9")
    outcome = run_command(*_RUN, "--pg-config", pg_config, "--output", output)
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "belongs to PostgreSQL 17.9; pg_lookahead needs PostgreSQL 18" in outcome.stderr
    assert "hint: Name the pg_config of a PostgreSQL 18" in outcome.stderr
    assert list(output.iterdir()) == []


def test_missing_server(tmp_path: Path, output: Path) -> None:
    outcome = run_command(*_RUN, "--pg-config", tmp_path / "absent", "--output", output)
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "No such file or directory" in outcome.stderr
    assert list(output.iterdir()) == []


def test_missing_library(tmp_path: Path, output: Path) -> None:
    named = [] if "PG_CONFIG" not in os.environ else ["--pg-config", os.environ["PG_CONFIG"]]
    outcome = run_command(*_RUN, *named, "--library", tmp_path / "empty", "--output", output)
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert f'error: there is no "{tmp_path}/empty/lib/pg_lookahead.so"' in outcome.stderr
    assert "hint: Name a folder made by `make stage`" in outcome.stderr
    assert list(output.iterdir()) == []


@pytest.mark.parametrize("experiment", ["index-scan", "index-build"])
def test_output_that_is_no_folder(tmp_path: Path, experiment: str) -> None:
    (tmp_path / "file").write_text("mine")
    outcome = run_command("run", experiment, "--demo", "--output", tmp_path / "file")
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "error: cannot write results to" in outcome.stderr
    assert "hint: Name a writable folder with --output." in outcome.stderr
    assert (tmp_path / "file").read_text() == "mine"


def test_read_only_output(read_only: Path) -> None:
    outcome = run_command(*_RUN, "--output", read_only / "results")
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "Read-only file system" in outcome.stderr
    assert "hint: Name a writable folder with --output." in outcome.stderr


def test_too_little_disk_space(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tiny(path: Path) -> object:
        return type("Usage", (), {"free": 100_000_000})()

    monkeypatch.setattr("shutil.disk_usage", tiny)
    with pytest.raises(LabError, match=r"needs 1.0 GB of disk space, 0.1 GB are") as caught:
        check_space(tmp_path, 1_000_000_000)
    assert caught.value.status is ExitStatus.ENVIRONMENT
    assert "--directory" in caught.value.hint


def test_report(result: Path) -> None:
    outcome = run_command("report", result)
    assert outcome.status is ExitStatus.SUCCESS
    page = result.with_suffix(".html")
    assert outcome.stdout == f"page: {page}\n"
    assert page.read_text().startswith("<!doctype html>")


def _cut(text: str) -> str:
    return text[: len(text) // 2]


def _version(text: str) -> str:
    return text.replace(f'"schema_version": {SCHEMA_VERSION}', '"schema_version": 0')


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_cut, "is empty or cut short"),
        (_version, "is damaged: there is no schema version 0"),
        (lambda text: "", "is empty or cut short"),
        (lambda text: "[1, 2]", "is not a result of lookahead"),
        (lambda text: "[" * 100_000, "is empty or cut short: no JSON of ours"),
        (lambda text: '{"a":' * 100_000, "is empty or cut short: no JSON of ours"),
        (lambda text: f'{{"schema_version": {"9" * 5000}}}', "is empty or cut short: no JSON of"),
        (
            lambda text: text.replace('_ms": 400.0', '_ms": NaN'),
            "is empty or cut short: no JSON of ours",
        ),
        (lambda text: text.replace('_ms": 400.0', '_ms": 1e999'), "is damaged: measurements"),
        (lambda text: text.replace('_ms": 400.0', '_ms": 0.0'), "is damaged: measurements"),
        (lambda text: text.replace('_ms": 400.0', '_ms": 1e308'), "is damaged: measurements"),
        (lambda text: text.replace("{", '{"more": 1e999, ', 1), "cannot be worked out: "),
        (
            lambda text: text.replace('_ms": 400.0', f'_ms": {"9" * 400}'),
            "is damaged: measurements",
        ),
    ],
)
def test_report_of_a_damaged_result(
    result: Path, damage: Callable[[str], str], message: str
) -> None:
    result.write_text(damage(result.read_text()))
    outcome = run_command("report", result)
    assert outcome.status is ExitStatus.BAD_FILE
    assert f'error: "{result}" {message}' in outcome.stderr
    assert "hint: " in outcome.stderr
    assert not result.with_suffix(".html").exists()


def test_report_of_a_result_that_is_nested_too_deeply(
    result: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Just so deep that it can be read; how deep depends on the callers."""
    monkeypatch.setattr("lookahead.report.page.json.dumps", Mock(side_effect=RecursionError))
    outcome = run_command("report", result)
    assert outcome.status is ExitStatus.BAD_FILE
    assert "cannot be worked out" in outcome.stderr


def test_report_of_nothing(tmp_path: Path) -> None:
    outcome = run_command("report", tmp_path / "absent.json")
    assert outcome.status is ExitStatus.BAD_FILE
    assert "No such file or directory" in outcome.stderr


def test_report_keeps_the_old_page_on_a_full_disk(result: Path, full_disk: Path) -> None:
    page = full_disk / "page.html"
    page.touch()
    outcome = run_command("report", result, "--output", page)
    assert outcome.status is ExitStatus.FAILURE
    assert "No space left on device" in outcome.stderr
    assert "hint: Make room" in outcome.stderr
    assert {path.name for path in full_disk.iterdir()} == {"filler", "page.html"}


def test_report_to_a_read_only_folder(result: Path, read_only: Path) -> None:
    outcome = run_command("report", result, "--output", read_only / "page.html")
    assert outcome.status is ExitStatus.FAILURE
    assert "Read-only file system" in outcome.stderr
