"""Runs PostgreSQL's other suites with every look-ahead forced.

    check_suites.py [--build KIND] [--suites NAME...] [--modes NAME...] [--share K/N] [--seed N]

The suites are the tests of contrib modules, of PL/pgSQL and of other extensions, and the TAP tests
of contrib, recovery and subscription. A test passes when its verdict is good, or when stock fails
it in the same way; no server's log may show a crash or a leak, and the counters must show that the
library ran. The exit status is 1 when anything else happened. See README.md.
"""

import argparse
import secrets
import shutil
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from check_core import BUILDS, TOP, prepare
from evidence import missing_streams
from modes import MODES, Floor, Mode
from module_runs import Outcome, run_modules
from runs import Target
from share import share_of
from tap import run_tap

from lookahead.errors import LabError


@dataclass(frozen=True)
class Suite:
    """One suite: `tests` are its TAP files below the source tree, none for tests of modules.

    `floor` holds for the whole suite.
    `settings` are added to the forced ones.
    `rows` are the least that must have been inserted in batches where every insert is.
    """

    name: str
    floor: Floor
    tests: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0


# Of core's modes those that ask nothing of the server, nor change plans.
_MODES = tuple(mode for mode in MODES if mode.name in ("default", "inserts", "insert-extents"))
_ANYTHING = Floor(0, 0, 0, 0, 1, 0, 0)
# Floors: about half of what a run shows.
SUITES = (
    Suite("contrib", Floor(500, 700, 200, 150, 600, 50, 60), rows=350_000),
    Suite("plpgsql", Floor(3, 1, 0, 0, 45, 0, 1), rows=15),
    Suite("neighbours", Floor(0, 0, 0, 0, 1, 0, 0), rows=60_000),
    Suite(
        "amcheck",
        Floor(0, 0, 1, 0, 8, 0, 8),
        "contrib/amcheck/t/*.pl",
        {"min_parallel_table_scan_size": "0"},
    ),
    Suite("contrib-tap", Floor(5, 5, 180, 16_000, 12, 80, 0), "contrib/*/t/*.pl"),
    Suite(
        "recovery",
        Floor(15_000, 40_000, 800, 4_000, 8_500, 4_000, 800),
        "src/test/recovery/t/*.pl",
    ),
    Suite("subscription", Floor(90, 90, 25, 30, 350, 50, 120), "src/test/subscription/t/*.pl"),
)


def main() -> int:
    """Run what the command line asks for; 0 when everything passed."""
    options = _parse()
    print(f"check-suites: --seed {options.seed}", flush=True)
    failed = False
    counters: Counter[str] = Counter()
    try:
        target = prepare(options.build)
        for mode in options.modes:
            for suite in options.suites:
                failed |= bool(_run(target, suite, mode, options, counters))
    except LabError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return int(error.status)
    # Some test files scan no table of theirs, so a share of one suite may have none that does.
    for finding in missing_streams(counters, _ANYTHING):
        print(finding)
        failed = True
    return 1 if failed else 0


def _parse() -> argparse.Namespace:
    suites = {suite.name: suite for suite in SUITES}
    modes = {mode.name: mode for mode in _MODES}
    parser = argparse.ArgumentParser(prog="check-suites", description="Other suites, forced.")
    parser.add_argument("--build", default="assert", choices=tuple(BUILDS))
    parser.add_argument("--suites", default=" ".join(suites), help=f"of {', '.join(suites)}")
    parser.add_argument("--modes", default="default", help=f"of {', '.join(modes)}")
    parser.add_argument(
        "--share", type=share_of, default="1/1", help="K/N: each Nth TAP file, from the Kth on"
    )
    parser.add_argument("--tests", default="", help="TAP files whose names contain this")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    options = parser.parse_args()
    known: Mapping[str, Suite | Mode]
    for option, known in (("suites", suites), ("modes", modes)):
        names = getattr(options, option).replace(",", " ").split()
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            nothing = " ".join(unknown) or "nothing"
            parser.error(f"--{option}: {nothing} is not of {' '.join(known)}")
        setattr(options, option, [known[name] for name in names])
    return options


def _run(
    target: Target,
    suite: Suite,
    mode: Mode,
    options: argparse.Namespace,
    counters: Counter[str],
) -> list[str]:
    """The findings of one suite, printed; adds to the counters of all."""
    kept = TOP / "build" / "check-suites" / f"{target.build}-{mode.name}-{suite.name}"
    shutil.rmtree(kept, ignore_errors=True)
    if suite.tests:
        every = sorted(target.source.glob(suite.tests))
        files = [path for path in every if options.tests in path.name and _is_of(suite, path)]
        chosen = files[options.share]
        outcome = run_tap(target, chosen, mode, suite.settings, options.seed, kept)
        whole = options.share.step == 1 and not options.tests
    else:
        outcome = run_modules(target, suite.name, mode, options.seed, kept)
        whole = True
    counters.update(outcome.counters)
    findings = list(outcome.findings)
    if whole:
        rows = suite.rows if mode.forced else 0
        findings += missing_streams(outcome.counters, replace(suite.floor, rows=rows))
    _print(f"{suite.name} {mode.name}", outcome, findings)
    return findings


def _is_of(suite: Suite, path: Path) -> bool:
    """amcheck's files are a suite of their own."""
    return (path.parents[1].name == "amcheck") == (suite.name == "amcheck")


def _print(name: str, outcome: Outcome, findings: list[str]) -> None:
    counts = " ".join(f"{counter}={outcome.counters[counter]}" for counter in asdict(_ANYTHING))
    passed = len(outcome.planned) - len(outcome.failed) - len(outcome.alike) - len(outcome.moved)
    verdict = "FAILED" if findings else "ok"
    print(
        f"{name}: {passed}/{len(outcome.planned)} passed, {outcome.seconds:.0f} s, "
        f"{counts}: {verdict}"
    )
    for test in outcome.alike:
        print(f"    {test}: fails on stock as well")
    for test, how in outcome.moved.items():
        print(f"    {test} may differ: {how}")
    for reason in outcome.skipped:
        print(f"    skipped {reason}")
    for finding in findings:
        print(f"    {finding}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
