"""Dumps the database that core's regression suite leaves, and restores it with inserts in batches.

    check_dump.py [--build KIND]

Of each kind of dump one copy is restored by stock and one by us, by COPY or by INSERT, to tables
or through the roots of partitions. A dump of ours, and what psql complained of, must equal those
of stock's. What differs is kept below build/check-dump. The exit status is 1 when anything did.
"""

import argparse
import difflib
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from check_core import BUILDS, TOP, prepare
from evidence import sum_counters
from modes import server_settings
from runs import Target
from server_log import forbidden_lines
from suites import make_folder, run_suite

from lookahead.errors import LabError
from lookahead.server import PrivateServer

# What pg_regress calls its database.
_SOURCE = "regression"
# Options of pg_dump, and how many rows must go in batches: about half of the least seen.
_DUMPS: Mapping[str, tuple[tuple[str, ...], int]] = {
    "copy": ((), 200_000),
    "copy-by-root": (("--load-via-partition-root",), 200_000),
    "insert": (("--rows-per-insert=500", "--load-via-partition-root"), 200_000),
}
_OURS = {
    "enable_bulk_insert": "on",
    "enable_index_build": "on",
    "test_insert_single_rows": "0",
}
# Differs from dump to dump.
_KEY = re.compile(r"^\\(un)?restrict .*$", re.MULTILINE)
_TIMEOUT_SECONDS = 900.0  # arbitrary; each program takes some seconds
_LINES_SHOWN = 20


def main() -> int:
    """Run what the command line asks for; 0 when nothing differs."""
    parser = argparse.ArgumentParser(prog="check-dump", description="A dump, restored.")
    parser.add_argument("--build", default="release", choices=BUILDS)
    options = parser.parse_args()
    kept = TOP / "build" / "check-dump"
    shutil.rmtree(kept, ignore_errors=True)
    try:
        findings = _check(prepare(options.build), kept)
    except LabError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return int(error.status)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


def _check(target: Target, kept: Path) -> list[str]:
    settings = server_settings()
    with PrivateServer(target.installation, stage=target.stage, settings=settings) as server:
        server.initdb()
        server.start({"pg_lookahead.enabled": "off"})
        run_suite(server, target.source, "regress")
        findings = [
            finding
            for name, (options, least) in _DUMPS.items()
            for finding in _restore_both(server, name, options, least, kept / name)
        ]
        server.stop()
        return findings + forbidden_lines(server.read_log())


def _restore_both(
    server: PrivateServer, name: str, options: tuple[str, ...], least: int, kept: Path
) -> list[str]:
    """What differs between the copies of one kind of dump."""
    folder = make_folder(server, name)
    dump = folder / "dump.sql"
    _run(server, "pg_dump", "--no-sync", *options, f"--file={dump}", _SOURCE)
    counters = make_folder(server, f"{name}-evidence") / "counters"
    forced = {**_OURS, "enabled": "on", "test_counter_file": str(counters)}
    stock = _restore(server, dump, "stock", {})
    ours = _restore(server, dump, "ours", forced)
    rows = sum_counters(counters)["rows"]
    print(f"{name}: {len(ours[0].splitlines())} lines, {rows} rows in batches", flush=True)
    findings = []
    if rows < least:
        findings.append(f"{name}: {rows} rows in batches are fewer than {least}")
    for what, one, other in zip(("dump", "messages"), stock, ours, strict=True):
        if one != other:
            kept.mkdir(parents=True, exist_ok=True)
            (kept / f"stock.{what}").write_text(one)
            (kept / f"ours.{what}").write_text(other)
            lines = difflib.unified_diff(one.splitlines(), other.splitlines(), n=0, lineterm="")
            findings += [f"{name}: {line[:200]}" for line in list(lines)[:_LINES_SHOWN]]
    return findings


def _restore(
    server: PrivateServer, dump: Path, database: str, settings: Mapping[str, str]
) -> tuple[str, str]:
    """A dump of the copy, and what psql has said."""
    _run(server, "createdb", "--template=template0", database)
    for setting, value in settings.items():
        # Not of `regression`: a dump has no settings of its database.
        change = f"ALTER DATABASE {database} SET pg_lookahead.{setting} = '{value}'"
        _run(server, "psql", "-Xqc", change, "postgres")
    messages = _run(server, "psql", "-Xq", f"--file={dump}", database).stderr
    copy = dump.with_name(f"{database}.sql")
    _run(server, "pg_dump", "--no-sync", f"--file={copy}", database)
    text = server.account.run(["cat", copy]).stdout
    _run(server, "dropdb", database)
    return _KEY.sub("", text), messages


def _run(server: PrivateServer, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return server.run_client(program, *arguments, timeout_seconds=_TIMEOUT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
