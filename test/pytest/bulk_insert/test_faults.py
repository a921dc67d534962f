"""Inserts that fail, wait or are interrupted: as stock's, and nothing stays behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from random import Random

import psycopg
import pytest
from extension.probes import Connection, need_extension, scalar
from interrupting import (
    HANG_SECONDS,
    Moments,
    interrupt_repeatedly,
    interrupted,
    limited,
    nothing_left,
    p99,
)
from server_log import WatchedServer
from waiting import wait_until

from bulk_insert.arms import DEFAULT, EXTENTS, ONE_PAGE, STOCK, Arm, Counters, choose
from bulk_insert.facts import failure_of
from bulk_insert.ways import INSERT, WAYS, Way, check_sound, leaves, size

_ARMS = {arm.name: arm for arm in (DEFAULT, ONE_PAGE, EXTENTS)}
_ROWS = 3000
_MANY = 150_000
_HITS = 20
_STRICT = 0.1  # seconds
# Pages that a failed insert of `_ROWS` rows may leave beside those that stock leaves: of a step of
# 16 pages those that were not filled, and a page of rows that were collected.
_PAGES_MORE = 17


# INSERT into one table by each arm, the other ways by one.
_CASES = [(arm, INSERT) for arm in _ARMS.values()] + [(EXTENTS, way) for way in WAYS[1:]]


@pytest.fixture(params=_ARMS)
def arm(request: pytest.FixtureRequest) -> Arm:
    return _ARMS[request.param]


@pytest.fixture(params=_CASES, ids=lambda case: f"{case[1].name}-{case[0].name}")
def case(request: pytest.FixtureRequest) -> tuple[Arm, Way]:
    arm, way = request.param
    return arm, way


@pytest.fixture
def session(server: WatchedServer, request: pytest.FixtureRequest) -> Iterator[Connection]:
    """With a table t of a key and a text."""
    _, way = request.getfixturevalue("case") if "case" in request.fixturenames else (None, INSERT)
    with server.connect() as opened:
        need_extension(opened, "amcheck")
        need_extension(opened, "pg_buffercache")
        making = way.making("t", "k int PRIMARY KEY, s text", "k")
        opened.execute(f"DROP TABLE IF EXISTS t; {making}")
        # By the index a row that was overwritten is found as well: another has its place.
        opened.execute("SET enable_indexonlyscan = off; SET enable_indexscan = off")
        opened.execute("SET enable_bitmapscan = off")
        yield opened


def _rows(first: int, count: int, key: str = "i") -> str:
    return f"SELECT {key}, repeat('x', i % 90) FROM generate_series({first}, {first + count - 1}) i"


def _insert(first: int, count: int, key: str = "i") -> str:
    return f"INSERT INTO t {_rows(first, count, key)}"


def _give(session: Connection, way: Way, first: int, count: int) -> str:
    """What gives the table these rows; see `Way.statement`."""
    return way.statement(session, "t", _rows(first, count))


def _check(session: Connection, rows: int) -> None:
    """So many rows are there, and table and index are sound."""
    assert scalar(session, "SELECT count(*) FROM t") == rows
    check_sound(session, "t")


def test_error_in_any_row(session: Connection, arm: Arm, seed: int) -> None:
    """The error is stock's, the next statement works, and the table grows no more than stock's."""
    rng = Random(seed)
    for row in (1, 2, 16, 17, 18, rng.randint(19, _ROWS), rng.randint(19, _ROWS), _ROWS):
        for wrong in ("i / (i - i)", "NULL", "5"):
            fault = _insert(10, _ROWS, f"CASE WHEN i = {row + 9} THEN {wrong} ELSE i END")
            failures, sizes = [], []
            for one in (STOCK, arm):
                session.execute("TRUNCATE t; INSERT INTO t VALUES (5, 'there')")
                choose(session, one)
                with pytest.raises(psycopg.Error) as caught:
                    session.execute(fault)
                failures.append(failure_of(caught.value))
                sizes.append(int(scalar(session, "SELECT pg_relation_size('t') / 8192")))
            assert failures[0] == failures[1]
            # A key that is there twice may be found when all rows are in the table.
            assert wrong == "5" or sizes[1] <= sizes[0] + _PAGES_MORE
            session.execute(_insert(10_000, 500))
            _check(session, 501)


def test_exception_blocks(session: Connection, arm: Arm, seed: int) -> None:
    """Of inserts in subtransactions those that fail leave dead rows, the others theirs."""
    row = Random(seed).randint(1, 500)
    choose(session, arm)
    session.execute(
        "DO $$ BEGIN FOR n IN 1 .. 30 LOOP BEGIN "
        f"INSERT INTO t SELECT n * 1000 + CASE WHEN i = {row} AND n % 2 = 0 THEN i / (i - i) "
        "ELSE i END, repeat('x', i % 90) FROM generate_series(1, 500) i; "
        "EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$"
    )
    _check(session, 15 * 500)


def test_duplicates_in_exception_blocks(
    session: Connection, case: tuple[Arm, Way], seed: int
) -> None:
    arm, way = case
    statement = _give(session, way, 1000, 500)
    choose(session, arm)
    there = Random(seed).randint(1000, 1499)
    session.execute(
        "DO $$ BEGIN FOR n IN 1 .. 30 LOOP BEGIN "
        f"IF n % 2 = 0 THEN INSERT INTO t VALUES ({there}); END IF; {statement}; "
        "UPDATE t SET k = k + n * 1000 WHERE k < 1500; "
        "EXCEPTION WHEN unique_violation THEN NULL; END; END LOOP; END $$"
    )
    _check(session, 15 * 500)


def test_savepoints(session: Connection, case: tuple[Arm, Way]) -> None:
    arm, way = case
    choose(session, arm)
    with session.transaction():
        session.execute(_give(session, way, 1, 700))
        session.execute("SAVEPOINT a")
        session.execute(_give(session, way, 1001, 700))
        session.execute("ROLLBACK TO a")
        session.execute(_give(session, way, 2001, 700))
        session.execute("RELEASE a")
    _check(session, 1400)
    session.execute("BEGIN")
    session.execute(_give(session, way, 5000, 700))
    session.execute("ROLLBACK")
    _check(session, 1400)


def _cancel_many(session: Connection, case: tuple[Arm, Way], seed: int, hits: int) -> list[float]:
    arm, way = case
    choose(session, arm)
    moments = Moments(seed)
    statement = _give(session, way, 1, _MANY)

    def attempt() -> float:
        latency = interrupted(session, statement, moments, session.cancel_safe)
        _check(session, 0 if latency else _MANY)
        session.execute("TRUNCATE t")
        return latency

    return interrupt_repeatedly(hits, attempt)


def test_cancelled_inserts_leave_dead_rows(
    server: WatchedServer, session: Connection, case: tuple[Arm, Way], seed: int
) -> None:
    before = Counters.of(session).rows
    assert max(_cancel_many(session, case, seed, _HITS)) < HANG_SECONDS
    assert Counters.of(session).rows > before
    with server.connect() as watcher:
        nothing_left(watcher, "t")


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_cancel_is_quick(session: Connection, case: tuple[Arm, Way], seed: int) -> None:
    """On a machine that does nothing else."""
    assert p99(_cancel_many(session, case, seed, 10 * _HITS)) < _STRICT


def test_statement_timeout(session: Connection, case: tuple[Arm, Way]) -> None:
    arm, way = case
    choose(session, arm)
    # A file is written before, and takes longer than the rows of a query.
    statement = _give(session, way, 1, 5 * _MANY if way.copies else 100 * _MANY)
    with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
        limited(session, statement, 30)
    session.execute(_give(session, way, 1, 500))
    _check(session, 500)


def test_wait_for_another_key(
    server: WatchedServer, session: Connection, case: tuple[Arm, Way]
) -> None:
    """Of a key that somebody else has inserted the end of that transaction decides."""
    arm, way = case
    choose(session, arm)
    statement = _give(session, way, 1, 1000)
    with server.connect() as other:
        other.execute("BEGIN; INSERT INTO t VALUES (700, 'other')")
        session.execute("SET lock_timeout = 50")
        with pytest.raises(psycopg.errors.LockNotAvailable, match="lock timeout"):
            session.execute(statement)
        session.execute("RESET lock_timeout")
        assert _outcome_after(server, session, statement, other, "ROLLBACK").endswith(" 1000")
        _check(session, 1000)
        session.execute("TRUNCATE t")
        other.execute("BEGIN; INSERT INTO t VALUES (700, 'other')")
        outcome = _outcome_after(server, session, statement, other, "COMMIT")
        assert "Key (k)=(700) already exists" in outcome
        _check(session, 1)


def _outcome_after(
    server: WatchedServer, session: Connection, statement: str, other: Connection, end: str
) -> str:
    """What becomes of an insert that waits until the other transaction ends so."""
    outcome: list[str] = []

    def insert() -> None:
        try:
            outcome.append(str(session.execute(statement).statusmessage))
        except psycopg.Error as error:
            outcome.append(str(error))

    thread = threading.Thread(target=insert)
    thread.start()
    with server.connect() as watcher:
        _wait_for_lock(watcher)
    other.execute(end)
    thread.join()
    return outcome[0]


def _wait_for_lock(watcher: Connection) -> None:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    wait_until(lambda: scalar(watcher, waiting) == 1, "the insert waits")


def test_pages_that_others_take(server: WatchedServer, session: Connection) -> None:
    """VACUUM finds the pages of an extent, another session fills them: then others are taken."""
    session.execute("DROP TABLE IF EXISTS source; CREATE TABLE source (i int)")
    session.execute("INSERT INTO source SELECT generate_series(1, 3000)")
    choose(session, EXTENTS.with_settings(bulk_extend_size=64))
    before = Counters.of(session)
    with server.connect() as other, server.connect() as holder:
        choose(other, STOCK)
        holder.execute("BEGIN; SELECT FROM source WHERE i = 1000 FOR UPDATE")
        rows = "SELECT i, repeat('x', 300) FROM source FOR UPDATE"
        thread = threading.Thread(target=lambda: session.execute(f"INSERT INTO t {rows}"))
        thread.start()
        _wait_for_lock(other)
        pages = int(scalar(other, "SELECT pg_relation_size('t') / 8192"))
        other.execute("VACUUM (TRUNCATE false) t")
        other.execute("INSERT INTO t SELECT -i, repeat('y', 300) FROM generate_series(1, 400) i")
        assert scalar(other, "SELECT pg_relation_size('t') / 8192") == pages
        holder.execute("ROLLBACK")
        thread.join()
    assert Counters.of(session).extended > before.extended + 64
    _check(session, 3400)


def test_sessions_fill_one_table(
    server: WatchedServer, session: Connection, case: tuple[Arm, Way]
) -> None:
    """Four of them, and VACUUM meanwhile: no row is lost, and hardly a page is wasted."""
    arm, way = case
    failures: list[BaseException] = []
    stop = threading.Event()

    def fill(number: int) -> None:
        try:
            with server.connect() as own:
                choose(own, arm)
                for turn in range(4):
                    own.execute(_give(own, way, (number * 4 + turn) * 4000, 4000))
        except BaseException as error:
            failures.append(error)

    def vacuum() -> None:
        with server.connect() as own:
            while not stop.is_set():
                own.execute("VACUUM t")
                time.sleep(0.01)

    sweeper = threading.Thread(target=vacuum)
    fillers = [threading.Thread(target=fill, args=(number,)) for number in range(4)]
    sweeper.start()
    for thread in fillers:
        thread.start()
    for thread in fillers:
        thread.join()
    stop.set()
    sweeper.join()
    assert failures == []
    _check(session, 64_000)
    _expect_no_waste(session)


def _expect_no_waste(session: Connection) -> None:
    used = size(session, "t")
    session.execute("CREATE TABLE packed AS SELECT * FROM t")
    packed = size(session, "packed")
    session.execute("DROP TABLE packed")
    # What core extends by for each of those that wait, and an unfinished page of each insert.
    tables = int(scalar(session, f"SELECT count(*) FROM ({leaves('t')}) leaf"))
    assert used <= packed + (4 * 64 + 16) * tables
