"""Bad input to the command line: message, hint and exit status; and the help as it is printed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.outcome import run_command
from lookahead.__main__ import main
from lookahead.cli import _terminated_like_interrupted
from lookahead.errors import ExitStatus

# What takes long to load: it stands for a moment of that at which Ctrl-C is pressed.
_INTERRUPTED = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
_GOLDEN = Path(__file__).parent / "golden"
_HELPS = {
    "lookahead": ("--help",),
    "run": ("run", "--help"),
    "run-index-scan": ("run", "index-scan", "--help"),
    "run-index-build": ("run", "index-build", "--help"),
    "run-bulk-insert": ("run", "bulk-insert", "--help"),
    "run-bitmap-scan": ("run", "bitmap-scan", "--help"),
    "check": ("check", "--help"),
    "partitions": ("partitions", "--help"),
    "probe": ("probe", "--help"),
    "report": ("report", "--help"),
    "compare": ("compare", "--help"),
    "demo": ("demo", "--help"),
    "doctor": ("doctor", "--help"),
}


@pytest.mark.parametrize("name", _HELPS)
def test_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run_command(*_HELPS[name])
    assert outcome.status is ExitStatus.SUCCESS
    assert capsys.readouterr().out == (_GOLDEN / f"help-{name}.txt").read_text()


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["run", "sorting"], "no such command 'sorting'", "`lookahead run --help` lists commands"),
        (["measure"], "no such command 'measure'", "`lookahead --help` lists commands"),
        (
            ["run", "index-scan", "--speed", "3"],
            "no such option '--speed'",
            "`lookahead run index-scan --help` lists options",
        ),
        (
            ["run", "index-scan", "--io-method", "fast"],
            "'fast' is not one of 'worker', 'sync', 'io_uring'",
            "`lookahead run index-scan --help` lists",
        ),
        (
            ["run", "index-scan", "--pages", "0"],
            "0 is not in the range",
            "--help` lists",
        ),
        (
            ["run", "index-scan", "--pages", "many"],
            "'many' is not a whole number",
            "--help` lists",
        ),
        (
            ["run", "index-scan", "--repetitions", "0"],
            "0 is not in the range",
            "--help` lists",
        ),
        (
            ["run", "bulk-insert", "--table-size", "-1kB"],
            "'-1kB' is not a size such as 4MB or 512kB",
            "--help` lists",
        ),
        (
            ["run", "index-scan", "--limit", "0"],
            "0 is not in the range",
            "--help` lists",
        ),
        (
            ["run", "bitmap-scan", "--pages-share", "1,0"],
            "'0' is not a percentage from 0.00001",
            "`lookahead run bitmap-scan --help` lists",
        ),
        (
            ["run", "bitmap-scan", "--work-mem", "4"],
            "'4' is not a size such as 4MB or 512kB",
            "--help` lists",
        ),
        (
            ["run", "bitmap-scan", "--work-mem", "32kB"],
            "'32kB' is not in the range 64kB to ",
            "--help` lists",
        ),
        (
            ["run", "bitmap-scan", "--table-pages", "many"],
            "'many' is not a whole number",
            "--help` lists",
        ),
        (
            ["run", "index-build", "--memory", "128"],
            "'128' is not a size such as 4MB or 512kB",
            "--help` lists",
        ),
        (
            ["run", "bitmap-scan", "--plan", "seq,hash"],
            "'hash' is not one of 'seq', 'index', 'bitmap'",
            "--help` lists",
        ),
        (
            ["run", "bitmap-scan", "--setting", "0,2000"],
            "2000 is not in the range",
            "--help` lists",
        ),
        (
            ["run", "index-scan", "--share", "101"],
            "101 is not in the range",
            "--help` lists",
        ),
        (
            ["run", "index-scan", "--demo", "--limit", "48001"],
            "--limit 48001 is out of range: the table has 48000 pages",
            "or take a larger size.",
        ),
        (
            ["run", "index-scan", "--seed", "-1"],
            "-1 is not in the range",
            "--help` lists",
        ),
        (
            ["run", "index-build", "--repetitions", "1001"],
            "1001 is not in the range",
            "--help` lists",
        ),
        (
            ["run", "index-scan", "--demo", "--quick"],
            "--demo and --quick exclude each other",
            "Name one size.",
        ),
        (
            ["run", "bitmap-scan", "--quick", "--full"],
            "--quick and --full exclude each other",
            "Name one size.",
        ),
        (
            ["run", "bitmap-scan", "--json", "--csv"],
            "--json and --csv exclude each other",
            "Name one form.",
        ),
        (
            ["run", "index-scan", "--demo", "--pages", "100000"],
            "--pages 100000 is out of range: the table has 48000 pages",
            "or take a larger size.",
        ),
        (
            ["run", "index-scan", "--pages", "none"],
            "no scan is asked for",
            "Name one of --pages, --limit and --share.",
        ),
        (
            ["run", "index-build", "--memory", "512"],
            "'512' is not a size such as 4MB or 512kB",
            "`lookahead run index-build --help` lists",
        ),
        (["report"], "missing argument 'RESULT...'", "`lookahead report --help` lists"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, hint: str) -> None:
    outcome = run_command(*arguments)
    error, advice = outcome.stderr.splitlines()
    assert outcome.status is ExitStatus.USAGE
    assert error.startswith("error: ")
    assert message in error
    assert advice.startswith("hint: ")
    assert hint in advice
    assert outcome.stdout == ""


def test_a_statement_that_begins_with_a_comment() -> None:
    outcome = run_command("check", "-- all of them\nSELECT 1")
    assert outcome.status is ExitStatus.USAGE
    assert "A statement that begins with a comment goes behind `--`." in outcome.stderr


@pytest.mark.parametrize("words", [(), ("run",), ("run", "bitmap-scan"), ("report",), ("demo",)])
def test_short_name_of_help(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(*words, "--help").status is ExitStatus.SUCCESS
    help_text = capsys.readouterr().out
    assert run_command(*words, "-h").status is ExitStatus.SUCCESS
    assert capsys.readouterr().out == help_text


@pytest.mark.parametrize(
    "command", [("check", "SELECT 1"), ("check", "--top", "3"), ("doctor",), ("partitions",)]
)
def test_the_place_of_a_server_as_psql_has_it(command: tuple[str, ...]) -> None:
    place = ("-h", "/nowhere", "-p", "5433", "-U", "nobody", "-d", "shop")
    outcome = run_command(*command, *place)
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "/nowhere/.s.PGSQL.5433" in outcome.stderr
    assert run_command(*command, "--dsn", "", *place).status is ExitStatus.USAGE


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_an_ignored_signal_stays_ignored(number: signal.Signals) -> None:
    """nohup starts a command with SIGHUP ignored."""
    previous = signal.signal(number, signal.SIG_IGN)
    try:
        with _terminated_like_interrupted():
            assert signal.getsignal(number) is signal.SIG_IGN
        assert signal.getsignal(number) is signal.SIG_IGN
        signal.signal(number, signal.SIG_DFL)
        with pytest.raises(KeyboardInterrupt), _terminated_like_interrupted():
            signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, previous)


def test_nothing_asked_for_shows_the_help() -> None:
    outcome = run_command()
    assert outcome.status is ExitStatus.USAGE
    assert "Commands:" in outcome.stdout


@pytest.mark.parametrize("disposition", [signal.SIG_DFL, signal.SIG_IGN])
def test_an_interrupt_while_modules_load_leaves_no_traceback(
    tmp_path: Path, disposition: signal.Handlers
) -> None:
    (tmp_path / "click.py").write_text(f"{_INTERRUPTED}\nraise SystemExit(7)\n")
    found = [path for path in sys.path if path]
    done = subprocess.run(
        [sys.executable, "-m", "lookahead", "--version"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), *found))},
        preexec_fn=lambda: signal.signal(signal.SIGINT, disposition),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    is_ignored = disposition is signal.SIG_IGN
    assert (done.returncode, done.stderr) == (7 if is_ignored else -signal.SIGINT, "")


def test_another_system(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Modules of the lab need what Linux has; a wheel installs everywhere."""
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == ExitStatus.ENVIRONMENT
    assert capsys.readouterr().err.startswith("error: lookahead runs on Linux only\n")
