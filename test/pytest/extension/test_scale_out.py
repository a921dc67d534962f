"""Several servers, each with the library: shards behind postgres_fdw, and a standby beside its
primary. Each counts what it did itself (docs/scale-out.md)."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from replication import standby_of, wait_for_replay
from server_log import ServerFactory, WatchedServer, forbidden_lines
from waiting import wait_until

from extension.probes import QUIET, Connection, make_shuffled, need_extension, scalar
from lookahead.extension import Stage

_ROWS = 4_000
_NODE = {
    **QUIET,
    "shared_preload_libraries": "pg_lookahead",
    "session_preload_libraries": "",
    # Of every session, those of postgres_fdw too: look-ahead in memory, and no other kind of scan.
    "pg_lookahead.test_start_after": "4",
    "pg_lookahead.enable_bulk_insert": "on",
    "enable_seqscan": "off",
}
_TOP = Path(__file__).resolve().parents[3]
# Of a scan that every server chooses.
_COLD = {"enable_seqscan": "off", "pg_lookahead.test_start_after": "4"}
_SCAN = "SELECT count(pad), sum(k) FROM spread WHERE k >= 0"


@pytest.fixture(scope="module")
def shards(server_factory: ServerFactory, test_stage: Stage) -> Iterator[list[WatchedServer]]:
    """Two servers with a table `spread` each: keys from 0, and from _ROWS."""
    with (
        server_factory(stage=test_stage, settings=_NODE) as first,
        server_factory(stage=test_stage, settings=_NODE) as second,
    ):
        for number, shard in enumerate((first, second)):
            with shard.connect() as session:
                session.execute("CREATE EXTENSION pg_lookahead")
                make_shuffled(session, "spread", _ROWS)
                session.execute(f"UPDATE spread SET k = k + {number * _ROWS}")
                session.execute("VACUUM ANALYZE spread")
        yield [first, second]


@pytest.fixture(scope="module")
def front(server_factory: ServerFactory, shards: list[WatchedServer]) -> Iterator[Connection]:
    """A session of a server without the library, whose table has both shards as partitions."""
    with server_factory(settings=QUIET) as server, server.connect() as session:
        need_extension(session, "postgres_fdw")
        session.execute("CREATE TABLE spread (k int, pad text) PARTITION BY RANGE (k)")
        for number, shard in enumerate(shards):
            place = f"host '{shard.socket_directory}', port '{shard.port}', dbname 'postgres'"
            session.execute(
                f"CREATE SERVER shard{number} FOREIGN DATA WRAPPER postgres_fdw "
                f"OPTIONS ({place}, options '', batch_size '100')"
            )
            session.execute(f"CREATE USER MAPPING FOR postgres SERVER shard{number}")
            session.execute(
                f"CREATE FOREIGN TABLE spread{number} PARTITION OF spread "
                f"FOR VALUES FROM ({number * _ROWS}) TO ({(number + 1) * _ROWS}) "
                f"SERVER shard{number} OPTIONS (table_name 'spread')"
            )
        yield session


def _reset(server: WatchedServer) -> None:
    """Counts begin at zero, and the table is in no buffer: scans of cached pages sleep."""
    with server.connect() as session:
        session.execute("SELECT pg_lookahead_evict('spread'), pg_lookahead_stats_reset()")


def _wait_until_counted(server: WatchedServer, feature: str, column: str) -> None:
    """Sessions report between their transactions, at most once a second."""
    question = f"SELECT {column} FROM pg_stat_lookahead WHERE feature = '{feature}'"
    with server.connect() as watcher:
        assert scalar(watcher, "SELECT scope FROM pg_stat_lookahead") == "cluster"
        wait_until(lambda: scalar(watcher, question) > 0, f"{column} of {feature} are counted")


@pytest.mark.parametrize(("scan", "bitmaps"), [("index_scan", "off"), ("bitmap_scan", "on")])
def test_each_shard_looks_ahead(
    shards: list[WatchedServer], front: Connection, scan: str, bitmaps: str
) -> None:
    """postgres_fdw reads by a cursor: an index scan advises leaf by leaf, a bitmap scan in full."""
    for number, shard in enumerate(shards):
        _reset(shard)
        options = f"-c enable_indexscan={'off' if bitmaps == 'on' else 'on'}"
        front.execute(
            f"ALTER SERVER shard{number} OPTIONS "
            f"(SET options '{options} -c enable_bitmapscan={bitmaps}')"
        )
    total = 2 * _ROWS
    assert front.execute(_SCAN).fetchone() == (total, total * (total - 1) // 2)
    for shard in shards:
        _wait_until_counted(shard, scan, "scans")


def test_each_shard_inserts_in_batches(shards: list[WatchedServer], front: Connection) -> None:
    for shard in shards:
        _reset(shard)
    with front.transaction(force_rollback=True):
        front.execute(
            f"INSERT INTO spread SELECT k, 'x' FROM generate_series(0, {2 * _ROWS - 1}) k"
        )
        assert scalar(front, "SELECT count(*) FROM spread WHERE pad = 'x'") == 2 * _ROWS
    for shard in shards:
        _wait_until_counted(shard, "bulk_insert", "batched_rows")


def test_a_standby_counts_for_itself(
    server_factory: ServerFactory, shards: list[WatchedServer], test_stage: Stage
) -> None:
    primary = shards[0]
    with (
        standby_of(primary, server_factory, _NODE, test_stage) as standby,
        primary.connect() as source,
        standby.connect() as copy,
    ):
        wait_for_replay(source, copy)
        _reset(primary)
        copy.execute("SET enable_bitmapscan = off")
        assert scalar(copy, "SELECT count(pad) FROM spread WHERE k >= 0") == _ROWS
        _wait_until_counted(standby, "index_scan", "prefetched_blocks")
        question = "SELECT nodes FROM pg_stat_lookahead WHERE feature = 'index_scan'"
        assert scalar(source, question) == 0


def _run_script(
    name: str, *arguments: str, server: WatchedServer, stage: Stage, place: Path
) -> list[str]:
    """The lines that a script of docs prints of servers that it makes below `place`, with a library
    that is not installed."""
    place.mkdir()
    os.chown(place, server.account.uid, server.account.gid)
    # The account may have no way into the checkout.
    script = shutil.copy(_TOP / "docs" / name, place)
    # Where the server has it: it may run from copies.
    with server.connect() as session:
        staged = {
            name: scalar(session, f"SHOW {name}")
            for name in stage.settings()
            if name != "session_preload_libraries"
        }
    settings = [f"{name} = '{value}'" for name, value in {**staged, **_COLD}.items()]
    done = server.account.run(
        [script, *arguments, place / "nodes", *settings],
        env={"PATH": f"{server.bindir}:{os.defpath}"},
        timeout_seconds=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("kind", "names"), [("standby", ("primary", "standby")), ("shards", ("shard1", "shard2"))]
)
def test_the_script_of_the_document(
    kind: str,
    names: tuple[str, str],
    front: Connection,
    shards: list[WatchedServer],
    test_stage: Stage,
    disk: Path,
) -> None:
    """As docs/scale-out.md has it."""
    lines = _run_script(
        "two-nodes.sh", kind, server=shards[0], stage=test_stage, place=disk / "scripted"
    )
    assert [line.split(":")[0] for line in lines] == list(names)
    assert all(re.search(r"has read ahead [1-9]\d{2,} pages$", line) for line in lines), lines


def test_the_script_for_citus(shards: list[WatchedServer], test_stage: Stage, disk: Path) -> None:
    """Workers read ahead, build and insert as any server does, and nobody fails or complains."""
    server = shards[0]
    with server.connect() as session:
        found = "SELECT count(*) FROM pg_available_extensions WHERE name = 'citus'"
        if not scalar(session, found):
            pytest.skip("this server comes without Citus")
    place = disk / "scripted"
    lines = _run_script("citus-nodes.sh", server=server, stage=test_stage, place=place)
    for worker in ("worker1", "worker2"):
        done = "\n".join(line for line in lines if line.startswith(f"{worker}:"))
        assert re.search(r"_scan has read ahead [1-9]\d{2,} pages$", done, re.MULTILINE), lines
        assert re.search(r"bulk_insert has inserted [1-9]\d{4} rows", done), lines
        assert re.search(r"index_build has built [2-9] indexes$", done, re.MULTILINE), lines
    for log in (place / "nodes").glob("*.log"):
        text = log.read_text()
        assert not forbidden_lines(text) and "ERROR:" not in text, text
