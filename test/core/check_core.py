"""Runs PostgreSQL's own regression and isolation suites with every look-ahead forced.

    check_core.py [--build KIND...] [--modes NAME...] [--suites NAME...] [--seed N]

A result must equal the shipped expected file byte for byte (in paired modes: stock's result under
the same settings), the counters must show that scans were really streamed, and the server's log
must be free of crashes, failed assertions and leak warnings. What a failed run wrote is kept below
build/check-core. The exit status is 1 when any run failed. See README.md.
"""

import argparse
import secrets
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

from modes import MODES, SUITES, Floor, Mode
from runs import Report, Target, run_mode

from lookahead.errors import LabError
from lookahead.extension import find_stage
from lookahead.installation import find_installation

TOP = Path(__file__).resolve().parents[2]
BUILDS: dict[str, tuple[str, ...]] = {
    "assert": (),
    "release": ("--release",),
    "sanitize": ("--sanitize",),
    # Six blocks: relations of a few dozen kilobytes cross file boundaries.
    "segments": ("--segsize-blocks", "6"),
}
_FINDINGS_SHOWN = 20  # of each run; the rest is in the kept files


def main() -> int:
    """Run what the command line asks for; 0 when everything passed."""
    options = _parse()
    print(f"check-core: --seed {options.seed}", flush=True)
    reports: list[Report] = []
    skipped: list[str] = []
    try:
        for build in options.build:
            target = prepare(build)
            for mode in options.modes:
                if mode.needs_io_uring and not target.installation.has_io_uring:
                    skipped.append(f"{build} {mode.name}: {target.installation.io_uring_obstacle}")
                else:
                    reports += _run_suites(target, mode, options)
    except LabError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return int(error.status)
    for reason in skipped:
        print(f"skipped {reason}")
    _print_table(reports)
    return 1 if not reports or any(report.findings for report in reports) else 0


def _parse() -> argparse.Namespace:
    modes = {mode.name: mode for mode in MODES}
    parser = argparse.ArgumentParser(prog="check-core", description="Core's suites, forced.")
    parser.add_argument("--build", default="assert", help=f"of {', '.join(BUILDS)}")
    parser.add_argument("--modes", default=" ".join(modes), help=f"of {', '.join(modes)}")
    parser.add_argument("--suites", default=" ".join(SUITES), help=f"of {', '.join(SUITES)}")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    options = parser.parse_args()
    for name, known in (("build", BUILDS), ("modes", modes), ("suites", SUITES)):
        chosen = getattr(options, name).replace(",", " ").split()
        unknown = [value for value in chosen if value not in known]
        if unknown or not chosen:
            parser.error(f"--{name}: {' '.join(unknown) or 'nothing'} is not of {' '.join(known)}")
        setattr(options, name, chosen)
    options.modes = [modes[name] for name in options.modes]
    return options


def prepare(build: str) -> Target:
    """Find or build the server, and build the library with test settings for it."""
    script = TOP / "tools" / "build-postgres"
    done = subprocess.run([script, *BUILDS[build]], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"there is no {build} server", "tools/build-postgres says why, above.")
    pg_config = Path(done.stdout.splitlines()[-1])
    installation = find_installation(pg_config)
    source = pg_config.parents[2] / f"postgresql-{installation.version}"
    if not (source / "src/test/regress/parallel_schedule").is_file():
        raise LabError(f'"{source}" is not a source tree', "tools/build-postgres keeps it there.")
    return Target(build, installation, source, find_stage(installation, test=True))


def _run_suites(target: Target, mode: Mode, options: argparse.Namespace) -> list[Report]:
    reports = []
    for suite in options.suites:
        kept = TOP / "build" / "check-core" / f"{target.build}-{mode.name}-{suite}"
        report = run_mode(target, mode, suite, options.seed, kept)
        reports.append(report)
        print(_line(report), flush=True)
        for finding in report.findings[:_FINDINGS_SHOWN]:
            print(f"    {finding}")
        if report.findings:
            print(
                f"    {len(report.findings)} findings; files: {kept.relative_to(TOP)}", flush=True
            )
    return reports


def _print_table(reports: list[Report]) -> None:
    """One line for each run; the counters are those that have a floor, in its order."""
    titles = ("scans", "pages", "bitmaps", "pages", "seqs", "requests", "builds", "rows")
    counts = " ".join(f"{title:>9}" for title in titles)
    print(f"\n{'run':<32} {'passed':>9} {counts} {'seconds':>8}")
    for report in reports:
        print(_line(report))


def _line(report: Report) -> str:
    passed = f"{report.passed}/{report.planned}"
    counts = " ".join(f"{report.counters[floor.name]:>9}" for floor in fields(Floor))
    verdict = "  FAILED" if report.findings else ""
    return f"{report.name:<32} {passed:>9} {counts} {report.seconds:>8.1f}{verdict}"


if __name__ == "__main__":
    sys.exit(main())
