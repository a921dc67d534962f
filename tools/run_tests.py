"""`make test`: regress and isolation tests on private servers, then pytest.

    run_tests.py [--pg-config P] [--test NAME]

NAME picks one regress test, one isolation test, or what pytest's -k selects. Tests are found, not
listed. Those that name a test setting (pg_lookahead.test_*) run with the library that has them,
all others with the released one. The exit status is 1 when anything failed.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pg_regress import find_driver, run_driver

from lookahead.account import own_account
from lookahead.errors import LabError
from lookahead.extension import find_stage
from lookahead.installation import Installation, find_installation
from lookahead.server import PrivateServer

TOP = Path(__file__).resolve().parents[1]
_SUITES = {"regress": "sql/*.sql", "isolation": "specs/*.spec"}
_FORCED = "pg_lookahead.test_"
_TIMEOUT_SECONDS = 1800.0  # of one suite; arbitrary, ours take seconds on an idle machine
_NO_TESTS_SELECTED = 5  # pytest's exit status


@dataclass(frozen=True)
class Batch:
    """Tests of one suite that run on one server."""

    suite: str
    forced: bool
    tests: tuple[str, ...]


def main() -> int:
    """Run what was asked for; 0 when all of it passed."""
    parser = argparse.ArgumentParser(prog="run_tests", description="All tests of pg_lookahead.")
    parser.add_argument("--pg-config", type=Path, help="the PostgreSQL to test with")
    parser.add_argument("--test", default="", help="one regress or isolation test, or pytest's -k")
    options = parser.parse_args()
    try:
        installation = find_installation(options.pg_config)
        print(f"PostgreSQL {installation.version} ({installation.source})", flush=True)
        batches = list(_batches(options.test))
        results = [_run_batch(installation, batch) for batch in batches]
    except LabError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return int(error.status)
    if options.test and batches:
        return 0 if all(results) else 1
    passed = _run_pytest(installation, options.test)
    if not all(results):
        print("regress or isolation tests failed, see above", flush=True)
    return 0 if passed and all(results) else 1


def _batches(only: str) -> Iterator[Batch]:
    """The tests, or the one named `only`, by suite and library."""
    for suite, pattern in _SUITES.items():
        paths = sorted((TOP / "test").glob(pattern))
        for forced in (False, True):
            tests = tuple(
                path.stem
                for path in paths
                if (_FORCED in path.read_text()) == forced and only in ("", path.stem)
            )
            if tests:
                yield Batch(suite, forced, tests)


def _run_batch(installation: Installation, batch: Batch) -> bool:
    name = f"{batch.suite}{' (test settings)' if batch.forced else ''}"
    driver = find_driver(installation, batch.suite)
    if driver is None:
        print(f"{name}: skipped: this PostgreSQL has no driver program for it", flush=True)
        return True
    output = TOP / "build" / "results" / f"{batch.suite}{'-forced' if batch.forced else ''}"
    output.mkdir(parents=True, exist_ok=True)
    stage = find_stage(installation, test=batch.forced)
    settings = {"fsync": "off", "max_prepared_transactions": "2"}
    with PrivateServer(installation, stage=stage, settings=settings) as server:
        server.start()
        verdicts = run_driver(
            server,
            own_account(),
            driver,
            [f"--inputdir={TOP / 'test'}", f"--outputdir={output}", *batch.tests],
            timeout_seconds=_TIMEOUT_SECONDS,
        )
    missing = set(batch.tests) - verdicts.passed
    print(f"{name}: {len(verdicts.passed)} of {len(batch.tests)} passed", flush=True)
    if missing:
        print(verdicts.messages)
        differences = output / "regression.diffs"
        print(differences.read_text() if differences.exists() else "", flush=True)
    return not missing


def _run_pytest(installation: Installation, only: str) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-c", "test/pytest/pytest.ini", "test/pytest"]
    if only:
        command += ["-k", only]
    env = {**os.environ, "PG_CONFIG": str(installation.pg_config)}
    status = subprocess.run(command, cwd=TOP, env=env, check=False).returncode
    if only and status == _NO_TESTS_SELECTED:
        print(f'error: no test is named "{only}"', file=sys.stderr)
    return status == 0


if __name__ == "__main__":
    sys.exit(main())
