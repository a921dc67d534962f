"""pg_stat_lookahead, and PostgreSQL's own counters, which must read as without look-ahead."""

import pytest
from server_log import WatchedServer

from extension.probes import STREAM_ALWAYS, Connection, explain, lookahead, make_shuffled, scalar

_OWN = (
    "SELECT pg_stat_get_xact_numscans(o), pg_stat_get_xact_tuples_returned(o), "
    "pg_stat_get_xact_tuples_fetched(o) FROM "
    "unnest(ARRAY['c_k'::regclass, 'c'::regclass]::oid[]) o"
)


@pytest.fixture(autouse=True)
def _table(connection: Connection) -> None:
    connection.execute("CREATE EXTENSION IF NOT EXISTS pg_lookahead")
    if scalar(connection, "SELECT to_regclass('c') IS NULL"):
        make_shuffled(connection, "c", 10_000)
        connection.execute("UPDATE c SET pad = pad WHERE k % 5 = 0")
        connection.execute("DELETE FROM c WHERE k % 7 = 0")


def _grown(connection: Connection, setting: str, statements: list[str]) -> list[tuple[int, ...]]:
    """By how much (scans, entries, rows) of index and table grow by these statements."""
    connection.execute(setting)
    with connection.transaction():
        before = connection.execute(_OWN).fetchall()
        for statement in statements:
            connection.execute(statement)
        after = connection.execute(_OWN).fetchall()
    return [
        tuple(new - old for old, new in zip(a, b, strict=True))
        for a, b in zip(before, after, strict=True)
    ]


@pytest.mark.parametrize(
    "statements",
    [
        ["SELECT pad FROM c WHERE k >= 100"],
        ["SELECT pad FROM c WHERE k BETWEEN 100 AND 4000 ORDER BY k DESC"],
        ["SELECT pad FROM c WHERE k >= 100 ORDER BY k LIMIT 700"],
        ["SELECT pad FROM c WHERE k IN (1, 50, 51, 52, 53, 54, 9000) ORDER BY k"],
        [
            "DECLARE d NO SCROLL CURSOR FOR SELECT pad FROM c WHERE k >= 0 ORDER BY k",
            "FETCH 333 FROM d",
        ],
        [
            "SELECT g, (SELECT min(pad) FROM c WHERE k BETWEEN g AND g + 50) "
            "FROM generate_series(1, 90) g"
        ],
    ],
    ids=["range", "backward", "limit", "list", "cursor", "rescans"],
)
def test_counters_of_postgresql_read_as_without(
    connection: Connection, statements: list[str]
) -> None:
    off, on = "SET pg_lookahead.enabled = off", f"SET pg_lookahead.enabled = on; {STREAM_ALWAYS}"
    _grown(connection, off, statements)  # marks dead entries, which later scans skip
    expected = _grown(connection, off, statements)
    assert expected[0][1] > 5
    assert _grown(connection, on, statements) == expected
    assert _grown(connection, "SET pg_lookahead.test_stop_seed = 9", statements) == expected


def test_view_adds_up_what_explain_shows(connection: Connection) -> None:
    columns = "scans, prefetched_blocks, direct_blocks, repeated_blocks, killed_items, restarts"
    view = f"SELECT {columns} FROM pg_stat_lookahead WHERE feature = 'index_scan'"
    before = connection.execute(view).fetchone()
    shown = [0] * 6
    for query in ("SELECT count(pad) FROM c WHERE k < 900", "SELECT count(pad) FROM c WHERE k > 5"):
        (group,) = lookahead(explain(connection, query))
        names = ("Scans", "Prefetched Blocks", "Direct Blocks", "Repeated Blocks", "Killed Items")
        for position, name in enumerate((*names, "Restarts")):
            shown[position] += group[name]
    after = connection.execute(view).fetchone()
    assert before is not None
    assert after is not None
    assert [new - old for old, new in zip(before, after, strict=True)] == shown
    assert shown[0] == 2


def test_view_counts_scans_that_fail(connection: Connection) -> None:
    before = scalar(connection, "SELECT scans FROM pg_stat_lookahead WHERE feature = 'index_scan'")
    with pytest.raises(Exception, match="division by zero"):
        connection.execute("SELECT sum(1 / (k - 5001)) FROM c WHERE k > 0 AND pad > ''")
    assert (
        scalar(connection, "SELECT scans FROM pg_stat_lookahead WHERE feature = 'index_scan'")
        == before + 1
    )


def test_view_is_for_everybody(connection: Connection) -> None:
    connection.execute("DROP ROLE IF EXISTS reader")
    connection.execute("CREATE ROLE reader")
    connection.execute("SET ROLE reader")
    assert scalar(connection, "SELECT count(*) FROM pg_stat_lookahead") == 8
    connection.execute("RESET ROLE")


@pytest.mark.parametrize(
    ("path", "feature"), [("enable_seqscan", "index_scan"), ("enable_indexscan", "seq_scan")]
)
def test_a_plan_that_several_nodes_call_is_met_once(
    server: WatchedServer, path: str, feature: str
) -> None:
    """Each partition has its copy of the condition; the scan in it is the same, and is ours."""
    view = f"SELECT fallbacks FROM pg_stat_lookahead WHERE feature = '{feature}'"
    condition = "v = (SELECT max(length(pad)) FROM c WHERE c.k = p.k)"
    with server.connect() as session:
        session.execute(
            "CREATE TEMP TABLE p (k int, v int) PARTITION BY LIST (k);"
            "CREATE TEMP TABLE p1 PARTITION OF p FOR VALUES IN (1);"
            "CREATE TEMP TABLE p2 PARTITION OF p FOR VALUES IN (2);"
        )
        session.execute(f"SET {path} = off; SET enable_bitmapscan = off")
        session.execute(f"SELECT * FROM p WHERE {condition}")
        assert "other extension" not in scalar(session, view)
