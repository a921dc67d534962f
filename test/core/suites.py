"""Runs one of core's suites with the driver programs of an installed server."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from pg_regress import Verdicts, find_driver, pg_config, run_driver

from lookahead.errors import LabError
from lookahead.server import PrivateServer

_SCHEDULES = {"regress": "parallel_schedule", "isolation": "isolation_schedule"}
# C functions that core's regression tests load, by their file in the source tree.
_LOADED = (
    "src/test/regress/regress.c",
    "contrib/spi/autoinc.c",
    "contrib/spi/refint.c",
)
_TIMEOUT_SECONDS = 1800.0  # arbitrary; a run takes one or two minutes


@dataclass(frozen=True)
class SuiteRun:
    """The driver's verdicts and the folder it wrote to."""

    verdicts: Verdicts
    output: Path

    def missing(self, planned: frozenset[str]) -> frozenset[str]:
        """Tests of the schedule without a verdict."""
        return planned - self.verdicts.passed - self.verdicts.failed


def planned_tests(source: Path, suite: str) -> frozenset[str]:
    """The tests that the suite's schedule names."""
    names: set[str] = set()
    for line in _schedule(source, suite).read_text().splitlines():
        if line.startswith("test:"):
            names.update(line.removeprefix("test:").split())
    return frozenset(names)


def run_suite(server: PrivateServer, source: Path, suite: str) -> SuiteRun:
    """Run `suite` of the source tree against the running server; LabError when it cannot start.

    The server's account runs it: the server itself writes into the output folder.
    """
    driver = find_driver(server.installation, suite)
    if driver is None:
        raise LabError(
            f"this PostgreSQL has no driver program for the {suite} suite",
            "Use a server made by tools/build-postgres.",
        )
    output = make_folder(server, suite)
    arguments = [
        f"--inputdir={source / 'src/test' / suite}",
        f"--outputdir={output}",
        f"--schedule={_schedule(source, suite)}",
        "--max-concurrent-tests=20",
    ]
    if suite == "regress":
        arguments.append(f"--dlpath={_loaded_libraries(server, source)}")
    verdicts = run_driver(
        server, server.account, driver, arguments, timeout_seconds=_TIMEOUT_SECONDS
    )
    return SuiteRun(verdicts, output)


def make_folder(server: PrivateServer, name: str) -> Path:
    """A new folder inside the server's own, writable by the server's account."""
    folder = server.directory / name
    server.run_client("/bin/mkdir", "-p", folder)
    return folder


def _schedule(source: Path, suite: str) -> Path:
    return source / "src/test" / suite / _SCHEDULES[suite]


def _loaded_libraries(server: PrivateServer, source: Path) -> Path:
    """Compile what the regression tests load: an installed server lacks part of it."""
    folder = make_folder(server, "libraries")
    include = pg_config(server.installation, "--includedir-server")
    compiler = shutil.which("gcc") or "cc"
    flags = ("-O1", "-w", "-fPIC", "-shared", "-fno-strict-aliasing", "-fwrapv")
    for file in _LOADED:
        library = folder / Path(file).with_suffix(".so").name
        server.run_client(compiler, *flags, f"-I{include}", source / file, "-o", library)
    return folder
