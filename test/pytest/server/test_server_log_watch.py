"""The watch over the servers' logs sees what it is there for."""

import os
import signal

import psycopg
import pytest
from server_log import LogWatch, WatchedServer, forbidden_lines
from waiting import wait_until

from lookahead.installation import Installation


@pytest.mark.parametrize(
    "line",
    [
        "LOG:  client backend (PID 7) was terminated by signal 11: Segmentation fault",
        'TRAP: failed Assert("x"), File: "bufmgr.c", Line: 1, PID: 7',
        "PANIC:  could not write",
        "WARNING:  resource was not closed: [005] (rel=base/5/16384, blockNum=0)",
        "WARNING:  buffer refcount leak: [005]",
        "WARNING:  local buffer refcount leak: [005]",
        "WARNING:  leaked AIO handle",
    ],
)
def test_bugs_are_seen(line: str) -> None:
    log = f"2026-01-01 LOG:  starting\n2026-01-01 {line}\n2026-01-01 LOG:  ready\n"
    assert forbidden_lines(log) == [f"2026-01-01 {line}"]


def test_ordinary_lines_and_expected_ones_pass() -> None:
    log = "LOG:  ready\nERROR:  division by zero\nLOG:  x was terminated by signal 9"
    assert forbidden_lines(log, ["terminated by signal 9"]) == []
    assert len(forbidden_lines(log)) == 1


def test_a_killed_backend_is_found_also_when_the_server_is_gone(
    installation: Installation,
) -> None:
    watch = LogWatch()
    with WatchedServer(watch, installation) as server:
        server.start()
        assert watch.findings() == []
        with pytest.raises(psycopg.OperationalError), server.connect() as connection:
            os.kill(connection.info.backend_pid, signal.SIGKILL)
            connection.execute("select 1")
        # A shutdown that is asked for while the server begins anew may be lost.
        wait_until(
            lambda: server.read_log().count("ready to accept connections") == 2,
            "the server has begun anew",
        )
    found = watch.findings()
    assert len(found) == 1
    assert "was terminated by signal 9" in found[0]
    assert watch.findings() == []
