"""Runs the tests of contrib modules, of PL/pgSQL and of other extensions, everything forced.

All modules share one server, as in `make installcheck`, except those that ask for settings of
their own. A test whose result differs from the shipped file is run on stock, too: where stock's
result is the same byte for byte, the difference is not ours, and the report names it.
"""

import shutil
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from comparison import differing_tests
from evidence import sum_counters
from modes import Mode, forced_settings, server_settings
from modules import Module, find_modules
from neighbours import find_neighbours
from pg_regress import find_driver, run_driver
from runs import Target
from server_log import forbidden_lines
from suites import make_folder, server_libraries

from lookahead.errors import LabError
from lookahead.extension import LIBRARY, Stage
from lookahead.server import PrivateServer

_TIMEOUT_SECONDS = 900.0  # of one module; arbitrary, the longest takes half a minute
# Tests that may differ in any mode, with how. What is decoded of inserts in batches,
# bulk_insert/test_logical_decoding.py compares.
_MOVED = {"test_decoding/stream": "a streamed transaction is cut by the rows of each record"}


@dataclass
class Outcome:
    """What the tests of some modules, or some TAP tests, left behind.

    `alike` are tests that stock fails in the same way, `moved` those whose results may differ, and
    do, with how; `skipped` says what could not run, and why.
    """

    planned: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    alike: list[str] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


def run_modules(target: Target, suite: str, mode: Mode, seed: int, kept: Path) -> Outcome:
    """Run "contrib", "plpgsql" or "neighbours"; what failing tests wrote stays below `kept`."""
    started = time.monotonic()
    outcome = Outcome()
    with TemporaryDirectory(prefix="lookahead-neighbours-") as folder:
        if suite == "neighbours":
            Path(folder).chmod(0o755)
            modules, outcome.skipped = find_neighbours(target, Path(folder))
        else:
            modules, missing = find_modules(target.source, target.installation, suite)
            outcome.skipped = [f"{name}: not part of this server" for name in missing]
        _run_all(target, mode, modules, seed, outcome, kept)
    outcome.findings += [f"{name}: differs from stock's result" for name in sorted(outcome.failed)]
    outcome.seconds = time.monotonic() - started
    return outcome


def _run_all(
    target: Target, mode: Mode, modules: list[Module], seed: int, outcome: Outcome, kept: Path
) -> None:
    shared = [module for module in modules if not module.settings]
    for group in (shared, *([module] for module in modules if module.settings)):
        if group:
            random = Random(f"{seed} {group[0].name}")
            _run_forced(target, mode, group, random, outcome, kept)
    moved = {**_MOVED, **mode.moved}
    outcome.moved = {test: how for test, how in moved.items() if test in outcome.failed}
    outcome.failed -= outcome.moved.keys()
    suspects = {name.split("/")[0] for name in outcome.failed}
    for module in modules:
        if module.name in suspects:
            _run_on_stock(target, module, outcome, kept)


def _run_forced(
    target: Target,
    mode: Mode,
    group: list[Module],
    random: Random,
    outcome: Outcome,
    kept: Path,
) -> None:
    with PrivateServer(
        target.installation, stage=target.stage, settings=server_settings()
    ) as server:
        server.initdb()
        counter_file = make_folder(server, "evidence") / "counters"
        forced = {**forced_settings(random, str(counter_file)), **mode.forced}
        server.start({**_settings(group[0], server.stage), **forced})
        for module in group:
            outcome.planned |= {f"{module.name}/{test}" for test in _all_tests(module)}
            failed = _run_module(server, target, module, kept / "forced")
            outcome.failed |= {f"{module.name}/{test}" for test in failed}
        server.stop()
        outcome.counters += sum_counters(counter_file)
        outcome.findings += forbidden_lines(server.read_log())
        kept.mkdir(parents=True, exist_ok=True)
        (kept / f"{group[0].name}.log").write_text(server.read_log())


def _run_on_stock(target: Target, module: Module, outcome: Outcome, kept: Path) -> None:
    """Take those tests of the module out of `failed` that give the same result on stock."""
    with PrivateServer(target.installation, settings=server_settings()) as server:
        server.start(_settings(module, None))
        _run_module(server, target, module, kept / "stock")
    different = set()
    for driver in module.tests:
        folders = [kept / side / f"{module.name}-{driver}/results" for side in ("stock", "forced")]
        if all(folder.is_dir() for folder in folders):
            different |= {f"{module.name}/{test}" for test in differing_tests(*folders)}
    own = {name for name in outcome.failed if name.startswith(f"{module.name}/")}
    outcome.alike += sorted(own - different)
    outcome.failed -= own - different


def _settings(module: Module, stage: Stage | None) -> dict[str, str]:
    """Those of the module; a server without a stage does not load ours."""
    settings = dict(module.settings)
    ours = stage.settings() if stage else {}
    if module.built:
        libraries = ours.get("dynamic_library_path", "$libdir")
        extensions = ours.get("extension_control_path", "$system")
        settings["dynamic_library_path"] = f"{module.built}:{libraries}"
        settings["extension_control_path"] = f"{module.built / 'share'}:{extensions}"
    for name in ("shared_preload_libraries", "session_preload_libraries"):
        if stage is None and name in settings:
            others = [part for part in settings[name].split(", ") if part != LIBRARY]
            settings[name] = ", ".join(others)
    return settings


def _run_module(server: PrivateServer, target: Target, module: Module, kept: Path) -> set[str]:
    """The tests of the module without a good verdict; their files are copied below `kept`."""
    failed: set[str] = set()
    for driver_name, tests in module.tests.items():
        driver = find_driver(target.installation, driver_name)
        if driver is None:
            raise LabError(
                f"this PostgreSQL has no driver program for {driver_name} tests",
                "Use a server made by tools/build-postgres.",
            )
        if not tests:
            continue
        output = make_folder(server, f"{module.name}-{driver_name}")
        libraries = server_libraries(server, target.source)
        arguments = [
            f"--inputdir={module.folder}",
            f"--outputdir={output}",
            f"--dlpath={libraries}",
            "--dbname=contrib_regression",
            *(f"--load-extension={name}" for name in module.extensions[driver_name]),
            *tests,
        ]
        # Some tests name their data by a path relative to the module.
        verdicts = run_driver(
            server,
            server.account,
            driver,
            arguments,
            timeout_seconds=_TIMEOUT_SECONDS,
            cwd=module.folder,
        )
        bad = set(tests) - verdicts.passed
        if bad or kept.name == "stock":
            _keep(output, kept / output.name)
        failed |= bad
    return failed


def _all_tests(module: Module) -> Iterable[str]:
    return (test for tests in module.tests.values() for test in tests)


def _keep(output: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(output, folder, symlinks=True)
