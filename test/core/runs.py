"""One run: a suite in a mode on a server of its own, judged."""

import shutil
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from comparison import differing_tests
from evidence import missing_streams, sum_counters
from modes import Mode, forced_settings, server_settings
from server_log import forbidden_lines
from suites import SuiteRun, make_folder, planned_tests, run_suite

from lookahead.extension import Stage
from lookahead.installation import Installation
from lookahead.server import PrivateServer

_COUNTERS = "counters"


@dataclass(frozen=True)
class Target:
    """A built server, the source tree of its suites, and the library to force."""

    build: str
    installation: Installation
    source: Path
    stage: Stage


@dataclass(frozen=True)
class Report:
    """One line of the final table; no `findings` = passed. `seconds` is elapsed time."""

    name: str
    passed: int
    planned: int
    counters: Counter[str]
    seconds: float
    findings: tuple[str, ...]


@dataclass(frozen=True)
class _Side:
    """What one server's run of the suite left behind."""

    run: SuiteRun
    counters: Counter[str]
    log: str


def run_mode(target: Target, mode: Mode, suite: str, seed: int, kept: Path) -> Report:
    """Run `suite` and judge it; what a failed run wrote stays below `kept`.

    Raises LabError when a server does not start or the suite cannot be run at all.
    """
    started = time.monotonic()
    name = f"{target.build} {mode.name} {suite}"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    planned = planned_tests(target.source, suite)
    if mode.paired:
        _run_side(target, mode, suite, None, kept / "stock")
    # Each run draws its own settings; the same seed draws the same again.
    side = _run_side(target, mode, suite, Random(f"{seed} {name}"), kept / "forced")
    differences = dict.fromkeys(side.run.missing(planned), "no verdict")
    if mode.paired:
        differences |= differing_tests(kept / "stock/results", kept / "forced/results")
    else:
        differences |= dict.fromkeys(side.run.verdicts.failed, "differs from the expected file")
    for test in mode.moved:
        differences.pop(test, None)
    findings = [f"{test}: {reason}" for test, reason in sorted(differences.items())]
    findings += missing_streams(side.counters, mode.floors[suite])
    findings += forbidden_lines(side.log)
    if not findings:
        shutil.rmtree(kept)
    return Report(
        name=name,
        passed=len(planned - differences.keys()),
        planned=len(planned),
        counters=side.counters,
        seconds=time.monotonic() - started,
        findings=tuple(findings),
    )


def _run_side(target: Target, mode: Mode, suite: str, random: Random | None, kept: Path) -> _Side:
    """Run the suite on a new server, with forced look-ahead, or on stock without `random`."""
    stage = target.stage if random else None
    with PrivateServer(target.installation, stage=stage, settings=server_settings()) as server:
        server.initdb()
        counter_file = make_folder(server, "evidence") / _COUNTERS
        forced = forced_settings(random, str(counter_file), suite) if random else {}
        forced |= mode.forced if random else {}
        server.start({**mode.settings, **forced})
        run = run_suite(server, target.source, suite)
        server.stop()
        counters = sum_counters(counter_file)
        shutil.copytree(run.output, kept, symlinks=True)
        (kept / "server.log").write_text(server.read_log())
        (kept / "settings.txt").write_text(_lines({**mode.settings, **forced}))
        (kept / "driver.txt").write_text(run.verdicts.messages)
        return _Side(run, counters, server.read_log())


def _lines(settings: Mapping[str, str]) -> str:
    return "".join(f"{name} = '{value}'\n" for name, value in settings.items())
