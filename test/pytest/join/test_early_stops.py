"""Where a join may be left before its end, nothing happens that would not have happened."""

import psycopg
import pytest
from extension.probes import PINNED, Connection, explain, need_extension, nodes, scalar
from server_log import WatchedServer

from join.tables import OUTER_ROWS, cold_loops, drawn, loops, make_cold

_JOIN = "outer_rows o JOIN inner_rows i ON i.k = o.ref"
# The outer side throws at row 250: in its filter, or in what it returns.
_THROWS = (
    "SELECT o.id, i.g FROM (SELECT * FROM outer_rows WHERE 1 / zero < 2 OFFSET 0) o "
    "JOIN inner_rows i ON i.k = o.ref"
)
_RETURNS = (
    "SELECT o.id, i.g, o.q FROM (SELECT *, 1 / zero AS q FROM outer_rows OFFSET 0) o "
    "JOIN inner_rows i ON i.k = o.ref"
)
_SAFE = f"SELECT o.id, i.g FROM {_JOIN}"
_EARLY = "early stop"


def _first_rows(connection: Connection, query: str, step: int) -> int:
    """Fetch until row 240 has come, and close."""
    seen = 0
    with connection.transaction():
        connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {query}")
        while seen < 230:
            seen += len(connection.execute(f"FETCH {step} FROM c").fetchall())
        connection.execute("CLOSE c")
    return seen


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("query", [_THROWS, _RETURNS], ids=["filter", "target"])
def test_an_error_further_on_is_not_met(
    server: WatchedServer, connection: Connection, query: str, forced: bool
) -> None:
    if forced:
        connection.execute("SET pg_lookahead.test_start_after = 0")
    make_cold(server, connection, "inner_rows")
    assert _first_rows(connection, query, 5) >= 230
    (count,) = connection.execute(
        f"SELECT count(*) FROM (SELECT * FROM ({query}) j LIMIT 230) l"
    ).fetchone() or (0,)
    assert count == 230
    assert scalar(connection, f"SELECT EXISTS ({query})")
    loop = (
        f"DECLARE r record; n int := 0; BEGIN FOR r IN {query} LOOP n := n + 1; "
        "EXIT WHEN n = 200; END LOOP; ASSERT n = 200; RETURN; END"
    )
    connection.execute(
        f"CREATE OR REPLACE FUNCTION first_rows() RETURNS void LANGUAGE plpgsql AS $${loop}$$"
    )
    # A function fetches ten rows, then fifty at a time; a block one.
    for looped in ("SELECT first_rows()", f"DO $${loop}$$"):
        make_cold(server, connection, "inner_rows")
        connection.execute(looped)
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute(query)


def test_the_reason_is_shown(server: WatchedServer, connection: Connection) -> None:
    (loop,) = cold_loops(server, connection, f"{_THROWS} LIMIT 5")
    assert (loop["Status"], loop["Reason"]) == ("stock", _EARLY)
    fallbacks = "SELECT fallbacks FROM pg_stat_lookahead WHERE feature = 'nested_loop'"
    assert scalar(connection, fallbacks) == {_EARLY: 1}
    assert scalar(connection, fallbacks.replace("fallbacks", "nodes", 1)) == 1


@pytest.mark.parametrize(
    "above",
    [
        "SELECT * FROM ({}) j LIMIT 200",
        "SELECT count(*) FROM third t WHERE t.k = 3 AND EXISTS "
        "(SELECT FROM ({}) j WHERE j.g > t.k - 99)",
        "SELECT count(*) FROM third t WHERE t.k = 3 AND (t.g < 0 OR EXISTS "
        "(SELECT FROM ({}) j WHERE j.g > t.k - 99))",
        "SELECT EXISTS (SELECT FROM ({}) j WHERE j.g > 3)",
        "SELECT * FROM (SELECT row_number() OVER () n, * FROM ({}) j) w WHERE n < 200",
        "WITH w AS MATERIALIZED ({}) SELECT * FROM (SELECT id FROM w LIMIT 200) l, third t "
        "WHERE t.k = l.id",
    ],
)
def test_who_may_stop_early(server: WatchedServer, connection: Connection, above: str) -> None:
    connection.execute("SET pg_lookahead.test_start_after = 0")
    for source, is_early in ((_THROWS, True), (_SAFE, False)):
        make_cold(server, connection, "inner_rows")
        found = loops(explain(connection, above.format(source)))
        assert found
        assert is_early == (_EARLY in {loop.get("Reason") for loop in found})


