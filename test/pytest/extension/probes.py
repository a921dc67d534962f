"""What the tests look at: plans, buffers, counters, and tables to look at them with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from lookahead.installation import Installation

Connection = psycopg.Connection[Any]
Plan = dict[str, Any]

INDEX_SCANS_ONLY = (
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; "
    "SET enable_sort = off"
)
# Scans look ahead at what is in buffers, too, once core has given them four entries; needs a build
# with LA_TEST=1. Without it they sleep as long as no page has to be read.
AWAKE = "SET pg_lookahead.test_start_after = 4"
# Every scan is streamed from its first row and looks far ahead; needs a build with LA_TEST=1.
STREAM_ALWAYS = "SET pg_lookahead.test_start_after = 0; SET pg_lookahead.test_depth = 64"
# Nobody but sessions pins or writes a page: a busy machine may halt whoever does.
QUIET = {
    "autovacuum": "off",
    "bgwriter_lru_maxpages": "0",
    "checkpoint_timeout": "1d",
    "fsync": "off",
    "jit": "off",
    # What is read is counted in pages, which tables have as PostgreSQL leaves them.
    "pg_lookahead.enable_bulk_insert": "off",
}
# 16 shared buffers, 100 temporary ones, and one I/O at a time for each process.
TINY = {
    **QUIET,
    "shared_buffers": "128kB",
    "temp_buffers": "800kB",
    "io_max_concurrency": "1",
    "io_workers": "1",
    "max_connections": "40",
}
PINNED = "SELECT coalesce(sum(pinning_backends), 0) FROM pg_buffercache WHERE pinning_backends > 0"


def need_extension(connection: Connection, name: str) -> None:
    """Create a contrib extension, or skip the test by name where the server has none."""
    found = connection.execute(
        "SELECT 1 FROM pg_available_extensions WHERE name = %s", (name,)
    ).fetchone()
    if not found:
        pytest.skip(f"this server comes without the contrib module {name}")
    connection.execute(f"CREATE EXTENSION IF NOT EXISTS {name}")


def need_injection_points(installation: Installation) -> None:
    """Skip the test by name where the server has none; asked before a server is made for it."""
    if not (installation.sharedir / "extension" / "injection_points.control").exists():
        pytest.skip("this server comes without the contrib module injection_points")


def need_icu(connection: Connection) -> None:
    """Skip the test by name where the server was built without ICU."""
    if not scalar(connection, "SELECT count(*) FROM pg_collation WHERE collname = 'und-x-icu'"):
        pytest.skip("this server was built without ICU")


def need_own_memory(connection: Connection) -> None:
    """Skip the test by name where private memory is mostly the sanitizers'."""
    if "-fsanitize" in scalar(connection, "SELECT setting FROM pg_config WHERE name = 'CFLAGS'"):
        pytest.skip("private memory is mostly the sanitizers'")


def stands_at(watcher: Connection, point: str) -> bool:
    """Does a session wait at an injection point?"""
    waiting = f"SELECT count(*) FROM pg_stat_activity WHERE wait_event = '{point}'"
    return bool(scalar(watcher, waiting))


def scalar(connection: Connection, sql: str) -> Any:
    """The only value of a query."""
    row = connection.execute(sql).fetchone()
    assert row is not None
    return row[0]


def explain(connection: Connection, sql: str, options: str = "ANALYZE, LOOKAHEAD") -> Plan:
    """The root of a plan as EXPLAIN (..., FORMAT JSON) gives it."""
    document = scalar(connection, f"EXPLAIN ({options}, FORMAT JSON) {sql}")
    root: Plan = document[0]["Plan"]
    return root


def nodes(plan: Plan) -> Iterator[Plan]:
    """All nodes of a plan, parents first."""
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def lookahead(plan: Plan) -> list[dict[str, Any]]:
    """What EXPLAIN says about look-ahead, one for each index scan."""
    return [node["Lookahead"] for node in nodes(plan) if "Lookahead" in node]


def streamed_scans(plan: Plan) -> int:
    """How many scans of the plan were really streamed."""
    return sum(group.get("Scans", 0) for group in lookahead(plan))


def buffers(plan: Plan) -> int:
    """Shared and local buffers the whole plan touched, in pages."""
    kinds = ("Shared Hit Blocks", "Shared Read Blocks", "Local Hit Blocks", "Local Read Blocks")
    return sum(plan[kind] for kind in kinds)


def make_shuffled(connection: Connection, name: str, rows: int, *, pad_bytes: int = 300) -> None:
    """A table whose index order (k = 0..rows-1) visits its pages at random; vacuumed."""
    connection.execute(f"CREATE TABLE {name} (k int, pad text)")
    # 7919 is a prime that divides none of the sizes used, so that k is a permutation.
    connection.execute(
        f"INSERT INTO {name} SELECT (i::bigint * 7919 % {rows})::int, "
        f"left(repeat(md5(i::text), {pad_bytes // 32 + 1}), {pad_bytes}) "
        f"FROM generate_series(0, {rows - 1}) i"
    )
    connection.execute(f"CREATE INDEX {name}_k ON {name} (k)")
    connection.execute(f"VACUUM ANALYZE {name}")
