"""Servers for the tests, and what holds for every test that uses one.

Options: --seed N repeats a run of random tests, --pairs N sets the length of the differential,
--indexes N the number of generated indexes, --inserts N that of tables of generated inserts,
--kills N how often a server is killed in mid-build or mid-insert, --rounds N the number of
primaries that are copied and killed in mid-build, --tables N that of tables of hostile index data,
of which --slower looks for builds slower than stock's. --sample N is in sampling.py.
PG_CONFIG in the environment names the server; else the lab's own discovery decides.
"""

import os
import random
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server_log import LogWatch, ServerFactory, WatchedServer

from lookahead.extension import Stage, find_stage
from lookahead.installation import Installation, find_installation
from lookahead.server import PrivateServer

pytest_plugins = ("sampling",)

# Options that say how long random tests are: default, of which a sample has a tenth, and what is
# counted.
_LENGTHS = {
    "--pairs": (2000, "statement pairs of the differential"),
    "--indexes": (120, "indexes that are generated and built in both arms"),
    "--inserts": (60, "tables that are generated and inserted into by all arms"),
    "--kills": (3, "how often a server is killed in the middle of a build or an insert"),
    "--rounds": (1, "primaries that are copied and killed in mid-build"),
    "--tables": (12, "tables of hostile index data"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pg_lookahead")
    group.addoption("--seed", type=int, help="seed of random tests (default: a new one, printed)")
    for name, (default, text) in _LENGTHS.items():
        group.addoption(name, type=int, help=f"{text} (default: {default})")
    group.addoption(
        "--slower",
        action="store_true",
        help="hostile index data: larger tables, and report builds that are slower than stock's",
    )


def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts the tests in the background has them ignore Ctrl-C, and so would every
    # program that they start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.seed is None:
        given = os.environ.get("LOOKAHEAD_SEED")
        config.option.seed = int(given) if given else random.SystemRandom().randrange(2**31)
    for name, (default, _) in _LENGTHS.items():
        option = name.removeprefix("--")
        if getattr(config.option, option) is None:
            length = default if config.option.sample is None else max(1, default // 10)
            setattr(config.option, option, length)


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.option.seed} (repeat with --seed {config.option.seed})"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    # The header is not shown by `-q`; whoever reads a failure needs the seed.
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line(f"repeat random tests with --seed {config.option.seed}")


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run, for `random.Random(seed)`."""
    return int(request.config.option.seed)


@pytest.fixture(scope="session")
def pairs(request: pytest.FixtureRequest) -> int:
    """How many statement pairs the differential runs."""
    return int(request.config.option.pairs)


@pytest.fixture(scope="session")
def indexes(request: pytest.FixtureRequest) -> int:
    """How many indexes are generated and built in both arms."""
    return int(request.config.option.indexes)


@pytest.fixture(scope="session")
def inserts(request: pytest.FixtureRequest) -> int:
    """How many tables are generated and inserted into by all arms."""
    return int(request.config.option.inserts)


@pytest.fixture(scope="session")
def kills(request: pytest.FixtureRequest) -> int:
    """How often a server is killed in the middle of a build."""
    return int(request.config.option.kills)


@pytest.fixture(scope="session")
def rounds(request: pytest.FixtureRequest) -> int:
    """How many primaries are copied and killed in mid-build."""
    return int(request.config.option.rounds)


@pytest.fixture(scope="session")
def installation() -> Installation:
    """The PostgreSQL under test."""
    named = os.environ.get("PG_CONFIG")
    return find_installation(Path(named) if named else None)


@pytest.fixture(scope="session")
def stage(installation: Installation) -> Stage:
    """The released library, built for the installation."""
    return find_stage(installation)


@pytest.fixture(scope="session")
def test_stage(installation: Installation) -> Stage:
    """The library with the test settings."""
    return find_stage(installation, test=True)


@pytest.fixture(scope="session")
def log_watch() -> LogWatch:
    return LogWatch()


@pytest.fixture(scope="session")
def data_template(installation: Installation) -> Iterator[PrivateServer]:
    """A server that is initialised and never started; others copy its data directory.

    Tests kill servers, and cut no power: what the kernel has got is not lost.
    """
    with PrivateServer(installation) as server:
        server.initdb()
        # First, so that the settings of a server, which are included behind, can say otherwise.
        path = server.data_directory / "postgresql.conf"
        path.write_text(f"fsync = off\n{path.read_text()}")
        yield server


@pytest.fixture(scope="session")
def server_factory(
    installation: Installation, log_watch: LogWatch, data_template: PrivateServer
) -> Iterator[ServerFactory]:
    """Makes started servers: `server_factory(stage=..., settings=..., start=True, ...)`.

    The options are those of `PrivateServer`. A server is closed by the test (`with`) or fixture
    that made it, at the latest when the session ends.
    """
    servers: list[WatchedServer] = []

    def make(*, start: bool = True, **options: Any) -> WatchedServer:
        chosen = options.pop("installation", installation)
        server = WatchedServer(log_watch, chosen, template=data_template, **options)
        servers.append(server)
        if start:
            try:
                server.start()
            except BaseException:
                server.close("immediate")
                raise
        return server

    yield make
    for server in servers:
        server.close()
    _fail_on(log_watch.findings())


@pytest.fixture(autouse=True)
def _clean_server_logs(request: pytest.FixtureRequest, log_watch: LogWatch) -> Iterator[None]:
    """Fail the test during which a server crashed, failed an assertion or leaked."""
    yield
    if "server_factory" in request.fixturenames:
        marks = request.node.iter_markers("expects_in_log")
        _fail_on(log_watch.findings([text for mark in marks for text in mark.args]))


def _fail_on(findings: list[str]) -> None:
    if findings:
        pytest.fail("the server's log shows:\n" + "\n".join(findings[:20]), pytrace=False)


@pytest.fixture
def disk() -> Iterator[Path]:
    """Where servers are made: a folder on a real disk, reachable for the server's account."""
    with tempfile.TemporaryDirectory(prefix="lookahead-test-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)
