"""Runs the TAP suite of PostgreSQL's amcheck with every index built by us.

    check_amcheck.py [--build KIND]

Its tests build indexes concurrently while rows change, in prepared transactions, before a recovery
to a point in time, and with operator classes that make indexes corrupt on purpose. They start
servers of their own, which a file of settings makes load the library. The exit status is 1 when a
test failed, a server's log shows a crash or leak, or hardly an index was built by us.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from check_core import BUILDS, prepare
from evidence import sum_counters
from pg_regress import find_driver
from runs import Target
from server_log import forbidden_lines

from lookahead.account import Account, find_account
from lookahead.errors import LabError
from lookahead.server_settings import neutral_environment

# About half of what a run shows.
_LEAST_BUILDS = 25
_TIMEOUT_SECONDS = 1800.0  # arbitrary; a run takes twenty seconds
_SETTINGS = """
session_preload_libraries = 'pg_lookahead'
dynamic_library_path = '{folder}/lib:$libdir'
pg_lookahead.enable_index_build = on
pg_lookahead.test_counter_file = '{folder}/counters'
min_parallel_table_scan_size = 0
"""


def main() -> int:
    """Run the suite; 0 when it passed."""
    parser = argparse.ArgumentParser(prog="check-amcheck", description="amcheck's suite, forced.")
    parser.add_argument("--build", default="assert", choices=tuple(BUILDS))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="amcheck-", dir="/tmp"))
    try:
        findings = _run(prepare(options.build), find_account(), folder)
    except LabError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return int(error.status)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for finding in findings:
        print(f"    {finding}")
    return 1 if findings else 0


def _run(target: Target, account: Account, folder: Path) -> list[str]:
    """What is wrong with a run below `folder`; its output goes to stdout."""
    tests = sorted((target.source / "contrib/amcheck/t").glob("*.pl"))
    driver = find_driver(target.installation, "regress")
    prove = shutil.which("prove")
    if driver is None or prove is None or not tests:
        raise LabError(
            "amcheck's tests cannot run: Perl's prove, pg_regress or the tests are missing",
            "Install perl and libipc-run-perl, and use a server made by tools/build-postgres.",
        )
    _fill(folder, target, account)
    environment = {
        **neutral_environment(str(folder)),
        "PATH": f"{target.installation.bindir}:{os.environ['PATH']}",
        "PERL5LIB": str(target.source / "src/test/perl"),
        "PG_REGRESS": str(driver),
        "TEMP_CONFIG": str(folder / "settings.conf"),
        "TESTDATADIR": str(folder / "data"),
        "TESTLOGDIR": str(folder / "log"),
    }
    try:
        done = account.run(
            [prove, "--timer", *tests],
            cwd=folder,
            env=environment,
            timeout_seconds=_TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"amcheck's tests did not end within {_TIMEOUT_SECONDS:g} s") from None
    print(done.stdout + done.stderr, end="")
    return _findings(done.returncode, folder)


def _fill(folder: Path, target: Target, account: Account) -> None:
    for name in ("lib", "log", "data"):
        (folder / name).mkdir()
    shutil.copy(target.stage.library_directory / "pg_lookahead.so", folder / "lib")
    (folder / "settings.conf").write_text(_SETTINGS.format(folder=folder))
    (folder / "counters").touch()
    if account.drops:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, account.uid, account.gid)


def _findings(status: int, folder: Path) -> list[str]:
    found = [f"prove ended with status {status}"] if status else []
    for log in sorted((folder / "log").glob("*.log")):
        found += forbidden_lines(log.read_text(errors="backslashreplace"))
    builds = sum_counters(folder / "counters")["builds"]
    print(f"{builds} indexes were built by us")
    if builds < _LEAST_BUILDS:
        found.append(f"builds={builds} is below the floor of {_LEAST_BUILDS}")
    return found


if __name__ == "__main__":
    sys.exit(main())
