"""With direct I/O there is no cache of the kernel to read ahead into: scans are PostgreSQL's."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_log import ServerFactory, WatchedServer

from extension.probes import AWAKE, QUIET, explain, lookahead, make_shuffled
from lookahead.extension import Stage

_SCANS = {
    "index": ("enable_indexscan", "SELECT count(pad) FROM d WHERE k >= 0"),
    "index only": ("enable_indexonlyscan", "SELECT count(k) FROM d WHERE k >= 0"),
    "bitmap": ("enable_bitmapscan", "SELECT count(pad) FROM d WHERE k >= 0"),
    "sequential": ("enable_seqscan", "SELECT count(pad) FROM d"),
}


@pytest.fixture(scope="module")
def direct(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    """A server with direct I/O; skips where the file system has none."""
    probe = Path(tempfile.gettempdir()) / "direct_io_probe"
    try:
        os.close(os.open(probe, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600))
    except OSError:
        pytest.skip("this file system has no direct I/O")
    finally:
        probe.unlink(missing_ok=True)
    settings = {**QUIET, "debug_io_direct": "data"}
    with server_factory(stage=test_stage, settings=settings) as started:
        with started.connect() as session:
            make_shuffled(session, "d", 2_000)
        yield started


@pytest.mark.parametrize("scan", _SCANS)
def test_scans_are_left_to_core(direct: WatchedServer, scan: str) -> None:
    setting, sql = _SCANS[scan]
    with direct.connect() as session:
        session.execute(AWAKE)
        for other, _ in _SCANS.values():
            session.execute(f"SET {other} = off")
        session.execute(f"SET {setting} = on; SET max_parallel_workers_per_gather = 0")
        if scan == "index only":
            session.execute("SET enable_indexscan = on")
        (group,) = lookahead(explain(session, sql))
        assert (group["Status"], group["Reason"]) == ("stock", "direct I/O")
