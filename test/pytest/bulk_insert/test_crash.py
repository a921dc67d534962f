"""Processes killed in the middle of inserts: what was acknowledged is there, and nothing half.

At random moments, and where a COPY waits for its next row.

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
from bulk_insert.copying import prompt_copy
from bulk_insert.ways import COPY, COPY_PARTITIONS, WAYS, Way, check_sound
from lookahead.extension import Stage

_LEAST_KILLS = 8
# All rows are looked at after each kill.
_KILLS_OF_ONE_FILLING = 50
_WRITERS = 3
_ROWS = 1500
_WITHOUT_LIBRARY = {"session_preload_libraries": ""}
_WAL: tuple[dict[str, str], ...] = (
    {},
    {"wal_compression": "on"},
    {"full_page_writes": "off"},
    {"wal_level": "minimal", "max_wal_senders": "0"},
)
_ARMS = (DEFAULT, ONE_PAGE, EXTENTS, EXTENTS.with_settings(bulk_extend_size=512))
_COLUMNS = "writer int, number int, i int, s text STORAGE EXTERNAL"
_INDEX = "CREATE INDEX {}_i ON {} (writer, number, i)"
# Each seventieth row is toasted.
_QUERY = (
    "SELECT {}, {}, i, repeat('x', CASE i % 70 WHEN 0 THEN 5000 ELSE i % 90 END) "
    f"FROM generate_series(1, {_ROWS}) i"
)
_TABLES = {False: "k", True: "partitioned"}
_NEW_TABLES = {
    f"{name}{number}": way for name in ("made", "emptied") for number, way in enumerate(WAYS)
}


def _making(table: str, *, partitioned: bool) -> str:
    way = Way(copies=False, partitioned=partitioned)
    return f"{way.making(table, _COLUMNS, 'i')}; {_INDEX.format(table, table)}"


@dataclass
class _Ledger:
    """The inserts that were acknowledged, of all writers; `batched` are the ways that ours went."""

    done: set[tuple[int, int]] = field(default_factory=set)
    batched: set[Way] = field(default_factory=set)
    begun: int = 0
    forgotten: int = 0

    def forget(self) -> None:
        """The tables are emptied."""
        self.forgotten += len(self.done)
        self.done.clear()


@pytest.fixture
def victim(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    settings = {**QUIET, SWITCH: "on", "max_wal_size": "4GB"}
    with server_factory(stage=test_stage, settings=settings) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            need_extension(session, "amcheck")
            for partitioned, table in _TABLES.items():
                session.execute(_making(table, partitioned=partitioned))
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
                way = rng.choice(WAYS)
                query = _QUERY.format(writer, number)
                statement = way.statement(session, _TABLES[way.partitioned], query)
                before = Counters.of(session).rows
                session.execute(statement)
                ledger.done.add((writer, number))
                if Counters.of(session).rows > before:
                    ledger.batched.add(way)
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


def _deaths(server: WatchedServer) -> int:
    return server.read_log().count("was terminated by signal 9")


def _await_new_start(server: WatchedServer, deaths: int) -> None:
    """Return when it takes sessions again, after it has seen so many processes die."""

    def answers() -> bool:
        if _deaths(server) < deaths:
            return False
        try:
            with server.connect() as session:
                return bool(scalar(session, "SELECT NOT pg_is_in_recovery()"))
        except psycopg.OperationalError:
            return False

    wait_until(answers, "PostgreSQL has started itself anew")


def _check(session: Connection, ledger: _Ledger) -> None:
    sums = "SELECT writer, number, count(*), sum(i), sum(length(s)) FROM {} GROUP BY 1, 2"
    both = " UNION ALL ".join(sums.format(table) for table in _TABLES.values())
    groups = session.execute(both).fetchall()
    assert ledger.done <= {(writer, number) for writer, number, *_ in groups}
    assert len({tuple(sums) for _, _, *sums in groups}) <= 1
    assert all(count == _ROWS for _, _, count, *_ in groups)
    for table in _TABLES.values():
        check_sound(session, table)


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
        deaths = _deaths(victim)
        whole = rng.random() < 0.5
        if whole:
            victim.crash()
        else:
            _kill_one(victim)
        for thread in threads:
            thread.join()
        if victim.is_running:
            _await_new_start(victim, deaths + 1)
        else:
            victim.start(next(settings))
        with victim.connect() as session:
            _check(session, ledger)
            if kill % _KILLS_OF_ONE_FILLING == _KILLS_OF_ONE_FILLING - 1:
                session.execute(f"TRUNCATE {', '.join(_TABLES.values())}")
                ledger.forget()
            elif rng.random() < 0.3:
                session.execute(f"VACUUM {', '.join(_TABLES.values())}")
        victim.restart(rng.choice(_WAL))
    acknowledged = len(ledger.done) + ledger.forgotten
    print(f"seed {seed}: {kill + 1} kills, {acknowledged} inserts acknowledged")
    # A run of a few kills has not time for each of them.
    assert len(ledger.batched) >= min(kills, len(WAYS))
    _checksums_are_right(victim)


def _checksums_are_right(victim: WatchedServer) -> None:
    victim.stop()
    checked = victim.run_client("pg_checksums", "--check", "-D", victim.data_directory)
    assert "Bad checksums:  0" in str(checked.stdout)


@pytest.mark.expects_in_log("was terminated by signal 9")
@pytest.mark.parametrize("whole", [False, True], ids=["backend", "postmaster"])
@pytest.mark.parametrize("way", [COPY, COPY_PARTITIONS], ids=lambda way: way.name)
def test_copy_killed_between_two_rows(victim: WatchedServer, way: Way, *, whole: bool) -> None:
    """Before rows are batched, with some that wait, on pages of an extent: none is there later."""
    table = _TABLES[way.partitioned]
    for deaths, given in enumerate((1, 10, 400, 5000), _deaths(victim) + 1):
        with victim.connect() as session, pytest.raises(psycopg.OperationalError):
            choose(session, EXTENTS.with_settings(bulk_extend_size=64))
            _copy_until_killed(victim, session, table, given, whole=whole)
        if whole:
            victim.start(_WITHOUT_LIBRARY)
        else:
            _await_new_start(victim, deaths)
        with victim.connect() as session:
            assert scalar(session, f"SELECT count(*) FROM {table}") == 0
            check_sound(session, table)
        if whole:
            victim.restart({})
    with victim.connect() as session:
        session.execute(way.statement(session, table, _QUERY.format(1, 1)))
        session.execute(f"VACUUM {table}")
        assert scalar(session, f"SELECT count(*) FROM {table}") == _ROWS
        check_sound(session, table)
    _checksums_are_right(victim)


def _copy_until_killed(
    victim: WatchedServer, session: Connection, table: str, given: int, *, whole: bool
) -> None:
    pid = session.info.backend_pid
    with prompt_copy(session, table) as stream:
        for i in range(given):
            stream.write(f"1\t1\t{i}\t{'x' * (5000 if i % 70 == 0 else 90)}\n")
        with victim.connect() as watcher:
            read = f"SELECT tuples_processed FROM pg_stat_progress_copy WHERE pid = {pid}"
            wait_until(lambda: _number(watcher, read) == given, "rows are read")
        if whole:
            victim.crash()
        else:
            os.kill(pid, signal.SIGKILL)


def _number(session: Connection, query: str) -> int:
    row = session.execute(query).fetchone()
    return int(row[0]) if row else 0


@pytest.mark.parametrize("arm", [DEFAULT, EXTENTS], ids=lambda arm: arm.name)
def test_prepared_transactions_survive(victim: WatchedServer, arm: Arm) -> None:
    """Two of each way are prepared when the server is killed: one is committed, one not."""
    victim.restart({"max_prepared_transactions": "9"})
    with victim.connect() as session:
        choose(session, arm)
        for number, way in enumerate(WAYS):
            for end in ("commit", "rollback"):
                put = way.statement(session, _TABLES[way.partitioned], _QUERY.format(number, 1))
                session.execute(f"BEGIN; {put}; SAVEPOINT a; {put}; ROLLBACK TO a; {put}")
                session.execute(f"PREPARE TRANSACTION '{end} {number}'")
        assert Counters.of(session).rows > 0
    victim.crash()
    victim.start({**_WITHOUT_LIBRARY, "max_prepared_transactions": "9"})
    with victim.connect() as session:
        counts = [f"SELECT count(*) FROM {table}" for table in _TABLES.values()]
        assert [scalar(session, count) for count in counts] == [0, 0]
        for number in range(len(WAYS)):
            for end in ("commit", "rollback"):
                session.execute(f"{end} PREPARED '{end} {number}'")
        assert [scalar(session, count) for count in counts] == [4 * _ROWS] * 2
        for table in _TABLES.values():
            session.execute(f"VACUUM {table}")
            check_sound(session, table)


@pytest.mark.parametrize("wal_level", ["minimal", "replica", "logical"])
@pytest.mark.parametrize("arm", [DEFAULT, EXTENTS], ids=lambda arm: arm.name)
def test_new_table_survives(victim: WatchedServer, wal_level: str, arm: Arm) -> None:
    """Made, or emptied, in the transaction of the insert, with no more than WAL or its file."""
    victim.restart({"wal_level": wal_level, "max_wal_senders": "0"})
    with victim.connect() as session:
        choose(session, arm)
        for name, way in _NEW_TABLES.items():
            making = _making(name, partitioned=way.partitioned)
            if name.startswith("emptied"):
                session.execute(making)
                making = f"TRUNCATE {name}"
            with session.transaction():
                session.execute(making)
                for number in range(5):
                    _put(session, way, name, 1, number)
                session.execute("SAVEPOINT a")
                _put(session, way, name, 2, 1)
                session.execute("ROLLBACK TO a")
                _put(session, way, name, 3, 1)
        before = [_contents(session, name) for name in _NEW_TABLES]
    victim.crash()
    victim.start(_WITHOUT_LIBRARY)
    with victim.connect() as session:
        for name, contents in zip(_NEW_TABLES, before, strict=True):
            assert contents[0] == 6 * _ROWS
            assert _contents(session, name) == contents
            check_sound(session, name)


def _put(session: Connection, way: Way, table: str, writer: int, number: int) -> None:
    session.execute(way.statement(session, table, _QUERY.format(writer, number)))


def _contents(session: Connection, table: str) -> tuple[int, str]:
    row = session.execute(
        f"SELECT count(*), md5(string_agg(ctid::text || writer || number || i || s, '' "
        f"ORDER BY tableoid, ctid)) FROM {table}"
    ).fetchone()
    assert row is not None
    return int(row[0]), str(row[1])
