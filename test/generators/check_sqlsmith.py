"""`make sqlsmith`: random statements on the regression database, every look-ahead forced.

    check_sqlsmith.py [--build KIND] [--statements N] [--seed N]

SQLsmith knows no right answers: what fails is a crash, a failed assertion, a leak, or an error that
says so. The statements run as an ordinary user who may read and change all tables. The exit status
is 1 when anything was found; without the program the run is skipped by name.
"""

import argparse
import re
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

from check_core import BUILDS, prepare
from forced_server import Campaign, campaign_on
from pg_regress import find_driver, run_driver
from runs import Target
from suites import make_folder, server_libraries

from lookahead.errors import LabError, last_lines

# Tests of core that leave tables of all kinds, with indexes of all kinds.
_TESTS = (
    *("test_setup", "create_index", "create_misc", "create_view", "inherit", "join"),
    *("partition_join", "brin", "gin", "gist", "spgist", "hash_index", "index_including"),
    *("index_including_gist", "rangetypes", "arrays"),
)
_STATEMENT_TIMEOUT = "2s"  # arbitrary: some statements join many tables without a condition
_SECONDS_A_STATEMENT = 2.5
_COUNT = re.compile(r"^queries: (\d+)", re.MULTILINE)
_ACCESS = (
    "CREATE ROLE smith LOGIN; GRANT USAGE, CREATE ON SCHEMA public TO smith; "
    "GRANT ALL ON ALL TABLES IN SCHEMA public TO smith; "
    f"ALTER ROLE smith SET statement_timeout = '{_STATEMENT_TIMEOUT}'"
)


def main() -> int:
    """Run the campaign; 0 when nothing was found."""
    parser = argparse.ArgumentParser(prog="sqlsmith", description="Random statements, forced.")
    parser.add_argument("--build", default="assert", choices=tuple(BUILDS))
    parser.add_argument("--statements", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    options = parser.parse_args()
    program = shutil.which("sqlsmith")
    if program is None:
        print("skipped sqlsmith: it is not installed (Debian package sqlsmith)")
        return 0
    print(f"sqlsmith: --statements {options.statements} --seed {options.seed}", flush=True)
    try:
        target = prepare(options.build)
        with campaign_on(target, options.seed) as campaign:
            _fill(campaign, target)
            campaign.count_from_here()
            answer = _generate(campaign, program, options.statements, options.seed)
    except LabError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return int(error.status)
    print(f"{answer}; {campaign.evidence}: {'FAILED' if campaign.findings else 'ok'}")
    for finding in campaign.findings:
        print(f"    {finding}")
    return 1 if campaign.findings else 0


def _fill(campaign: Campaign, target: Target) -> None:
    """Make the regression database, whose owner's tables another user may use."""
    server = campaign.server
    driver = find_driver(target.installation, "regress")
    if driver is None:
        raise LabError("pg_regress is missing", "Use a server made by tools/build-postgres.")
    libraries = server_libraries(server, target.source)
    arguments = [
        f"--inputdir={target.source / 'src/test/regress'}",
        f"--outputdir={make_folder(server, 'regress')}",
        f"--dlpath={libraries}",
        *_TESTS,
    ]
    verdicts = run_driver(server, server.account, driver, arguments, timeout_seconds=900)
    # In this order some results differ from the shipped files; what counts is that they ran.
    missing = set(_TESTS) - verdicts.passed - verdicts.failed
    if missing:
        raise LabError(f"pg_regress did not run {', '.join(sorted(missing))}")
    with server.connect("regression") as connection:
        connection.execute(_ACCESS)


def _generate(campaign: Campaign, program: str, statements: int, seed: int) -> str:
    """Run the generator to its end; returns what it counted."""
    server = campaign.server
    place = f"host={server.socket_directory} port={server.port} user=smith dbname=regression"
    command: list[str | Path] = [
        program,
        f"--target={place}",
        f"--max-queries={statements}",
        f"--seed={seed % 2**31}",
        "--exclude-catalog",
        "--verbose",
    ]
    limit = 120 + statements * _SECONDS_A_STATEMENT
    try:
        done = server.account.run(command, cwd=server.work_directory, timeout_seconds=limit)
    except subprocess.TimeoutExpired:
        raise LabError(f"sqlsmith did not end within {limit:g} s") from None
    # It ends with status 0 after --max-queries, also when a session was lost on the way.
    if done.returncode != 0:
        campaign.findings.append(f"sqlsmith ended with {done.returncode}:")
        campaign.findings += last_lines(done.stderr).splitlines()
    counts = _COUNT.findall(done.stderr)
    return f"{counts[-1] if counts else 'an unknown number of'} statements counted by sqlsmith"


if __name__ == "__main__":
    sys.exit(main())
