"""Tables, and random statements that build indexes on them, of every kind there is."""

from dataclasses import dataclass
from random import Random

import psycopg
from extension.probes import Connection
from index_build.twins import SWITCH

_ROWS = 60_000
_TABLE = (
    "SELECT i AS id, hashint8extended(i, 0) AS r, md5(i::text) AS s, i % 30 AS tenant, "
    "(hashint4(i) / 7.0)::numeric AS amount, NULLIF(i % 50, 7) AS n, "
    "timestamptz '2020-01-01' + i % 4000 * interval '17 min' AS at, md5(i::text)::uuid AS u, "
    f"repeat('long beginning ', 2) || hashint4(i) AS t FROM generate_series(1, {_ROWS}) i"
)
# Its sort keys are a guess, which a test setting makes a wrong one; not every system has it.
_COLLATION = "CREATE COLLATION libc_c (provider = libc, locale = 'C.UTF-8')"
_MISLED = "pg_lookahead.test_fail_sort_keys"

# Index: keys, and the rest of its definition.
_INDEXES = {
    "i_r": ("r", ""),
    "i_s": ('s COLLATE "C"', ""),
    "i_few": ("tenant DESC", ""),
    "i_amount": ("tenant, amount", ""),
    "i_n": ("n NULLS FIRST, r", ""),
    "i_at": ("at", "INCLUDE (u)"),
    "i_u": ("u", ""),
    "i_t": ("t, id", ""),
    "i_part": ("amount DESC", "WHERE tenant < 11"),
    "i_guess": ("s COLLATE libc_c, id", ""),
    "i_id": ("id", ""),
    "i_us": ("u DESC, id", ""),
}
_UNIQUE = {"i_id", "i_us"}
_UNLOGGED = {"l_r": ("r", ""), "l_s": ("s", "")}
# What a look through the indexes orders by, and which rows are in them.
KEYS = {
    name: (keys, rest if rest.startswith("WHERE") else "")
    for name, (keys, rest) in {**_INDEXES, **_UNLOGGED}.items()
}
_WORKERS = (0, 0, 1, 2, 3)
_WHOLE_TABLE = (
    "REINDEX TABLE b",
    "VACUUM FULL b",
    "ALTER TABLE b ALTER tenant TYPE bigint",
    "ALTER TABLE b ALTER tenant TYPE int",
)
_ENDINGS = ("COMMIT", "COMMIT", "ROLLBACK")


@dataclass(frozen=True)
class Build:
    """Settings for the session, what goes before, and the statement that builds."""

    settings: tuple[str, ...]
    before: tuple[str, ...]
    statement: str
    ending: str = ""

    def __str__(self) -> str:
        parts = (*self.settings, *self.before, self.statement, self.ending)
        return "; ".join(part for part in parts if part)


def make_tables(session: Connection) -> None:
    """An ordinary and an unlogged table with dead rows, and a tablespace."""
    try:
        session.execute(_COLLATION)
    except psycopg.errors.InvalidParameterValue:
        session.execute('CREATE COLLATION libc_c FROM "C"')
    session.execute("CREATE TABLESPACE beside LOCATION ''")
    for table, kind in (("b", ""), ("l", "UNLOGGED")):
        session.execute(f"CREATE {kind} TABLE {table} AS {_TABLE}")
        session.execute(f"UPDATE {table} SET r = r + 1 WHERE id % 13 = 0")
        session.execute(f"DELETE FROM {table} WHERE id % 17 = 0")


def random_build(rng: Random, existing: list[str], *, misled: bool, copied: bool = False) -> Build:
    """A build of any kind; `existing` are the names of the indexes there are.

    With `misled` the server has the test settings, and some builds begin anew. One in which the
    server is `copied` is of no unlogged table: PostgreSQL itself cannot end the recovery of such a
    copy, since the main fork is there and the init fork, which makes it anew, comes later (relies
    on ResetUnloggedRelationsInDbspaceDir() in reinit.c).
    """
    settings = _random_settings(rng, misled=misled)
    if copied:
        existing = [name for name in existing if name not in _UNLOGGED]
    kind = rng.random()
    if existing and kind < 0.2:
        how = rng.choice(("", "CONCURRENTLY "))
        return Build(settings, (), f"REINDEX INDEX {how}{rng.choice(existing)}")
    if existing and kind < 0.28:
        return Build(settings, (), rng.choice(_WHOLE_TABLE))
    if kind < 0.34:
        before = f"CREATE TEMPORARY TABLE IF NOT EXISTS own AS {_TABLE}"
        return Build(settings, (before,), "CREATE INDEX ON own (s, r)")
    return _random_create(rng, settings, unlogged=not copied and rng.random() < 0.1)


def _random_create(rng: Random, settings: tuple[str, ...], *, unlogged: bool) -> Build:
    choices = _UNLOGGED if unlogged else _INDEXES
    name = rng.choice(sorted(choices))
    keys, rest = choices[name]
    unique = "UNIQUE " if name in _UNIQUE else ""
    concurrently = "CONCURRENTLY " if rng.random() < 0.2 else ""
    space = " TABLESPACE beside" if rng.random() < 0.3 else ""
    where = rest if rest.startswith("WHERE") else ""
    include = rest if not where else ""
    table = "l" if unlogged else "b"
    create = (
        f"CREATE {unique}INDEX {concurrently}{name} ON {table} ({keys}) {include}{space} {where}"
    )
    drop = f"DROP INDEX IF EXISTS {name}"
    if concurrently or rng.random() < 0.7:
        return Build(settings, (drop,), create.strip())
    return Build(settings, ("BEGIN", drop, "SAVEPOINT s"), create.strip(), rng.choice(_ENDINGS))


def _random_settings(rng: Random, *, misled: bool) -> tuple[str, ...]:
    workers = rng.choice(_WORKERS)
    memory = "160MB" if workers else rng.choice(("2MB", "2MB", "64MB", "64MB"))
    chosen = {
        SWITCH: "on",
        "max_parallel_maintenance_workers": str(max(workers, 1)),
        "min_parallel_table_scan_size": "0" if workers else "1TB",
        "maintenance_work_mem": memory,
    }
    if misled:
        chosen[_MISLED] = rng.choice(("on", "off"))
    return tuple(f"SET {name} = '{value}'" for name, value in chosen.items())
