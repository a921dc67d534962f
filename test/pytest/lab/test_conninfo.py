"""No password in results, pages, messages or recorded commands, however it was given."""

import json
from pathlib import Path

import pytest

from lab.outcome import run_command
from lookahead.device.probe.probe_data import ProbeDocument, probe_in
from lookahead.errors import ExitStatus
from lookahead.guarded_connection import shown_arguments, shown_dsn
from lookahead.results import encode

_SECRET = "hunter2"
_DSNS = (
    f"host=/nowhere user=me password={_SECRET}",
    f"host=/nowhere password='{_SECRET} more' dbname=shop",
    f"host=/nowhere password=two {_SECRET}",
    f"postgresql://me:{_SECRET}@nowhere.invalid/shop",
    f"postgresql://me:a@{_SECRET}@nowhere.invalid/shop",
    f"postgresql://me:a/{_SECRET}@nowhere.invalid/shop",
    f"postgresql://me:%zz{_SECRET}@nowhere.invalid/shop",
    f"postgresql://me@nowhere.invalid/shop?password={_SECRET}",
    f"host=/nowhere sslpassword={_SECRET}",
    f"host=/nowhere passfile=/home/{_SECRET}",
    f"host=/nowhere options='-c my.key={_SECRET}'",
    f"host=/nowhere dbname=postgresql://me:{_SECRET}@elsewhere/shop",
    f"hostt=/nowhere password={_SECRET}",
)


@pytest.mark.parametrize("dsn", _DSNS)
def test_only_the_place_is_shown(dsn: str) -> None:
    shown = shown_dsn(dsn)
    assert _SECRET not in shown
    assert shown_dsn(shown) == shown
    beside = [(option, dsn) for option in ("--dsn", "--dbname", "-d")]
    within = [(f"{option}{dsn}",) for option in ("--dsn=", "--dbname=", "-d")]
    for arguments in (*beside, *within):
        assert _SECRET not in " ".join(shown_arguments(arguments))


def test_the_place_is_shown() -> None:
    assert shown_dsn(f"postgresql://me:{_SECRET}@db.shop:5433/sales") == (
        "host=db.shop port=5433 dbname=sales user=me"
    )
    for given in (
        ("run", "index-scan", "--pages", "10", "--output", "a=b"),
        ("doctor", "-hdb.shop", "-U", "me", "-d", "shop", "-dshop", "--dbname=shop"),
    ):
        assert shown_arguments(given) == given


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
@pytest.mark.parametrize(
    "command",
    [("doctor",), ("check", "SELECT 1"), ("partitions",), ("probe", "--tablespace", "pg_default")],
)
def test_a_host_whose_name_is_none(command: tuple[str, ...], host: str) -> None:
    outcome = run_command(*command, "--dsn", f"host={host}")
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "the name of the host is none" in outcome.stderr


def test_doctor_takes_a_database_and_no_string() -> None:
    outcome = run_command("doctor", f"--dbname=postgresql://me:{_SECRET}@nowhere.invalid/shop")
    assert outcome.status is ExitStatus.USAGE
    assert "-d takes the name of a database" in outcome.stderr
    assert _SECRET not in outcome.stderr


@pytest.mark.parametrize("dsn", _DSNS)
@pytest.mark.parametrize(
    "command", [("check", "SELECT 1"), ("probe", "--tablespace", "pg_default")]
)
def test_no_message_has_it(dsn: str, command: tuple[str, ...]) -> None:
    outcome = run_command(*command, "--dsn", dsn)
    assert outcome.status in (ExitStatus.USAGE, ExitStatus.ENVIRONMENT)
    assert "error: " in outcome.stderr
    assert _SECRET not in outcome.stderr


def test_no_message_about_usage_has_it() -> None:
    dsn = f"postgresql://me:{_SECRET}@nowhere/shop"
    outcome = run_command("probe", "/", dsn)
    assert outcome.status is ExitStatus.USAGE
    assert _SECRET not in outcome.stderr


def test_an_old_result_is_read_without_it(probe: ProbeDocument, tmp_path: Path) -> None:
    """One from a lab that recorded the command line as it was given."""
    document = json.loads(encode(probe))
    document["command"] = ["lookahead", "probe", "--dsn", f"host=db password={_SECRET}"]
    path = tmp_path / "probe.json"
    path.write_text(json.dumps(document))
    assert probe_in(document, "probe").command[-1] == "host=db"
    assert run_command("report", path).status is ExitStatus.SUCCESS
    assert _SECRET not in path.with_suffix(".html").read_text()
