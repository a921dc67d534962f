"""Joins that need only a part of a scan: look-ahead must not read much that they never ask for."""

import pytest

from extension.probes import (
    Connection,
    buffers,
    explain,
    make_shuffled,
    scalar,
    streamed_scans,
)

_TOLERATED = 1.05
# A scan that is cut off may have read ahead as far as it is let, 64 pages and its own; two scans.
_AHEAD = 2 * 65
_ONLY = {
    "merge": "SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_material = off",
    "nestloop": "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; "
    "SET enable_memoize = off",
}
QUERIES = {
    # The other side ends after a tenth of the big table.
    "merge": ("merge", "SELECT count(b.pad) FROM s JOIN b USING (k)"),
    "merge_semi": (
        "merge",
        "SELECT count(b.pad) FROM b WHERE EXISTS (SELECT FROM s WHERE s.k = b.k AND s.pad > '')",
    ),
    "merge_anti": (
        "merge",
        "SELECT count(s.pad) FROM s WHERE NOT EXISTS "
        "(SELECT FROM b WHERE b.k = s.k AND b.pad > 'x')",
    ),
    # Each probe has forty rows, of which the first is enough.
    "nestloop_semi": (
        "nestloop",
        "SELECT count(*) FROM s WHERE EXISTS (SELECT FROM b WHERE b.g = s.k AND b.pad > '')",
    ),
    "limit_above_join": (
        "nestloop",
        "SELECT b.pad FROM s JOIN b ON b.g = s.k WHERE s.pad > '' ORDER BY s.k LIMIT 700",
    ),
}


@pytest.fixture(autouse=True)
def _tables(connection: Connection) -> None:
    if scalar(connection, "SELECT to_regclass('b') IS NULL"):
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_lookahead")
        make_shuffled(connection, "b", 20_000)
        connection.execute("ALTER TABLE b ADD g int")
        connection.execute("UPDATE b SET g = k / 40")
        connection.execute("CREATE INDEX ON b (g)")
        connection.execute("VACUUM (FULL, ANALYZE) b")
        make_shuffled(connection, "s", 2_000)


@pytest.mark.parametrize("name", QUERIES)
def test_buffers_of_a_join_that_ends_early(connection: Connection, name: str) -> None:
    joins, query = QUERIES[name]
    connection.execute(_ONLY[joins])
    # Cold, as scans look ahead by themselves: the setting would have each rescan do so.
    connection.execute("RESET pg_lookahead.test_start_after")
    counts = {}
    for setting in ("off", "on"):
        connection.execute(f"SET pg_lookahead.enabled = {setting}")
        explain(connection, query, "ANALYZE, BUFFERS")
        connection.execute("SELECT pg_lookahead_evict('b'), pg_lookahead_evict('s')")
        plan = explain(connection, query, "ANALYZE, BUFFERS, LOOKAHEAD")
        counts[setting] = buffers(plan)
    assert streamed_scans(plan) > 0
    assert counts["on"] <= max(_TOLERATED * counts["off"], counts["off"] + _AHEAD)
