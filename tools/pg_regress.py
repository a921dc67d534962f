"""Runs pg_regress or pg_isolation_regress of an installed server and reads their verdicts."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lookahead.account import Account
from lookahead.errors import LabError
from lookahead.installation import Installation
from lookahead.server import PrivateServer
from lookahead.server_folder import neutral_environment

_DRIVERS = {
    "regress": "src/test/regress/pg_regress",
    "isolation": "src/test/isolation/pg_isolation_regress",
}
_VERDICT = re.compile(r"^(not ok|ok)\s+\d+\s+[-+]\s+(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Verdicts:
    """What the driver said of each test, and all that it printed."""

    passed: frozenset[str]
    failed: frozenset[str]
    messages: str


def find_driver(installation: Installation, suite: str) -> Path | None:
    """The driver program of the suite "regress" or "isolation"; None where it is not installed."""
    pgxs = Path(pg_config(installation, "--pgxs"))  # .../pgxs/src/makefiles/pgxs.mk
    driver = pgxs.parents[2] / _DRIVERS[suite]
    return driver if driver.is_file() else None


def pg_config(installation: Installation, option: str) -> str:
    """What pg_config answers to one option."""
    command = [str(installation.pg_config), option]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def run_driver(
    server: PrivateServer,
    account: Account,
    driver: Path,
    arguments: Sequence[str],
    *,
    timeout_seconds: float,
    cwd: Path = Path("/"),
) -> Verdicts:
    """Run the driver against the running server, under `account` and in the folder `cwd`.

    Raises LabError when it ran no test or did not end in time.
    """
    command = [str(driver), f"--bindir={server.installation.bindir}", *arguments]
    environment = {**neutral_environment(str(server.directory)), **server.environment()}
    try:
        done = account.run(command, cwd=cwd, env=environment, timeout_seconds=timeout_seconds)
    except subprocess.TimeoutExpired:
        raise LabError(f"{driver.name} did not end within {timeout_seconds:g} s") from None
    verdicts = _VERDICT.findall(done.stdout)
    if not verdicts:
        raise LabError(f"{driver.name} ran no test:\n{done.stdout}{done.stderr}")
    return Verdicts(
        passed=frozenset(name for verdict, name in verdicts if verdict == "ok"),
        failed=frozenset(name for verdict, name in verdicts if verdict != "ok"),
        messages=done.stdout + done.stderr,
    )