@pytest.mark.parametrize(
    "above",
    [
        "SELECT count(*) FROM ({}) j",
        "SELECT id, count(*) FROM ({}) j GROUP BY id",
        "SELECT * FROM ({}) j ORDER BY id LIMIT 3",
        "SELECT * FROM ({}) j UNION ALL SELECT 1, 2",
        "SELECT DISTINCT id FROM ({}) j",
    ],
)
def test_who_reads_to_the_end(server: WatchedServer, connection: Connection, above: str) -> None:
    # numeric_lt is not leakproof.
    query = above.format(f"SELECT o.id, i.g FROM {_JOIN} WHERE o.big < 1000")
    (loop,) = cold_loops(server, connection, query)
    assert loop["Drawn Rows"] > 200


def test_a_limit_bounds_the_rows(server: WatchedServer, connection: Connection) -> None:
    (loop,) = cold_loops(server, connection, f"{_SAFE} LIMIT 1")
    assert loop["Drawn Rows"] == 0
    assert loop["Advised Blocks"] == 0
    make_cold(server, connection, "inner_rows")
    plan = explain(connection, f"{_SAFE} LIMIT 100")
    (outer,) = (
        node for node in plan["Plans"][0]["Plans"] if node.get("Relation Name") == "outer_rows"
    )
    # Some rows of the outer side have none of the inner side.
    assert outer["Actual Rows"] <= 110


def test_a_limit_over_several_rows_each(server: WatchedServer, connection: Connection) -> None:
    """Eight rows of the join for each outer row: twenty are enough."""
    query = "SELECT o.id, m.g FROM outer_rows o JOIN many m ON m.k = o.id LIMIT 160"
    (loop,) = cold_loops(server, connection, query, "many")
    assert 5 < loop["Drawn Rows"] <= 22
    assert loop["Prefetched Blocks"] <= 175


def test_a_limit_over_several_rows_each_executed_again(
    server: WatchedServer, connection: Connection
) -> None:
    """Each execution needs one outer row of ten, as the one before it did."""
    connection.execute(
        "CREATE TEMPORARY TABLE lists AS "
        "SELECT i / 10 AS g, i * 7 % 50 AS ref FROM generate_series(0, 499) i; "
        "CREATE INDEX ON lists (g); ANALYZE lists; SET enable_seqscan = off"
    )
    query = (
        "SELECT o.id, l.g FROM outer_rows o, LATERAL (SELECT m.g FROM lists a "
        "JOIN many m ON m.k = a.ref WHERE a.g = o.id LIMIT 4) l WHERE o.id < 50"
    )
    make_cold(server, connection, "many")
    plan = explain(connection, query)
    assert "prefetch" in [loop["Status"] for loop in loops(plan)]
    (outer,) = (node for node in nodes(plan) if node.get("Relation Name") == "lists")
    assert outer["Actual Loops"] == 50
    assert outer["Actual Rows"] < 1.2


def test_a_limit_further_up(server: WatchedServer, connection: Connection) -> None:
    """No more rows are ahead than were used."""
    query = (
        "SELECT o.id FROM outer_rows o JOIN inner_rows i ON i.k = o.id "
        "LEFT JOIN third t ON t.k = i.g LIMIT 20"
    )
    found = cold_loops(server, connection, query, "inner_rows", "third")
    assert 0 < sum(loop.get("Drawn Rows", 0) for loop in found) <= 2 * 20


