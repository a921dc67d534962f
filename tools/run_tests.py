"""`make test`: regress and isolation tests on private servers, and the rooms of pytest.

    run_tests.py [--pg-config P] [--test NAME | --rooms NAME...] [--processes N]
                 [--all | --sample N] [--seed N]

NAME picks one regress test, one isolation test, or what pytest's -k selects. Rooms are "regress",
"isolation" and the folders of test/pytest; without a choice all of them run, two at once where
there are two processors. Tests are found, not listed. Those that name a test setting
(pg_lookahead.test_*) run with the library that has them, all others with the released one. The
exit status is 1 when anything failed.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pg_regress import find_driver, run_driver
from room_runner import pytest_command, pytest_rooms, run_rooms

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
# Of a run that names neither: whoever repeats it repeats the same tests. Both are arbitrary.
_SAMPLE, _SEED = 0, 1
# More would only take turns on the disk, and lengthen what tests wait for.
_MOST_PROCESSES = 2


@dataclass(frozen=True)
class Batch:
    """Tests of one suite that run on one server."""

    suite: str
    forced: bool
    tests: tuple[str, ...]


def main() -> int:
    """Run what was asked for; 0 when all of it passed."""
    options = _parse()
    try:
        installation = find_installation(options.pg_config)
        if options.rooms and set(options.rooms) <= set(_SUITES):
            return 0 if _run_suites(installation, list(_batches(options.rooms))) else 1
        print(f"PostgreSQL {installation.version} ({installation.source})", flush=True)
        if options.test:
            return 0 if _run_named(installation, options.test) else 1
    except LabError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return int(error.status)
    rooms = options.rooms or _rooms()
    cases = _choice_of_cases(options)
    commands = {room: _command(installation, room, cases) for room in rooms}
    return 0 if run_rooms(commands, _variables(installation), options.processes) else 1


def _parse() -> argparse.Namespace:
    rooms = _rooms()
    parser = argparse.ArgumentParser(prog="run_tests", description="All tests of pg_lookahead.")
    parser.add_argument("--pg-config", type=Path, help="the PostgreSQL to test with")
    parser.add_argument("--test", default="", help="one regress or isolation test, or pytest's -k")
    parser.add_argument("--rooms", default="", help=f"of {', '.join(rooms)}")
    parser.add_argument(
        "--processes",
        type=int,
        choices=range(1, 65),
        metavar="N",
        default=min(os.cpu_count() or 1, _MOST_PROCESSES),
        help="how many rooms are tested at once (default: %(default)s)",
    )
    cases = parser.add_mutually_exclusive_group()
    cases.add_argument("--all", action="store_true", help="all cases and whole campaigns")
    cases.add_argument("--sample", type=int, help="a whole sample of the cases, of any number")
    parser.add_argument("--seed", type=int, help="of random tests")
    options = parser.parse_args()
    options.rooms = options.rooms.replace(",", " ").split()
    unknown = [room for room in options.rooms if room not in rooms]
    if unknown:
        parser.error(f"--rooms: {' '.join(unknown)} is not of {', '.join(rooms)}")
    if options.rooms and options.test:
        parser.error("--rooms and --test exclude each other")
    return options


def _rooms() -> list[str]:
    return [*_SUITES, *pytest_rooms()]


def _variables(installation: Installation) -> dict[str, str]:
    return {"PG_CONFIG": str(installation.pg_config)}


def _choice_of_cases(options: argparse.Namespace) -> list[str]:
    """What pytest is told about how much of a room to run, and with which seed."""
    seed = options.seed
    chosen = []
    if not options.all:
        chosen = [f"--sample={options.sample}"]
        if options.sample is None:
            chosen = [f"--sample={_SAMPLE}", "--brief"]
            seed = _SEED if seed is None else seed
    return [*chosen, *([] if seed is None else [f"--seed={seed}"])]


def _command(installation: Installation, room: str, cases: Sequence[str]) -> list[str]:
    if room not in _SUITES:
        return pytest_command(room, *cases)
    chosen = ["--pg-config", str(installation.pg_config), "--rooms", room]
    return [sys.executable, __file__, *chosen]


def _run_named(installation: Installation, test: str) -> bool:
    """Run one regress or isolation test or, where none has that name, what pytest's -k finds."""
    batches = list(_batches(tuple(_SUITES), test))
    if batches:
        return _run_suites(installation, batches)
    env = {**os.environ, **_variables(installation)}
    status = subprocess.run(
        pytest_command("", "-k", test), cwd=TOP, env=env, check=False
    ).returncode
    if status == _NO_TESTS_SELECTED:
        print(f'error: no test is named "{test}"', file=sys.stderr)
    return status == 0


def _batches(suites: Sequence[str], only: str = "") -> Iterator[Batch]:
    """The tests of these suites, or the one named `only`, by suite and library."""
    for suite in suites:
        paths = sorted((TOP / "test").glob(_SUITES[suite]))
        for forced in (False, True):
            tests = tuple(
                path.stem
                for path in paths
                if (_FORCED in path.read_text()) == forced and only in ("", path.stem)
            )
            if tests:
                yield Batch(suite, forced, tests)


def _run_suites(installation: Installation, batches: Sequence[Batch]) -> bool:
    results = [_run_batch(installation, batch) for batch in batches]
    return all(results)


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


if __name__ == "__main__":
    sys.exit(main())
