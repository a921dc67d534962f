"""An index that we built is used for a long time, as any other."""

from random import Random

import pytest
from extension.probes import Connection, need_extension, scalar

from index_build.twins import Counters, check_tree, choose

_ROWS = 100_000
_CHANGES = 1_000_000
_INDEXES = {
    "l_k": "CREATE INDEX l_k ON l (k)",
    "l_s": "CREATE INDEX l_s ON l (s, few)",
    "l_few": "CREATE INDEX l_few ON l (few)",
    "l_id": "CREATE UNIQUE INDEX l_id ON l (id)",
}


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_index_survives_a_million_changes(connection: Connection, seed: int) -> None:
    """Rows are inserted, moved and deleted at random, and vacuumed, many times over."""
    rng = Random(seed)
    need_extension(connection, "amcheck")
    connection.execute(
        "CREATE TABLE l WITH (autovacuum_enabled = off) AS SELECT i AS id, hashint8(i) AS k, "
        f"md5(i::text) AS s, i % 20 AS few FROM generate_series(1, {_ROWS}) i"
    )
    choose(connection, "ours")
    connection.execute(
        "SET max_parallel_maintenance_workers = 2; SET maintenance_work_mem = '96MB'"
    )
    for statement in _INDEXES.values():
        connection.execute(statement)
    assert Counters.of(connection).built == len(_INDEXES)
    changes, last = 0, _ROWS
    while changes < _CHANGES:
        for statement in (
            f"INSERT INTO l SELECT {last} + i, hashint8({last} + i), md5(({last} + i)::text), "
            "i % 20 FROM generate_series(1, 50000) i",
            f"UPDATE l SET k = k + 1, few = 19 - few WHERE id % 5 = {rng.randrange(5)}",
            f"DELETE FROM l WHERE hashint4(id + {rng.randrange(1000)}) % 3 = 0",
        ):
            changes += connection.execute(statement).rowcount
        last += 50_000
        connection.execute("VACUUM l")
    print(f"{changes} rows changed, {scalar(connection, 'SELECT count(*) FROM l')} left")
    for name in _INDEXES:
        check_tree(connection, name)
    connection.execute("DROP TABLE l")
