"""Runs TAP tests of PostgreSQL with every look-ahead forced.

A TAP test starts servers of its own, which a file of settings makes load the library. Each test
file runs by itself, in a folder of its own, so that its verdict, its servers' logs and the counters
of its backends belong to it. A test file that fails, or whose servers complain, is run on stock,
too: what stock shows as well is not ours, and the report names it.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

from evidence import sum_counters
from modes import Mode, forced_settings
from module_runs import Outcome
from pg_regress import find_driver, pg_config
from runs import Target
from server_log import forbidden_lines
from suites import compile_libraries

from lookahead.account import Account, find_account
from lookahead.errors import LabError, last_lines
from lookahead.server_folder import neutral_environment

_TIMEOUT_SECONDS = 1800.0  # of one file; arbitrary, the longest runs core's whole suite
# What core's tests wait for a condition, by default 180: two files run at once, and others beside.
_WAIT_SECONDS = 900
_SKIPPED = re.compile(r"\bskipped: (.*)$", re.MULTILINE)
# What differs between the same line of two logs.
_PREFIX = re.compile(r"^.*?(?=[A-Z]+:  )")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class _Result:
    """How one test file ended."""

    status: int
    skipped: str
    output: str
    log: list[str]
    counters: Counter[str]


class TapRunner:
    """Runs test files in folders below one of its own, as the account of servers."""

    def __init__(self, target: Target, folder: Path, mode: Mode, extra: Mapping[str, str]) -> None:
        """`extra` are settings beside the forced ones."""
        self._target = target
        self._folder = folder
        self.mode = mode
        self._extra = dict(extra)
        self._account = find_account()
        prove = shutil.which("prove")
        driver = find_driver(target.installation, "regress")
        if prove is None or driver is None:
            raise LabError(
                "TAP tests cannot run: Perl's prove or pg_regress is missing",
                "Install perl and libipc-run-perl, and use a server made by tools/build-postgres.",
            )
        self._prove = prove
        _give(self._account, folder)
        libraries = folder / "libraries"
        libraries.mkdir()
        _give(self._account, libraries)
        compile_libraries(self._account, libraries, target.installation, target.source)
        shutil.copy(target.stage.library_directory / "pg_lookahead.so", libraries)
        (libraries / "pg_lookahead.so").chmod(0o755)
        self._environment = {
            **neutral_environment(str(folder)),
            "PATH": f"{target.installation.bindir}:{os.environ['PATH']}",
            "PG_TEST_TIMEOUT_DEFAULT": str(_WAIT_SECONDS),
            "PERL5LIB": str(target.source / "src/test/perl"),
            "PG_REGRESS": str(driver),
            "REGRESS_SHLIB": str(libraries / "regress.so"),
            "GZIP_PROGRAM": "gzip",
            "TAR": "tar",
            "share_contrib_dir": str(target.installation.sharedir / "extension"),
            **_configured(pg_config(target.installation, "--configure")),
        }
        self._libraries = libraries

    def run(self, test: Path, random: Random | None) -> _Result:
        """Run one file, forced with settings drawn from `random`, or on stock without it."""
        folder = Path(tempfile.mkdtemp(prefix=f"{test.stem[:3]}-", dir=self._folder))
        environment = {
            **self._environment,
            "TESTDATADIR": str(folder / "data"),
            "TESTLOGDIR": str(folder / "log"),
        }
        for name in ("data", "log"):
            (folder / name).mkdir()
        if random:
            (folder / "counters").touch()
            environment["TEMP_CONFIG"] = str(folder / "settings.conf")
            (folder / "settings.conf").write_text(self._settings(random, folder / "counters"))
        for path in (folder, *folder.iterdir()):
            _give(self._account, path)
        try:
            done = self._account.run(
                [self._prove, test],
                cwd=test.parents[1],
                env=environment,
                timeout_seconds=_TIMEOUT_SECONDS,
            )
            result = _result(test, done.returncode, done.stdout + done.stderr, folder)
        except subprocess.TimeoutExpired:
            result = _result(test, 124, f"no end within {_TIMEOUT_SECONDS:g} s\n", folder)
        shutil.rmtree(folder, ignore_errors=True)
        return result

    def _settings(self, random: Random, counter_file: Path) -> str:
        settings = {
            "session_preload_libraries": "pg_lookahead",
            "dynamic_library_path": f"{self._libraries}:$libdir",
            **forced_settings(random, str(counter_file)),
            **self.mode.forced,
            **self._extra,
        }
        return "".join(f"{name} = '{value}'\n" for name, value in settings.items())


def _result(test: Path, status: int, output: str, folder: Path) -> _Result:
    """What a test left in its folder; of a failure the ends of all logs, too."""
    texts = {
        path.name: path.read_text(errors="backslashreplace")
        for path in sorted((folder / "log").glob("*.log"))
    }
    if status:
        output += "".join(f"--- {name}:\n{last_lines(text, 40)}\n" for name, text in texts.items())
    return _Result(
        status=status,
        skipped=next(iter(_SKIPPED.findall(output)), ""),
        output=output,
        log=[line for text in texts.values() for line in forbidden_lines(text)],
        counters=sum_counters(folder / "counters"),
    )


def run_tap(
    target: Target,
    tests: Iterable[Path],
    mode: Mode,
    extra: Mapping[str, str],
    seed: int,
    kept: Path,
) -> Outcome:
    """Run the test files, as many at once as there are processors; failures stay below `kept`."""
    started = time.monotonic()
    outcome = Outcome()
    folder = Path(tempfile.mkdtemp(prefix="tap-", dir="/tmp"))
    try:
        runner = TapRunner(target, folder, mode, extra)
        chosen = {f"{path.parents[1].name}/{path.stem}": path for path in tests}
        outcome.planned = set(chosen)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            runs = {
                name: pool.submit(runner.run, path, Random(f"{seed} {name}"))
                for name, path in chosen.items()
            }
        for name, run in runs.items():
            _judge(name, run.result(), runner, chosen[name], outcome, kept)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    outcome.seconds = time.monotonic() - started
    return outcome


def _judge(
    name: str, result: _Result, runner: TapRunner, test: Path, outcome: Outcome, kept: Path
) -> None:
    outcome.counters += result.counters
    if result.skipped:
        outcome.skipped.append(f"{name}: {result.skipped}")
    if not result.status and not result.log:
        return
    file = kept / f"{name}.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(result.output)
    stock = runner.run(test, None)
    if result.status and stock.status:
        outcome.alike.append(name)
    elif result.status and name in runner.mode.moved:
        outcome.moved[name] = runner.mode.moved[name]
    elif result.status:
        outcome.failed.add(name)
        outcome.findings.append(f"{name}: fails, and passes on stock; see {file}")
    # Some tests kill processes on purpose, and stock has leaks of its own.
    known = {_comparable(line) for line in stock.log}
    outcome.findings += [f"{name}: {line}" for line in result.log if _comparable(line) not in known]


def _comparable(line: str) -> str:
    return _NUMBER.sub("N", _PREFIX.sub("", line))


def _configured(configure: str) -> dict[str, str]:
    """The variables by which a configured tree tells its tests what the server has."""
    has = {
        "enable_injection_points": "--enable-injection-points",
        "with_icu": "--with-icu",
    }
    return {name: "yes" if option in configure else "no" for name, option in has.items()}


def _give(account: Account, path: Path) -> None:
    if account.drops:
        os.chown(path, account.uid, account.gid)
