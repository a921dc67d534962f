"""SERIALIZABLE keeps a rule that no single row shows: each shift has somebody on duty.

Two who leave at the same time, each having counted the other, break it. Only predicate locks on
what the scans have read prevent that, so a look-ahead that lost one would be found out.
"""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psycopg
import pytest
from server_log import ServerFactory, WatchedServer

from extension.probes import INDEX_SCANS_ONLY, QUIET, STREAM_ALWAYS, scalar
from lookahead.extension import Stage

_SHIFTS = 4
_PEOPLE = 60
_SESSIONS = 4
_TRANSACTIONS = 120


@dataclass
class Tally:
    done: int = 0
    conflicts: int = 0


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=test_stage, settings=QUIET) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            session.execute("CREATE TABLE duty (shift int, person int, present bool, pad text)")
            session.execute(
                f"INSERT INTO duty SELECT i % {_SHIFTS}, i, i < {2 * _SHIFTS}, repeat('x', 900) "
                f"FROM generate_series(0, {_SHIFTS * _PEOPLE - 1}) i"
            )
            session.execute("CREATE INDEX ON duty (shift, person)")
        yield started


def _leave(session: psycopg.Connection, rng: random.Random) -> None:
    """Somebody leaves a shift if at least two are there, or else somebody comes."""
    shift = rng.randrange(_SHIFTS)
    there = [
        row[0]
        for row in session.execute(
            "SELECT person FROM duty WHERE shift = %s AND present ORDER BY shift, person", [shift]
        ).fetchall()
    ]
    if len(there) >= 2:
        session.execute(
            "UPDATE duty SET present = false WHERE shift = %s AND person = %s",
            [shift, rng.choice(there)],
        )
    else:
        session.execute(
            "UPDATE duty SET present = true WHERE shift = %s AND person = %s",
            [shift, rng.randrange(_PEOPLE) * _SHIFTS + shift],
        )
    assert there, "a shift without anybody"


def _work(server: WatchedServer, seed: str) -> Tally:
    rng, tally = random.Random(seed), Tally()
    with server.connect() as session:
        session.execute(INDEX_SCANS_ONLY)
        session.execute(STREAM_ALWAYS)
        for _ in range(_TRANSACTIONS):
            try:
                with session.transaction():
                    session.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
                    _leave(session, rng)
                tally.done += 1
            except psycopg.errors.SerializationFailure:
                tally.conflicts += 1
        assert scalar(session, "SELECT scans FROM pg_stat_lookahead") >= _TRANSACTIONS
    return tally


def test_no_shift_is_ever_empty(server: WatchedServer, seed: int) -> None:
    with ThreadPoolExecutor(_SESSIONS) as pool:
        tallies = list(
            pool.map(lambda n: _work(server, f"{seed}:skew:{n}"), range(_SESSIONS), timeout=240)
        )
    # Without conflicts nothing was put to the test. Of 10 runs on a machine with much else to do,
    # the fewest were 129, and 229 transactions were done.
    assert sum(tally.conflicts for tally in tallies) > 0
    assert sum(tally.done for tally in tallies) > _TRANSACTIONS
    with server.connect() as session:
        rows = session.execute(
            "SELECT shift, count(*) FROM duty WHERE present GROUP BY shift"
        ).fetchall()
    assert len(rows) == _SHIFTS
