"""`make sqlancer`: SQLancer's oracles on a server on which every look-ahead is forced.

    check_sqlancer.py [--build KIND] [--statements N] [--seed N] [--oracles NAME...]

NoREC, ternary logic partitioning and pivoted query synthesis check the answers of N statements
each. A database for which SQLancer reports a bug is generated again, from the same seed, on stock:
what stock shows as well is not ours, and is named. The exit status is 1 when anything else was
found; where SQLancer cannot be had the run is skipped by name. See tools/get-sqlancer.
"""

import argparse
import re
import secrets
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from check_core import BUILDS, TOP, prepare
from forced_server import Campaign, campaign_on
from runs import Target
from suites import make_folder

from lookahead.errors import LabError

_ORACLES = ("NOREC", "QUERY_PARTITIONING", "PQS")
_STATEMENTS_A_DATABASE = 100  # at most; making a database takes about as many statements
_DATABASES_A_ROUND = 10  # of one start of SQLancer
_REPORT_LENGTH = 1000
_SECONDS_A_DATABASE = 300.0  # arbitrary; one takes a few seconds
_NOT_TO_BE_HAD = 3  # exit status of tools/get-sqlancer
_QUERIES = re.compile(r"^ *([\d,]+)(k?) queries", re.MULTILINE)


@dataclass
class _Verdict:
    """What SQLancer counted, and reported: by the seed of the database."""

    queries: int = 0
    reports: dict[int, str] = field(default_factory=dict)


def main() -> int:
    """Run the campaigns; 0 when nothing was found that stock does not show."""
    parser = argparse.ArgumentParser(prog="sqlancer", description="SQLancer, forced.")
    parser.add_argument("--build", default="assert", choices=tuple(BUILDS))
    parser.add_argument("--statements", type=int, default=2000, help="of each oracle")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--oracles", default=" ".join(_ORACLES), help=f"of {', '.join(_ORACLES)}")
    options = parser.parse_args()
    try:
        tool = _find_tool()
        if isinstance(tool, str):
            print(f"skipped sqlancer: {tool}")
            return 0
        target = prepare(options.build)
        print(f"sqlancer: --statements {options.statements} --seed {options.seed}", flush=True)
        findings = [
            finding
            for oracle in options.oracles.split()
            for finding in _run_oracle(target, tool, oracle, options)
        ]
    except LabError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return int(error.status)
    return 1 if findings else 0


def _find_tool() -> Path | str:
    """Where SQLancer's classes are, or why they are not to be had."""
    done = subprocess.run([TOP / "tools/get-sqlancer"], capture_output=True, text=True, check=False)
    if done.returncode == _NOT_TO_BE_HAD:
        return done.stderr.strip()
    if done.returncode != 0:
        raise LabError(f"tools/get-sqlancer failed:\n{done.stderr}")
    return Path(done.stdout.splitlines()[-1])


def _run_oracle(target: Target, tool: Path, oracle: str, options: argparse.Namespace) -> list[str]:
    """The findings of one oracle, printed."""
    reports: dict[int, str] = {}
    queries = databases = 0
    with campaign_on(target, options.seed, network=True) as campaign:
        _admit(campaign, tool)
        while queries < options.statements:
            seed = options.seed + databases
            verdict = _generate(campaign, tool, oracle, seed, _DATABASES_A_ROUND)
            reports |= verdict.reports
            queries += verdict.queries
            databases += _DATABASES_A_ROUND
            if not verdict.queries:
                campaign.findings.append(f"no query was made from seed {seed} on")
                break
    findings = list(campaign.findings)
    alike = []
    for seed, report in sorted(reports.items()):
        if _on_stock(target, tool, oracle, seed) == report:
            alike.append(f"seed {seed}: {report}")
        else:
            findings.append(f"seed {seed}, not on stock: {report}")
    print(
        f"{oracle}: {queries} queries in {databases} databases, {len(reports)} reports; "
        f"{campaign.evidence}: {'FAILED' if findings else 'ok'}"
    )
    for line in alike:
        print(f"    stock as well: {line}")
    for finding in findings:
        print(f"    {finding}", flush=True)
    return findings


def _admit(campaign: Campaign, tool: Path) -> None:
    """Make what SQLancer takes for granted."""
    server = campaign.server
    if not server.account.can_read(tool):
        raise LabError(
            f'user "{server.account.name}" cannot read "{tool}"', "Set PG_LOOKAHEAD_SERVERS."
        )
    with server.connect(port=campaign.port) as connection:
        connection.execute("CREATE ROLE sqlancer SUPERUSER LOGIN")
        connection.execute("CREATE DATABASE test")


def _on_stock(target: Target, tool: Path, oracle: str, seed: int) -> str:
    """The report that the database of this seed gives on stock; "" when it gives none."""
    with campaign_on(target, 0, forced=False, network=True) as campaign:
        _admit(campaign, tool)
        return _generate(campaign, tool, oracle, seed, 1).reports.get(seed, "")


def _generate(campaign: Campaign, tool: Path, oracle: str, seed: int, databases: int) -> _Verdict:
    """Have so many databases generated, each from the next seed, and checked by an oracle."""
    server = campaign.server
    folder = make_folder(server, f"sqlancer-{seed}")
    command: list[str | Path] = [
        "java",
        # Where SQLancer knows the system it makes tablespaces, in folders that are not there.
        "-Dos.name=unknown",
        "-cp",
        f"{tool}/classes:{tool}/jars/*",
        "sqlancer.Main",
        "--num-threads=1",
        f"--num-tries={databases}",
        "--max-generated-databases=1",
        f"--num-queries={_STATEMENTS_A_DATABASE}",
        f"--random-seed={seed}",
        "--host=127.0.0.1",
        f"--port={campaign.port}",
        "--print-progress-summary=true",
        "postgres",
        f"--oracle={oracle}",
    ]
    limit = 60 + databases * _SECONDS_A_DATABASE
    try:
        done = server.account.run(command, cwd=folder, timeout_seconds=limit)
    except subprocess.TimeoutExpired:
        raise LabError(f"SQLancer did not end within {limit:g} s") from None
    verdict = _Verdict()
    for count, thousands in _QUERIES.findall(done.stdout):
        verdict.queries = int(count.replace(",", "")) * (1000 if thousands else 1)
    for log in (folder / "logs/postgres").glob("database*.log"):
        number = re.fullmatch(r"database(\d+)\.log", log.name)
        if number:
            verdict.reports[seed + int(number[1])] = _report(log)
    return verdict


def _report(log: Path) -> str:
    """What SQLancer says on top of the statements that reproduce its report, in one line."""
    lines = []
    for line in log.read_text(errors="backslashreplace").splitlines():
        if not line.startswith("--") or "-- Time: " in line:
            break
        if "\tat " not in line and "... " not in line:
            lines.append(line.removeprefix("--"))
    return " / ".join(lines)[:_REPORT_LENGTH]


if __name__ == "__main__":
    sys.exit(main())
