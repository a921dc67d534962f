"""Standard output that is full, closed by its reader, or in an encoding that lacks characters."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lookahead.errors import ExitStatus
from lookahead.results import ResultDocument, encode


def _run(
    *arguments: str | Path, stdout: int, encoding: str = "utf-8"
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lookahead", *arguments]
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    return subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=env, check=False
    )


@pytest.fixture
def result(tmp_path: Path, document: ResultDocument) -> Path:
    path = tmp_path / "Snow \N{SNOWMAN}.json"
    path.write_text(encode(document))
    return path


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("run", "--help"), None])
def test_a_full_disk_is_an_error_without_a_traceback(
    result: Path, arguments: tuple[str, ...] | None
) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        done = _run(*(arguments or ("report", result)), stdout=full)
    finally:
        os.close(full)
    assert done.returncode == ExitStatus.FAILURE
    assert done.stderr.splitlines() == [
        "error: cannot write to standard output: No space left on device",
        "hint: Make room, or have it read to its end; result files are not affected.",
    ]


def test_a_reader_that_is_gone(result: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = _run("report", result, stdout=writing)
    finally:
        os.close(writing)
    assert done.returncode == ExitStatus.FAILURE
    assert done.stderr.startswith("error: cannot write to standard output: Broken pipe\n")
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert result.with_suffix(".html").exists()


def test_an_output_that_is_closed(result: Path) -> None:
    command = ["sh", "-c", 'exec "$0" "$@" >&-', sys.executable, "-m", "lookahead", "report"]
    done = subprocess.run([*command, str(result)], capture_output=True, text=True, check=False)
    assert done.returncode == ExitStatus.FAILURE
    assert done.stderr.startswith("error: cannot write to standard output: Bad file descriptor\n")
    assert "Traceback" not in done.stderr


def test_messages_that_cannot_be_written_stop_nothing(result: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        command = [sys.executable, "-m", "lookahead", "report", str(result.with_name("absent"))]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, check=False)
    finally:
        os.close(full)
    assert done.returncode == ExitStatus.BAD_FILE


def test_an_encoding_that_lacks_characters(result: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    with output.open("wb") as file:
        done = _run("report", result, stdout=file.fileno(), encoding="ascii")
    assert done.returncode == ExitStatus.SUCCESS, done.stderr
    assert r"Snow \u2603.html" in output.read_text(encoding="ascii")
