"""Runs one of core's suites with the driver programs of an installed server."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from pg_regress import Verdicts, find_driver, pg_config, run_driver

from lookahead.account import Account
from lookahead.errors import LabError, last_lines
from lookahead.installation import Installation
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
        libraries = server_libraries(server, source)
        arguments.append(f"--dlpath={libraries}")
    verdicts = run_driver(
        server, server.account, driver, arguments, timeout_seconds=_TIMEOUT_SECONDS
    )
    return SuiteRun(verdicts, output)


def make_folder(server: PrivateServer, name: str) -> Path:
    """A new folder below the server's own, writable by the server's account."""
    folder = server.work_directory / name
    server.run_client("/bin/mkdir", "-p", folder)
    return folder


def _schedule(source: Path, suite: str) -> Path:
    return source / "src/test" / suite / _SCHEDULES[suite]


def compile_libraries(
    account: Account, folder: Path, installation: Installation, source: Path
) -> None:
    """Compile what core's tests load into a folder of the account, if that is empty.

    An installed server lacks part of it.
    """
    include = pg_config(installation, "--includedir-server")
    compiler = shutil.which("gcc") or "cc"
    flags = ("-O1", "-w", "-fPIC", "-shared", "-fno-strict-aliasing", "-fwrapv")
    for file in _LOADED:
        library = folder / Path(file).with_suffix(".so").name
        if library.exists():
            continue
        command: list[str | Path] = [compiler, *flags, f"-I{include}", source / file, "-o", library]
        done = account.run(command)
        if done.returncode != 0:
            raise LabError(f"{file} does not compile:\n{last_lines(done.stderr)}")


def server_libraries(server: PrivateServer, source: Path) -> Path:
    """The folder of a server with what core's tests load."""
    folder = make_folder(server, "libraries")
    compile_libraries(server.account, folder, server.installation, source)
    return folder
