"""Processes killed at random moments of inserts: what was acknowledged is there, and nothing half.

`--kills N` sets how often in a longer run.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle
from random import Random

import psycopg
import pytest
from extension.probes import QUIET, Connection, need_extension, scalar
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from bulk_insert.arms import DEFAULT, EXTENTS, ONE_PAGE, SWITCH, Arm, Counters, choose
from lookahead.extension import Stage

_LEAST_KILLS = 8
_WRITERS = 3
_ROWS = 1500
_WITHOUT_LIBRARY = {"session_preload_libraries": ""}
_ARMS = (DEFAULT, ONE_PAGE, EXTENTS, EXTENTS.with_settings(bulk_extend_size=512))
_TABLE = (
    "CREATE TABLE {} (writer int, number int, i int, s text STORAGE EXTERNAL); "
    "CREATE INDEX {}_i ON {} (writer, number, i)"
)
# Each seventieth row is toasted.
_INSERT = (
    "INSERT INTO {} SELECT {}, {}, i, repeat('x', CASE i % 70 WHEN 0 THEN 5000 ELSE i % 90 END) "
    f"FROM generate_series(1, {_ROWS}) i"
)


@dataclass
class _Ledger:
    """The inserts that were acknowledged, of all writers; `batched` tells what ours were."""

    done: set[tuple[int, int]] = field(default_factory=set)
    batched: int = 0
    begun: int = 0


@pytest.fixture
def victim(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    settings = {**QUIET, SWITCH: "on", "max_wal_size": "4GB"}
    with server_factory(stage=test_stage, settings=settings) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            need_extension(session, "amcheck")
            session.execute(_TABLE.format("k", "k", "k"))
        yield started


def _write(server: WatchedServer, writer: int, ledger: _Ledger, seed: str) -> None:
    """Insert until the server is gone."""
    rng = Random(seed)
    try:
        with server.connect() as session:
            while True:
                choose(session, rng.choice(_ARMS))
                ledger.begun += 1
                number = ledger.begun * _WRITERS + writer
                session.execute(_INSERT.format("k", writer, number))
                ledger.done.add((writer, number))
                ledger.batched += Counters.of(session).rows > 0
    except psycopg.OperationalError:
        return


def _kill_one(server: WatchedServer) -> None:
    """Kill a process that inserts; the others end, and PostgreSQL starts itself anew."""
    with server.connect() as session:
        row = session.execute(
            "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend' LIMIT 1"
        ).fetchone()
    if row is None:
        server.crash()
        return
    os.kill(row[0], signal.SIGKILL)


def _answers(server: WatchedServer) -> bool:
    try:
        with server.connect() as session:
            return bool(scalar(session, "SELECT NOT pg_is_in_recovery()"))
    except psycopg.OperationalError:
        return False


def _check(session: Connection, ledger: _Ledger) -> None:
    groups = session.execute(
        "SELECT writer, number, count(*), sum(i), sum(length(s)) FROM k GROUP BY 1, 2"
    ).fetchall()
    assert ledger.done <= {(writer, number) for writer, number, *_ in groups}
    assert len({tuple(sums) for _, _, *sums in groups}) <= 1
    assert all(count == _ROWS for _, _, count, *_ in groups)
    assert scalar(session, "SELECT count(*) FROM verify_heapam('k', check_toast => true)") == 0
    session.execute("SELECT bt_index_check('k_i', heapallindexed => true)")


@pytest.mark.timeout(3600)
@pytest.mark.expects_in_log("was terminated by signal 9")
def test_acknowledged_rows_survive(victim: WatchedServer, seed: int, kills: int) -> None:
    rng, ledger, settings = Random(seed), _Ledger(), cycle((_WITHOUT_LIBRARY, {}))
    for kill in range(max(kills, _LEAST_KILLS)):
        threads = [
            threading.Thread(
                target=_write, args=(victim, writer, ledger, f"{seed}:{kill}:{writer}")
            )
            for writer in range(_WRITERS)
        ]
        goal = len(ledger.done) + rng.randint(0, 2 * _WRITERS)
        for thread in threads:
            thread.start()
        wait_until(lambda goal=goal: len(ledger.done) >= goal, "inserts go on")  # type: ignore[misc]
        threading.Event().wait(rng.uniform(0.0, 0.1))
        whole = rng.random() < 0.5
        if whole:
            victim.crash()
        else:
            _kill_one(victim)
        for thread in threads:
            thread.join()
        if victim.is_running:
            wait_until(lambda: _answers(victim), "PostgreSQL has started itself anew")
        else:
            victim.start(next(settings))
        with victim.connect() as session:
            _check(session, ledger)
            if rng.random() < 0.3:
                session.execute("VACUUM k")
        victim.restart({})
    assert ledger.batched > 0
    victim.stop()
    checked = victim.run_client("pg_checksums", "--check", "-D", victim.data_directory)
    assert "Bad checksums:  0" in str(checked.stdout)


@pytest.mark.parametrize("wal_level", ["minimal", "replica", "logical"])
@pytest.mark.parametrize("arm", [DEFAULT, EXTENTS], ids=lambda arm: arm.name)
def test_new_table_survives(victim: WatchedServer, wal_level: str, arm: Arm) -> None:
    """Made, or emptied, in the transaction of the insert, with no more than WAL or its file."""
    victim.restart({"wal_level": wal_level, "max_wal_senders": "0"})
    with victim.connect() as session:
        choose(session, arm)
        for name in ("made", "emptied"):
            session.execute(_TABLE.format(name, name, name) if name == "emptied" else "SELECT 1")
            with session.transaction():
                making = "TRUNCATE emptied" if name == "emptied" else _TABLE.replace("{}", name)
                session.execute(making)
                for number in range(5):
                    session.execute(_INSERT.format(name, 1, number))
                session.execute("SAVEPOINT a")
                session.execute(_INSERT.format(name, 2, 1))
                session.execute("ROLLBACK TO a")
                session.execute(_INSERT.format(name, 3, 1))
        before = [_contents(session, name) for name in ("made", "emptied")]
    victim.crash()
    victim.start(_WITHOUT_LIBRARY)
    with victim.connect() as session:
        for name, contents in zip(("made", "emptied"), before, strict=True):
            assert contents[0] == 6 * _ROWS
            assert _contents(session, name) == contents
            found = f"SELECT count(*) FROM verify_heapam('{name}', check_toast => true)"
            assert scalar(session, found) == 0
            session.execute(f"SELECT bt_index_check('{name}_i', heapallindexed => true)")


def _contents(session: Connection, table: str) -> tuple[int, str]:
    row = session.execute(
        f"SELECT count(*), md5(string_agg(ctid::text || writer || number || i || s, '' "
        f"ORDER BY ctid)) FROM {table}"
    ).fetchone()
    assert row is not None
    return int(row[0]), str(row[1])
