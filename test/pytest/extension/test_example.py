"""docs/example.sql, whose output stands on top of README."""

import os
import re
import shutil
from pathlib import Path

from server_log import ServerFactory, WatchedServer

from extension.probes import scalar
from lookahead.extension import Stage

_TOP = Path(__file__).resolve().parents[3]
_QUERY = "SELECT * FROM orders WHERE customer BETWEEN 100 AND 999 ORDER BY customer LIMIT 5000;"


def _run_script(server: WatchedServer, place: Path) -> list[str]:
    """What the script prints, in two parts: without and with look-ahead."""
    # The account may have no way into the checkout.
    script = Path(shutil.copy(_TOP / "docs" / "example.sql", place))
    address = f"host={server.socket_directory} port={server.port} user=postgres dbname=postgres"
    done = server.account.run(
        [server.bindir / "psql", "-X", "-d", address, "-v", "customers=5000", "-f", script],
        env={"PATH": os.defpath},
        timeout_seconds=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("With pg_lookahead.enabled = on:")


def test_the_script(server_factory: ServerFactory, test_stage: Stage, disk: Path) -> None:
    """As README has it: the same plan without and with look-ahead, and nothing stays behind."""
    assert f"EXPLAIN (ANALYZE, LOOKAHEAD) {_QUERY}" in (_TOP / "README.md").read_text()
    settings = {"session_preload_libraries": ""}
    with server_factory(stage=test_stage, settings=settings, directory=disk / "server") as server:
        without, with_it = _run_script(server, disk)
        with server.connect() as session:
            left = "SELECT count(*) FROM pg_namespace WHERE nspname = 'lookahead_example'"
            assert scalar(session, left) == 0
    for part in (without, with_it):
        assert "Index Scan using orders_customer on orders" in part
    assert "Lookahead: stock (disabled)" in without
    read = re.findall(r"rows=5000.00 loops=1\)\n +Buffers: shared .*read=(\d+)", without + with_it)
    assert len(set(read)) == 1 and int(read[0]) > 3_000, read
    prefetched = re.search(r"Lookahead: scans=1 prefetched=(\d+) ", with_it)
    assert prefetched is not None and int(prefetched[1]) > 4_900, with_it
