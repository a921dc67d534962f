"""Sessions that create, drop, detach and fill partitions of one table at random."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from random import Random

import psycopg
from extension.probes import Connection, scalar
from server_log import WatchedServer

_SESSIONS, _STEPS = 5, 60
_WAYS = ("auto", "direct", "attached", "native")
# Which a session may meet beside others: rows in the way, a bound or a name that another has taken,
# a table that is gone.
_USUAL = {"23514", "42P17", "42P07", "42P01"}
_OTHERS = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 's.p'::regclass"
_BOUNDS = f"""
    SELECT c.oid::regclass::text, pg_get_expr(relpartbound, c.oid) FROM pg_class c
    WHERE c.oid::regclass::text IN ({_OTHERS}) AND relname <> 'rest'"""


def _create(rng: Random, *, may_commit: bool = True) -> str:
    arguments = f"'s.p', {rng.randrange(40) * 10}, 10, {rng.randrange(1, 8)}"
    way = f"way => '{rng.choice(_WAYS)}'"
    if may_commit and rng.random() < 0.3:
        return f"CALL pg_lookahead_create_range_partitions_batched({arguments}, 2, {way})"
    return f"SELECT pg_lookahead_create_range_partitions({arguments}, {way})"


def _fill(rng: Random) -> str:
    first = rng.randrange(400)
    rows = f"SELECT i FROM generate_series({first}, {first + rng.randrange(60)}) i"
    return f"INSERT INTO s.p {rows} ON CONFLICT DO NOTHING"


def _step(session: Connection, rng: Random) -> None:
    kind = rng.choice(("create", "create", "fill", "remove", "empty", "undone"))
    if kind == "create":
        session.execute(_create(rng))
    elif kind == "fill":
        session.execute(_fill(rng))
    elif kind == "empty":
        session.execute("DELETE FROM s.rest")
    elif kind == "remove":
        found = [name for (name,) in session.execute(_OTHERS).fetchall() if name != "s.rest"]
        if found:
            name = rng.choice(sorted(found))
            if rng.random() < 0.5:
                session.execute(f"ALTER TABLE s.p DETACH PARTITION {name}")
            session.execute(f"DROP TABLE {name}")
    else:
        with session.transaction(force_rollback=True):
            session.execute(_create(rng, may_commit=False))
            session.execute(_fill(rng))


def _work(server: WatchedServer, seed: str) -> int:
    """Steps that succeeded."""
    rng, done = Random(seed), 0
    with server.connect() as session:
        session.execute("SET client_min_messages = warning")
        for _ in range(_STEPS):
            try:
                _step(session, rng)
                done += 1
            except psycopg.Error as error:
                if error.sqlstate not in _USUAL:
                    raise
    return done


def test_random_sessions(server: WatchedServer, session: Connection, seed: int) -> None:
    session.execute("CREATE TABLE s.p (id int PRIMARY KEY, t text) PARTITION BY RANGE (id)")
    session.execute("CREATE TABLE s.rest PARTITION OF s.p DEFAULT")
    with ThreadPoolExecutor(_SESSIONS) as pool:
        seeds = [f"{seed} {number}" for number in range(_SESSIONS)]
        done = sum(pool.map(lambda one: _work(server, one), seeds))
    assert done > _SESSIONS * _STEPS // 4
    ranges = []
    for name, bound in session.execute(_BOUNDS).fetchall():
        low, high = map(int, re.findall(r"-?\d+", bound))
        ranges.append((low, high))
        assert scalar(session, f"SELECT count(*) FROM {name} WHERE id < {low} OR id >= {high}") == 0
        # What a new one is for is not in the default partition.
        own = f"SELECT count(*) FROM s.rest WHERE id >= {low} AND id < {high}"
        assert scalar(session, own) == 0
    ranges.sort()
    assert all(one[1] <= other[0] for one, other in pairwise(ranges))