@pytest.mark.parametrize(
    ("query", "fetch"),
    [
        (f"{_SAFE} LIMIT 200", True),
        (f"{_SAFE} OFFSET 1", True),
        (f"{_SAFE} ORDER BY o.id FETCH FIRST 50 ROWS WITH TIES", False),
    ],
    ids=["cursor over a Limit", "cursor over OFFSET", "WITH TIES"],
)
def test_limits_that_say_nothing(connection: Connection, query: str, fetch: bool) -> None:
    """A Limit bounds the rows ahead where all of its own are wanted, and it has a number."""
    connection.execute(
        "SET enable_sort = off; CREATE INDEX outer_id ON outer_rows (id); "
        "SET pg_lookahead.test_start_after = 0"
    )
    before = drawn(connection)
    with connection.transaction():
        if fetch:
            connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {query}")
        rows = connection.execute("FETCH 50 FROM c" if fetch else query).fetchall()
    connection.execute("DROP INDEX outer_id")
    assert len(rows) == 50
    assert 20 < drawn(connection) - before <= 2 * 50


@pytest.mark.parametrize("rows", [1, 2])
def test_exists_draws_no_other_row(
    server: WatchedServer, connection: Connection, rows: int
) -> None:
    """Each execution ends with its first row, or its second, and the next one reads no more."""
    query = (
        "SELECT count(*) FROM third t WHERE t.k < 50 AND (t.k < 0 OR EXISTS (SELECT FROM many m "
        "JOIN inner_rows i ON i.k = m.g WHERE m.k = t.g AND i.pad >= t.pad "
        f"AND i.g >= {50 * (rows - 1)}))"
    )
    connection.execute("SET enable_seqscan = off")
    make_cold(server, connection, "inner_rows", "many")
    plan = explain(connection, query)
    (loop,) = loops(plan)
    assert loop["Status"] == "prefetch"
    (outer,) = (node for node in nodes(plan) if node.get("Relation Name") == "many")
    assert (outer["Actual Rows"], outer["Actual Loops"]) == (rows, 50)


def test_a_cursor_holds_no_pin(server: WatchedServer, connection: Connection) -> None:
    need_extension(connection, "pg_buffercache")
    make_cold(server, connection, "inner_rows")
    before = drawn(connection)
    with connection.transaction():
        connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {_SAFE}")
        connection.execute("FETCH 20 FROM c")
        # Core's: the outer scan's page, the inner scan's row and leaf.
        assert scalar(connection, PINNED) <= 3
    assert drawn(connection) - before > 20


def test_serializable(server: WatchedServer, connection: Connection) -> None:
    connection.execute("SET default_transaction_isolation = serializable")
    (loop,) = cold_loops(server, connection, f"{_SAFE} LIMIT 100")
    assert loop["Reason"] == _EARLY
    (loop,) = cold_loops(server, connection, _SAFE)
    assert loop["Drawn Rows"] > OUTER_ROWS - 10


def test_predicate_locks(server: WatchedServer, connection: Connection) -> None:
    """Looking into an index locks nothing; what the join reads is locked as by PostgreSQL."""
    locks = (
        "SELECT relation::regclass::text, page, tuple FROM pg_locks WHERE mode = 'SIReadLock' "
        "ORDER BY 1, 2, 3"
    )
    query = f"SELECT o.id, i.g FROM {_JOIN} WHERE o.id % 10 = 0"
    connection.execute("SET default_transaction_isolation = serializable")
    seen = []
    for enabled in ("off", "on"):
        connection.execute(f"SET pg_lookahead.enabled = {enabled}")
        make_cold(server, connection, "inner_rows")
        before = drawn(connection)
        with connection.transaction():
            connection.execute(query)
            seen.append(connection.execute(locks).fetchall())
        assert (drawn(connection) > before) == (enabled == "on")
    assert len(seen[0]) > 20
    assert seen[0] == seen[1]
