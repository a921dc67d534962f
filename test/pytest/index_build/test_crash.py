"""Servers killed at random moments of a build, and after it; recovery needs no library."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from random import Random

import psycopg
import pytest
from extension.probes import Connection, scalar
from interrupting import Moments, interrupt_repeatedly
from server_log import WatchedServer
from waiting import wait_until

from index_build.pages import first_difference, read_image, without_free_space
from index_build.twins import Counters, check_tree, choose

_WITHOUT_LIBRARY = {"session_preload_libraries": ""}
_ROWS = 120_000
_INDEXES = {
    "k_k": "CREATE INDEX k_k ON k (k)",
    "k_s": "CREATE INDEX k_s ON k (s, few)",
    "k_few": "CREATE INDEX k_few ON k (few)",
    "k_id": "CREATE UNIQUE INDEX k_id ON k (id)",
}
_ALL = "; ".join(_INDEXES.values())


@pytest.fixture
def victim(own_server: WatchedServer) -> WatchedServer:
    with own_server.connect() as session:
        _fill(session, "k", "")
    return own_server


def _fill(session: Connection, name: str, persistence: str) -> None:
    session.execute(
        f"CREATE {persistence} TABLE {name} AS SELECT i AS id, hashint8(i) AS k, "
        f"md5(i::text) AS s, i % 20 AS few FROM generate_series(1, {_ROWS}) i"
    )


def _builder(server: WatchedServer) -> Connection:
    session = server.connect()
    choose(session, "ours")
    return session


def _build_until_killed(server: WatchedServer, moments: Moments) -> set[str]:
    """Build all indexes; kill the server meanwhile. Returns those whose statement had ended."""
    built: set[str] = set()
    session = _builder(server)
    timer = threading.Timer(moments.draw(_ALL), server.crash)
    started = time.monotonic()
    timer.start()
    try:
        for name, statement in _INDEXES.items():
            session.execute(statement)
            built.add(name)
        moments.ended(_ALL, time.monotonic() - started)
    except psycopg.OperationalError:
        moments.interrupted(_ALL)
    finally:
        timer.join()
        session.close()
    return built


def _check(server: WatchedServer, built: set[str]) -> None:
    """Every index whose statement had ended is there and whole; others may be."""
    with server.connect() as session:
        names = [
            row[0]
            for row in session.execute(
                "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 'k'::regclass"
            )
        ]
        assert built <= set(names)
        for name in names:
            check_tree(session, name)
        assert scalar(session, "SELECT count(*) FROM k") == _ROWS
        session.execute("REINDEX TABLE k")
        for name in names:
            check_tree(session, name)


@pytest.mark.expects_in_log("was terminated by signal 9")
# Core's: the leader of any parallel command ends by an error while it ends its transaction
# ("postmaster exited during a parallel transaction"), and pgstat.c asserts that there is none.
@pytest.mark.expects_in_log('failed Assert("!IsTransactionOrTransactionBlock()"), File: "')
def test_killed_servers_recover_without_the_library(
    victim: WatchedServer, seed: int, kills: int
) -> None:
    moments, settings = Moments(seed), cycle((_WITHOUT_LIBRARY, {}))
    with _builder(victim) as session:
        started = time.monotonic()
        session.execute(f"BEGIN; {_ALL}; ROLLBACK")
        moments.ended(_ALL, time.monotonic() - started)

    def attempt() -> float:
        built = _build_until_killed(victim, moments)
        victim.start(next(settings))
        _check(victim, built)
        victim.restart({})
        with victim.connect() as session:
            session.execute(f"DROP INDEX IF EXISTS {', '.join(_INDEXES)}")
        return len(_INDEXES) - len(built)

    interrupt_repeatedly(kills, attempt)


@contextmanager
def _checkpoints(server: WatchedServer) -> Iterator[list[int]]:
    """Checkpoint after checkpoint until the block ends; the list tells how many there were.

    The first one is over when the block begins.
    """
    done, stop = [0], threading.Event()

    def write() -> None:
        with server.connect() as session:
            while not stop.is_set():
                session.execute("CHECKPOINT")
                done[0] += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        wait_until(lambda: done[0] > 0, "checkpoints are under way")
        yield done
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("wal_level", ["replica", "minimal"])
def test_committed_index_survives_a_crash(victim: WatchedServer, wal_level: str) -> None:
    """Under checkpoints in mid-build, and with no more than the WAL or the file itself."""
    victim.restart({"wal_level": wal_level, "max_wal_senders": "0"})
    images = {}
    with _builder(victim) as session:
        with _checkpoints(victim) as checkpoints:
            for statement in _INDEXES.values():
                session.execute(statement)
            session.execute("BEGIN")
            _fill(session, "own", "")
            session.execute("CREATE INDEX own_k ON own (k); COMMIT")
        assert checkpoints[0] > 1
        assert Counters.of(session).built == len(_INDEXES) + 1
        for name in (*_INDEXES, "own_k"):
            images[name] = _image(victim, session, name)
    victim.crash()
    victim.start(_WITHOUT_LIBRARY)
    with victim.connect() as session:
        for name, image in images.items():
            found = first_difference(image, _image(victim, session, name))
            assert found is None, f"{name} changed in the crash: {found}"
            check_tree(session, name)


def _image(server: WatchedServer, session: Connection, name: str) -> bytes:
    path = str(scalar(session, f"SELECT pg_relation_filepath('{name}')"))
    return without_free_space(read_image(server.data_directory / path))


def test_unlogged_index_is_empty_after_a_crash(victim: WatchedServer) -> None:
    """Its init fork is the one that stock makes: the index works on."""
    with _builder(victim) as session:
        _fill(session, "u", "UNLOGGED")
        session.execute("CREATE INDEX u_k ON u (k); CREATE UNIQUE INDEX u_id ON u (id)")
        assert Counters.of(session).built == 2
        session.execute("CHECKPOINT")
    victim.crash()
    victim.start(_WITHOUT_LIBRARY)
    with victim.connect() as session:
        assert scalar(session, "SELECT count(*) FROM u") == 0
        session.execute("INSERT INTO u SELECT i, i, 'x', 1 FROM generate_series(1, 3000) i")
        for name in ("u_k", "u_id"):
            check_tree(session, name)
        session.execute("SET enable_seqscan = off")
        assert scalar(session, "SELECT count(*) FROM u WHERE k BETWEEN 11 AND 20") == 10


def test_index_lives_on(victim: WatchedServer, seed: int) -> None:
    """Random inserts, deletes and VACUUM after the build find an ordinary btree."""
    rng = Random(seed)
    with _builder(victim) as session:
        session.execute(f"DELETE FROM k WHERE id > {_ROWS // 5}")
        session.execute("VACUUM k")
        for statement in _INDEXES.values():
            session.execute(statement)
        assert Counters.of(session).built == len(_INDEXES)
        for _ in range(4):
            session.execute(
                f"INSERT INTO k SELECT i + {_ROWS} + {rng.randrange(10**6)} * 10, hashint8(i), "
                "md5(i::text), i % 20 FROM generate_series(1, 5000) i ON CONFLICT DO NOTHING"
            )
            session.execute(f"UPDATE k SET k = k + 1 WHERE id % 7 = {rng.randrange(7)}")
            session.execute(f"DELETE FROM k WHERE id % 11 = {rng.randrange(11)}")
            session.execute("VACUUM k")
        for name in _INDEXES:
            check_tree(session, name)
