"""The whole life of a server as an ordinary user, also when the tests run as root."""

import os
import sys
from pathlib import Path

import pytest

from lookahead.account import find_account
from lookahead.cold import memory_file_system
from lookahead.installation import Installation

_LIFE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from crashing_server import CrashingServer
from lookahead.installation import find_installation

with CrashingServer(find_installation(Path(sys.argv[1]))) as server:
    server.start()
    with server.connect() as connection:
        connection.execute("create table t as select generate_series(1, 1000) as n")
    evidence = server.cold_restart()
    server.crash()
    server.start()
    with server.connect() as connection:
        count = connection.execute("select count(*) from t").fetchone()
    print(server.account.name, evidence.method, *count, server.directory.exists())
print(server.directory.exists())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="all tests run as an ordinary user already")
def test_an_ordinary_user_has_a_server_too(
    installation: Installation, reachable_path: Path
) -> None:
    account = find_account()
    tests = Path(__file__).parents[1]
    for needed in (Path(sys.executable), installation.bindir, tests, tests.parents[1] / "lab"):
        if not account.can_read(needed):
            pytest.skip(f'user "{account.name}" cannot reach {needed}')
    if memory_file_system(reachable_path):
        pytest.skip("the temporary directory is in memory: it cannot be cold")
    home = reachable_path / "home"
    home.mkdir()
    os.chown(home, account.uid, account.gid)
    env = {"PATH": os.defpath, "HOME": str(home), "TMPDIR": str(home)}
    command = [sys.executable, "-c", _LIFE, str(installation.pg_config), str(tests)]
    done = account.run(command, cwd=home, env=env, timeout_seconds=120)
    assert done.returncode == 0, done.stderr
    user, method, count, existed, exists = done.stdout.split()
    assert (user, method, count) == (account.name, "dontneed", "1000")
    assert (existed, exists) == ("True", "False")
    assert not list(home.glob("lookahead-*"))
